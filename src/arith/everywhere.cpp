#include "arith/everywhere.h"

#include "arith/simplifier.h"

namespace tl {

Expr everywhere(const Expr& bound, const Facts& facts, const std::function<bool(const Expr&)>& same_for_all) {
  Simplifier s(facts);
  auto constraint = s.as_constraint(bound);
  if (!constraint || constraint->first != BinaryOp::le) return {};
  const Sum& d = constraint->second;  // d <= 0
  Sum top = integer_sum(d.type);
  WideRange inside{d.constant, d.constant};
  for (const SumTerm& t : d.terms)
    if (same_for_all(t.e))
      add_term(top, t, 1, s.known);
    else
      inside = add(inside, scale(t.range, t.factor));
  if (top.is_constant() || inside.max > INT32_MAX || inside.max < INT32_MIN) return {};
  add_constant(top, int64_t(inside.max));
  if (!top.ok || (wraps(top) && !fits(range(top), top.type))) return {};
  Expr need = s.run(le(emit(top, bound->span), zero(top.type)));
  return is_const(need) ? Expr() : need;
}

}  // namespace tl
