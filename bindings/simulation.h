// What a simulation found, for Python.
#pragma once
#include "api/kernel.h"
#include "convert.h"

// Asks it whether it wants(block, thread), then to show(place, where, thread, active lanes, arrays,
// barriers); it must outlive the handler, which may be copied without Python's lock.
tl::StopHandler stop_handler(nb::handle python);
nb::dict dict_of(const tl::SimulationReport& report);
