// The lanes of a warp as bits of a number, and the questions that are asked of it.  A warp has 32 or 64
// lanes, as its target says; the loops here go over 32 lanes at a time, a count that the compiler sees.
#pragma once
#include <bit>
#include <cstdint>

namespace tl::sim {

using LaneMask = uint64_t;
inline constexpr int max_lanes = 64;   // of a warp of any target
inline constexpr int lane_group = 32;  // every warp is some of these

constexpr LaneMask all_lanes(int warp) { return ~LaneMask(0) >> (max_lanes - warp); }
constexpr LaneMask lane_bit(int lane) { return LaneMask(1) << lane; }
constexpr bool has_lane(LaneMask mask, int lane) { return mask >> lane & 1; }
constexpr int first_lane(LaneMask mask) { return std::countr_zero(mask); }
constexpr int count_of(LaneMask mask) { return std::popcount(mask); }

// f(lane) for each lane of the mask, in their order.
template <class F>
void for_lanes(LaneMask active, F f) {
  if ((active & (active + 1)) == 0) {  // the first ones, without a gap
    int count = std::bit_width(active);
    for (int lane = 0; lane < count; lane++) f(lane);
    return;
  }
  for (; active; active &= active - 1) f(first_lane(active));
}

// The lanes of a warp for which f(lane) holds.
template <class F>
LaneMask lanes_that(int warp, F holds) {
  LaneMask lanes = 0;
  for (int first = 0; first < warp; first += lane_group) {
    uint32_t group = 0;
    for (int i = 0; i < lane_group; i++) group |= uint32_t(bool(holds(first + i))) << i;
    lanes |= LaneMask(group) << first;
  }
  return lanes;
}

}  // namespace tl::sim
