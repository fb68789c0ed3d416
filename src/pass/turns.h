// How often a place in loops was reached before: what says which phase of a barrier, or which slot, comes
// next.
#pragma once
#include "pass/walk.h"

namespace tl {

// In closed form, from the variables of the loops around; null where they do not say it: under conditions, in
// while loops, and where an inner loop's length depends on the loops around or on memory.  Not for programs
// with jumps.
Expr turn_of(const WalkContext& at);
// May iterations or threads end early?
bool has_jumps(const Stmt& body);

}  // namespace tl
