// The rules that are rows: an expression with wildcards, and what it becomes.  Rows are found by the operator
// at their root and tried in order.  Sums, quotients, comparisons and extremes of scalar integers never come
// here (they are exact, see affine.h); their rows below serve vectors.
//
// Wildcards stand for any operand of their kind: x y integers, a b floats, p q bools, u v w of any type;
// c… and k… are constants, integer and float.  A wildcard used twice must match equal operands.
#include <array>
#include <cmath>

#include "arith/simplifier.h"

namespace tl {
namespace {

enum : size_t { X, Y, C0, C1, A, B, K0, K1, P, Q, U, V, W, wildcard_count };
using Match = std::array<Expr, wildcard_count>;

const Match& wildcards() {
  static const Match list = {var("x"),           var("y"),          var("c0"),           var("c1"),
                             var("a", f32),      var("b", f32),     var("k0", f32),      var("k1", f32),
                             var("p", boolean),  var("q", boolean), var("u", none_type), var("v", none_type),
                             var("w", none_type)};
  return list;
}

bool is_constant_wildcard(size_t i) { return i == C0 || i == C1 || i == K0 || i == K1; }

struct Rule {
  Expr pattern, result;
  bool (*when)(Simplifier& s, const Match& m) = nullptr;
  const Expr* first = nullptr;  // operand of the pattern
};

// ── the notation ──────────────────────────────────────────────────────────────────────────────────────
struct T {
  Expr e;
};
T raw(BinaryOp op, const T& a, const T& b) {
  auto* n = new Binary();
  n->op = op;
  n->a = a.e;
  n->b = b.e;
  n->dtype = is_comparison(op) || is_logical(op) ? boolean : a.e->dtype;
  return {own(n)};
}
T raw(UnaryOp op, const T& a) {
  auto* n = new Unary();
  n->op = op;
  n->a = a.e;
  n->dtype = a.e->dtype;
  return {own(n)};
}
T number(int64_t v, const T& like) { return {imm(v, like.e->dtype)}; }
T operator+(T a, T b) { return raw(BinaryOp::add, a, b); }
T operator-(T a, T b) { return raw(BinaryOp::sub, a, b); }
T operator*(T a, T b) { return raw(BinaryOp::mul, a, b); }
T operator/(T a, T b) { return raw(BinaryOp::div, a, b); }
T operator%(T a, T b) { return raw(BinaryOp::floormod, a, b); }
T operator&(T a, T b) { return raw(BinaryOp::bit_and, a, b); }
T operator|(T a, T b) { return raw(BinaryOp::bit_or, a, b); }
T operator^(T a, T b) { return raw(BinaryOp::bit_xor, a, b); }
T operator<<(T a, T b) { return raw(BinaryOp::shl, a, b); }
T operator>>(T a, T b) { return raw(BinaryOp::shr, a, b); }
T operator==(T a, T b) { return raw(BinaryOp::eq, a, b); }
T operator!=(T a, T b) { return raw(BinaryOp::ne, a, b); }
T operator<(T a, T b) { return raw(BinaryOp::lt, a, b); }
T operator<=(T a, T b) { return raw(BinaryOp::le, a, b); }
T operator>(T a, T b) { return raw(BinaryOp::gt, a, b); }
T operator>=(T a, T b) { return raw(BinaryOp::ge, a, b); }
T operator-(T a) { return raw(UnaryOp::neg, a); }
T operator~(T a) { return raw(UnaryOp::bit_not, a); }
T operator!(T a) { return raw(UnaryOp::logical_not, a); }
T fdiv(T a, T b) { return raw(BinaryOp::floordiv, a, b); }
T tdiv(T a, T b) { return raw(BinaryOp::truncdiv, a, b); }
T tmod(T a, T b) { return raw(BinaryOp::truncmod, a, b); }
T lo(T a, T b) { return raw(BinaryOp::min, a, b); }
T hi(T a, T b) { return raw(BinaryOp::max, a, b); }
T all(T a, T b) { return raw(BinaryOp::logical_and, a, b); }
T any(T a, T b) { return raw(BinaryOp::logical_or, a, b); }
T pick(T c, T a, T b) {
  auto* n = new Select();
  n->cond = c.e;
  n->a = a.e;
  n->b = b.e;
  n->dtype = a.e->dtype;
  return {own(n)};
}

// ── side conditions ───────────────────────────────────────────────────────────────────────────────────
int64_t value(const Match& m, size_t i) { return as_int(m[i]).value_or(0); }
int bits(const Match& m) { return m[X]->dtype.bits; }

bool positive(Simplifier&, const Match& m) { return value(m, C0) > 0; }
bool both_positive(Simplifier&, const Match& m) {
  int64_t product;
  return value(m, C0) > 0 && value(m, C1) > 0 &&
         !__builtin_mul_overflow(value(m, C0), value(m, C1), &product) &&
         product <= type_range(m[X]->dtype).max;
}
bool no_sign(Simplifier& s, const Match& m) {
  return s.known.range(m[X]).min >= 0 && s.known.range(m[Y]).min > 0;
}
bool in_range(Simplifier& s, const Match& m) {
  Interval x = s.known.range(m[X]);
  return x.min >= 0 && x.max < value(m, C0);
}
bool shifts(Simplifier&, const Match& m) { return value(m, C0) >= 0 && value(m, C0) < bits(m) - 1; }
bool low_mask(Simplifier&, const Match& m) {
  int64_t c = value(m, C0);
  return c > 0 && c < type_range(m[X]->dtype).max && (c & (c + 1)) == 0;
}
bool not_above(Simplifier& s, const Match& m) {
  Interval x = s.known.range(m[X]), y = s.known.range(m[Y]);
  return x.max <= y.min && x.max != INT64_MAX;
}
bool not_below(Simplifier& s, const Match& m) {
  Interval x = s.known.range(m[X]), y = s.known.range(m[Y]);
  return x.min >= y.max && y.max != INT64_MAX;
}
bool not_zero(Simplifier&, const Match& m) {  // which zero an extreme of two zeros gives is not told
  auto zero = [](const Expr& e) {
    auto* inner = e.as<Broadcast>();
    auto* n = inner ? inner->value.as<FloatImm>() : e.as<FloatImm>();
    return !n || n->value == 0;
  };
  return !zero(m[K0]) && !zero(m[K1]);
}
bool needs_no_guard(Simplifier& s, const Match& m) { return !s.known.of(m[Q]).partial; }

// ── the rows ──────────────────────────────────────────────────────────────────────────────────────────
struct Wild {
  T x, y, c0, c1, a, b, k0, k1, p, q, u, v, w;
};

// clang-format off
std::vector<Rule> integer_rules(const Wild& t) {
  auto& [x, y, c0, c1, a, b, k0, k1, p, q, u, v, w] = t;
  T zero = number(0, x), one = number(1, x), ones = number(-1, x);
  struct Row { T pattern, result; bool (*when)(Simplifier&, const Match&) = nullptr; };
  std::vector<Row> rows = {
    {x + zero, x},                    {(x + c0) + c1, x + (c0 + c1)},     {(x + y) - y, x},
    {(x + y) - x, y},                 {(x - y) + y, x},                   {y + (x - y), x},
    {x - zero, x},                    {x - x, zero},                      {zero - x, -x},
    {x + -y, x - y},                  {-x + y, y - x},                    {x - -y, x + y},
    {x * zero, zero},                 {x * one, x},                       {(x * c0) * c1, x * (c0 * c1)},
    {-(-x), x},                       {-(x - y), y - x},                  {x * ones, -x},
    {fdiv(x, one), x},                {fdiv(zero, x), zero},              {fdiv(x, x), one},
    {fdiv(fdiv(x, c0), c1), fdiv(x, c0 * c1), both_positive},
    {fdiv(x, c0), zero, in_range},
    {x % one, zero},                  {zero % x, zero},                   {x % x, zero},
    {(x % c0) % c0, x % c0, positive},
    {x % c0, x, in_range},
    {tdiv(x, one), x},                {tdiv(zero, x), zero},              {tdiv(x, y), fdiv(x, y), no_sign},
    {tmod(x, one), zero},             {tmod(zero, x), zero},              {tmod(x, y), x % y, no_sign},
    {tdiv(x, x), one},                {tmod(x, x), zero},
    {lo(x, x), x},                    {hi(x, x), x},
    {lo(x, y), x, not_above},         {lo(x, y), y, not_below},
    {hi(x, y), y, not_above},         {hi(x, y), x, not_below},
    {lo(lo(x, c0), c1), lo(x, lo(c0, c1))},                               {lo(lo(x, y), y), lo(x, y)},
    {hi(hi(x, c0), c1), hi(x, hi(c0, c1))},                               {hi(hi(x, y), y), hi(x, y)},
    {lo(hi(x, y), y), y},             {hi(lo(x, y), y), y},               {lo(lo(x, y), x), lo(x, y)},
    {hi(hi(x, y), x), hi(x, y)},
    {x & zero, zero},                 {x & ones, x},                      {x & x, x},
    {(x & c0) & c1, x & (c0 & c1)},   {x & c0, x % (c0 + one), low_mask}, {(x & y) & y, x & y},
    {x | zero, x},                    {x | ones, ones},                   {x | x, x},
    {(x | c0) | c1, x | (c0 | c1)},   {(x | y) | y, x | y},
    {x ^ zero, x},                    {x ^ x, zero},                      {(x ^ c0) ^ c1, x ^ (c0 ^ c1)},
    {(x ^ y) ^ y, x},                 {(x ^ y) ^ x, y},                   {y ^ (x ^ y), x},
    {x ^ (x ^ y), y},
    {~(~x), x},
    {x << zero, x},                   {zero << x, zero},                  {x << c0, x * (one << c0), shifts},
    {x >> zero, x},                   {zero >> x, zero},                  {x >> c0, fdiv(x, one << c0), shifts},
    {(x + c0) == c1, x == (c1 - c0)}, {(x + c0) != c1, x != (c1 - c0)},
    {(x ^ y) == zero, x == y},        {(x ^ y) != zero, x != y},
    {pick(x < y, x, y), lo(x, y)},    {pick(x <= y, x, y), lo(x, y)},     {pick(x < y, y, x), hi(x, y)},
    {pick(x <= y, y, x), hi(x, y)},   {pick(x > y, x, y), hi(x, y)},      {pick(x >= y, x, y), hi(x, y)},
    {pick(x > y, y, x), lo(x, y)},    {pick(x >= y, y, x), lo(x, y)},
  };
  std::vector<Rule> out;
  for (auto& row : rows) out.push_back({row.pattern.e, row.result.e, row.when});
  return out;
}

// Only what is exact for every float, NaN and -0 too: neither a + 0 nor a * 0.
std::vector<Rule> float_rules(const Wild& t) {
  auto& [x, y, c0, c1, a, b, k0, k1, p, q, u, v, w] = t;
  T zero{fimm(0.0)}, minus_zero{fimm(-0.0)}, one{fimm(1)}, minus_one{fimm(-1)};
  struct Row { T pattern, result; bool (*when)(Simplifier&, const Match&) = nullptr; };
  std::vector<Row> rows = {
    {a + minus_zero, a},              {a - zero, a},                      {a * one, a},
    {a / one, a},                     {-(-a), a},                         {a * minus_one, -a},
    {a / minus_one, -a},              {a + -b, a - b},                    {-a + b, b - a},
    {a - -b, a + b},                  {(-a) * (-b), a * b},               {(-a) / (-b), a / b},
    {(-a) * k0, a * -k0},               {(-a) / k0, a / -k0},
    {lo(a, a), a},                    {hi(a, a), a},
    {lo(lo(a, k0), k1), lo(a, lo(k0, k1)), not_zero},                     {lo(lo(a, b), b), lo(a, b)},
    {hi(hi(a, k0), k1), hi(a, hi(k0, k1)), not_zero},                     {hi(hi(a, b), b), hi(a, b)},
  };
  std::vector<Rule> out;
  for (auto& row : rows) out.push_back({row.pattern.e, row.result.e, row.when});
  return out;
}

std::vector<Rule> bool_rules(const Wild& t) {
  auto& [x, y, c0, c1, a, b, k0, k1, p, q, u, v, w] = t;
  T yes{imm(1, boolean)}, no{imm(0, boolean)};
  struct Row { T pattern, result; bool (*when)(Simplifier&, const Match&) = nullptr; };
  std::vector<Row> rows = {
    {!!p, p},
    {!(x < y), x >= y},               {!(x <= y), x > y},                 {!(x > y), x <= y},
    {!(x >= y), x < y},               {!(u == v), u != v},                {!(u != v), u == v},
    {!all(!p, !q), any(p, q)},        {!any(!p, !q), all(p, q)},
    {all(p, yes), p},                 {all(yes, p), p},                   {all(p, no), no},
    {all(no, p), no},                 {all(p, p), p},                     {all(p, !p), no},
    {all(!p, p), no},                 {all(all(p, q), p), all(p, q)},     {all(all(p, q), q), all(p, q)},
    {all(p, all(p, q)), all(p, q)},   {all(any(p, q), p), p},             {all(any(p, q), q), q},
    {all(p, any(p, q)), p},           {all(q, any(p, q)), q},
    {any(p, no), p},                  {any(no, p), p},                    {any(p, yes), yes},
    {any(yes, p), yes},               {any(p, p), p},                     {any(p, !p), yes},
    {any(!p, p), yes},                {any(any(p, q), p), any(p, q)},     {any(any(p, q), q), any(p, q)},
    {any(p, any(p, q)), any(p, q)},   {any(all(p, q), p), p},             {any(all(p, q), q), q},
    {any(p, all(p, q)), p},           {any(q, all(p, q)), q},             {any(all(p, q), !p), any(!p, q)},
    {p & yes, p},                     {p & no, no},                       {p & p, p},
    {p | no, p},                      {p | yes, yes},                     {p | p, p},
    {p ^ no, p},                      {p ^ yes, !p},                      {p ^ p, no},
    {p == yes, p},                    {p == no, !p},                      {p == p, yes},
    {p != no, p},                     {p != yes, !p},                     {p != p, no},
    {lo(p, p), p},                    {hi(p, p), p},
    {x == x, yes},                    {x != x, no},                       {x < x, no},
    {x <= x, yes},                    {x > x, no},                        {x >= x, yes},
    {pick(p, u, u), u},               {pick(!p, u, v), pick(p, v, u)},
    {pick(p, yes, no), p},            {pick(p, no, yes), !p},
    {pick(p, pick(p, u, v), w), pick(p, u, w)},
    {pick(p, u, pick(p, v, w)), pick(p, u, w)},
    {pick(p, u, pick(q, u, v)), pick(any(p, q), u, v), needs_no_guard},
    {pick(p, pick(q, u, v), v), pick(all(p, q), u, v), needs_no_guard},
  };
  std::vector<Rule> out;
  for (auto& row : rows) out.push_back({row.pattern.e, row.result.e, row.when});
  return out;
}
// clang-format on

// ── finding them ──────────────────────────────────────────────────────────────────────────────────────
constexpr size_t binary_roots = size_t(BinaryOp::logical_or) + 1, unary_roots = 3;

size_t root_of(const Expr& pattern) {
  if (auto* n = pattern.as<Binary>()) return size_t(n->op);
  if (auto* n = pattern.as<Unary>()) return binary_roots + size_t(n->op);
  return binary_roots + unary_roots;  // a Select
}

const Expr* first_operand(const Expr& pattern) {
  if (auto* n = pattern.as<Binary>()) return &n->a;
  if (auto* n = pattern.as<Unary>()) return &n->a;
  return &pattern.as<Select>()->cond;
}

using Table = std::array<std::vector<Rule>, binary_roots + unary_roots + 1>;

const Table& table() {
  static const Table made = [] {
    auto& l = wildcards();
    Wild t{{l[X]},  {l[Y]}, {l[C0]}, {l[C1]}, {l[A]}, {l[B]}, {l[K0]},
           {l[K1]}, {l[P]}, {l[Q]},  {l[U]},  {l[V]}, {l[W]}};
    Table rules;
    for (auto& part : {integer_rules(t), float_rules(t), bool_rules(t)})
      for (auto rule : part) {
        rule.first = first_operand(rule.pattern);
        rules[root_of(rule.pattern)].push_back(rule);
      }
    return rules;
  }();
  return made;
}

bool fits_wildcard(size_t i, const Expr& e) {
  DType kind = wildcards()[i]->dtype, t = e->dtype;
  if (is_constant_wildcard(i) && !is_const(e)) return false;
  return kind == none_type || (kind.is_int() && t.is_int()) || (kind.is_float() && t.is_float()) ||
         (kind.is_bool() && t.is_bool());
}

size_t index_of(const Expr& wildcard) {
  auto& list = wildcards();
  size_t i = 0;
  while (!list[i].same(wildcard)) i++;
  return i;
}

struct Matcher {
  Simplifier& s;
  Match bound = {};

