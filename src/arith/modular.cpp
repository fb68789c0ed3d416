// Divisibility of the operators.  A modulus that leaves int64 shrinks to its power of two, or to 1.
#include "arith/modular.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "arith/interval.h"

namespace tl {
namespace {

constexpr int64_t largest_power = int64_t(1) << 62;

bool is_small(Wide x) { return x > INT64_MIN && x <= INT64_MAX; }

Wide wide_gcd(Wide a, Wide b) {
  if (is_small(a) && is_small(b)) return std::gcd(int64_t(a), int64_t(b));
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) a = std::exchange(b, a % b);
  return a;
}

// modulus * k + remainder, both perhaps beyond int64.
Modular reduced(Wide modulus, Wide remainder) {
  if (modulus < 0) modulus = -modulus;
  bool point_fits = remainder >= INT64_MIN && remainder <= INT64_MAX;
  if (modulus == 0 && point_fits) return modular_point(int64_t(remainder));
  if (modulus == 0) modulus = largest_power;
  if (modulus > INT64_MAX) {
    Wide power = modulus & -modulus;
    modulus = std::min<Wide>(power, largest_power);
  }
  if (is_small(remainder)) return {int64_t(modulus), floor_mod(int64_t(remainder), int64_t(modulus))};
  Wide r = remainder % modulus;
  return {int64_t(modulus), int64_t(r < 0 ? r + modulus : r)};
}

Modular product(Modular a, Modular b) {
  Wide m1 = a.modulus, m2 = b.modulus, r1 = a.remainder, r2 = b.remainder;
  return reduced(wide_gcd(wide_gcd(m1 * m2, m1 * r2), m2 * r1), r1 * r2);
}

Modular floor_quotient(Modular a, Modular b) {
  if (b.modulus != 0 || b.remainder == 0) return {};
  if (a.modulus % b.remainder != 0) return {};
  return reduced(Wide(a.modulus) / b.remainder, floor_div(a.remainder, b.remainder));
}

Modular floor_remainder(Modular a, Modular b) {
  if (b.modulus != 0 || b.remainder == 0) return {};
  int64_t c = b.remainder;
  if (a.modulus % c == 0) return modular_point(floor_mod(a.remainder, c));
  return normalised({gcd(a.modulus, c), a.remainder});
}

// How many low bits are known: the power of two in the modulus.
int known_bits(Modular a) {
  return a.modulus == 0 ? 62 : std::min(62, std::countr_zero(uint64_t(a.modulus)));
}

Modular low_bits(BinaryOp op, Modular a, Modular b) {
  int k = std::min(known_bits(a), known_bits(b));
  int64_t mask = (int64_t(1) << k) - 1;
  int64_t bits = fold_int(op, a.remainder & mask, b.remainder & mask, i64);
  Modular known{int64_t(1) << k, bits & mask};
  if (op == BinaryOp::bit_xor) return known;
  if (op == BinaryOp::bit_or) {  // Ones of either side are ones of the result.
    auto ones = [](Modular m) { return std::min(std::countr_one(uint64_t(m.remainder)), known_bits(m)); };
    int o = std::min(62, std::max(ones(a), ones(b)));
    return o > k ? Modular{int64_t(1) << o, (int64_t(1) << o) - 1} : known;
  }
  // Zeros of either side are zeros of the result.
  auto zeros = [](Modular m) {
    return m.remainder == 0 ? known_bits(m) : std::countr_zero(uint64_t(m.remainder));
  };
  int z = std::min(62, std::max(std::min(zeros(a), known_bits(a)), std::min(zeros(b), known_bits(b))));
  return z > k || (z == k && known.remainder == 0) ? Modular{int64_t(1) << z, 0} : known;
}

}  // namespace

