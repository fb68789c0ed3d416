// What NVIDIA's copy engine demands of a tensor map, held against numbers: of the program, where they are constants, and
// of a call.  The driver says no more than "invalid value".
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
