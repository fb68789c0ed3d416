// Operators on several lanes: broadcasts move out, ramps stay ramps, and what is the same for all lanes of a
// ramp is computed once.  A sum of a broadcast and the steps 0, 1, 2, … stays a sum: as the index of an
// access, a ramp of stride 1 promises that the access is aligned.
#include "arith/simplifier.h"

namespace tl {
namespace {

struct Lanes {  // base + lane * stride; a broadcast has stride 0
  Expr base, stride;
};

// 0, 1, 2, …: what a broadcast is added to where a ramp would promise an alignment that it does not have.
bool is_steps(const Lanes& l) { return is_int(l.base, 0) && is_int(l.stride, 1); }

std::optional<Lanes> lanes_of(Simplifier& s, const Expr& e) {
  if (auto* n = e.as<Ramp>()) return Lanes{n->base, n->stride};
  if (auto* n = e.as<Broadcast>()) return Lanes{n->value, s.constant(0, n->value->dtype)};
  auto* sum = e.as<Binary>();
  if (!sum || sum->op != BinaryOp::add) return std::nullopt;
  for (auto [x, y] : {std::pair(&sum->a, &sum->b), std::pair(&sum->b, &sum->a)}) {
    auto* fixed = x->as<Broadcast>();
    auto* steps = y->as<Ramp>();
    if (fixed && steps && is_steps({steps->base, steps->stride})) return Lanes{fixed->value, steps->stride};
  }
  return std::nullopt;
}

Expr with_lanes(Simplifier& s, const Expr& base, const Expr& stride, int lanes) {
  if (is_int(stride, 0)) return broadcast(base, lanes, s.here);
  return ramp(base, stride, lanes, s.here);
}

Expr linear(Simplifier& s, BinaryOp op, const Lanes& a, const Lanes& b, int lanes) {
  auto moves = [](const Lanes& x, const Lanes& by) {
    return is_steps(x) && is_int(by.stride, 0) && !is_int(by.base, 0);
  };
  if (op == BinaryOp::add && (moves(a, b) || moves(b, a))) return {};
  if (op != BinaryOp::mul)
    return with_lanes(s, s.make(op, a.base, b.base), s.make(op, a.stride, b.stride), lanes);
  if (!is_int(a.stride, 0) && !is_int(b.stride, 0)) return {};
  const Lanes &moving = is_int(a.stride, 0) ? b : a, &fixed = is_int(a.stride, 0) ? a : b;
  return with_lanes(s, s.make(op, moving.base, fixed.base), s.make(op, moving.stride, fixed.base), lanes);
}

// Every lane is an integer sum of the type, so that lanes may be compared and divided as integers.
bool never_wraps(Simplifier& s, const Lanes& l, int lanes) {
  DType t = l.base->dtype;
  if (t == i64 && !s.known.of(l.base).data && !s.known.of(l.stride).data) return true;
  auto stride = as_int(l.stride);
  if (!stride) return false;
  WideRange last = scale(Interval::point(*stride), lanes - 1);
  return fits(add(widen(s.known.range(l.base)), last), t);
}

Expr last_lane(Simplifier& s, const Lanes& l, int lanes) {
  Expr steps = s.make(BinaryOp::mul, l.stride, s.constant(lanes - 1, l.base->dtype));
  return s.make(BinaryOp::add, l.base, steps);
}

// (b + lane*t) // c and % c for a constant c: the stride is a multiple of c, or no lane leaves the block of
// lane 0.
Expr divided(Simplifier& s, BinaryOp op, const Lanes& a, int64_t c, int lanes) {
  auto stride = as_int(a.stride);
  if (!stride || c <= 0 || !never_wraps(s, a, lanes)) return {};
  Expr by = s.constant(c, a.base->dtype);
  Expr first = s.make(op, a.base, by);
  bool quotient = op == BinaryOp::floordiv;
  if (*stride % c == 0)
    return with_lanes(s, first, s.constant(quotient ? *stride / c : 0, a.base->dtype), lanes);
  Interval low = s.known.range(quotient ? s.make(BinaryOp::floormod, a.base, by) : first);
  WideRange within = add(widen(low), scale(Interval::point(*stride), lanes - 1));
  if (within.min < 0 || within.max >= c || low.min < 0 || low.max >= c) return {};
  return with_lanes(s, first, quotient ? s.constant(0, a.base->dtype) : a.stride, lanes);
}

// A comparison that reads the same in the first and in the last lane is that of all lanes between.
Expr compared(Simplifier& s, BinaryOp op, const Lanes& a, const Lanes& b, int lanes) {
  if (op == BinaryOp::eq || op == BinaryOp::ne) return {};
  if (!never_wraps(s, a, lanes) || !never_wraps(s, b, lanes)) return {};
  Expr first = s.make(op, a.base, b.base);
  Expr last = s.make(op, last_lane(s, a, lanes), last_lane(s, b, lanes));
  return s.known.same(first, last) ? broadcast(first, lanes, s.here) : Expr();
}

}  // namespace

Expr Simplifier::make_vector(BinaryOp op, const Expr& a, const Expr& b) {
  int lanes = a->dtype.lanes;
  auto *p = a.as<Broadcast>(), *q = b.as<Broadcast>();
  if (p && q) return broadcast(make(op, p->value, q->value), lanes, here);
  if (!a->dtype.is_int()) return {};
  auto x = lanes_of(*this, a), y = lanes_of(*this, b);
  if (!x || !y) return {};
  if (op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul)
    return linear(*this, op, *x, *y, lanes);
  if (is_comparison(op)) return compared(*this, op, *x, *y, lanes);
  auto c = as_int(b);
  if (c && (op == BinaryOp::floordiv || op == BinaryOp::floormod)) return divided(*this, op, *x, *c, lanes);
  return {};
}

}  // namespace tl
