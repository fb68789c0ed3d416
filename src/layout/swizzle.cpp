#include "layout/swizzle.h"

#include "base/error.h"
#include "layout/digits.h"

namespace tl {
namespace {

// The widest pattern that divides a row of so many bytes; 0 if none does.
int64_t widest_pattern(int64_t row_bytes) {
  for (int64_t bytes : {128, 64, 32})
    if (row_bytes % bytes == 0) return bytes;
  return 0;
}

void check_tile(const std::vector<int64_t>& extents, int bits) {
  if (extents.empty()) fail({}, "a swizzle needs a tile with at least one dimension");
  for (int64_t e : extents)
    if (e < 1) fail({}, "a swizzle of the extents {}: extents are positive", tuple_text(extents));
  if (bits < 1 || bits > 128 || 128 % bits)
    fail({}, "a swizzle moves 16-byte chunks: elements of {} bits do not fill one", bits);
}

void check_pattern(const std::vector<int64_t>& extents, int bits, int64_t bytes) {
  if (bytes != 128 && bytes != 64 && bytes != 32)
    fail({}, "there is no swizzle of {} bytes: the patterns are 128, 64 and 32 bytes wide", bytes);
  if (extents.size() < 2)
    fail({}, "a swizzle needs rows and columns; the extents {} have one dimension", tuple_text(extents));
  if (extents.back() * bits % (bytes * 8))
    fail({},
         "the swizzle of {} bytes needs rows of a multiple of that, but a row of {} elements of {} bits is "
         "{} bytes: use a narrower pattern or padding",
         bytes, extents.back(), bits, extents.back() * bits / 8);
}

// The last two terms of a pattern: a chunk XORed with the row, and the element within the chunk.
void add_pattern(std::vector<Term>& terms, const std::vector<int64_t>& extents, int bits, int64_t bytes) {
  int in = int(extents.size()) - 1;
  int64_t chunk = 128 / bits, chunks = bytes / 16;  // XORed together: 8, 4 or 2
  Digit row{.input = in - 1, .divisor = 8 / chunks, .radix = chunks};
  terms.push_back(
      {.stride = chunk, .digit = {.input = in, .divisor = chunk, .radix = chunks}, .xors = {row}});
  terms.push_back({.stride = 1, .digit = {.input = in, .divisor = 1, .radix = chunk}});
}

}  // namespace

Layout swizzled(std::vector<int64_t> extents, int bits) {
  int64_t bytes = widest_pattern(extents.back() * bits / 8);
  if (extents.size() < 2 || bytes == 0) return row_major(std::move(extents));
  return swizzled(std::move(extents), bits, bytes);
}

Layout swizzled(std::vector<int64_t> extents, int bits, int64_t bytes) {
  check_tile(extents, bits);
  check_pattern(extents, bits, bytes);
  size_t last = extents.size() - 1;
  int64_t cols = extents[last], wide = bytes * 8 / bits, stride = cols;
  std::vector<Term> terms;
  for (size_t d = last; d-- > 0;) {
    terms.insert(terms.begin(),
                 {.stride = stride, .digit = {.input = int(d), .divisor = 1, .radix = extents[d]}});
    stride *= extents[d];
  }
  if (cols > wide)
    terms.push_back({.stride = wide, .digit = {.input = int(last), .divisor = wide, .radix = cols / wide}});
  add_pattern(terms, extents, bits, bytes);
  return from_terms(std::move(extents), 1, std::move(terms));
}

Layout swizzled_panels(std::vector<int64_t> extents, int bits, int64_t bytes) {
  check_tile(extents, bits);
  if (bytes) check_pattern(extents, bits, bytes);
  size_t last = extents.size() - 1;
  int64_t cols = extents[last];
  if (!bytes) bytes = widest_pattern(cols * bits / 8);
  int64_t wide = (bytes ? bytes : 16) * 8 / bits, rows = last ? extents[last - 1] : 1;
  if (cols % wide)
    fail({},
         "panels are at least 16 bytes wide, but a row of {} elements of {} bits is {} bytes, which is not a "
         "multiple of that",
         cols, bits, cols * bits / 8);
  std::vector<Term> terms;
  int64_t stride = rows * cols;
  for (size_t d = last; d-- > 0;) {
    bool is_row = d + 1 == last;
    terms.push_back(
        {.stride = is_row ? wide : stride, .digit = {.input = int(d), .divisor = 1, .radix = extents[d]}});
    if (!is_row) stride *= extents[d];
  }
  if (cols > wide)
    terms.push_back(
        {.stride = rows * wide, .digit = {.input = int(last), .divisor = wide, .radix = cols / wide}});
  if (bytes)
    add_pattern(terms, extents, bits, bytes);
  else
    terms.push_back({.stride = 1, .digit = {.input = int(last), .divisor = 1, .radix = wide}});
  return from_terms(std::move(extents), 1, std::move(terms));
}

Layout xor_swizzled(std::vector<int64_t> extents, int count, int base, int shift) {
  if (count < 0 || base < 0 || shift < 0 || count + base + shift > 40)
    fail({}, "a swizzle of {} bits from bit {}, shifted by {}: each is 0 or more, and no bit is beyond 40",
         count, base, shift);
  if (shift < count)
    fail({},
         "a swizzle of {} bits shifted by {}: a bit would be XORed with one that is XORed itself; the shift "
         "is at least the number of bits",
         count, shift);
  for (int64_t e : extents)
    if (e < 1) fail({}, "a swizzle of the extents {}: extents are positive", tuple_text(extents));
  if (count == 0) return row_major(std::move(extents));
  Layout flat = row_major(extents);
  const Expr& x = flat.outputs[0];
  Expr high = floormod(floordiv(x, int64_t(1) << (base + shift)), int64_t(1) << count);
  return from_map({.vars = flat.vars,
                   .extents = extents,
                   .outputs = {binary(BinaryOp::bit_xor, x, high * (int64_t(1) << base))}});
}

Layout set_apart(const std::vector<int64_t>& extents, int64_t elements) {
  std::vector<int64_t> strides(extents.size(), 1);
  int64_t stride = elements;
  for (size_t d = extents.size() - 1; d-- > 0; stride *= extents[d]) strides[d] = stride;
  return strided(extents, std::move(strides));
}

Layout padded(std::vector<int64_t> extents, int bits) {
  check_tile(extents, bits);
  int64_t chunk = 128 / bits, chunks = (extents.back() + chunk - 1) / chunk;
  return set_apart(extents, (chunks | 1) * chunk);
}

Layout conflict_free(std::vector<int64_t> extents, int bits, bool allow_padding) {
  check_tile(extents, bits);
  bool pattern =
      extents.size() > 1 && widest_pattern(extents.back() * bits / 8) && extents.back() * bits % 256 == 0;
  if (pattern) return swizzled(std::move(extents), bits);
  return allow_padding ? padded(std::move(extents), bits) : row_major(std::move(extents));
}

}  // namespace tl
