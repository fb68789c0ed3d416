// What a simulation found, for Python.
#pragma once
#include "convert.h"
#include "api/kernel.h"

nb::dict dict_of(const tl::SimulationReport& report);
