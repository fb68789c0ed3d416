// What one access of a warp costs: how often shared memory must be asked (wavefronts), how many sectors of
// global memory are touched.  Exact, by looking at every lane, beside the least that any placement of as much
// data costs.
//
//   32 lanes, 4 bytes each, rows of 128 bytes read down a column:   32 wavefronts, at least 1
//   the same with rows of 132 bytes:                                 1 wavefront
#pragma once
#include "layout/layout.h"

namespace tl {

struct WarpCost {
  int64_t count = 0;     // wavefronts or sectors
  int64_t least = 0;     // of any placement
  int64_t accesses = 1;  // of the hardware
  int64_t excess() const { return count - least; }
};

// Each lane accesses `width` bytes at its address; a negative address: the lane takes no part.  Shared memory
// has 32 banks of 4 bytes; accesses of 8 bytes are served for half a warp at a time, of 16 bytes (and the
// rows that ldmatrix reads) for a quarter; lanes that ask for the same word share it.
WarpCost shared_wavefronts(const std::vector<int64_t>& addresses, int width);
// Global memory moves sectors of 32 bytes.
WarpCost global_sectors(const std::vector<int64_t>& addresses, int width);

// An access as an operator thinks of it: each lane's first element of `elements` in a row of the tile's last
// dimension (an empty index: the lane takes no part), made `times` times.
struct WarpAccess {
  std::vector<std::vector<int64_t>> lanes;
  int64_t elements = 1, times = 1;
};
// One access of the hardware where the layout keeps the elements together and aligned, else one for each
// element.
WarpCost shared_cost(const Layout& l, const WarpAccess& access, int bits);

// Layouts worth trying for a tile, the cheapest to address first: row-major; rows padded by 16, 8 and 4
// bytes; chunks of 16 bytes XORed with the rows.
std::vector<Layout> bank_family(const std::vector<int64_t>& extents, int bits);
// The first of those with the fewest wavefronts, of those that take no more than `most` elements.
Layout fewest_wavefronts(const std::vector<Layout>& family, const std::vector<WarpAccess>& accesses, int bits,
                         int64_t most);

}  // namespace tl
