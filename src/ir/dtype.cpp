// Names of types, and conversions that round exactly once.
#include "ir/dtype.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"

namespace tl {
namespace {

// How a float type spends its bits.  `top`: the code of the largest finite value; what follows it is infinity
// where there is one, then NaN.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  uint64_t top, infinity, nan;
  bool has_infinity;
};
constexpr Format ieee(int exponent_bits, int mantissa_bits) {
  uint64_t infinity = ((uint64_t(1) << exponent_bits) - 1) << mantissa_bits;
  return {exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1,
          infinity - 1,  infinity,      infinity | uint64_t(1) << (mantissa_bits - 1),
          true};
}
Format format_of(DType t) {
  switch (t.kind) {
    case DType::Kind::bfloat:
      return ieee(8, 7);
    case DType::Kind::tfloat:
      return ieee(8, 10);
    case DType::Kind::e5m2:
      return ieee(5, 2);
    case DType::Kind::e4m3:
      return {4, 3, 7, 0x7E, 0x7F, 0x7F, false};
    case DType::Kind::e2m1:
      return {2, 1, 1, 7, 7, 7, false};
    default:
      break;
  }
  return t.bits == 16 ? ieee(5, 10) : t.bits == 32 ? ieee(8, 23) : ieee(11, 52);
}

double round_number(double scaled, Rounding rounding, bool negative) {  // of a magnitude
  if (rounding == Rounding::nearest_even) return std::nearbyint(scaled);
  double low = std::floor(scaled), rest = scaled - low;
  if (rounding == Rounding::nearest_away) return low + (rest >= 0.5);
  bool outward = rounding == (negative ? Rounding::down : Rounding::up);
  return low + (outward && rest > 0);
}

// The code of |value|; `negative` only directs the rounding.
uint64_t magnitude_bits(double value, const Format& f, Rounding rounding, bool negative, bool saturate) {
  if (std::isinf(value)) return saturate ? f.top : f.infinity;
  if (value == 0) return 0;
  int exponent = std::max(std::ilogb(value), 1 - f.bias);  // of a subnormal: a fixed scale
  double scaled = std::ldexp(value, f.mantissa_bits - exponent);
  auto mantissa = uint64_t(round_number(scaled, rounding, negative));
  uint64_t code =
      (uint64_t(exponent + f.bias - 1) << f.mantissa_bits) + mantissa;  // a carry moves the exponent up
  bool outward = rounding == Rounding::nearest_even || rounding == Rounding::nearest_away ||
                 rounding == (negative ? Rounding::down : Rounding::up);
  return code <= f.top ? code : saturate || !outward ? f.top : f.infinity;
}

// A power of two and nothing else: the code is the exponent.
uint64_t e8m0_bits(double value, Rounding rounding, bool saturate) {
  if (std::isnan(value) || value < 0 || (value == 0 && !saturate)) return 255;
  if (value == 0) return 0;
  if (std::isinf(value)) return saturate ? 254 : 255;
  int exponent = 0;
  double fraction = std::frexp(value, &exponent) * 2;  // in [1, 2)
  exponent += 126;
  bool up = rounding == Rounding::up                                          ? fraction > 1
            : rounding == Rounding::toward_zero || rounding == Rounding::down ? false
            : rounding == Rounding::nearest_even && fraction == 1.5           ? exponent % 2 != 0
                                                                              : fraction >= 1.5;
  exponent = std::max(exponent + up, 0);
  return exponent <= 254 ? uint64_t(exponent) : saturate ? 254 : 255;
}

// ── NaN ───────────────────────────────────────────────────────────────────────────────────────────────
constexpr int double_mantissa = 52;
constexpr uint64_t double_quiet = uint64_t(1) << (double_mantissa - 1);
constexpr uint64_t double_infinity = uint64_t(0x7FF) << double_mantissa;

double usual_nan(double like) {
  return std::copysign(std::bit_cast<double>(double_infinity | double_quiet), like);
}

// A type that has one NaN, of either sign, keeps no mantissa of it.
double nan_value(bool negative, uint64_t mantissa, const Format& f) {
  uint64_t rest = f.has_infinity ? mantissa << (double_mantissa - f.mantissa_bits) : double_quiet;
  return std::bit_cast<double>(uint64_t(negative) << 63 | double_infinity | rest);
}
uint64_t nan_bits(double nan, const Format& f) {
  auto all = std::bit_cast<uint64_t>(nan);
  uint64_t mantissa = (all & (2 * double_quiet - 1)) >> (double_mantissa - f.mantissa_bits);
  uint64_t code = f.has_infinity && mantissa ? f.infinity | mantissa : f.nan;
  return (all >> 63) << (f.exponent_bits + f.mantissa_bits) | code;
}

}  // namespace

