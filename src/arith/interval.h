// Arithmetic of intervals: exact over the integers, never wrong on overflow.  An operation of a wrapping type
// whose exact result may leave the type has the type's whole range.
#pragma once
#include "arith/facts.h"

namespace tl {

using Wide = __int128;
inline constexpr Wide wide_infinity = Wide(1) << 120;

// Ends over the integers; +-wide_infinity where unbounded.
struct WideRange {
  Wide min = -wide_infinity, max = wide_infinity;
  bool bounded() const { return min > -wide_infinity && max < wide_infinity; }
};

WideRange widen(Interval i);
Interval narrow(WideRange r);  // saturates: past the ends of int64 is unbounded
WideRange scale(Interval i, int64_t factor);
WideRange add(WideRange a, WideRange b);
Wide floor_div_wide(Wide a, int64_t b);  // b > 0

Interval type_range(DType type);     // of an integer or bool
bool fits(WideRange r, DType type);  // all of it are values of the type
bool is_point(Interval i);
Interval unite(Interval a, Interval b);
Interval intersect(Interval a, Interval b);

// `type` is that of the operands.  `data`: an i64 wraps, too.
Interval range_of(UnaryOp op, Interval a, DType type, bool data = false);
Interval range_of(BinaryOp op, Interval a, Interval b, DType type, bool data = false);
Interval range_of_cast(Interval a, DType from, DType to);
Interval range_of_constant(int64_t value, DType type);

}  // namespace tl
