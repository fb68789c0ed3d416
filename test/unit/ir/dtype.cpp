// The values of narrow floats and the bits of numbers, against what their formats say.
#include "ir/dtype.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/intrinsic.h"

using namespace tl;

TEST_CASE("each code of a narrow float is a value that rounds to itself") {
  for (DType t : {e4m3, e5m2, e8m0, e2m1, f16, bf16})
    for (uint64_t code = 0; code < uint64_t(1) << t.bits; code++) {
      double v = float_value(code, t);
      CAPTURE(to_string(t));
      CAPTURE(code);
      if (std::isnan(v)) {
        CHECK(std::isnan(float_value(float_bits(v, t), t)));
        continue;
      }
      for (auto r : {Rounding::nearest_even, Rounding::toward_zero, Rounding::down, Rounding::up,
                     Rounding::nearest_away})
        CHECK(float_bits(v, t, r, false) == code);
    }
}

TEST_CASE("the largest values, and what lies beyond them") {
  CHECK(float_value(0x7E, e4m3) == 448);
  CHECK(float_value(0x7B, e5m2) == 57344);
  CHECK(float_value(7, e2m1) == 6);
  CHECK(float_bits(464, e4m3) == 0x7E);
  CHECK(float_bits(1e9, e4m3) == 0x7E);
  CHECK(float_bits(464, e4m3, Rounding::nearest_even, false) == 0x7E);  // a tie, to even
  CHECK(float_bits(464.1, e4m3, Rounding::nearest_even, false) == 0x7F);
  CHECK(float_bits(1e9, e4m3, Rounding::toward_zero, false) == 0x7E);
  CHECK(float_bits(61440, e5m2, Rounding::nearest_even, false) == 0x7C);
  CHECK(float_bits(-INFINITY, e5m2) == 0xFB);
  CHECK(float_bits(-INFINITY, e5m2, Rounding::nearest_even, false) == 0xFC);
  CHECK(float_bits(65520, f16) == 0x7C00);
}

TEST_CASE("names, widths and what storage types are computed with") {
  for (DType t : {tf32, e4m3, e5m2, e8m0, e2m1, i4, u4}) {
    CHECK(parse_dtype(to_string(t)) == t);
    CHECK(parse_dtype(to_string(t.with_lanes(4))) == t.with_lanes(4));
    CHECK(t.is_storage());
    CHECK(arithmetic_type(t) == (t.is_float() ? f32 : i32));
  }
  CHECK(bytes_of(7, i4) == 4);
  CHECK(wrap_int(9, i4) == -7);
  CHECK(round_float(1 + 0x1p-11, tf32) == 1 + 0x1p-10);  // a tie, away from zero
}

TEST_CASE("fma: the sum is rounded once, integers wrap") {
  auto fma = [](auto a, auto b, auto c, DType type) {
    auto of = [&](auto x) { return type.is_float() ? Scalar{.d = double(x)} : Scalar{.i = int64_t(x)}; };
    Scalar args[] = {of(a), of(b), of(c)};
    DType types[] = {type, type, type};
    return find_intrinsic("fma")->exact(args, types, type);
  };
  double factor = 1 + 0x1p-12;  // its square lies halfway between two f32
  CHECK(fma(factor, factor, 0x1p-80, f32).d == 1 + 0x1p-11 + 0x1p-23);
  CHECK(fma(factor, factor, -0x1p-80, f32).d == 1 + 0x1p-11);
  CHECK(fma(-factor, factor, -0x1p-80, f32).d == -(1 + 0x1p-11 + 0x1p-23));
  CHECK(std::isinf(fma(0x1p100, 0x1p100, 1.0, f32).d));
  CHECK(std::isnan(fma(0x1p100, INFINITY, -INFINITY, f32).d));
  CHECK(fma((INT64_C(1) << 53) + 1, 1, 1, i64).i == (INT64_C(1) << 53) + 2);
  CHECK(fma(70000, 70000, 1, i32).i == 605032705);
}
