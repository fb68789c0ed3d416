// The product of extents.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace tl {

constexpr int64_t product(std::span<const int64_t> numbers) {
  int64_t result = 1;
  for (int64_t n : numbers) result *= n;
  return result;
}

// Nothing where 64 bits do not hold the product of these numbers, none of them negative.
constexpr std::optional<int64_t> product_in_64_bits(std::span<const int64_t> numbers) {
  int64_t result = 1;
  bool fits = true;
  for (int64_t n : numbers) {
    if (n == 0) return 0;
    fits &= !__builtin_mul_overflow(result, n, &result);
  }
  return fits ? std::optional(result) : std::nullopt;
}

}  // namespace tl
