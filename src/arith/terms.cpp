// Sums and products on their way through the simplifier: gathering them from the tree, multiplying, and
// putting back together what division took apart.
#include <algorithm>

#include "arith/simplifier.h"

namespace tl {
namespace {

void drop_term(Sum& s, size_t i) { s.terms.erase(s.terms.begin() + ptrdiff_t(i)); }

bool has_term(const Sum& s, const Expr& e, Wide factor, Analysis& known) {
  auto* t = find_term(s, e, known);
  return t && Wide(t->factor) == factor;
}

// All terms of `part` stand in s with factor times their own.
bool has_terms(const Sum& s, const Sum& part, Wide factor, Analysis& known) {
  if (!part.ok || part.terms.empty() || part.terms.size() > s.terms.size()) return false;
  return std::ranges::all_of(part.terms,
                             [&](const SumTerm& t) { return has_term(s, t.e, t.factor * factor, known); });
}

bool is_term(const Sum& s) {
  return s.ok && s.constant == 0 && s.terms.size() == 1 && s.terms[0].factor == 1;
}

// One way to shrink the sum around a term k*(b % r).
struct Modulo {
  Simplifier& s;
  Sum& sum;
  size_t at;
  Expr b;
  int64_t r;

  int64_t factor() const { return sum.terms[at].factor; }
  Wide stride() const { return Wide(factor()) * r; }

