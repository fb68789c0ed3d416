// The values of narrow floats and the bits of numbers, against what their formats say.
#include "ir/dtype.h"

#include <doctest/doctest.h>

#include <cmath>

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
      for (auto r : {Rounding::nearest_even, Rounding::toward_zero, Rounding::down, Rounding::up, Rounding::nearest_away})
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
