// Names of types, and conversions that round exactly once.
#include "ir/dtype.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace tl {
namespace {

// Rounds |value| to a binary float of the given precision; returns the bits without the sign.
uint64_t round_to(double value, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t infinity = uint64_t((1 << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) return infinity | (uint64_t(1) << (mantissa_bits - 1));
  if (std::isinf(value)) return infinity;
  if (value == 0) return 0;
  int exponent = std::ilogb(value);
  if (exponent < 1 - bias) exponent = 1 - bias;                                   // subnormal: fixed scale
  double scaled = std::nearbyint(std::ldexp(value, mantissa_bits - exponent));    // exact scaling, one rounding
  uint64_t mantissa = uint64_t(scaled);
  uint64_t result = (uint64_t(exponent + bias - 1) << mantissa_bits) + mantissa;  // a carry moves the exponent up
  return result >= infinity ? infinity : result;
}

double value_of(uint64_t bits, int mantissa_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  uint64_t mantissa = bits & ((uint64_t(1) << mantissa_bits) - 1);
  int exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  bool negative = (bits >> (mantissa_bits + exponent_bits)) & 1;
  double value;
  if (exponent == (1 << exponent_bits) - 1)
    value = mantissa ? std::nan("") : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(double(mantissa), 1 - bias - mantissa_bits);
  else
    value = std::ldexp(double(mantissa | (uint64_t(1) << mantissa_bits)), exponent - bias - mantissa_bits);
  return negative ? -value : value;
}

}  // namespace

std::string to_string(DType t) {
  std::string s;
  switch (t.kind) {
    case DType::Kind::none: return "none";
    case DType::Kind::boolean: s = "bool"; break;
    case DType::Kind::signed_int: s = "i" + std::to_string(t.bits); break;
    case DType::Kind::unsigned_int: s = "u" + std::to_string(t.bits); break;
    case DType::Kind::floating: s = "f" + std::to_string(t.bits); break;
    case DType::Kind::bfloat: s = "bf" + std::to_string(t.bits); break;
    case DType::Kind::handle: s = "handle"; break;
  }
  return t.lanes == 1 ? s : s + "x" + std::to_string(t.lanes);
}

std::optional<DType> parse_dtype(std::string_view name) {
  int lanes = 1;
  if (size_t x = name.rfind('x'); x != std::string_view::npos) {
    auto [end, bad] = std::from_chars(name.data() + x + 1, name.data() + name.size(), lanes);
    if (bad != std::errc() || end != name.data() + name.size() || lanes < 1 || lanes > 65535) return std::nullopt;
    name = name.substr(0, x);
  }
  for (DType t : {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, handle})
    if (to_string(t) == name) return t.with_lanes(lanes);
  return std::nullopt;
}

int64_t wrap_int(int64_t value, DType t) {
  if (t.is_bool()) return value != 0;
  if (t.bits >= 64) return value;
  uint64_t low = uint64_t(value) & ((uint64_t(1) << t.bits) - 1);
  if (t.is_signed() && (low >> (t.bits - 1))) low |= ~uint64_t(0) << t.bits;
  return int64_t(low);
}

double round_float(double value, DType t) {
  if (t.kind == DType::Kind::bfloat) return bf16_value(bf16_bits(value));
  if (t.bits == 16) return f16_value(f16_bits(value));
  return t.bits == 32 ? double(float(value)) : value;
}

uint16_t f16_bits(double v) { return uint16_t(round_to(std::fabs(v), 10, 5) | (std::signbit(v) ? 0x8000 : 0)); }
uint16_t bf16_bits(double v) { return uint16_t(round_to(std::fabs(v), 7, 8) | (std::signbit(v) ? 0x8000 : 0)); }
double f16_value(uint16_t b) { return value_of(b, 10, 5); }
double bf16_value(uint16_t b) { return value_of(b, 7, 8); }

}  // namespace tl
