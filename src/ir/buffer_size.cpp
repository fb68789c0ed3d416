#include "ir/buffer_size.h"

#include <fmt/format.h>

#include "base/product.h"
#include "ir/build.h"

namespace tl {

int64_t bytes_of_extents(const BufferInfo& b) {
  int64_t elements = 1;
  for (auto& e : b.shape) elements *= as_int(e).value_or(0);
  return b.dtype.is_packed() ? elements / (8 / b.dtype.bits) : elements * b.dtype.bytes();
}

std::string why_uncountable(const BufferInfo& b) {
  std::vector<int64_t> factors{int64_t(b.dtype.bits) * b.dtype.lanes};
  std::string shape;
  for (auto& e : b.shape) {
    auto extent = as_int(e);
    factors.push_back(extent.value_or(1));
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent ? std::to_string(*extent) : "…");
  }
  if (product_in_64_bits(factors)) return "";
  return fmt::format(
      "{} has the extents [{}] of {}: these are more bits than 64-bit arithmetic counts, and "
      "more than any machine holds; make it smaller",
      b.name, shape, to_string(b.dtype));
}

}  // namespace tl
