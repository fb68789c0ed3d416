// What accesses cost under a tile's layout: exact answers, by enumeration.
#pragma once
#include "layout/banks.h"
#include "layout/fragment.h"

namespace tl {

// Added up over every access of every warp of `warp` threads when the threads of `map` go through their
// registers, `lanes` elements of `bits` at a time, at the offsets that `memory` gives their elements (the
// first replica only): of loads from shared memory, and of any accesses to global memory.
WarpCost bank_cycles(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int64_t warp = 32,
                     const SharedBanks& banks = {});
WarpCost sectors(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int64_t warp = 32);

// The most elements, a power of two up to `limit`, that one access may take along the last dimension: aligned
// blocks of that many lie at consecutive, aligned offsets.
int64_t vector_width(const Layout& memory, int64_t limit);

}  // namespace tl
