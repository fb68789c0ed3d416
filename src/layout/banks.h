// What one access of a warp costs: how many passes over the banks of shared memory it takes (bank cycles),
// how many sectors of global memory it touches. Exact, by looking at every lane; beside it the least that any
// placement of as much data costs.
//
//   32 lanes, 4 bytes each, rows of 128 bytes read down a column:   32 bank cycles, at least 1
//   the same with rows of 132 bytes:                                 1 bank cycle
#pragma once
#include <array>
#include <span>

#include "layout/layout.h"

namespace tl {

// How shared memory serves a warp: so many lanes at once, which are serialised where two of them access
// different words of one bank.
struct SharedBanks {
  int count = 32;  // of 4 bytes
  // Lanes that are served at once, of a load and of a store of up to 4, 8 and 16 bytes by each.
  std::array<int, 3> loading = {32, 16, 8}, storing = {32, 16, 8};
  std::span<const uint8_t> order = {};  // of the lanes of a load of 16 bytes; empty: one after another
};

struct WarpCost {
  int64_t count = 0;     // bank cycles or sectors
  int64_t least = 0;     // of any placement
  int64_t accesses = 1;  // of the hardware
  int64_t excess() const { return count - least; }
};

// Each lane accesses `width` bytes at its address; a negative address: the lane takes no part.  NVIDIA's
// chips serve accesses of 8 bytes for half a warp at a time, of 16 bytes (and the rows that ldmatrix reads)
// for a quarter; lanes that ask for the same word share it.
WarpCost shared_bank_cycles(const std::vector<int64_t>& addresses, int width, const SharedBanks& banks = {},
                            bool stores = false);
// Global memory moves sectors of 32 bytes.
WarpCost global_sectors(const std::vector<int64_t>& addresses, int width);

// An access as an operator thinks of it: each lane's first element of `elements` in a row of the tile's last
// dimension (an empty index: the lane takes no part), made `times` times.
struct WarpAccess {
  std::vector<std::vector<int64_t>> lanes = {};
  int64_t elements = 1, times = 1;
  bool stores = false;
};
// One access of the hardware where the layout keeps the elements together and aligned, else one for each
// element.
WarpCost shared_cost(const Layout& l, const WarpAccess& access, int bits, const SharedBanks& banks = {});

// Layouts worth trying for a tile, the cheapest to address first: row-major; rows padded by 16, 8 and 4
// bytes; chunks of 16 bytes XORed with the rows.
std::vector<Layout> bank_family(const std::vector<int64_t>& extents, int bits);
// The first of those with the fewest bank cycles, of those that take no more than `most` elements.
Layout fewest_bank_cycles(const std::vector<Layout>& family, const std::vector<WarpAccess>& accesses,
                          int bits, int64_t most, const SharedBanks& banks = {});

}  // namespace tl
