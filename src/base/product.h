// The product of extents.
#pragma once
#include <cstdint>
#include <span>

namespace tl {

constexpr int64_t product(std::span<const int64_t> numbers) {
  int64_t result = 1;
  for (int64_t n : numbers) result *= n;
  return result;
}

}  // namespace tl
