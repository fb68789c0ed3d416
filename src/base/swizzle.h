// The pattern by which the copy engine and the tensor cores spread rows over the banks of shared memory.
#pragma once
#include <cstdint>

namespace tl {

// Where the byte of this address lies under a pattern of rows of 128, 64 or 32 bytes; 0: where it says.
// Pieces of 16 bytes change places within 128 bytes, as the number of these says.
inline int64_t swizzled_address(int64_t address, int64_t row) {
  return row ? address ^ address / 128 % (row / 16) * 16 : address;
}

}  // namespace tl
