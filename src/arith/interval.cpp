// Intervals of the operators.  Ends are computed in 128 bits, where no product of two ends overflows, and
// then either clamped (operations that cannot leave their type) or checked against the type (those that
// wrap).
#include "arith/interval.h"

#include <algorithm>
#include <bit>

namespace tl {
namespace {

bool is_index(DType t) { return t.scalar() == i64; }

Wide product(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  bool infinite = a >= wide_infinity || a <= -wide_infinity || b >= wide_infinity || b <= -wide_infinity;
  if (infinite) return (a < 0) == (b < 0) ? wide_infinity : -wide_infinity;
  return a * b;
}

Wide clamp(Wide x) { return std::clamp(x, -wide_infinity, wide_infinity); }

WideRange hull(std::initializer_list<Wide> ends) { return {std::min(ends), std::max(ends)}; }
WideRange hull(WideRange a, WideRange b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

WideRange multiply(WideRange a, WideRange b) {
  return hull({product(a.min, b.min), product(a.min, b.max), product(a.max, b.min), product(a.max, b.max)});
}

// The result of an operation that wraps.
Interval wrapped(WideRange r, DType t, bool data) {
  if (is_index(t) && !data) return narrow(r);
  return fits(r, t) ? narrow(r) : type_range(t);
}

Wide divide(Wide a, Wide b, bool floor) {
  bool negative = (a < 0) != (b < 0);
  if (b >= wide_infinity || b <= -wide_infinity) return floor && negative && a != 0 ? -1 : 0;
  if (a >= wide_infinity || a <= -wide_infinity) return negative ? -wide_infinity : wide_infinity;
  Wide q = a / b;
  return floor && negative && q * b != a ? q - 1 : q;
}

// Quotients are monotonic in both operands while the divisor keeps its sign.
WideRange divide(WideRange a, WideRange b, bool floor) {
  auto part = [&](Wide low, Wide high) {
    return hull({divide(a.min, low, floor), divide(a.min, high, floor), divide(a.max, low, floor),
                 divide(a.max, high, floor)});
  };
  std::optional<WideRange> result;
  if (b.max >= 1) result = part(std::max<Wide>(b.min, 1), b.max);
  if (b.min <= -1) {
    WideRange negative = part(b.min, std::min<Wide>(b.max, -1));
    result = result ? hull(*result, negative) : negative;
  }
  return result.value_or(WideRange{});
}

WideRange floor_modulo(WideRange a, WideRange b) {
  if (b.min > 0) {
    if (a.min >= 0 && a.max < b.min) return a;
    bool one_block =
        b.min == b.max && a.bounded() && divide(a.min, b.min, true) == divide(a.max, b.min, true);
    if (one_block) {
      Wide base = product(divide(a.min, b.min, true), b.min);
      return {a.min - base, a.max - base};
    }
    return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
  }
  return {std::min<Wide>(b.min + 1, 0), std::max<Wide>(b.max - 1, 0)};
}

// The sign is the numerator's; the size is below that of the divisor and not above that of the numerator.
WideRange trunc_modulo(WideRange a, WideRange b) {
  Wide size = std::max<Wide>(std::max(b.max, -b.min) - 1, 0);
  return {a.min >= 0 ? 0 : std::max(a.min, -size), a.max <= 0 ? 0 : std::min(a.max, size)};
}

// The least 2^k - 1 that is not below x.
Wide ones_above(Wide x) {
  if (x >= Wide(INT64_MAX)) return x >= wide_infinity ? wide_infinity : (Wide(1) << 64) - 1;
  return x <= 0 ? 0 : Wide(~uint64_t(0) >> std::countl_zero(uint64_t(x)));
}

Interval bitwise(BinaryOp op, WideRange a, WideRange b, DType t) {
  if (a.min >= 0 && b.min >= 0) {
    if (op == BinaryOp::bit_and) return narrow({0, std::min(a.max, b.max)});
    Wide top = ones_above(std::max(a.max, b.max));
    return narrow({op == BinaryOp::bit_or ? std::max(a.min, b.min) : 0, top});
  }
  if (op == BinaryOp::bit_and && (a.min >= 0 || b.min >= 0)) return narrow({0, a.min >= 0 ? a.max : b.max});
  if (!a.bounded() || !b.bounded()) return type_range(t);
  Wide top = ones_above(std::max({a.max, b.max, -1 - a.min, -1 - b.min}));
  return narrow({-1 - top, top});
}

WideRange powers(WideRange amount) { return {Wide(1) << int(amount.min), Wide(1) << int(amount.max)}; }

Interval shift(BinaryOp op, WideRange a, WideRange amount, DType t, bool data) {
  if (amount.min < 0 || amount.max > 63) amount = {0, Wide(t.bits - 1)};  // others have no meaning
  if (op == BinaryOp::shl) return wrapped(multiply(a, powers(amount)), t, data);
  return narrow(divide(a, powers(amount), true));
}

Interval truth(bool surely, bool never) {
  return surely ? Interval{1, 1} : never ? Interval{0, 0} : Interval{0, 1};
}

Interval compare(BinaryOp op, WideRange a, WideRange b) {
  bool apart = a.max < b.min || b.max < a.min;
  bool one = a.min == a.max && b.min == b.max && a.min == b.min;
  switch (op) {
    case BinaryOp::eq:
      return truth(one, apart);
    case BinaryOp::ne:
      return truth(apart, one);
    case BinaryOp::lt:
      return truth(a.max < b.min, a.min >= b.max);
    case BinaryOp::le:
      return truth(a.max <= b.min, a.min > b.max);
    case BinaryOp::gt:
      return truth(a.min > b.max, a.max <= b.min);
    default:
      return truth(a.min >= b.max, a.max < b.min);
  }
}

}  // namespace

WideRange widen(Interval i) {
  return {i.min == INT64_MIN ? -wide_infinity : Wide(i.min),
          i.max == INT64_MAX ? wide_infinity : Wide(i.max)};
}
Interval narrow(WideRange r) {
  auto end = [](Wide x) { return int64_t(std::clamp<Wide>(x, INT64_MIN, INT64_MAX)); };
  return {end(r.min), end(r.max)};
}
WideRange scale(Interval i, int64_t factor) {
  WideRange r = widen(i);
  return hull({product(r.min, factor), product(r.max, factor)});
}
WideRange add(WideRange a, WideRange b) {
  return {a.min <= -wide_infinity || b.min <= -wide_infinity ? -wide_infinity : clamp(a.min + b.min),
          a.max >= wide_infinity || b.max >= wide_infinity ? wide_infinity : clamp(a.max + b.max)};
}
Wide floor_div_wide(Wide a, int64_t b) { return divide(a, b, true); }

Interval type_range(DType t) {
  if (t.is_bool()) return {0, 1};
  if (!t.is_int() || is_index(t)) return {};
  if (t.is_unsigned()) return {0, t.bits == 64 ? INT64_MAX : int64_t((uint64_t(1) << t.bits) - 1)};
  return {-(int64_t(1) << (t.bits - 1)), (int64_t(1) << (t.bits - 1)) - 1};
}
bool fits(WideRange r, DType t) {
  if (t.bits == 64 && t.is_int())
    return (t.is_signed() ? r.min > INT64_MIN : r.min >= 0) && r.max < INT64_MAX;
  Interval range = type_range(t);
  return range.min <= r.min && r.max <= range.max;
}
bool is_point(Interval i) { return i.min == i.max && i.bounded(); }
Interval unite(Interval a, Interval b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }
Interval intersect(Interval a, Interval b) { return {std::max(a.min, b.min), std::min(a.max, b.max)}; }

Interval range_of(UnaryOp op, Interval a, DType t, bool data) {
  WideRange r = widen(a);
  switch (op) {
    case UnaryOp::neg:
      return wrapped({-r.max, -r.min}, t, data);
    case UnaryOp::logical_not:
      return {1 - a.max, 1 - a.min};
    case UnaryOp::bit_not:
      if (t.is_signed()) return narrow({-1 - r.max, -1 - r.min});
      if (t.bits == 64) return type_range(t);
      return {type_range(t).max - a.max, type_range(t).max - a.min};
  }
  return type_range(t);
}

Interval range_of(BinaryOp op, Interval x, Interval y, DType t, bool data) {
  WideRange a = widen(x), b = widen(y);
  switch (op) {
    case BinaryOp::add:
      return wrapped(add(a, b), t, data);
    case BinaryOp::sub:
      return wrapped(add(a, {-b.max, -b.min}), t, data);
    case BinaryOp::mul:
      return wrapped(multiply(a, b), t, data);
    case BinaryOp::floordiv:
    case BinaryOp::truncdiv: {
      WideRange q = divide(a, b, op == BinaryOp::floordiv);
      if (t.is_unsigned()) return intersect(narrow(q), type_range(t));
      bool by_minus_one = b.min <= -1 && b.max >= -1;  // the least integer divided by it wraps
      return by_minus_one ? wrapped(q, t, data) : intersect(narrow(q), type_range(t));
    }
    case BinaryOp::floormod:
    case BinaryOp::truncmod:
      if (b.min == 0 && b.max == 0) return type_range(t);  // it has no value
      return narrow(op == BinaryOp::floormod ? floor_modulo(a, b) : trunc_modulo(a, b));
    case BinaryOp::min:
      return {std::min(x.min, y.min), std::min(x.max, y.max)};
    case BinaryOp::max:
      return {std::max(x.min, y.min), std::max(x.max, y.max)};
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
      return bitwise(op, a, b, t);
    case BinaryOp::shl:
    case BinaryOp::shr:
      return shift(op, a, b, t, data);
    case BinaryOp::logical_and:
      return {x.min & y.min, x.max & y.max};
    case BinaryOp::logical_or:
      return {x.min | y.min, x.max | y.max};
    case BinaryOp::div:
      return {};
    default:
      return compare(op, a, b);
  }
}

Interval range_of_cast(Interval a, DType from, DType to) {
  if (to.is_bool()) return from.is_float() ? Interval{0, 1} : compare(BinaryOp::ne, widen(a), {0, 0});
  if (!to.is_int() || from.is_float()) return type_range(to);
  bool both_unbounded = from.scalar() == to.scalar() || (is_index(from) && to.scalar() == u64 && a.min >= 0);
  return both_unbounded || fits(widen(a), to) ? a : type_range(to);
}

Interval range_of_constant(int64_t value, DType t) {
  return t.scalar() == u64 && value < 0 ? Interval{INT64_MAX, INT64_MAX} : Interval::point(value);
}

}  // namespace tl