int64_t gcd(int64_t a, int64_t b) {
  if (a == INT64_MIN || b == INT64_MIN) return int64_t(std::min<Wide>(wide_gcd(a, b), largest_power));
  return std::gcd(a, b);
}
Modular normalised(Modular m) {
  if (m.modulus == 0) return m;
  return {m.modulus, floor_mod(m.remainder, m.modulus)};
}
Modular modular_constant(int64_t v, DType t) {
  if (t.scalar() == u64 && v < 0) return normalised({largest_power, v});
  return modular_point(v);
}

Modular unite(Modular a, Modular b) {
  if (a == b) return a;
  Wide apart = Wide(a.remainder) - b.remainder;
  return reduced(wide_gcd(wide_gcd(a.modulus, b.modulus), apart), a.remainder);
}

Modular combine(Modular a, Modular b) {
  if (a.modulus == 0 || b.modulus == 1) return a;
  if (b.modulus == 0 || a.modulus == 1) return b;
  if (a.modulus < b.modulus) std::swap(a, b);
  int64_t g = gcd(a.modulus, b.modulus), steps = b.modulus / g;
  Wide modulus = Wide(a.modulus) * steps;
  bool consistent = floor_mod(a.remainder, g) == floor_mod(b.remainder, g);
  if (!consistent || steps > 4096 || modulus > largest_power) return a;
  Wide r = a.remainder;
  while (r % b.modulus != b.remainder) r += a.modulus;
  return reduced(modulus, r);
}

std::optional<int64_t> remainder_by(Modular a, int64_t m) {
  if (a.modulus % m != 0) return std::nullopt;
  return floor_mod(a.remainder, m);
}

Modular modular_scaled(Modular a, int64_t factor) {
  return reduced(Wide(a.modulus) * factor, Wide(a.remainder) * factor);
}
Modular modular_sum(Modular a, Modular b) {
  return reduced(wide_gcd(a.modulus, b.modulus), Wide(a.remainder) + b.remainder);
}
Modular modular_wrapped(Modular a, DType t, bool data) {
  if (t.scalar() == i64 && !data) return a;
  int64_t width = t.bits >= 63 ? largest_power : int64_t(1) << t.bits;
  return normalised({gcd(a.modulus, width), a.remainder});
}

Modular modular_of(UnaryOp op, Modular a) {
  if (op == UnaryOp::neg) return modular_scaled(a, -1);
  if (op == UnaryOp::bit_not) return modular_sum(modular_scaled(a, -1), modular_point(-1));
  return {};
}

Modular modular_of(BinaryOp op, Modular a, Modular b) {
  switch (op) {
    case BinaryOp::add:
      return modular_sum(a, b);
    case BinaryOp::sub:
      return modular_sum(a, modular_scaled(b, -1));
    case BinaryOp::mul:
      return product(a, b);
    case BinaryOp::floordiv:
      return floor_quotient(a, b);
    case BinaryOp::floormod:
      return floor_remainder(a, b);
    case BinaryOp::min:
    case BinaryOp::max:
      return unite(a, b);
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
      return low_bits(op, a, b);
    case BinaryOp::shl:
      if (b.modulus != 0 || b.remainder < 0 || b.remainder > 61) return {};
      return modular_scaled(a, int64_t(1) << b.remainder);
    case BinaryOp::shr:
      if (b.modulus != 0 || b.remainder < 0 || b.remainder > 61) return {};
      return floor_quotient(a, modular_point(int64_t(1) << b.remainder));
    default:
      return {};
  }
}

Interval tighten(Interval r, Modular m) {
  if (m.modulus == 1) return r;
  if (m.modulus == 0) return r.contains(m.remainder) ? Interval::point(m.remainder) : r;
  Wide low = r.min, high = r.max;
  if (r.min != INT64_MIN) low += floor_mod(int64_t((Wide(m.remainder) - low) % m.modulus), m.modulus);
  if (r.max != INT64_MAX) high -= floor_mod(int64_t((high - m.remainder) % m.modulus), m.modulus);
  return low <= high ? narrow({low, high}) : r;
}

}  // namespace tl
