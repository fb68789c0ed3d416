// Conversions of 16-bit floats by their bits.
#include "runtime/half.h"

#include <bit>

namespace tl {
namespace {

// Rounds a number to `mantissa` bits after the leading one, to nearest even, for a type of 16 bits.
uint16_t round_bits(double value, int exponent_bits, int mantissa) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  auto sign = uint16_t(bits >> 63 << 15);
  int exponent = int(bits >> 52 & 2047) - 1023, bias = (1 << (exponent_bits - 1)) - 1;
  uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  auto infinity = uint16_t(((1 << exponent_bits) - 1) << mantissa);
  if (exponent == 1024) return uint16_t(sign | infinity | (fraction ? 1 << (mantissa - 1) : 0));
  if (exponent < -bias - mantissa - 1) return sign;
  fraction |= uint64_t(1) << 52;
  int drop = 52 - mantissa;
  if (exponent < 1 - bias) drop += 1 - bias - exponent;  // subnormal
  uint64_t kept = fraction >> drop, rest = fraction & ((uint64_t(1) << drop) - 1),
           half = uint64_t(1) << (drop - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  if (exponent >= 1 - bias) kept += uint64_t(exponent + bias - 1) << mantissa;  // carries into the exponent
  return uint16_t(sign | (kept > infinity ? infinity : uint16_t(kept)));
}

}  // namespace

uint16_t half_from_double(double value) { return round_bits(value, 5, 10); }
uint16_t bfloat_from_double(double value) { return round_bits(value, 8, 7); }

double half_to_double(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  uint64_t sign = uint64_t(bits >> 15) << 63, fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<double>(sign | uint64_t(2047) << 52 | fraction << 42);
  double size = exponent ? double(1024 + fraction) : double(fraction);
  double value = size * std::bit_cast<double>(uint64_t((exponent ? exponent : 1) - 25 + 1023) << 52);
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) | sign);
}

}  // namespace tl
