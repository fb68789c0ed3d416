// The chip's rules for a tensor map, checked on numbers: of the program, where they are constants, and of a
// call. A driver reports no more than "invalid value". The file is in base because the IR, the simulator and
// the runtime all use it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tl {

// Dimensions in row-major order, strides in elements.
struct TensorMapNumbers {
  uintptr_t address = 0;
  int64_t element_bytes = 1;
  std::span<const int64_t> shape, strides, box;
  int64_t swizzle = 0;
};
// The rule that it breaks, in a sentence; "" if it breaks none.
std::string broken_rule(const TensorMapNumbers& map);

}  // namespace tl
