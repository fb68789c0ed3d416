// Making, reading and printing sums.
#include "arith/affine.h"

#include <algorithm>

#include "ir/rewrite.h"

namespace tl {
namespace {

DType residue_type(DType t) { return {DType::Kind::signed_int, t.bits}; }

// A coefficient as the sum keeps it: residues lie around 0, and half of 2^n, which an unsigned type has, is
// positive.
int64_t kept(Sum& s, Wide value) {
  if (!s.integers) {
    int64_t r = wrap_int(int64_t(uint64_t(value)), residue_type(s.type));
    bool is_half = s.type.is_unsigned() && s.type.bits < 64 && r == -(int64_t(1) << (s.type.bits - 1));
    return is_half ? -r : r;
  }
  if (value <= INT64_MIN || value > INT64_MAX) s.ok = false;
  return s.ok ? int64_t(value) : 0;
}

int rank(const Expr& e) {
  switch (e->kind) {
    case Kind::Binary:
      return static_cast<const Binary&>(*e).op == BinaryOp::mul ? 0 : 1;
    case Kind::Var:
      return 3;
    case Kind::IntImm:
    case Kind::FloatImm:
      return 4;
    default:
      return 2;
  }
}

template <class T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int order(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return three_way(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++)
    if (int c = tl::order(a[i], b[i])) return c;
  return 0;
}

int order(std::initializer_list<std::pair<const Expr*, const Expr*>> pairs) {
  for (auto [a, b] : pairs)
    if (int c = tl::order(*a, *b)) return c;
  return 0;
}

int order_alike(const Expr& a, const Expr& b) {
  return dispatch(a, [&](const auto& x) -> int {
    using N = std::decay_t<decltype(x)>;
    const N& y = static_cast<const N&>(*b);
    if constexpr (std::is_same_v<N, IntImm> || std::is_same_v<N, FloatImm> || std::is_same_v<N, StringImm>)
      return three_way(x.value, y.value);
    else if constexpr (std::is_same_v<N, Var>)
      return three_way(x.hint, y.hint);
    else if constexpr (std::is_same_v<N, Binary>)
      return x.op != y.op ? three_way(x.op, y.op) : order({{&x.a, &y.a}, {&x.b, &y.b}});
    else if constexpr (std::is_same_v<N, Unary>)
      return x.op != y.op ? three_way(x.op, y.op) : tl::order(x.a, y.a);
    else if constexpr (std::is_same_v<N, Cast>)
      return tl::order(x.a, y.a);
    else if constexpr (std::is_same_v<N, Select>)
      return order({{&x.cond, &y.cond}, {&x.a, &y.a}, {&x.b, &y.b}});
    else if constexpr (std::is_same_v<N, Load>)
      return x.buffer != y.buffer ? three_way(x.buffer, y.buffer) : order(x.index, y.index);
    else if constexpr (std::is_same_v<N, Ramp>)
      return order({{&x.base, &y.base}, {&x.stride, &y.stride}});
    else if constexpr (std::is_same_v<N, Broadcast>)
      return tl::order(x.value, y.value);
    else
      return x.intrinsic != y.intrinsic ? three_way(x.intrinsic->name, y.intrinsic->name)
                                        : order(x.args, y.args);
  });
}

// Stable; the lists are short.
template <class T, class F>
void sort_few(std::vector<T>& list, F before) {
  for (auto it = list.begin(); it != list.end(); ++it)
    std::rotate(std::upper_bound(list.begin(), it, *it, before), it, it + 1);
}

// Positive factors first, the larger the earlier; ties by the order of trees, else as they came.
void sort_terms(std::vector<SumTerm>& terms) {
  sort_few(terms, [](const SumTerm& a, const SumTerm& b) {
    if ((a.factor > 0) != (b.factor > 0)) return a.factor > 0;
    if (a.factor != b.factor) return a.factor > 0 ? a.factor > b.factor : a.factor < b.factor;
    return tl::order(a.e, b.e) < 0;
  });
}

int64_t negated(int64_t x) { return int64_t(0 - uint64_t(x)); }

Expr times(const Expr& e, int64_t factor, Span span) {
  return factor == 1 ? e : binary(BinaryOp::mul, e, imm(factor, e->dtype, span), span);
}

}  // namespace

int order(const Expr& a, const Expr& b) {
  if (a.same(b)) return 0;
  if (int c = rank(a) - rank(b)) return c;
  if (a->kind != b->kind) return three_way(a->kind, b->kind);
  return order_alike(a, b);
}

void sort_by_order(std::vector<Expr>& list) {
  sort_few(list, [](const Expr& a, const Expr& b) { return order(a, b) < 0; });
}

Sum empty_sum(DType type) { return {.type = type, .integers = type == i64, .index = type == i64}; }
Sum integer_sum(DType type) { return {.type = type, .integers = true}; }

Sum term_sum(const Expr& e, Analysis& known) {
  Sum s = empty_sum(e->dtype);
  if (auto* n = e.as<IntImm>())
    add_constant(s, n->value);
  else
    add_term(s, e, 1, known);
  return s;
}

void add_constant(Sum& s, int64_t value, int64_t factor) {
  s.constant = kept(s, s.constant + Wide(value) * factor);
}

void add_term(Sum& s, const SumTerm& t, int64_t factor, Analysis& known) {
  if (t.data && s.index) s.integers = s.index = false;
  int64_t f = kept(s, Wide(t.factor) * factor);
  if (f == 0) return;
  for (auto it = s.terms.begin(); it != s.terms.end(); ++it) {
    if (it->hash != t.hash || !known.same(it->e, t.e)) continue;
    it->factor = kept(s, Wide(it->factor) + f);
    if (it->factor == 0) s.terms.erase(it);
    return;
  }
  if (s.terms.empty()) s.terms.reserve(4);
  s.terms.push_back(t);
  s.terms.back().factor = f;
}
void add_term(Sum& s, const Expr& e, int64_t factor, Analysis& known) {
  Info info = known.of(e);
  add_term(s, SumTerm{1, e, info.range, info.hash, info.data}, factor, known);
}
void add_sum(Sum& s, const Sum& other, int64_t factor, Analysis& known) {
  s.ok &= other.ok;
  if (s.index && !other.integers) s.integers = s.index = false;
  add_constant(s, other.constant, factor);
  for (auto& t : other.terms) add_term(s, t, factor, known);
}
Sum scaled(const Sum& s, int64_t factor, Analysis& known) {
  Sum r{.type = s.type, .integers = s.integers, .index = s.index};
  add_sum(r, s, factor, known);
  return r;
}

static void read_sum(Sum& s, const Expr& e, int64_t factor, Analysis& known) {
  if (auto* n = e.as<IntImm>()) return add_constant(s, n->value, factor);
  if (auto* n = e.as<Unary>(); n && n->op == UnaryOp::neg)
    return read_sum(s, n->a, kept(s, -Wide(factor)), known);
  if (auto* n = e.as<Binary>()) {
    if (n->op == BinaryOp::add || n->op == BinaryOp::sub) {
      read_sum(s, n->a, factor, known);
      return read_sum(s, n->b, n->op == BinaryOp::add ? factor : kept(s, -Wide(factor)), known);
    }
    if (n->op == BinaryOp::mul)  // 0*x stays as it is where x divides by what may be 0
      for (auto [x, by] : {std::pair(&n->a, &n->b), std::pair(&n->b, &n->a)})
        if (auto* c = by->as<IntImm>()) return read_sum(s, *x, kept(s, Wide(factor) * c->value), known);
  }
  add_term(s, e, factor, known);
}

Sum parse_sum(const Expr& e, Analysis& known) {
  Sum s = empty_sum(e->dtype);
  if (s.index && known.of(e).data) s.integers = s.index = false;
  read_sum(s, e, 1, known);
  return s;
}

const SumTerm* find_term(const Sum& s, const Expr& e, Analysis& known) {
  uint64_t hash = known.of(e).hash;
  for (auto& t : s.terms)
    if (t.hash == hash && known.same(t.e, e)) return &t;
  return nullptr;
}

bool wraps(const Sum& s) {
  return s.type != i64 || is_beyond_index(s.constant) ||
         std::ranges::any_of(s.terms, [](const SumTerm& t) { return t.data || is_beyond_index(t.factor); });
}

WideRange range(const Sum& s) {
  WideRange r{s.constant, s.constant};
  for (auto& t : s.terms) r = add(r, scale(t.range, t.factor));
  return r;
}

Modular modular(const Sum& s, Analysis& known) {
  Modular m = modular_point(s.constant);
  for (auto& t : s.terms) m = modular_sum(m, modular_scaled(known.of(t.e).modular, t.factor));
  return m;
}

bool exact(Sum& s) {
  if (!s.ok) return false;
  if (s.integers) return true;
  WideRange r = range(s);
  if (fits(r, s.type)) return true;
  if (s.type.bits == 64) return false;
  for (int64_t turn : {int64_t(1) << s.type.bits, -(int64_t(1) << s.type.bits)})
    if (fits(add(r, {turn, turn}), s.type)) {
      s.constant += turn;
      return true;
    }
  return false;
}

Expr emit(const Sum& given, Span span) {
  Sum s = given;
  internal_check(s.ok, "a sum that overflowed");
  DType t = s.type;
  if (s.integers && wraps(s)) {  // modulo 2^n from here on
    s.integers = s.index = false;
    s.constant = kept(s, s.constant);
    for (auto& term : s.terms) term.factor = kept(s, term.factor);
    std::erase_if(s.terms, [](const SumTerm& term) { return term.factor == 0; });
  }
  exact(s);
  int64_t c = t.is_unsigned() ? s.constant : wrap_int(s.constant, t);
  if (s.terms.empty()) return imm(c, t, span);
  sort_terms(s.terms);
  bool constant_first = s.terms[0].factor < 0 && c > 0;
  Expr out = constant_first ? imm(c, t, span) : Expr();
  for (auto& term : s.terms) {
    bool minus = term.factor < 0 && (out || term.factor == -1);
    Expr e = times(term.e, minus ? negated(term.factor) : term.factor, span);
    if (out)
      out = binary(minus ? BinaryOp::sub : BinaryOp::add, out, e, span);
    else
      out = minus ? unary(UnaryOp::neg, e, span) : e;
  }
  if (c == 0 || constant_first) return out;
  bool minus = c < 0 && wrap_int(negated(c), t) != c;
  return binary(minus ? BinaryOp::sub : BinaryOp::add, out, imm(minus ? negated(c) : c, t, span), span);
}

}  // namespace tl
