// A layout as the table of all its points: how questions are answered that the digits do not answer, and how
// the digits of a map are found when its expressions do not show them.
#pragma once
#include "layout/digits.h"

namespace tl {

// More points than this are not enumerated: such a layout must have digits.
inline constexpr int64_t most_points = int64_t(1) << 24;

// The digits behind a table: sums of digits of each input, or XORs of their bits.
std::optional<std::vector<Term>> find_terms(const std::vector<int64_t>& extents, size_t outputs,
                                            const std::vector<int64_t>& points);

// The indices of the point that stands `at` in row-major order.
std::vector<int64_t> point_at(const std::vector<int64_t>& extents, int64_t at);

// Two points with the same outputs, as their places in row-major order; none if the map is injective.
std::optional<std::pair<int64_t, int64_t>> find_collision(const std::vector<int64_t>& points, size_t outputs);

}  // namespace tl
