// A schedule of warps (pass/warp_schedule.h) is carried out, or noted where the target cannot.
#pragma once
#include "pass/warp_schedule.h"
#include "target/target.h"

namespace tl {

// The function without its schedules.
Function specialize_warps(Function f, const Target& target);

}  // namespace tl
