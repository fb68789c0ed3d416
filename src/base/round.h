// Sizes in whole multiples of something.
#pragma once
#include <cstdint>

namespace tl {

constexpr int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}
constexpr int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tl
