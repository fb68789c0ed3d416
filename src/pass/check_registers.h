// Do the warps of a block ask for more registers than it has?
#pragma once
#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

// CompileError at the setmaxnreg that waits for ever, because all warps together want more registers than the
// launch gives their block; or that gives back more than its warps have.
void check_registers(const Kernel& k, const Target& target);

}  // namespace tl
