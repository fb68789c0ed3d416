// Does an index wrap?  Beside an index of narrow integers that may leave their type, the same index is computed in 64
// bits, and where the two part an address would be wrong.  Sums and products count modulo 2^n, so what an intermediate
// value does is of no concern; nor is what goes through a remainder or bits, as a hash does.
#include <utility>

#include "arith/interval.h"
#include "sim/monitor.h"
#include "sim/steps.h"
#include "sim/translate.h"

namespace tl::sim {
namespace {

bool is_signed_int(DType t) { return t.is_int() && t.is_signed() && t.lanes == 1; }

bool is_sum(BinaryOp op) { return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul; }
bool is_followed(BinaryOp op) { return is_sum(op) || op == BinaryOp::floordiv || op == BinaryOp::min || op == BinaryOp::max; }

void check_index_exact(Warp& w, const Operation& o) {
  if (!w.block->watch) return;
  const Scalar *at = w.slot(o.a), *exact = w.slot(o.c);
  for_lanes(w.active, [&](int lane) {
    int32_t i = o.uniform_index ? 0 : lane;
    if (at[i].i == exact[i].i || (o.b >= 0 && !w.slot(o.b)[lane].i)) return;
    const Place& p = w.code->places[size_t(o.row)];
    Finding f{.kind = Finding::Kind::overflow,
              .text = fmt::format("{}[{}]: the index is {}, which {}int{} does not hold: it wraps, in {}; compute it in 64 bits "
                                  "(let its parts be int64)",
                                  p.name, at[i].i, exact[i].i, o.type.is_signed() ? "" : "u", o.type.bits,
                                  describe_thread(w, lane))};
    f.buffer = p.name;
    f.index = at[i].i;
    w.block->monitor->report(w, lane, std::move(f), o.site, -1, p.number);
  });
}

}  // namespace

// The value as it would be without an end of its type, of type i64.
Expr Translator::exact_of(const Expr& e) const {
  if (auto it = exact_vars.find(e.get()); it != exact_vars.end()) return it->second;
  if (!is_signed_int(e->dtype)) return cast(i64, e);
  if (auto v = as_int(e)) return imm(*v, i64);
  if (auto* n = e.as<Binary>(); n && is_followed(n->op)) return binary(n->op, exact_of(n->a), exact_of(n->b), n->span);
  if (auto* n = e.as<Unary>(); n && n->op == UnaryOp::neg) return unary(n->op, exact_of(n->a), n->span);
  if (auto* n = e.as<Cast>(); n && is_signed_int(n->a->dtype)) return exact_of(n->a);
  if (auto* n = e.as<Select>()) return select(n->cond, exact_of(n->a), exact_of(n->b), n->span);
  return e->dtype == i64 ? e : cast(i64, e);
}

// Can it be another value than that?
bool Translator::may_wrap(const Expr& e) const {
  if (!is_signed_int(e->dtype)) return false;
  auto* n = e.as<Binary>();
  bool leaves = (n && is_sum(n->op)) || e.as<Unary>() || e.as<Cast>();
  if (leaves && e->dtype.bits < 64 && !tl::fits(tl::widen(interval_of(exact_of(e), facts)), e->dtype)) return true;
  return parts_may_wrap(e);
}

// The parts of a sum may, as long as it counts modulo 2^n; not those of a quotient, or of what is widened.
bool Translator::parts_may_wrap(const Expr& e) const {
  if (exact_vars.contains(e.get())) return true;
  if (auto* n = e.as<Binary>(); n && is_sum(n->op)) return parts_may_wrap(n->a) || parts_may_wrap(n->b);
  if (auto* n = e.as<Binary>(); n && is_followed(n->op)) return may_wrap(n->a) || may_wrap(n->b);
  if (auto* n = e.as<Unary>(); n && n->op == UnaryOp::neg) return parts_may_wrap(n->a);
  if (auto* n = e.as<Cast>(); n && is_signed_int(n->a->dtype))
    return n->a->dtype.bits < e->dtype.bits ? may_wrap(n->a) : parts_may_wrap(n->a);
  if (auto* n = e.as<Select>()) return may_wrap(n->a) || may_wrap(n->b);
  return false;
}

// The type of the innermost part that may wrap.
DType Translator::wrapping_type(const Expr& e) const {
  auto of_either = [&](const Expr& a, const Expr& b) {
    return may_wrap(a) ? wrapping_type(a) : may_wrap(b) ? wrapping_type(b) : e->dtype;
  };
  if (auto* n = e.as<Binary>(); n && is_followed(n->op)) return of_either(n->a, n->b);
  if (auto* n = e.as<Unary>()) return of_either(n->a, n->a);
  if (auto* n = e.as<Cast>()) return of_either(n->a, n->a);
  if (auto* n = e.as<Select>()) return of_either(n->a, n->b);
  return e->dtype;
}

std::pair<Value, Value> Translator::value_and_exact(const Expr& e) {
  std::map<const ExprNode*, std::pair<Expr, Value>> once;
  auto* outer = std::exchange(computed, &once);
  Value v = value(e), exact = value(exact_of(e));
  computed = outer;
  return {v, exact};
}

Value Translator::index_value(const Expr& index, int32_t mask, int place) {
  if (!may_wrap(index)) return value(index);
  auto [at, exact] = value_and_exact(index);
  bool uniform = at.uniform && exact.uniform;
  Value both[] = {uniform ? at : spread(at), uniform ? exact : spread(exact)};
  emit({.run = check_index_exact, .a = both[0].slot, .b = mask, .c = both[1].slot, .row = place,
        .type = wrapping_type(index), .uniform_index = uniform});
  return at;
}

}  // namespace tl::sim
