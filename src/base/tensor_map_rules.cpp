#include "base/tensor_map_rules.h"

#include <fmt/format.h>

namespace tl {
namespace {

constexpr int64_t unit = 16;  // bytes
constexpr int64_t most_dimensions = 5, most_extent = int64_t(1) << 32, most_stride = int64_t(1) << 40,
                  most_in_box = 256;

std::string broken_dimensions(const TensorMapNumbers& m) {
  size_t rank = m.shape.size();
  if (rank == 0 || rank > most_dimensions)
    return fmt::format("it has {} dimensions, not 1 to {}", rank, most_dimensions);
  if (m.strides.size() != rank)
    return fmt::format("it has {} dimensions, but {} strides", rank, m.strides.size());
  if (m.box.size() != rank) return fmt::format("it has {} dimensions, but its box {}", rank, m.box.size());
  return "";
}

std::string broken_tensor(const TensorMapNumbers& m) {
  if (m.address % unit)
    return fmt::format("the tensor begins at {:#x}, which must be a multiple of {} bytes", m.address, unit);
  for (int64_t extent : m.shape)
    if (extent < 1 || extent > most_extent)
      return fmt::format("an extent is {}, not 1 to {}", extent, most_extent);
  if (m.strides.back() != 1)
    return fmt::format("its last stride is {}: the elements of a row must be neighbours", m.strides.back());
  for (int64_t stride : m.strides.first(m.strides.size() - 1)) {
    int64_t bytes = stride * m.element_bytes;
    if (bytes < 0 || bytes % unit || bytes >= most_stride)
      return fmt::format("a stride is {} bytes, which must be a multiple of {}, from 0 to 2^40", bytes, unit);
  }
  return "";
}

std::string broken_box(const TensorMapNumbers& m) {
  for (int64_t extent : m.box)
    if (extent < 1 || extent > most_in_box)
      return fmt::format("an extent of its box is {}, not 1 to {}", extent, most_in_box);
  int64_t row = m.box.back() * m.element_bytes;
  if (row % unit)
    return fmt::format("a row of its box has {} bytes, which must be a multiple of {}", row, unit);
  bool known = m.swizzle == 0 || m.swizzle == 32 || m.swizzle == 64 || m.swizzle == 128;
  if (!known) return fmt::format("its swizzle is {} bytes, not 0, 32, 64 or 128", m.swizzle);
  if (m.swizzle && row != m.swizzle)
    return fmt::format(
        "a row of its box has {} bytes, but its swizzle is one of {}: {}", row, m.swizzle,
        row > m.swizzle ? "make several boxes" : "rows would lie so far apart, and leave holes");
  return "";
}

}  // namespace

std::string broken_rule(const TensorMapNumbers& map) {
  for (auto* rule : {broken_dimensions, broken_tensor, broken_box})
    if (std::string broken = rule(map); !broken.empty()) return broken;
  return "";
}

}  // namespace tl