  bool wildcard(const Expr& pattern, const Expr& e) {
    size_t i = index_of(pattern);
    if (bound[i]) return s.known.same(bound[i], e);
    if (!fits_wildcard(i, e)) return false;
    bound[i] = e;
    return true;
  }
  static bool literal(const FloatImm& pattern, const Expr& e) {
    auto* inner = e.as<Broadcast>();
    auto* n = inner ? inner->value.as<FloatImm>() : e.as<FloatImm>();
    return n && n->value == pattern.value && std::signbit(n->value) == std::signbit(pattern.value);
  }
  static bool literal(const IntImm& pattern, const Expr& e) {
    auto v = as_int(e);
    return v && e->dtype.is_bool() == pattern.dtype.is_bool() && *v == wrap_int(pattern.value, e->dtype);
  }
  bool match(const Expr& pattern, const Expr& e) {
    switch (pattern->kind) {
      case Kind::Var:
        return wildcard(pattern, e);
      case Kind::IntImm:
        return literal(static_cast<const IntImm&>(*pattern), e);
      case Kind::FloatImm:
        return literal(static_cast<const FloatImm&>(*pattern), e);
      default:
        break;
    }
    if (pattern->kind != e->kind) return false;
    if (auto* p = pattern.as<Binary>()) {
      auto* n = e.as<Binary>();
      return p->op == n->op && match(p->a, n->a) && match(p->b, n->b);
    }
    if (auto* p = pattern.as<Unary>()) {
      auto* n = e.as<Unary>();
      return p->op == n->op && match(p->a, n->a);
    }
    auto* p = pattern.as<Select>();
    auto* n = e.as<Select>();
    return match(p->cond, n->cond) && match(p->a, n->a) && match(p->b, n->b);
  }

