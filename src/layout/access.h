// What a warp's access costs: passes over the banks of shared memory, sectors of global memory.  Addresses
// are in bytes, one per thread of the warp, each the first of `width` bytes; -1 for a thread that takes no
// part.
#pragma once
#include "layout/fragment.h"

namespace tl {

struct Wavefronts {
  int64_t count = 0;  // passes needed
  int64_t ideal = 0;  // fewest that the distinct words could need
};
// Banks of 4 bytes, `banks` of them; accesses wider than 4 bytes go in as many parts of the warp as fill the
// banks once.  Threads that want the same word share it.
Wavefronts wavefronts(std::span<const int64_t> addresses, int width, int banks = 32);
// Distinct 32-byte sectors.
int64_t sectors(std::span<const int64_t> addresses, int width);

// Added up over every access of every warp when the threads of `map` go through their registers, `lanes`
// elements of `bits` at a time, at the offsets that `memory` gives their elements (the first replica only).
Wavefronts wavefronts(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int warp = 32,
                      int banks = 32);
int64_t sectors(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int warp = 32);

// The most elements, a power of two up to `limit`, that one access may take along the last dimension: aligned
// blocks of that many lie at consecutive, aligned offsets.
int64_t vector_width(const Layout& memory, int64_t limit);

}  // namespace tl
