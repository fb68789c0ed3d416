// Layouts of shared memory that spread a warp's accesses over the banks: chunks of 16 bytes XORed with the
// row, or rows set apart by padding.
//
//   128 bytes   chunk % 8 ^= row % 8      eight rows of one chunk column lie in eight bank groups of 16
//   bytes;
//    64 bytes   chunk % 4 ^= row / 2 % 4  the narrower patterns do the same for narrower rows
//    32 bytes   chunk % 2 ^= row / 4 % 2
#pragma once
#include "layout/layout.h"

namespace tl {

// Row-major with one of the three patterns (`bytes`: 128, 64, 32) over elements of `bits`.  The last extent
// must be a multiple of the pattern.  `swizzled(extents, bits)` in layout.h takes the widest that fits.
Layout swizzled(std::vector<int64_t> extents, int bits, int64_t bytes);
// The same, in panels as wide as the pattern, one whole panel after the other: what a tensor-memory copy
// writes and wgmma reads.  `bytes` 0: the widest that fits, or row-major panels of 16 bytes.
Layout swizzled_panels(std::vector<int64_t> extents, int bits, int64_t bytes);
// The generic family: of the row-major offset, bits [base, base + count) ^= bits [base + shift, base + shift
// + count).
Layout xor_swizzled(std::vector<int64_t> extents, int count, int base, int shift);
// Row-major, with rows of so many elements.
Layout set_apart(const std::vector<int64_t>& extents, int64_t elements);
// Row-major with the last dimension's rows set apart, so that rows begin at multiples of 16 bytes and eight
// of them in eight bank groups.
Layout padded(std::vector<int64_t> extents, int bits);
// What a tile wants that is read and written in chunks of 16 bytes, eight rows at a time (ldmatrix, and the
// copy that fills it): a pattern, else padding (if allowed), else row-major.
Layout conflict_free(std::vector<int64_t> extents, int bits, bool allow_padding);

}  // namespace tl