  DType type_in(const Expr& e) {  // of a wildcard in e
    if (auto* n = e.as<Binary>()) return type_in(n->a->kind == Kind::IntImm ? n->b : n->a);
    if (auto* n = e.as<Unary>()) return type_in(n->a);
    return bound[index_of(e)]->dtype;
  }
  Expr build(const Expr& e, DType type) {
    if (auto* n = e.as<IntImm>()) return s.constant(n->value, type);
    if (auto* n = e.as<FloatImm>()) return fimm(n->value, type, s.here);
    if (auto* n = e.as<Unary>()) return s.make_unary(n->op, build(n->a, type));
    if (auto* n = e.as<Binary>()) {
      DType operands = is_comparison(n->op) ? type_in(e) : type;
      return s.make(n->op, build(n->a, operands), build(n->b, operands));
    }
    if (auto* n = e.as<Select>())
      return s.make_select(build(n->cond, boolean), build(n->a, type), build(n->b, type));
    return bound[index_of(e)];
  }
};

// A first look at one operand, which most rows do not pass.
bool plausible(const Expr& pattern, const Expr& e) {
  DType p = pattern->dtype, t = e->dtype;
  bool kind = p == none_type || (p.is_int() ? t.is_int() : p.is_bool() ? t.is_bool() : t.is_float());
  bool free = pattern->kind == Kind::Var || pattern->kind == Kind::IntImm || pattern->kind == Kind::FloatImm;
  return kind && (free || pattern->kind == e->kind);
}

// `match_operands` matches the operands against those of a pattern.
template <class F>
Expr first_match(Simplifier& s, size_t root, DType type, const Expr& first, F match_operands) {
  for (auto& rule : table()[root]) {
    if (!plausible(*rule.first, first)) continue;
    Matcher m{s};
    if (!match_operands(m, rule.pattern) || (rule.when && !rule.when(s, m.bound))) continue;
    Expr result = m.build(rule.result, type);
    if (result->dtype == type) return result;
  }
  return {};
}

}  // namespace

Expr Simplifier::apply_rules(BinaryOp op, const Expr& a, const Expr& b) {
  DType type = is_comparison(op) || is_logical(op) ? boolean.with_lanes(a->dtype.lanes) : a->dtype;
  return first_match(*this, size_t(op), type, a, [&](Matcher& m, const Expr& pattern) {
    auto* p = pattern.as<Binary>();
    return m.match(p->a, a) && m.match(p->b, b);
  });
}
Expr Simplifier::apply_rules(UnaryOp op, const Expr& a) {
  return first_match(*this, binary_roots + size_t(op), a->dtype, a,
                     [&](Matcher& m, const Expr& pattern) { return m.match(pattern.as<Unary>()->a, a); });
}
Expr Simplifier::apply_rules(const Expr& cond, const Expr& a, const Expr& b) {
  return first_match(*this, binary_roots + unary_roots, a->dtype, cond, [&](Matcher& m, const Expr& pattern) {
    auto* p = pattern.as<Select>();
    return m.match(p->cond, cond) && m.match(p->a, a) && m.match(p->b, b);
  });
}

}  // namespace tl
