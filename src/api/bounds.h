// Indices of tiles: those that are certainly out of bounds, and conditions that keep them inside.
#pragma once
#include "ir/kernel.h"

namespace tl {

// CompileError at an access to a tile, reached in any case, whose index takes a value outside of it.
void check_bounds_of_tiles(const Function& f);

// Conditions joined by &, of which one keeps the indices of the other inside of their tiles: that one first.
void guard_conditions(Function& f);

}  // namespace tl
