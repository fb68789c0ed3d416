// Conversions between f32 and the bits of narrower floats: to_X(x, rounding, saturate) with a Rounding's
// number, and from_X(bits).  to_odd(x) makes an f32 of an f64 (round to odd), so that rounding it again gives
// the same as rounding the f64 once.  constexpr rows; find_intrinsic may be asked before main.
#include <bit>
#include <cmath>

#include "ir/intrinsic.h"

namespace tl {
namespace {

using Result = Intrinsic::Result;

// clang-format off
template <DType::Kind kind, int bits>
Scalar to_bits(const Scalar* a, const DType*, DType) {
  return {.i = int64_t(float_bits(a[0].d, DType{kind, bits}, Rounding(a[1].i), a[2].i != 0))};
}
template <DType::Kind kind, int bits>
Scalar from_bits(const Scalar* a, const DType*, DType) {
  return {.d = round_float(float_value(uint64_t(a[0].i), DType{kind, bits}), f32)};
}
// clang-format on

Scalar to_odd(const Scalar* a, const DType*, DType) {
  double x = a[0].d;
  auto f = float(x);
  if (std::isnan(x) || double(f) == x) return {.d = double(f)};
  auto bits = std::bit_cast<uint32_t>(f);
  if (std::fabs(double(f)) > std::fabs(x)) bits--;
  return {.d = double(std::bit_cast<float>(bits | 1))};
}

template <DType::Kind kind, int bits>
constexpr Intrinsic to_row(std::string_view name) {
  return {.name = name, .arity = 3, .result = Result::given, .exact = to_bits<kind, bits>};
}
template <DType::Kind kind, int bits>
constexpr Intrinsic from_row(std::string_view name) {
  return {.name = name, .result = Result::given, .exact = from_bits<kind, bits>};
}

// acc + Σ of the products of four bytes, signed or unsigned.
template <bool is_signed>
Scalar dp4a(const Scalar* a, const DType*, DType) {
  int64_t sum = a[0].i;
  for (int i = 0; i < 4; i++) {
    auto byte = [&](const Scalar& s) { return wrap_int(s.i >> (8 * i), is_signed ? i8 : u8); };
    sum += byte(a[1]) * byte(a[2]);
  }
  return {.i = wrap_int(sum, i32)};
}

using K = DType::Kind;
constexpr Intrinsic rows[] = {to_row<K::e4m3, 8>("to_e4m3"),
                              to_row<K::e5m2, 8>("to_e5m2"),
                              to_row<K::e8m0, 8>("to_e8m0"),
                              to_row<K::e2m1, 4>("to_e2m1"),
                              to_row<K::tfloat, 32>("to_tf32"),
                              to_row<K::floating, 16>("to_f16"),
                              to_row<K::bfloat, 16>("to_bf16"),
                              from_row<K::e4m3, 8>("from_e4m3"),
                              from_row<K::e5m2, 8>("from_e5m2"),
                              from_row<K::e8m0, 8>("from_e8m0"),
                              from_row<K::e2m1, 4>("from_e2m1"),
                              {.name = "dp4a_s8",
                               .arity = 3,
                               .result = Result::i32,
                               .exact = dp4a<true>,
                               .takes = Intrinsic::ArgDomain::integers},
                              {.name = "dp4a_u8",
                               .arity = 3,
                               .result = Result::i32,
                               .exact = dp4a<false>,
                               .takes = Intrinsic::ArgDomain::integers},
                              {.name = "to_odd", .result = Result::given, .exact = to_odd}};

}  // namespace

std::span<const Intrinsic> narrow_functions() { return rows; }

}  // namespace tl
