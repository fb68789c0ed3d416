#include "pass/thread_values.h"

#include <algorithm>

#include "ir/build.h"

namespace tl {
namespace {

// The operations of indices, all lanes at once; false: others must do it.
bool fold_lanes(BinaryOp op, Lanes& x, const Lanes& y, DType type) {
  if (type != i32 && type != i64) return false;
  auto all = [&](auto f) {
    for (size_t i = 0; i < x.size(); i++) x[i] = f(x[i], y[i]);
    return true;
  };
  auto wrapped = [&](auto f) {
    auto in_64 = [&](int64_t a, int64_t b) { return int64_t(f(uint64_t(a), uint64_t(b))); };
    return type == i64 ? all(in_64)
                       : all([&](int64_t a, int64_t b) { return int64_t(int32_t(in_64(a, b))); });
  };
  bool positive = std::ranges::all_of(y, [](int64_t n) { return n > 0; });
  switch (op) {
    case BinaryOp::add:
      return wrapped([](uint64_t a, uint64_t b) { return a + b; });
    case BinaryOp::sub:
      return wrapped([](uint64_t a, uint64_t b) { return a - b; });
    case BinaryOp::mul:
      return wrapped([](uint64_t a, uint64_t b) { return a * b; });
    case BinaryOp::bit_xor:
      return wrapped([](uint64_t a, uint64_t b) { return a ^ b; });
    case BinaryOp::bit_and:
      return wrapped([](uint64_t a, uint64_t b) { return a & b; });
    case BinaryOp::floordiv:
      return positive && all([](int64_t a, int64_t b) { return floor_div(a, b); });
    case BinaryOp::floormod:
      return positive && all([](int64_t a, int64_t b) { return floor_mod(a, b); });
    case BinaryOp::lt:
      return all([](int64_t a, int64_t b) { return int64_t(a < b); });
    case BinaryOp::le:
      return all([](int64_t a, int64_t b) { return int64_t(a <= b); });
    case BinaryOp::eq:
      return all([](int64_t a, int64_t b) { return int64_t(a == b); });
    default:
      return false;
  }
}

}  // namespace

std::optional<Lanes> values_of(const Expr& e, const LaneEnv& env, size_t lanes, int64_t element) {
  if (auto v = as_int(e)) return Lanes(lanes, *v);
  if (auto it = env.find(e.get()); it != env.end()) return it->second;
  auto of = [&](const Expr& part) { return values_of(part, env, lanes, element); };
  if (auto* c = e.as<Cast>(); c && c->a->dtype.is_int() && c->dtype.is_int()) {
    auto a = of(c->a);
    for (size_t i = 0; a && i < lanes; i++) (*a)[i] = wrap_int((*a)[i], c->dtype.with_lanes(1));
    return a;
  }
  if (auto* b = e.as<Broadcast>()) return of(b->value);
  if (auto* r = e.as<Ramp>()) {
    auto base = of(r->base), stride = of(r->stride);
    for (size_t i = 0; base && stride && i < lanes; i++) (*base)[i] += element * (*stride)[i];
    return stride ? base : std::nullopt;
  }
  if (auto* u = e.as<Unary>(); u && u->op == UnaryOp::logical_not) {
    auto a = of(u->a);
    for (size_t i = 0; a && i < lanes; i++) (*a)[i] = !(*a)[i];
    return a;
  }
  if (auto* s = e.as<Select>()) {
    auto is = of(s->cond), a = of(s->a), b = of(s->b);
    if (!is || !a || !b) return std::nullopt;
    for (size_t i = 0; i < lanes; i++) (*a)[i] = (*is)[i] ? (*a)[i] : (*b)[i];
    return a;
  }
  auto* b = e.as<Binary>();
  if (!b || !(b->a->dtype.is_int() || b->a->dtype.is_bool())) return std::nullopt;
  auto x = of(b->a), y = of(b->b);
  if (!x || !y) return std::nullopt;
  if (fold_lanes(b->op, *x, *y, b->a->dtype.with_lanes(1))) return x;
  bool divides = b->op == BinaryOp::floordiv || b->op == BinaryOp::floormod || b->op == BinaryOp::truncdiv ||
                 b->op == BinaryOp::truncmod;
  for (size_t i = 0; i < lanes; i++) {
    if (divides && (*y)[i] == 0) return std::nullopt;
    (*x)[i] = fold_int(b->op, (*x)[i], (*y)[i], b->a->dtype.with_lanes(1));
  }
  return x;
}

Lanes may_hold(const Expr& condition, const LaneEnv& env, size_t lanes) {
  if (auto v = values_of(condition, env, lanes)) return *v;
  auto* b = condition.as<Binary>();
  if (!b || !is_logical(b->op)) return Lanes(lanes, 1);
  Lanes x = may_hold(b->a, env, lanes), y = may_hold(b->b, env, lanes);
  for (size_t i = 0; i < lanes; i++) x[i] = b->op == BinaryOp::logical_and ? x[i] && y[i] : x[i] || y[i];
  return x;
}

}  // namespace tl
