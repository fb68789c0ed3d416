// Comparisons of integers.  Each becomes `d <= 0`, `d == 0` or `d != 0` of a sum d, is decided by the range
// of d, by divisibility and by the known bounds, else reduced and printed with the positive terms on the left
// and the negative ones on the right.
#include <algorithm>

#include "arith/simplifier.h"

namespace tl {
namespace {

int64_t factors_gcd(const Sum& d) {
  int64_t g = 0;
  for (auto& t : d.terms) g = gcd(g, t.factor);
  return g;
}

// g * a + low <= 0 is a <= k where all of low gives the same k.  False: no such g.
bool drop_low_terms(Sum& d) {
  std::vector<int64_t> candidates;
  for (auto& t : d.terms)
    if (t.factor > 1 || t.factor < -1) candidates.push_back(t.factor < 0 ? -t.factor : t.factor);
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (int64_t g : candidates) {
    Sum high = integer_sum(d.type), low = high;
    low.constant = d.constant;
    for (auto& t : d.terms) {
      (t.factor % g == 0 ? high : low).terms.push_back(t);
      if (t.factor % g == 0) high.terms.back().factor /= g;
    }
    WideRange r = range(low);
    if (!r.bounded()) continue;
    Wide k = floor_div_wide(-r.max, g);
    if (k != floor_div_wide(-r.min, g) || k < -INT64_MAX || k > INT64_MAX) continue;
    high.constant = -int64_t(k);
    if (low.terms.empty() && g == 1) continue;
    d = std::move(high);
    return true;
  }
  return false;
}

// Reasoning is over the integers, where nothing overflows; what is printed must not, either.
enum class Purpose { reasoning, printing };

// x // c <= e is x <= c*e + c - 1, and x // c >= e is x >= c*e.  False: not of this form.
bool open_quotient(Simplifier& s, Sum& d, Purpose purpose) {
  const SumTerm* only = nullptr;
  for (auto& t : d.terms) {
    if (!by_constant(t.e, BinaryOp::floordiv)) continue;
    if (only || (t.factor != 1 && t.factor != -1)) return false;
    only = &t;
  }
  if (!only) return false;
  auto [x, c] = *by_constant(only->e, BinaryOp::floordiv);
  int64_t sign = only->factor;
  Sum rest = d;
  std::erase_if(rest.terms, [&](const SumTerm& t) { return t.e.same(only->e); });
  Sum opened = scaled(rest, c, s.known);
  add_sum(opened, s.exact_sum(x), sign, s.known);
  if (sign > 0) add_constant(opened, 1 - c);
  if (!opened.ok || (purpose == Purpose::printing && !fits(range(scaled(rest, c, s.known)), i64)))
    return false;
  d = std::move(opened);
  return true;
}

void reduce_bound(Simplifier& s, Sum& d, Purpose purpose) {
  for (int i = 0; i < 16 && !d.terms.empty(); i++) {
    int64_t g = factors_gcd(d);
    if (g > 1) {
      for (auto& t : d.terms) t.factor /= g;
      d.constant = -floor_div(-d.constant, g);
    }
    if (drop_low_terms(d)) continue;
    if (!open_quotient(s, d, purpose)) return;
    s.recombine(d);
  }
}

// How far d may rise above 0 without reaching the next number that it can be.
int64_t slack(const Sum& d, Analysis& known) {
  Modular m = modular(d, known);
  if (m.modulus == 0) return 0;
  return (m.remainder == 0 ? m.modulus : m.remainder) - 1;
}

// Terms that the printed sides hold must be values of the type.
bool prints_each_term(const Sum& s) {
  if (!s.ok) return false;
  if (!wraps(s)) return true;
  Interval limits = type_range(s.type);
  auto fine = [&](const SumTerm& t) {
    return t.factor <= limits.max && fits(scale(t.range, t.factor), s.type);
  };
  return fits(range(s), s.type) && std::ranges::all_of(s.terms, fine) && limits.contains(s.constant);
}

struct Sides {
  Sum left, right;
};
// d == left - right with no negative factor on either side; the constant is left out.
Sides sides_of(const Sum& d) {
  Sides sides{integer_sum(d.type), integer_sum(d.type)};
  for (auto t : d.terms) {
    bool left = t.factor > 0;
    if (!left) t.factor = -t.factor;
    (left ? sides.left : sides.right).terms.push_back(t);
  }
  return sides;
}

struct Printed {
  BinaryOp op;
  Sum left, right;
};
Printed print_bound(const Sum& d) {
  auto [left, right] = sides_of(d);
  int64_t c = d.constant;
  if (right.terms.empty()) {  // x + c <= 0
    add_constant(right, 1 - c);
    return {BinaryOp::lt, left, right};
  }
  if (left.terms.empty()) {  // c <= x
    add_constant(left, c);
    return {BinaryOp::ge, right, left};
  }
  if (c == 1) return {BinaryOp::lt, left, right};
  if (c > 0)
    add_constant(left, c);
  else
    add_constant(right, c, -1);
  return {BinaryOp::le, left, right};
}
Printed print_equality(BinaryOp op, Sum d, Analysis& known) {
  auto top = std::ranges::min_element(d.terms, [](const SumTerm& a, const SumTerm& b) {
    int64_t x = std::abs(a.factor), y = std::abs(b.factor);
    return x != y ? x > y : order(a.e, b.e) < 0;
  });
  if (top->factor < 0) d = scaled(d, -1, known);
  auto [left, right] = sides_of(d);
  if (d.constant > 0 && !right.terms.empty())
    add_constant(left, d.constant);
  else
    add_constant(right, d.constant, -1);
  return {op, left, right};
}

BinaryOp mirrored(BinaryOp op) {
  switch (op) {
    case BinaryOp::lt:
      return BinaryOp::gt;
    case BinaryOp::le:
      return BinaryOp::ge;
    case BinaryOp::gt:
      return BinaryOp::lt;
    case BinaryOp::ge:
      return BinaryOp::le;
    default:
      return op;
  }
}

bool is_equality(BinaryOp op) { return op == BinaryOp::eq || op == BinaryOp::ne; }

// Null: undecided.
Expr decide_equality(Simplifier& s, BinaryOp op, const Expr& a, const Expr& b, const Sum& d) {
  WideRange r = range(d);
  Modular m = modular(d, s.known);
  int64_t g = factors_gcd(d);
  bool apart =
      r.min > 0 || r.max < 0 || (m.modulus != 1 && m.remainder != 0) || (g > 1 && d.constant % g != 0);
  bool equal = d.is_constant() && d.constant == 0;
  if (!equal && !apart) {  // modulo 2^n, where the sides may wrap
    Sum wrapped = s.parse(a);
    add_sum(wrapped, s.parse(b), -1, s.known);
    equal = wrapped.ok && wrapped.is_constant() && wrapped.constant == 0;
    apart = wrapped.ok && wrapped.is_constant() && wrapped.constant != 0;
  }
  if (!equal && !apart && !s.bounds.empty()) {
    Sum above = scaled(d, -1, s.known), below = d;
    equal = s.at_most_zero(above) && s.at_most_zero(below);
    add_constant(above, 1), add_constant(below, 1);
    apart = !equal && (s.at_most_zero(above) || s.at_most_zero(below));
  }
  if (!equal && !apart) return {};
  return s.constant((op == BinaryOp::eq) == equal, boolean);
}

// Modulo 2^n a constant changes sides freely: x + 3 == 1 is x == -2.  Null: not of this form.
Expr one_against_constant(Simplifier& s, BinaryOp op, const Expr& a, const Expr& b) {
  Sum w = s.parse(a);
  add_sum(w, s.parse(b), -1, s.known);
  if (!w.ok || w.integers || w.terms.size() != 1 || (w.terms[0].factor != 1 && w.terms[0].factor != -1))
    return {};
  Sum value = empty_sum(a->dtype);
  value.integers = value.index = false;
  add_constant(value, w.constant, -w.terms[0].factor);
  return s.plain(op, w.terms[0].e, emit(value, s.here));
}

}  // namespace

std::optional<Sum> Simplifier::difference(const Expr& a, const Expr& b) {
  Sum d = exact_sum(a);
  add_sum(d, exact_sum(b), -1, known);
  if (!d.ok) return std::nullopt;
  return d;
}

// d <= 0 follows from k <= 0: a positive multiple of k leaves something that is known not to be positive.
static bool follows(Simplifier& s, const Sum& d, const Sum& k, int depth) {
  if (d.type != k.type) return false;
  for (auto& t : k.terms) {
    const SumTerm* shared = nullptr;
    for (auto& u : d.terms)
      if (u.hash == t.hash && (u.factor > 0) == (t.factor > 0) && s.known.same(u.e, t.e)) shared = &u;
    if (!shared || s.proof_steps <= 0) continue;
    s.proof_steps--;
    int64_t g = gcd(shared->factor, t.factor);
    Sum left = scaled(d, std::abs(t.factor / g), s.known);
    add_sum(left, k, -std::abs(shared->factor / g), s.known);
    if (!left.ok) continue;
    s.recombine(left);
    if (s.at_most_zero(left, depth - 1)) return true;
  }
  return false;
}

bool Simplifier::at_most_zero(const Sum& given, int depth) {
  if (!given.ok) return false;
  Sum d = given;
  if (range(d).max <= 0) return true;
  if (d.is_constant()) return false;
  add_constant(d, slack(d, known), -1);
  if (range(d).max <= 0) return true;
  if (depth == 0) return false;
  for (auto& k : bounds)
    if (follows(*this, d, k, depth)) return true;
  for (size_t i = 0; i < d.terms.size(); i++) {  // c * min(x, y) is not above c*x, nor above c*y
    auto* n = d.terms[i].e.as<Binary>();
    if (!n || (n->op != BinaryOp::min && n->op != BinaryOp::max)) continue;
    auto with = [&](const Expr& x) {
      Sum other = d;
      other.terms.erase(other.terms.begin() + ptrdiff_t(i));
      add_sum(other, exact_sum(x), d.terms[i].factor, known);
      return at_most_zero(other, depth - 1);
    };
    bool one_suffices = (n->op == BinaryOp::min) == (d.terms[i].factor > 0);
    return one_suffices ? with(n->a) || with(n->b) : with(n->a) && with(n->b);
  }
  return false;
}

std::optional<std::pair<BinaryOp, Sum>> Simplifier::as_constraint(const Expr& e) {
  auto* n = e.as<Binary>();
  if (!n || !is_comparison(n->op) || !is_scalar_int(n->a)) return std::nullopt;
  bool swap = n->op == BinaryOp::gt || n->op == BinaryOp::ge;
  auto d = swap ? difference(n->b, n->a) : difference(n->a, n->b);
  if (!d) return std::nullopt;
  if (is_equality(n->op)) return std::pair(n->op, *d);
  if (n->op == BinaryOp::lt || n->op == BinaryOp::gt) add_constant(*d, 1);
  if (d->ok) reduce_bound(*this, *d, Purpose::reasoning);
  return std::pair(BinaryOp::le, *d);
}

bool Simplifier::implies(const Expr& a, const Expr& b) {
  if (known.same(a, b)) return true;
  proof_steps = 200;
  auto p = as_constraint(a), q = as_constraint(b);
  if (!p || !q || p->first == BinaryOp::ne) return false;
  auto bounded = [&](Sum d, int64_t offset, int64_t sign) {
    d = scaled(d, sign, known);
    add_constant(d, offset);
    if (follows(*this, d, p->second, 1)) return true;
    return p->first == BinaryOp::eq && follows(*this, d, scaled(p->second, -1, known), 1);
  };
  if (q->first == BinaryOp::le) return bounded(q->second, 0, 1);
  if (q->first == BinaryOp::ne) return bounded(q->second, 1, 1) || bounded(q->second, 1, -1);
  return bounded(q->second, 0, 1) && bounded(q->second, 0, -1);
}

Expr Simplifier::compare(BinaryOp op, const Expr& x, const Expr& y) {
  bool swap = op == BinaryOp::gt || op == BinaryOp::ge;
  if (swap) op = mirrored(op);
  const Expr &a = swap ? y : x, &b = swap ? x : y;
  proof_steps = 200;
  auto as_given = [&] { return is_const(a) ? plain(mirrored(op), b, a) : plain(op, a, b); };
  auto d = difference(a, b);
  if (!d) return as_given();
  recombine(*d);
  if (is_equality(op)) {
    if (Expr decided = decide_equality(*this, op, a, b, *d)) return decided;
    if (Expr e = one_against_constant(*this, op, a, b)) return e;
    int64_t g = factors_gcd(*d);
    for (auto& t : d->terms) t.factor /= g;
    d->constant /= g;
    Printed p = print_equality(op, *d, known);
    if (!prints_each_term(p.left) || !prints_each_term(p.right)) return as_given();
    return plain(op, emit(p.left, here), emit(p.right, here));
  }
  if (op == BinaryOp::lt) add_constant(*d, 1);
  if (!d->ok) return as_given();
  auto decided = [&](const Sum& sum) -> Expr {
    if (at_most_zero(sum)) return constant(1, boolean);
    Sum above = scaled(sum, -1, known);
    add_constant(above, 1);
    return at_most_zero(above) ? constant(0, boolean) : Expr();
  };
  if (Expr e = decided(*d)) return e;
  Sum full = *d;
  reduce_bound(*this, full, Purpose::reasoning);
  if (Expr e = decided(full)) return e;
  reduce_bound(*this, *d, Purpose::printing);
  Printed p = print_bound(*d);
  if (!prints_each_term(p.left) || !prints_each_term(p.right)) return as_given();
  return plain(p.op, emit(p.left, here), emit(p.right, here));
}

}  // namespace tl