std::string to_string(DType t) {
  std::string s;
  switch (t.kind) {
    case DType::Kind::none:
      return "none";
    case DType::Kind::boolean:
      s = "bool";
      break;
    case DType::Kind::signed_int:
      s = "i" + std::to_string(t.bits);
      break;
    case DType::Kind::unsigned_int:
      s = "u" + std::to_string(t.bits);
      break;
    case DType::Kind::floating:
      s = "f" + std::to_string(t.bits);
      break;
    case DType::Kind::bfloat:
      s = "bf" + std::to_string(t.bits);
      break;
    case DType::Kind::handle:
      s = "handle";
      break;
    case DType::Kind::tfloat:
      s = "tf32";
      break;
    case DType::Kind::e4m3:
      s = "e4m3";
      break;
    case DType::Kind::e5m2:
      s = "e5m2";
      break;
    case DType::Kind::e8m0:
      s = "e8m0";
      break;
    case DType::Kind::e2m1:
      s = "e2m1";
      break;
  }
  return t.lanes == 1 ? s : s + "x" + std::to_string(t.lanes);
}

std::optional<DType> parse_dtype(std::string_view name) {
  int lanes = 1;
  if (size_t x = name.rfind('x'); x != std::string_view::npos) {
    auto [end, bad] = std::from_chars(name.data() + x + 1, name.data() + name.size(), lanes);
    if (bad != std::errc() || end != name.data() + name.size() || lanes < 1 || lanes > 65535)
      return std::nullopt;
    name = name.substr(0, x);
  }
  static const auto types = [] {
    std::map<std::string, DType, std::less<>> by_name;
    for (DType t : {f64, f32,     f16,    bf16, i8,   i16,  i32,  i64,  u8, u16, u32,
                    u64, boolean, handle, tf32, e4m3, e5m2, e8m0, e2m1, i4, u4})
      by_name.emplace(to_string(t), t);
    return by_name;
  }();
  auto at = types.find(name);
  if (at == types.end()) return std::nullopt;
  return at->second.with_lanes(lanes);
}

int64_t wrap_int(int64_t value, DType t) {
  if (t.is_bool()) return value != 0;
  if (t.bits >= 64) return value;
  uint64_t low = uint64_t(value) & ((uint64_t(1) << t.bits) - 1);
  if (t.is_signed() && (low >> (t.bits - 1))) low |= ~uint64_t(0) << t.bits;
  return int64_t(low);
}

DType arithmetic_type(DType t) {
  if (!t.is_storage()) return t;
  return (t.is_float() ? f32 : i32).with_lanes(t.lanes);
}

uint64_t stored_bits(double v, DType t) {
  if (t.bits == 64) return std::bit_cast<uint64_t>(v);
  bool single = t.bits == 32, has_nan = t.kind != DType::Kind::e8m0 && t.kind != DType::Kind::e2m1;
  if (std::isnan(v) && has_nan) return nan_bits(v, single ? ieee(8, 23) : format_of(t));
  return single ? std::bit_cast<uint32_t>(float(v)) : float_bits(v, t, default_rounding(t), false);
}

uint64_t float_bits(double v, DType t, Rounding rounding, bool saturate) {
  if (t.kind == DType::Kind::e8m0) return e8m0_bits(v, rounding, saturate);
  if (t.bits == 64) return std::bit_cast<uint64_t>(v);
  Format f = format_of(t);
  uint64_t code = f.nan;
  bool negative = std::signbit(v) && !std::isnan(v);
  if (!std::isnan(v)) code = magnitude_bits(std::fabs(v), f, rounding, negative, saturate && t.bits <= 8);
  code |= uint64_t(negative) << (f.exponent_bits + f.mantissa_bits);
  return t.kind == DType::Kind::tfloat ? code << 13 : code;
}

