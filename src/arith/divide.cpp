// Floor division and modulo of sums by a constant: the part that the constant divides leaves, the rest is
// bounded, reduced by common factors, or kept as a digit (x // d) % r.
#include <algorithm>
#include <bit>

#include "arith/simplifier.h"

namespace tl {
namespace {

bool is_power_of_two(int64_t c) { return c > 0 && (c & (c - 1)) == 0; }

// f == c * whole + rest, with the constant of rest in [0, c).
struct Parts {
  Sum whole, rest;
};
enum class Split { multiples, residues };  // take whole terms only, or also c*(factor // c) of the others

Parts split(const Sum& f, int64_t c, Split how, Analysis& known) {
  Parts p{integer_sum(f.type), integer_sum(f.type)};
  add_constant(p.whole, floor_div(f.constant, c));
  add_constant(p.rest, floor_mod(f.constant, c));
  for (auto& t : f.terms) {
    int64_t q = floor_div(t.factor, c), r = floor_mod(t.factor, c);
    if (r != 0 && how == Split::multiples) q = 0, r = t.factor;
    if (q != 0) add_term(p.whole, SumTerm{1, t.e, t.range, t.hash, t.data}, q, known);
    if (r != 0) add_term(p.rest, SumTerm{1, t.e, t.range, t.hash, t.data}, r, known);
  }
  return p;
}

// k where all of the sum lies in [k*c, (k+1)*c).
std::optional<int64_t> block_of(const Sum& s, int64_t c) {
  WideRange r = range(s);
  if (!r.bounded()) return std::nullopt;
  Wide k = floor_div_wide(r.min, c);
  if (k != floor_div_wide(r.max, c) || k <= INT64_MIN || k >= INT64_MAX) return std::nullopt;
  return int64_t(k);
}

// The sum can be printed in its type and still be the integer that it stands for.
bool printable(const Sum& s) { return s.ok && (!wraps(s) || fits(range(s), s.type)); }

// f == c * whole + block * c + low with low in [0, c), where the ranges show it.
struct Resolved {
  Sum whole, low;
};
std::optional<Resolved> resolve(const Sum& f, int64_t c, Analysis& known) {
  for (Split how : {Split::multiples, Split::residues}) {
    Parts p = split(f, c, how, known);
    if (!p.whole.ok || !p.rest.ok) continue;
    auto k = block_of(p.rest, c);
    if (!k || Wide(*k) * c > INT64_MAX || Wide(*k) * c < -INT64_MAX) continue;
    add_constant(p.whole, *k);
    add_constant(p.rest, *k * c, -1);
    if (p.whole.ok && p.rest.ok) return Resolved{p.whole, p.rest};
  }
  return std::nullopt;
}

// A proper divisor g of c such that f == g*whole + low with low in [0, g); the largest.
struct Common {
  int64_t g;
  Resolved parts;
};
std::optional<Common> common_factor(const Sum& f, int64_t c, Analysis& known) {
  std::vector<int64_t> candidates;
  for (auto& t : f.terms) {
    int64_t g = gcd(t.factor, c);
    if (g > 1 && g < c && std::ranges::find(candidates, g) == candidates.end()) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (int64_t g : candidates) {
    Parts p = split(f, g, Split::multiples, known);
    auto k = block_of(p.rest, g);
    if (!k || !p.whole.ok || !p.rest.ok) continue;
    add_constant(p.whole, *k);
    add_constant(p.rest, *k * g, -1);
    if (printable(p.whole)) return Common{g, {p.whole, p.rest}};
  }
  return std::nullopt;
}

// The only operand of the sum, or null.
const Expr* single(const Sum& s) {
  return s.terms.size() == 1 && s.terms[0].factor == 1 ? &s.terms[0].e : nullptr;
}

Sum opaque(Simplifier& s, BinaryOp op, const Sum& f, int64_t c) {
  return term_sum(s.plain(op, emit(f, s.here), s.constant(c, f.type)), s.known);
}

// (x ^ y) // 2^k and % 2^k act on each operand; done where one of them gets simpler by it.
std::optional<Sum> through_xor(Simplifier& s, BinaryOp op, const Expr& e, int64_t c) {
  auto* n = e.as<Binary>();
  if (!n || n->op != BinaryOp::bit_xor || !is_power_of_two(c)) return std::nullopt;
  Sum x = s.exact_sum(n->a), y = s.exact_sum(n->b);
  if (!x.ok || !y.ok) return std::nullopt;
  auto part = [&](const Sum& f) {
    return s.finish(op == BinaryOp::floordiv ? s.quotient(f, c) : s.remainder(f, c));
  };
  Expr a = part(x), b = part(y);
  auto kept = [&](const Expr& r, const Expr& x) {
    auto whole = by_constant(r, op);
    return whole && whole->c == c && s.known.same(whole->a, x);
  };
  if (kept(a, n->a) && kept(b, n->b)) return std::nullopt;
  return s.exact_sum(s.make(BinaryOp::bit_xor, a, b));
}

// (x // a + k) // c -> (x + a*k) // (a*c)
std::optional<Sum> nested_quotient(Simplifier& s, const Expr& e, int64_t k, int64_t c) {
  auto d = by_constant(e, BinaryOp::floordiv);
  if (!d || Wide(d->c) * c > type_range(e->dtype).max || Wide(d->c) * k > INT64_MAX) return std::nullopt;
  Sum f = s.exact_sum(d->a);
  add_constant(f, d->c, k);
  if (!printable(f)) return std::nullopt;
  return s.quotient(f, d->c * c);
}

// Terms whose remainder modulo c is known give way to it; (x % a) with c | a to x.  False: nothing of the
// kind.
bool drop_inner_modulo(Simplifier& s, Sum& f, int64_t c) {
  for (size_t i = 0; i < f.terms.size(); i++) {
    SumTerm t = f.terms[i];
    Modular m = modular_scaled(s.known.of(t.e).modular, t.factor);
    auto r = remainder_by(m, c);
    auto inner = by_constant(t.e, BinaryOp::floormod);
    bool divides = inner && Wide(inner->c) * t.factor % c == 0;
    if (!r && !divides) continue;
    Sum g = f;
    g.terms.erase(g.terms.begin() + ptrdiff_t(i));
    if (r)
      add_constant(g, *r);
    else
      add_sum(g, s.exact_sum(inner->a), t.factor, s.known);
    if (!printable(g)) continue;
    f = std::move(g);
    return true;
  }
  return false;
}

// Terms whose remainder modulo c is known: their quotient leaves, if what stays is then known to vanish.
std::optional<Sum> known_quotients(Simplifier& s, const Sum& f, int64_t c) {
  bool alone = f.terms.size() == 1 && f.terms[0].factor == 1 && f.constant == 0;
  if (alone) return std::nullopt;
  Sum whole = integer_sum(f.type), rest = whole;
  add_constant(rest, f.constant);
  std::vector<std::pair<SumTerm, int64_t>> out;
  for (auto& t : f.terms) {
    int64_t g = gcd(t.factor, c), divisor = c / g;
    auto r = remainder_by(s.known.of(t.e).modular, divisor);
    if (!r) {
      add_term(rest, t, 1, s.known);
      continue;
    }
    add_constant(rest, *r, t.factor);
    out.push_back({t, divisor});
  }
  if (out.empty() || !rest.ok) return std::nullopt;
  auto k = block_of(rest, c);
  if (!k) return std::nullopt;
  add_constant(whole, *k);
  for (auto& [t, divisor] : out) {
    // factor * (t - r) / c, and (t - r) / divisor is t // divisor
    Sum q = t.factor % c == 0 ? s.exact_sum(t.e) : s.quotient(s.exact_sum(t.e), divisor);
    add_sum(whole, q, t.factor / (c / divisor), s.known);
  }
  return whole;
}

}  // namespace

Sum Simplifier::quotient(Sum f, int64_t c) {
  if (c == 1 || f.is_constant()) {
    f.constant = floor_div(f.constant, c);
    return f;
  }
  if (auto r = resolve(f, c, known)) return r->whole;
  if (auto known_part = known_quotients(*this, f, c)) return *known_part;
  Parts p = split(f, c, Split::multiples, known);
  if (!p.whole.ok || !printable(p.rest)) p = {integer_sum(f.type), f};
  auto with = [&](const Sum& rest) {
    Sum all = p.whole;
    add_sum(all, rest, 1, known);
    return all.ok ? all : opaque(*this, BinaryOp::floordiv, f, c);
  };
  if (auto common = common_factor(p.rest, c, known))
    return with(quotient(common->parts.whole, c / common->g));
  if (const Expr* e = single(p.rest)) {
    if (auto q = nested_quotient(*this, *e, p.rest.constant, c)) return with(*q);
    if (p.rest.constant == 0) {
      auto m = by_constant(*e, BinaryOp::floormod);
      if (m && m->c % c == 0) return with(remainder(quotient(exact_sum(m->a), c), m->c / c));
      if (auto x = through_xor(*this, BinaryOp::floordiv, *e, c)) return with(*x);
    }
  }
  return with(opaque(*this, BinaryOp::floordiv, p.rest, c));
}

Sum Simplifier::remainder(Sum f, int64_t c) {
  if (c == 1 || f.is_constant()) {
    f.constant = floor_mod(f.constant, c);
    f.terms.clear();
    return f;
  }
  if (auto r = resolve(f, c, known)) return r->low;
  Parts p = split(f, c, Split::multiples, known);
  if (!printable(p.rest)) p.rest = f;
  if (auto common = common_factor(p.rest, c, known)) {
    Sum all = scaled(remainder(common->parts.whole, c / common->g), common->g, known);
    add_sum(all, common->parts.low, 1, known);
    if (all.ok) return all;
  }
  if (drop_inner_modulo(*this, p.rest, c)) return remainder(p.rest, c);
  const Expr* e = p.rest.constant == 0 ? single(p.rest) : nullptr;
  if (e)
    if (auto x = through_xor(*this, BinaryOp::floormod, *e, c)) return *x;
  Sum reduced = integer_sum(f.type);
  add_constant(reduced, p.rest.constant);
  for (auto& t : p.rest.terms)
    add_term(reduced, SumTerm{1, t.e, t.range, t.hash, t.data}, t.factor % c, known);
  return opaque(*this, BinaryOp::floormod, printable(reduced) ? reduced : p.rest, c);
}

// f == b * whole + rest: the products in f that have b as a factor leave.
static Parts split_symbolic(Simplifier& s, const Sum& f, const Expr& b) {
  Parts p{empty_sum(f.type), empty_sum(f.type)};
  add_constant(p.rest, f.constant);
  for (auto& t : f.terms) {
    std::vector<Expr> factors;
    flatten_product(t.e, factors);
    auto at = std::ranges::find_if(factors, [&](const Expr& x) { return s.known.same(x, b); });
    if (at == factors.end()) {
      add_term(p.rest, t, 1, s.known);
      continue;
    }
    factors.erase(at);
    Expr others = s.constant(1, f.type);
    for (auto& x : factors) others = emit(s.product(others, x), s.here);
    add_sum(p.whole, s.parse(others), t.factor, s.known);
  }
  return p;
}

// a // b and a % b where b is not constant.
static Expr divide_symbolic(Simplifier& s, BinaryOp op, const Expr& a, const Expr& b) {
  bool quotient = op == BinaryOp::floordiv;
  if (s.known.same(a, b)) return s.constant(quotient, a->dtype);
  if (a->dtype != i64 || s.known.of(a).data || s.known.of(b).data) return s.plain(op, a, b);
  Sum f = s.parse(a), divisor = s.parse(b);
  if (!f.ok || !divisor.ok) return s.plain(op, a, b);
  Parts p = split_symbolic(s, f, b);
  if (!p.whole.ok || !p.rest.ok) return s.plain(op, a, b);
  Sum beyond = p.rest;  // < 1 where the rest is below b
  add_sum(beyond, divisor, -1, s.known);
  add_constant(beyond, 1);
  Expr rest = emit(p.rest, s.here);
  s.proof_steps = 200;
  bool resolved = is_int(rest, 0) || (range(p.rest).min >= 0 && s.at_most_zero(beyond));
  if (!quotient) return resolved ? rest : s.plain(op, rest, b);
  if (!resolved) add_term(p.whole, s.plain(op, rest, b), 1, s.known);
  return s.finish(p.whole);
}

bool Simplifier::never_zero(const Expr& divisor) {
  if (!may_be_zero(known.of(divisor))) return true;
  if (!is_scalar_int(divisor) || divisor.as<IntImm>()) return false;
  Sum below = scaled(exact_sum(divisor), -1, known), above = exact_sum(divisor);
  add_constant(below, 1), add_constant(above, 1);
  proof_steps = 200;
  return at_most_zero(below) || at_most_zero(above);
}

// The divisors in e that may be 0; `always`: of those divisions that no condition guards.
struct ZeroDivisors {
  std::vector<Expr> all = {}, always = {};
  int64_t left = 512;  // operations to look at: it is asked again at each operation around them
  void add(Simplifier& s, const Expr& e, bool guarded = false) {
    if (left <= 0 || !s.known.of(e).fails) return;
    left--;
    auto* n = e.as<Binary>();
    if (n && is_division(n->op) && !s.never_zero(n->b)) {
      all.push_back(n->b);
      if (!guarded) always.push_back(n->b);
    }
    auto* choice = e.as<Select>();
    visit_below(e, [&](const Expr& x) {
      bool is_first = choice ? x.same(choice->cond) : !(n && is_logical(n->op)) || x.same(n->a);
      add(s, x, guarded || !is_first);
    });
  }
};

bool Simplifier::keeps_divisions(const std::vector<Expr>& operands, const Expr& result) {
  ZeroDivisors before, after;
  for (auto& e : operands) before.add(*this, e);
  if (before.left == 0) return false;  // not known
  if (before.all.empty()) return true;
  after.add(*this, result);
  if (after.left == 0) return false;
  auto within = [&](const std::vector<Expr>& these, const std::vector<Expr>& those) {
    return std::ranges::all_of(these, [&](const Expr& b) {
      return std::ranges::any_of(those, [&](const Expr& a) { return known.same(a, b); });
    });
  };
  return within(before.all, after.all) && within(before.always, after.always);
}

Expr Simplifier::divide(BinaryOp op, const Expr& a, const Expr& b) {
  auto* n = b.as<IntImm>();
  if (!n) return is_int(a, 0) ? a : divide_symbolic(*this, op, a, b);
  int64_t c = n->value;
  if (c == 0 || (c < 0 && c < -type_range(a->dtype).max) || (c < 0 && a->dtype.is_unsigned()))
    return plain(op, a, b);
  Sum f = exact_sum(a);
  if (!f.ok) return plain(op, a, b);
  if (c < 0) {  // x // -c is -x // c, and x % -c is -(-x % c)
    f = scaled(f, -1, known);
    if (!printable(f)) return plain(op, a, b);
  }
  Sum r = op == BinaryOp::floordiv ? quotient(f, c < 0 ? -c : c) : remainder(f, c < 0 ? -c : c);
  if (c < 0 && op == BinaryOp::floormod) r = scaled(r, -1, known);
  return finish(r);
}

}  // namespace tl
