// What a kernel that calls no printf says where an assertion fails (tl_assert_without_call in
// codegen/prelude/cuda.inc): it is written to memory of this process, which outlives the fault.
#pragma once
#include <string>

#include "runtime/driver.h"

namespace tl {

// Tells a module that has been loaded, in the current context, where to write; nothing where it has no such
// assertions.  Without the memory a failure is a fault without a text.
void place_failures(CudaDriver::Image module);
// What a kernel has written, once; empty: nothing.
std::string take_device_failure();
// The text of a record: seven words (whether it is there, block, thread), then a format for six of them.
std::string failure_text(const void* record);

}  // namespace tl