double float_value(uint64_t bits, DType t) {
  if (t.kind == DType::Kind::e8m0) return bits == 255 ? std::nan("") : std::ldexp(1.0, int(bits) - 127);
  if (t.bits == 64) return std::bit_cast<double>(bits);
  Format f = t.bits == 32 ? ieee(8, 23) : format_of(t);
  uint64_t code = bits & ((uint64_t(1) << (f.exponent_bits + f.mantissa_bits)) - 1);
  uint64_t mantissa = code & ((uint64_t(1) << f.mantissa_bits) - 1);
  int exponent = int(code >> f.mantissa_bits);
  bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  double value = INFINITY;
  if (code > f.top && !(f.has_infinity && code == f.infinity)) return nan_value(negative, mantissa, f);
  if (t.bits == 32) return double(std::bit_cast<float>(uint32_t(bits)));
  if (code <= f.top)
    value = exponent ? std::ldexp(double(mantissa | uint64_t(1) << f.mantissa_bits),
                                  exponent - f.bias - f.mantissa_bits)
                     : std::ldexp(double(mantissa), 1 - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

double round_float(double value, DType t) {
  if (std::isnan(value) && t.bits > 8 && t.kind != DType::Kind::tfloat) return usual_nan(value);
  if (t.kind == DType::Kind::floating && t.bits == 64) return value;
  if (t.kind == DType::Kind::floating && t.bits == 32) return double(float(value));
  return float_value(float_bits(value, t), t);
}

double largest_number(DType t) {
  if (t.bits == 64) return std::numeric_limits<double>::max();
  if (t.kind == DType::Kind::bfloat) return 0x1.fep127;
  return t.bits == 16                    ? 0x1.ffcp15
         : t.kind == DType::Kind::tfloat ? 0x1.ffcp127
                                         : double(std::numeric_limits<float>::max());
}

double sum_to_odd(double a, double b) {
  double s = a + b, part = s - a, error = (a - (s - part)) + (b - part);
  auto bits = std::bit_cast<int64_t>(s);
  if (!(error < 0 || error > 0) || bits & 1) return s;
  return std::bit_cast<double>(bits + ((error > 0) == (s > 0) ? 1 : -1));
}
double float_of_int(int64_t value, DType from, DType to) {
  bool large = from.is_unsigned() && value < 0;
  if (to.bits == 64) return large ? double(uint64_t(value)) : double(value);
  double high = large ? double(uint64_t(value) >> 32) : double(value >> 32);  // what is below is not negative
  return round_float(sum_to_odd(high * 0x1p32, double(uint32_t(value))), to);
}
int64_t truncated(double v, DType type) {
  if (type.scalar() == u64 && v >= 0x1p63) return v < 0x1p64 ? int64_t(uint64_t(v)) : -1;
  return v >= -0x1p63 && v < 0x1p63 ? wrap_int(int64_t(v), type) : wrap_int(INT64_MIN, type);
}
// Integers of 4 bits are made of those of 32, which wrap.
static DType cast_as(DType t) { return t.bits < 8 ? i32 : t.scalar(); }
bool fits_integer(double v, DType type) {
  DType t = cast_as(type);
  if (t.is_bool()) return true;
  double end = std::ldexp(1.0, t.is_unsigned() ? t.bits : t.bits - 1);
  if (!(v < end)) return false;
  return t.is_unsigned() ? v > -1 : t.bits == 64 ? v >= -end : v > -end - 1;
}
std::string misfit_text(double v, DType type) {
  DType t = cast_as(type);
  bool is_signed = !t.is_unsigned();
  uint64_t high = ~uint64_t(0) >> (64 - t.bits + is_signed);
  std::string low = is_signed ? fmt::format("-{}", high + 1) : "0";
  return fmt::format("{} does not fit {}, which holds {} to {}, so this cast is undefined", v, to_string(t),
                     low, high);
}
const std::string_view misfit_help = "clamp it first (T.clamp), or cast only what fits (T.if_then_else)";

double min_number(double a, double b) { return a != a ? b : b != b ? a : std::fmin(a, b); }
double max_number(double a, double b) { return a != a ? b : b != b ? a : std::fmax(a, b); }

uint16_t f16_bits(double v) { return uint16_t(float_bits(v, f16)); }
uint16_t bf16_bits(double v) { return uint16_t(float_bits(v, bf16)); }
double f16_value(uint16_t b) { return float_value(b, f16); }
double bf16_value(uint16_t b) { return float_value(b, bf16); }

}  // namespace tl