  // k*r*(b//r) + k*(b % r) -> k*b, also where a stands for b and they differ by a multiple of r;
  // k*r*((b//r) % r2) + k*(b % r) -> k*(b % (r*r2))
  bool join() {
    bool candidates = false;
    for (auto& t : sum.terms) candidates |= Wide(t.factor) == stride();
    if (!candidates) return false;
    Sum q = s.quotient(s.exact_sum(b), r);
    for (size_t j = 0; j < sum.terms.size(); j++) {
      if (j == at || Wide(sum.terms[j].factor) != stride()) continue;
      const Expr upper = sum.terms[j].e;
      if (is_term(q) && s.known.same(q.terms[0].e, upper)) return replace(j, b);
      if (auto d = by_constant(upper, BinaryOp::floordiv); d && d->c == r && congruent(d->a))
        return replace(j, d->a);
      auto m = by_constant(upper, BinaryOp::floormod);
      if (m && is_term(q) && s.known.same(q.terms[0].e, m->a) && Wide(m->c) * r <= type_range(sum.type).max)
        return replace(j, s.make(BinaryOp::floormod, b, s.constant(r * m->c, sum.type)));
    }
    return false;
  }
  bool congruent(const Expr& a) {
    Sum d = s.exact_sum(a);
    add_sum(d, s.exact_sum(b), -1, s.known);
    return d.ok && d.constant % r == 0 &&
           std::ranges::all_of(d.terms, [&](const SumTerm& t) { return t.factor % r == 0; });
  }
  bool replace(size_t j, const Expr& by) {
    int64_t k = factor();
    drop_term(sum, std::max(at, j));
    drop_term(sum, std::min(at, j));
    add_sum(sum, s.exact_sum(by), k, s.known);
    return true;
  }
  // k*b - k*(b % r) -> k*r*(b//r)
  bool subtract() {
    Sum whole = s.exact_sum(b);
    int64_t k = factor();
    if (!has_terms(sum, whole, -Wide(k), s.known)) return false;
    drop_term(sum, at);
    add_sum(sum, whole, k, s.known);
    Sum q = s.quotient(whole, r);
    add_sum(sum, scaled(q, r, s.known), -k, s.known);
    return true;
  }
};

// k*c*(a//c) where c divides a, or a stands in the sum with -k.
bool join_quotient(Simplifier& s, Sum& sum, size_t at, const Expr& a, int64_t c) {
  int64_t factor = sum.terms[at].factor;
  if (factor % c != 0) return false;
  int64_t k = factor / c;
  Sum whole = s.exact_sum(a);
  if (auto r = remainder_by(modular(whole, s.known), c)) {
    drop_term(sum, at);
    add_sum(sum, whole, k, s.known);
    add_constant(sum, *r, -k);
    return true;
  }
  if (!has_terms(sum, whole, -Wide(k), s.known)) return false;
  drop_term(sum, at);
  add_sum(sum, whole, k, s.known);
  add_sum(sum, s.remainder(whole, c), -k, s.known);
  return true;
}

// m*(a//m) + a % m -> a, for an m that is not constant.
bool join_symbolic(Simplifier& s, Sum& sum, size_t at) {
  auto* n = sum.terms[at].e.as<Binary>();
  if (!n || n->op != BinaryOp::floormod || n->b.as<IntImm>()) return false;
  Sum upper = s.product(s.plain(BinaryOp::floordiv, n->a, n->b), n->b);
  int64_t k = sum.terms[at].factor;
  if (!is_term(upper) || !has_term(sum, upper.terms[0].e, k, s.known)) return false;
  Expr a = n->a;
  drop_term(sum, at);
  add_sum(sum, upper, -k, s.known);
  add_sum(sum, s.exact_sum(a), k, s.known);
  return true;
}

bool has_digits(const Sum& s) {
  for (auto& t : s.terms)
    if (auto* n = t.e.as<Binary>(); n && (n->op == BinaryOp::floordiv || n->op == BinaryOp::floormod))
      return true;
  return false;
}

bool recombine_once(Simplifier& s, Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); i++) {
    auto* n = sum.terms[i].e.as<Binary>();
    if (!n) continue;
    if (auto m = by_constant(sum.terms[i].e, BinaryOp::floormod)) {
      Modulo modulo{s, sum, i, m->a, m->c};
      if (modulo.join() || modulo.subtract()) return true;
    } else if (auto d = by_constant(sum.terms[i].e, BinaryOp::floordiv)) {
      if (join_quotient(s, sum, i, d->a, d->c)) return true;
    } else if (sum.type == i64 && join_symbolic(s, sum, i)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void flatten_product(const Expr& e, std::vector<Expr>& factors) {
  auto* n = e.as<Binary>();
  if (!n || n->op != BinaryOp::mul || n->b.as<IntImm>()) return factors.push_back(e);
  flatten_product(n->a, factors);
  flatten_product(n->b, factors);
}

bool is_scalar_int(const Expr& e) { return e->dtype.is_int() && e->dtype.lanes == 1; }

std::optional<ByConstant> by_constant(const Expr& e, BinaryOp op) {
  auto* n = e.as<Binary>();
  auto* c = n && n->op == op ? n->b.as<IntImm>() : nullptr;
  if (!c || c->value <= 0) return std::nullopt;
  return ByConstant{n->a, c->value};
}

Sum Simplifier::exact_sum(const Expr& e) {
  Sum s = parse(e);
  if (!exact(s)) {
    s = term_sum(e, known);
    s.ok &= !e.as<IntImm>();  // a u64 beyond int64
  }
  s.integers = true, s.index = false;
  return s;
}

// Adds factor * e, looking through the linear operators; each other operand is simplified by itself.
void Simplifier::collect(Sum& s, const Expr& e, int64_t factor, bool root) {
  if (!s.ok) return;
  auto leaf = [&] {
    Expr r = walk(e);
    Info info = known.of(r);
    if (info.impure) s.ok = false;
    if (info.fails) failing.push_back(r);
    add_sum(s, parse(r), factor, known);
  };
  if (auto* n = e.as<IntImm>()) return add_constant(s, n->value, factor);
  if (!root && e->refs > 1) return leaf();  // shared: simplified once
  if (auto* n = e.as<Unary>(); n && n->op == UnaryOp::neg) return collect(s, n->a, -factor, false);
  auto* n = e.as<Binary>();
  if (n && (n->op == BinaryOp::add || n->op == BinaryOp::sub)) {
    collect(s, n->a, factor, false);
    return collect(s, n->b, n->op == BinaryOp::add ? factor : -factor, false);
  }
  if (!n || n->op != BinaryOp::mul) return leaf();
  for (auto [x, y] : {std::pair(&n->a, &n->b), std::pair(&n->b, &n->a)})
    if (auto* c = y->as<IntImm>()) {
      Sum part = empty_sum(s.type);
      collect(part, *x, 1, false);
      return add_sum(s, scaled(part, c->value, known), factor, known);
    }
  Expr a = walk(n->a), b = walk(n->b);
  if (known.of(a).impure || known.of(b).impure)
    s.ok = false;
  else
    add_sum(s, product(a, b), factor, known);
  for (auto& x : {a, b})
    if (known.of(x).fails) failing.push_back(x);
}

Sum Simplifier::product(const Expr& a, const Expr& b) {
  Sum x = parse(a), y = parse(b);
  if (!x.ok || !y.ok) return term_sum(plain(BinaryOp::mul, a, b), known);
  if (x.is_constant()) return scaled(y, x.constant, known);
  if (y.is_constant()) return scaled(x, y.constant, known);
  std::vector<Expr> factors;
  Sum outer = empty_sum(a->dtype);
  Wide coefficient = 1;
  for (Sum* side : {&x, &y}) {
    bool single = side->terms.size() == 1 && side->constant == 0;
    if (single) coefficient *= side->terms[0].factor;
    flatten_product(single ? side->terms[0].e : side == &x ? a : b, factors);
  }
  if (outer.integers && (coefficient > INT64_MAX || coefficient <= INT64_MIN))
    return term_sum(plain(BinaryOp::mul, a, b), known);
  sort_by_order(factors);
  Expr all = factors[0];
  for (size_t i = 1; i < factors.size(); i++) all = plain(BinaryOp::mul, all, factors[i]);
  add_term(outer, all, int64_t(uint64_t(coefficient)), known);
  return outer;
}

Expr Simplifier::finish(Sum s) {
  recombine(s);
  return emit(s, here);
}

void Simplifier::recombine(Sum& s) {
  if (!has_digits(s)) return;
  Sum before = s;
  for (int i = 0; i < 64 && s.ok && recombine_once(*this, s); i++) before = s;
  if (!s.ok) s = before;
}

}  // namespace tl
