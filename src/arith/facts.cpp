// Learning from conditions: a bound on one variable becomes its range, a bound on several is kept as a sum
// and also bounds each of them by the ranges of the others.
#include "arith/facts.h"

#include "arith/simplifier.h"

namespace tl {
namespace {

// d <= 0 bounds the variable of term i by the ranges of the others.
void bound_term(Simplifier& s, const Sum& d, size_t i) {
  const SumTerm& t = d.terms[i];
  if (!t.e.as<Var>()) return;
  WideRange others{d.constant, d.constant};
  for (size_t j = 0; j < d.terms.size(); j++)
    if (j != i) others = add(others, scale(d.terms[j].range, d.terms[j].factor));
  if (others.min <= -wide_infinity) return;
  Interval r;  // factor * var <= -others.min
  if (t.factor > 0)
    r.max = narrow({0, floor_div_wide(-others.min, t.factor)}).max;
  else
    r.min = narrow({-floor_div_wide(-others.min, -t.factor), 0}).min;
  s.learn_range(t.e, r);
}

// x % c == r
bool learn_remainder(Simplifier& s, const Sum& d) {
  if (d.terms.size() != 1 || (d.terms[0].factor != 1 && d.terms[0].factor != -1)) return false;
  auto m = by_constant(d.terms[0].e, BinaryOp::floormod);
  if (!m || !m->a.as<Var>()) return false;
  int64_t r = d.terms[0].factor > 0 ? -d.constant : d.constant;
  Modular now = s.known.of(m->a).modular;
  Facts more = s.facts;
  more.bind(m->a, combine(normalised(now), normalised({m->c, r})));
  s.set_facts(std::move(more));  // bounds may get tighter
  return true;
}

// x != the end of its range
void learn_unequal(Simplifier& s, const Sum& d) {
  if (d.terms.size() != 1 || (d.terms[0].factor != 1 && d.terms[0].factor != -1)) return;
  int64_t v = d.terms[0].factor > 0 ? -d.constant : d.constant;
  Interval r = s.known.range(d.terms[0].e);
  if (r.min == v && r.min < r.max) s.learn_range(d.terms[0].e, {v + 1, r.max});
  if (r.max == v && r.min < r.max) s.learn_range(d.terms[0].e, {r.min, v - 1});
}

// d <= 0, so d is not above the next number that it can be, from 0 down.
void tighten_bound(Simplifier& s, Sum& d) {
  Modular m = modular(d, s.known);
  if (m.modulus > 1 && m.remainder != 0) add_constant(d, m.modulus - m.remainder);
}

}  // namespace

void Simplifier::set_facts(Facts f) {
  facts = std::move(f);
  known.forget();
  bounds.clear();
  for (auto& e : facts.at_most_zero) {
    Sum d = exact_sum(e);
    tighten_bound(*this, d);
    if (d.ok) bounds.push_back(std::move(d));
  }
}

void Simplifier::learn_range(const Expr& var, Interval range) {
  if (!var.as<Var>()) return;
  Interval now = known.range(var), both = intersect(now, range);
  if (both == now || both.min > both.max) return;  // nothing new, or never reached
  facts.bind(var, both);
  known.forget();
}

void Simplifier::learn_sum(const Sum& given) {
  Sum d = given;
  for (size_t i = 0; i < d.terms.size(); i++) {  // a + c*min(x, y) <= 0 with c < 0 holds for x and for y
    auto* n = d.terms[i].e.as<Binary>();
    if (!n || n->op != (d.terms[i].factor < 0 ? BinaryOp::min : BinaryOp::max)) continue;
    for (const Expr& x : {n->a, n->b}) {
      Sum part = d;
      part.terms.erase(part.terms.begin() + ptrdiff_t(i));
      add_sum(part, exact_sum(x), d.terms[i].factor, known);
      if (part.ok) learn_sum(part);
    }
    return;
  }
  tighten_bound(*this, d);
  if (!d.ok || d.is_constant()) return;
  for (size_t i = 0; i < d.terms.size(); i++) bound_term(*this, d, i);
  if (d.terms.size() == 1 && d.terms[0].e.as<Var>()) return;
  if (!wraps(d) || fits(range(d), d.type)) facts.at_most_zero.push_back(emit(d));
  bounds.push_back(std::move(d));
}

void Simplifier::learn(const Expr& condition) {
  if (auto* n = condition.as<Binary>(); n && n->op == BinaryOp::logical_and) {
    learn(n->a);
    return learn(n->b);
  }
  if (known.of(condition).loads) return;
  if (condition.as<Var>()) return learn_range(condition, {1, 1});
  if (auto* n = condition.as<Unary>(); n && n->op == UnaryOp::logical_not) {
    if (n->a.as<Var>()) return learn_range(n->a, {0, 0});
    auto* inner = n->a.as<Binary>();
    if (!inner || inner->op != BinaryOp::logical_or) return;
    learn(make_unary(UnaryOp::logical_not, inner->a));
    return learn(make_unary(UnaryOp::logical_not, inner->b));
  }
  auto c = as_constraint(condition);
  if (!c) return;
  auto& [op, d] = *c;
  if (op == BinaryOp::le) return learn_sum(d);
  if (op == BinaryOp::ne) return learn_unequal(*this, d);
  learn_remainder(*this, d);
  learn_sum(d);
  learn_sum(scaled(d, -1, known));
}

void Facts::assume(const Expr& condition) {
  if (!condition) return;
  Simplifier s(*this);
  s.learn(s.run(condition));
  *this = s.facts;
}

}  // namespace tl
