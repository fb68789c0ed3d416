// Indices of tiles that are certainly out of bounds.
#pragma once
#include "ir/kernel.h"

namespace tl {

// CompileError at an access to a tile, reached in any case, whose index takes a value outside of it.
void check_bounds_of_tiles(const Function& f);

}  // namespace tl
