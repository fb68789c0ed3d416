// Random expressions under random facts: the simplifier keeps the value and the type, is idempotent, and what
// the analyses claim holds.  Then digits of an index, composed as layouts do, must come back as the index.
#include <doctest/doctest.h>

#include <random>

#include "arith/prove.h"
#include "evaluate.h"
#include "fuzz/seeds.h"
#include "ir/text.h"

using namespace tl;
using namespace tl::test;

namespace {

struct Unknown {  // a variable with what is known of it
  Expr var;
  Interval range;
  int64_t modulus = 1, remainder = 0;
};

using Assignment = std::map<const ExprNode*, Value>;

struct ExprGenerator {
  std::mt19937_64 random;
  std::vector<Unknown> vars = {};
  Facts facts = {};
  std::vector<Assignment> samples = {};
  bool data = false;  // variables are names of data: extreme, and wrapping at 64 bits, too
  bool in_lanes = false;
  std::vector<Expr> multiplied = {};  // the variables of which a product is bounded by a fact

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, size_t N>
  T any(const T (&pool)[N]) {
    return pool[below(int64_t(N))];
  }

  DType int_type() {
    static constexpr DType pool[] = {i64, i64, i64, i64, i32, i32, u32, u32, i8, u8, i16, u64};
    return any(pool);
  }

  // ── variables and facts ─────────────────────────────────────────────────────────────────────────────
  Interval some_range(DType t) {
    if (t.is_bool()) return {0, 1};
    if (t == i64 && data && chance(80)) return {};
    static constexpr int64_t sizes[] = {2, 3, 4, 7, 8, 16, 32, 100, 128, 1000, 1024, 65536, 1 << 20};
    int64_t low = chance(60) ? 0 : below(40) - 20, size = any(sizes);
    if (t == i64 && chance(5)) size = int64_t(1) << 40;
    if (t != i64 && chance(40)) {  // near an end, or everything
      int64_t top = t.is_signed()  ? (int64_t(1) << (t.bits - 1)) - 1
                    : t.bits == 64 ? INT64_MAX
                                   : (int64_t(1) << t.bits) - 1;
      low = t.is_signed() ? -top - 1 : 0;
      return chance(50) ? Interval{low, top} : Interval{top - std::min(size, top) + 1, top};
    }
    if (t.is_unsigned()) low = std::max<int64_t>(low, 0);
    int64_t high = low + size - 1;
    return {wrap_int(low, t) == low ? low : 0, wrap_int(high, t) == high ? high : 100};
  }
  void make_vars(int count) {
    static const char* names[] = {"i", "j", "tx", "bx", "n", "k", "x", "y"};
    for (int v = 0; v < count; v++) {
      DType t = chance(8) ? boolean : int_type();
      Unknown u{var(names[v % 8], t), some_range(t)};
      static constexpr int64_t moduli[] = {2, 3, 4, 8, 16, 24};
      if (!t.is_bool() && chance(20)) {
        int64_t m = any(moduli), r = below(m);
        Wide first = Wide(u.range.min) + floor_mod(r - floor_mod(u.range.min, m), m);
        if (first >= u.range.min && first <= u.range.max) u.modulus = m, u.remainder = r;
      }
      bool told = chance(85) || (t == i64 && u.range != Interval{});
      if (data) facts.data.insert(u.var.get());
      if (told) facts.bind(u.var, u.range);
      if (u.modulus > 1) facts.bind(u.var, Modular{u.modulus, u.remainder});
      vars.push_back(u);
    }
    for (DType t : {f32, f16, f64}) vars.push_back({var("f", t), {}});
  }
  // An end of the type, a power of two, a number next to one, or a small one.
  Wide extreme(DType t) {
    Wide size = Wide(1) << t.bits, low = t.is_signed() ? -size / 2 : Wide(0);
    Wide power = Wide(1) << below(t.bits);
    Wide top = low + size - 1, small = Wide(below(9)) - 4;
    Wide pool[] = {low, low + 1, top, top - 1, 0, 1, -1, power, power - 1, -power, small};
    Wide v = any(pool);
    return v < low || v >= low + size ? v < 0 ? v + size : v - size : v;
  }
  Value sample(const Unknown& u) {
    DType t = u.var->dtype;
    if (t.is_float()) {
      const double pool[] = {0.0, -0.0, 1, -1, 0.5, 3, -7.25, 1000, 1e-30, INFINITY, -INFINITY, std::nan("")};
      return {0, round_float(any(pool), t)};
    }
    if (data && u.modulus == 1 && chance(40))
      if (Wide v = extreme(t); v >= u.range.min && v <= u.range.max) return {v, 0};
    Wide size = Wide(u.range.max) - u.range.min + 1;
    Wide at = chance(15) ? 0 : chance(15) ? size - 1 : Wide(random()) % size;
    Wide v = u.range.min + at;
    if (t == u64 && u.range.max == INT64_MAX && chance(50)) {  // no bound above
      v = Wide(random() | uint64_t(1) << 63);
      v -= (v - u.remainder) % u.modulus;
      return {v, 0};
    }
    while (u.modulus > 1 && (v - u.remainder) % u.modulus != 0)
      v = v == u.range.max ? Wide(u.range.min) : v + 1;
    return {v, 0};
  }
  void make_samples(int count) {
    for (int s = 0; s < count; s++) {
      Assignment a;
      for (auto& u : vars) a[u.var.get()] = sample(u);
      samples.push_back(std::move(a));
    }
  }
  // A condition that enough samples meet becomes a fact; the others go.
  void make_fact() {
    Expr condition = chance(25) ? bounded_product() : comparison(2, i64);
    if (!condition) return;
    std::vector<Assignment> met;
    for (auto& a : samples) try {
        if (Evaluator{.vars = a, .strict = !data, .extreme = data}(condition).i) met.push_back(a);
      } catch (const NoMeaning&) {
      }
    if (met.size() < 12) return;
    samples = std::move(met);
    facts.assume(condition);
  }

  // x*y <= what it is in some sample, of two or three variables
  Expr bounded_product() {
    multiplied.clear();
    Expr product = product_of([&](const Expr& v) { return multiplied.emplace_back(v); });
    const Assignment& some = samples[size_t(below(int64_t(samples.size())))];
    try {
      Wide most = Evaluator{.vars = some, .strict = !data, .extreme = data}(product).i;
      return most < INT64_MAX && most > INT64_MIN ? le(product, imm(int64_t(most))) : Expr();
    } catch (const NoMeaning&) {
      return {};
    }
  }
  template <class Of>
  Expr product_of(Of of) {
    std::vector<Expr> some = multiplied;
    for (auto& u : vars)
      if (u.var->dtype == i64 && multiplied.empty()) some.push_back(u.var);
    Expr product = imm(1);
    for (int64_t i = 2 + below(2); i > 0 && !some.empty(); i--)
      product = product * of(some[size_t(below(int64_t(some.size())))]);
    return product;
  }
  // How many tiles such variables have, multiplied: ceildiv(x, 8) * ceildiv(y, 3)
  Expr numbers_of_tiles() {
    return product_of([&](const Expr& v) {
      int64_t tile = 1 + below(9);
      Expr tiles = floordiv(v + (chance(80) ? tile - 1 : below(20)), tile);
      return chance(20) ? cast(i64, cast(i32, tiles)) : tiles;
    });
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  Expr constant(DType t) {
    if (t.is_float()) {
      const double pool[] = {0.0, -0.0, 1, -1, 2, 0.5, 3, -7.25};
      return fimm(any(pool), t);
    }
    static constexpr int64_t small[] = {0,  1,  1,  2,  2,   3,   4,   4,  5,  7,  8,  8,
                                        12, 16, 32, 64, 100, 127, 128, -1, -2, -4, -8, -3};
    static constexpr int64_t large[] = {
        255, 256, 1024, 65535, INT32_MAX, INT32_MIN, int64_t(1) << 31, INT64_MAX, INT64_MIN};
    if (t == u64 && chance(15)) return imm(int64_t(random() | uint64_t(1) << 63), t);
    if ((t != i64 || (data && !in_lanes)) && chance(10)) return imm(any(large), t);
    return imm(any(small), t);
  }
  Expr leaf(DType t) {
    std::vector<Expr> fitting;
    for (auto& u : vars)
      if (u.var->dtype == t) fitting.push_back(u.var);
    if (!fitting.empty() && chance(75)) return fitting[size_t(below(int64_t(fitting.size())))];
    return constant(t);
  }
  Expr element(DType t, int depth) {
    return load(t, BufferId{int(below(2))}, {integer(i64, depth - 1)}, {},
                chance(20) ? boolean_of(depth - 1) : Expr());
  }
  Expr integer(DType t, int depth) {
    if (depth <= 0) return leaf(t);
    static constexpr BinaryOp ops[] = {
        BinaryOp::add,      BinaryOp::add,      BinaryOp::add,      BinaryOp::sub,      BinaryOp::sub,
        BinaryOp::mul,      BinaryOp::mul,      BinaryOp::floordiv, BinaryOp::floordiv, BinaryOp::floormod,
        BinaryOp::floormod, BinaryOp::truncdiv, BinaryOp::truncmod, BinaryOp::min,      BinaryOp::max,
        BinaryOp::bit_and,  BinaryOp::bit_or,   BinaryOp::bit_xor,  BinaryOp::bit_xor,  BinaryOp::shl,
        BinaryOp::shr};
    int pick = int(below(100));
    if (pick < 8) return leaf(t);
    if (pick < 11) return unary(chance(60) ? UnaryOp::neg : UnaryOp::bit_not, integer(t, depth - 1));
    if (pick < 15) return select(boolean_of(depth - 1), integer(t, depth - 1), integer(t, depth - 1));
    if (pick < 19) return cast(t, integer(int_type(), depth - 1));
    if (pick < 20) return cast(t, boolean_of(depth - 1));
    if (pick < 22) return element(t, depth);
    if (pick < 24 && t == i64) return numbers_of_tiles();
    BinaryOp op = any(ops);
    Expr a = integer(t, depth - 1);
    bool by_constant = op == BinaryOp::mul || (op >= BinaryOp::floordiv && op <= BinaryOp::truncmod);
    Expr b = by_constant && chance(85) ? constant(t) : integer(t, depth - 1);
    if (op == BinaryOp::shl || op == BinaryOp::shr)
      b = imm(below(chance(80) ? std::min<int>(t.bits, 9) : t.bits), t);
    return whole(op, a, b);
  }
  // A division by the constant 0 is refused by the maker; it divides by 3 then.
  Expr whole(BinaryOp op, const Expr& a, const Expr& b) {
    bool divides = op == BinaryOp::floordiv || op == BinaryOp::floormod || op == BinaryOp::truncdiv ||
                   op == BinaryOp::truncmod;
    return binary(op, a, divides && is_int(b, 0) ? imm(3, b->dtype) : b);
  }
  Expr comparison(int depth, DType t) {
    static constexpr BinaryOp ops[] = {BinaryOp::eq, BinaryOp::ne, BinaryOp::lt,
                                       BinaryOp::le, BinaryOp::gt, BinaryOp::ge};
    if (t.is_float()) return binary(any(ops), floating(t, depth - 1), floating(t, depth - 1));
    return binary(any(ops), integer(t, depth - 1), integer(t, depth - 1));
  }
  Expr boolean_of(int depth) {
    if (depth <= 0) return leaf(boolean);
    int pick = int(below(100));
    if (pick < 5) return leaf(boolean);
    if (pick < 20) return unary(UnaryOp::logical_not, boolean_of(depth - 1));
    if (pick < 45) {
      static constexpr BinaryOp ops[] = {BinaryOp::logical_and, BinaryOp::logical_and, BinaryOp::logical_or,
                                         BinaryOp::logical_or,  BinaryOp::eq,          BinaryOp::ne,
                                         BinaryOp::bit_xor,     BinaryOp::bit_and};
      return binary(any(ops), boolean_of(depth - 1), boolean_of(depth - 1));
    }
    if (pick < 50) return select(boolean_of(depth - 1), boolean_of(depth - 1), boolean_of(depth - 1));
    if (pick < 53) return cast(boolean, integer(int_type(), depth - 1));
    return comparison(depth, chance(10) ? f32 : int_type());
  }
  Expr floating(DType t, int depth) {
    if (depth <= 0) return leaf(t);
    static constexpr BinaryOp ops[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul,
                                       BinaryOp::div, BinaryOp::min, BinaryOp::max};
    int pick = int(below(100));
    if (pick < 10) return unary(UnaryOp::neg, floating(t, depth - 1));
    if (pick < 20) return select(boolean_of(depth - 1), floating(t, depth - 1), floating(t, depth - 1));
    if (pick < 30) return cast(t, floating(chance(50) ? f32 : f16, depth - 1));
    if (pick < 35) return cast(t, integer(int_type(), depth - 1));
    return binary(any(ops), floating(t, depth - 1), floating(t, depth - 1));
  }
  Expr lanes(DType t, int count, int depth) {
    in_lanes = true;  // sums of constants alone are sums of indices
    int pick = int(below(100));
    if (depth <= 0 || pick < 15) {
      if (chance(50)) return broadcast(integer(t, depth - 1), count);
      return ramp(integer(t, depth - 1), chance(70) ? constant(t) : integer(t, 1), count);
    }
    static constexpr BinaryOp ops[] = {BinaryOp::add,      BinaryOp::sub,      BinaryOp::mul,
                                       BinaryOp::floordiv, BinaryOp::floormod, BinaryOp::min,
                                       BinaryOp::max,      BinaryOp::bit_and,  BinaryOp::bit_xor};
    BinaryOp op = any(ops);
    bool by_constant = op == BinaryOp::floordiv || op == BinaryOp::floormod || chance(40);
    return whole(op, lanes(t, count, depth - 1),
                 by_constant ? broadcast(constant(t), count) : lanes(t, count, depth - 1));
  }
  Expr anything() {
    in_lanes = false;
    int pick = int(below(100)), depth = 2 + int(below(4));
    if (pick < 5) return numbers_of_tiles();
    if (pick < 60) return integer(int_type(), depth);
    if (pick < 80) return boolean_of(depth);
    if (pick < 87) return floating(chance(60) ? f32 : chance(50) ? f16 : f64, depth - 1);
    if (pick < 95) return lanes(chance(60) ? i64 : int_type(), 4, std::min(depth, 3));
    DType t = int_type();
    Expr a = lanes(t, 4, 2), b = lanes(t, 4, 1);
    return binary(chance(50) ? BinaryOp::lt : BinaryOp::eq, a, b);
  }
};

std::string describe(const Facts& facts, const ExprGenerator& g) {
  std::string s;
  for (auto& u : g.vars) {
    if (auto it = facts.ranges.find(u.var.get()); it != facts.ranges.end())
      s += fmt::format("  {} {} in [{}, {}]", to_string(u.var->dtype), print(u.var), it->second.min,
                       it->second.max);
    if (auto it = facts.divisibility.find(u.var.get()); it != facts.divisibility.end())
      s += fmt::format("  {} = {} mod {}", print(u.var), it->second.remainder, it->second.modulus);
  }
  for (auto& e : facts.at_most_zero) s += "  " + print(e) + " <= 0";
  return s;
}

bool claims_hold(const Expr& e, Value v, const Facts& facts) {
  if (!e->dtype.is_int() && !e->dtype.is_bool()) return true;
  Interval r = interval_of(e, facts);
  if ((r.min != INT64_MIN && v.i < r.min) || (r.max != INT64_MAX && v.i > r.max)) return false;
  Modular m = modular_of(e, facts);
  return m.modulus == 0 ? v.i == m.remainder : (v.i - m.remainder) % m.modulus == 0;
}

// Empty where all is well.
std::string fault_of(const Expr& e, const Expr& s, const Facts& facts, const std::vector<Assignment>& samples,
                     bool strict, int& checked) {
  if (s->dtype != e->dtype) return "the type changed";
  if (!equal(simplify(s, facts), s)) return "not idempotent: " + print(simplify(s, facts));
  for (auto& a : samples) {
    for (int lane = 0; lane < e->dtype.lanes; lane++) {
      Value before, after;
      bool divides_by_zero = false;
      try {
        before = Evaluator{.vars = a, .strict = strict, .extreme = !strict, .lane = lane}(e);
      } catch (const DividesByZero&) {
        if (strict) continue;
        divides_by_zero = true;
      } catch (const NoMeaning&) {
        continue;
      }
      checked++;
      std::string at;
      for (auto& [v, x] : a)
        at +=
            fmt::format(" {}={}", static_cast<const Var*>(v)->hint, v->dtype.is_float() ? x.f : double(x.i));
      try {
        after = Evaluator{.vars = a, .strict = false, .extreme = !strict, .lane = lane}(s);
      } catch (const NoMeaning&) {
        if (divides_by_zero) continue;
        return "has no meaning at" + at;
      }
      if (divides_by_zero) return "no longer divides by zero at" + at;
      if (!same_value(before, after, e->dtype))
        return fmt::format("{} became {} at{}", double(before.i) + before.f, double(after.i) + after.f, at);
      if (!claims_hold(e, before, facts)) return "a claim about the expression fails at" + at;
      if (!claims_hold(s, before, facts)) return "a claim about the result fails at" + at;
    }
  }
  return {};
}

// ── digits ────────────────────────────────────────────────────────────────────────────────────────────
// An index x in [0, radix0 * radix1 * …), its digits (x // place) % radix, and maps that permute and XOR
// them.
struct Digits {
  std::mt19937_64 random;
  DType type = i64;
  std::vector<int64_t> radix = {}, place = {};  // place[d]: the product of the radices below d
  int64_t size = 1;

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }

  void split(int count, bool powers) {
    for (int d = 0; d < count; d++) {
      radix.push_back(powers ? int64_t(1) << (1 + below(4)) : 2 + below(14));
      place.push_back(size);
      size *= radix.back();
    }
  }
  Expr number(int64_t v) { return imm(v, type); }
  // As layouts write it, or as a user might.
  Expr digit(const Expr& x, int64_t place, int64_t radix, bool top) {
    if (top && chance(60)) return floordiv(x, place);
    if (chance(30)) return floordiv(floormod(x, place * radix), place);
    return floormod(floordiv(x, place), radix);
  }
  Expr sum(std::vector<Expr> terms) {
    std::shuffle(terms.begin(), terms.end(), random);
    Expr s = terms[0];
    for (size_t i = 1; i < terms.size(); i++) s = chance(50) ? s + terms[i] : terms[i] + s;
    return s;
  }
  std::vector<Expr> digits_of(const Expr& x) {
    std::vector<Expr> out;
    for (size_t d = 0; d < radix.size(); d++)
      out.push_back(digit(x, place[d], radix[d], d + 1 == radix.size()));
    return out;
  }
  Expr compose(const std::vector<Expr>& digits, const std::vector<int64_t>& strides) {
    std::vector<Expr> terms;
    for (size_t d = 0; d < digits.size(); d++) terms.push_back(digits[d] * strides[d]);
    return sum(terms);
  }
};

// x -> y with the digits in another order of strides (some XORed with one below), and back.
bool digits_round(uint64_t seed) {
  Digits g{.random = std::mt19937_64(seed)};
  bool powers = g.chance(50);
  g.type = g.chance(70) ? i64 : i32;
  g.split(1 + int(g.below(4)), powers);
  size_t n = g.radix.size();
  Expr x = var("x", g.type);
  Facts facts;
  facts.bind(x, Interval{0, g.size - 1});

  std::vector<size_t> by_stride(n);
  for (size_t d = 0; d < n; d++) by_stride[d] = d;
  std::shuffle(by_stride.begin(), by_stride.end(), g.random);
  std::vector<int64_t> stride(n), padded = g.radix;
  int64_t next = 1;
  for (size_t d : by_stride) {
    if (!powers) padded[d] += g.below(3);
    stride[d] = next;
    next *= padded[d];
  }
  size_t from = g.below(int64_t(n)), to = g.below(int64_t(n));
  bool swizzled = powers && from != to && g.radix[from] <= g.radix[to];
  auto exclusive = [&](std::vector<Expr> digits) {
    if (swizzled) digits[to] = binary(BinaryOp::bit_xor, digits[to], digits[from]);
    return digits;
  };

  Expr y = g.compose(exclusive(g.digits_of(x)), stride);
  if (g.chance(50)) y = simplify(y, facts);
  std::vector<Expr> back(n);
  for (size_t d = 0; d < n; d++) back[d] = g.digit(y, stride[d], padded[d], stride[d] * padded[d] == next);
  Expr z = g.compose(exclusive(back), g.place), s = simplify(z, facts);
  INFO("seed ", seed, ": x in [0, ", g.size, ")\n", print(y), "\n", print(z), "\n", print(s));
  CHECK(equal(s, x));
  Expr identity = simplify(g.compose(g.digits_of(x), g.place), facts);
  CHECK_MESSAGE(equal(identity, x), print(identity));
  return equal(s, x) && equal(identity, x);
}

// Loop variables composed to an index, of which each is a digit.
bool loops_round(uint64_t seed) {
  Digits g{.random = std::mt19937_64(seed)};
  g.type = g.chance(70) ? i64 : i32;
  g.split(2 + int(g.below(4)), g.chance(50));
  Facts facts;
  std::vector<Expr> vars;
  for (size_t d = 0; d < g.radix.size(); d++) {
    vars.push_back(var(std::string(1, char('i' + d)), g.type));
    facts.bind(vars[d], Interval{0, g.radix[d] - 1});
  }
  Expr index = g.compose(vars, g.place);
  if (g.chance(50)) index = simplify(index, facts);
  bool good = true;
  for (size_t d = 0; d < vars.size(); d++) {
    Expr s = simplify(g.digit(index, g.place[d], g.radix[d], d + 1 == vars.size()), facts);
    INFO("seed ", seed, ", digit ", d, " of ", print(index), ": ", print(s));
    CHECK(equal(s, vars[d]));
    good &= equal(s, vars[d]);
  }
  Expr condition = lt(index, imm(g.size, g.type));
  CHECK(can_prove(condition, facts));
  CHECK_FALSE(can_prove(lt(index, imm(g.size - 1, g.type)), facts));
  return good;
}

bool random_round(uint64_t seed, bool data, int& checked, int& expressions) {
  ExprGenerator g{.random = std::mt19937_64(seed), .data = data};
  g.make_vars(2 + int(g.below(5)));
  g.make_samples(40);
  while (g.chance(30)) g.make_fact();
  if (g.samples.size() > 12) g.samples.resize(12);
  for (int i = 0; i < 10; i++) {
    Expr e = g.anything();
    expressions++;
    Expr s = simplify(e, g.facts);
    std::string fault = fault_of(e, s, g.facts, g.samples, !data, checked);
    INFO("seed ", seed, ", expression ", i, ": ", print(e), "  ->  ", print(s), "\n", describe(g.facts, g));
    CHECK_MESSAGE(fault.empty(), fault);
    if (!fault.empty()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a map of digits and its inverse simplify to the index") {
  int bad = 0, count = 0;
  fuzz::each_seed({.fixed = 3000, .fresh = 300, .share = 0.02}, [&](uint64_t seed) {
    count++;
    if (!digits_round(seed)) bad++;
    return bad < 3;
  });
  MESSAGE(count, " maps");
}

TEST_CASE("the digits of a composed index are its loop variables") {
  int bad = 0;
  fuzz::each_seed({.fixed = 2000, .fresh = 200, .share = 0.02}, [&](uint64_t seed) {
    if (!loops_round(seed)) bad++;
    return bad < 3;
  });
}

TEST_CASE("simplify keeps the value of random expressions") {
  int rounds = 0, checked = 0, expressions = 0, bad = 0;
  fuzz::each_seed({.fixed = 2400, .fresh = 300, .share = 0.02}, [&](uint64_t seed) {
    rounds++;
    if (!random_round(seed, false, checked, expressions)) bad++;
    return bad < 3;
  });
  MESSAGE(expressions, " expressions, ", checked, " values compared");
  if (fuzz::is_replay()) return;
  CHECK(expressions >= 8 * rounds);
  CHECK(checked >= 8 * 6 * rounds);
}

TEST_CASE("simplify keeps the value of expressions of data, which wrap, and their divisions by zero") {
  int checked = 0, expressions = 0, bad = 0;
  fuzz::each_seed({.fixed = 2400, .fresh = 300, .share = 0.02}, [&](uint64_t seed) {
    if (!random_round(seed, true, checked, expressions)) bad++;
    return bad < 3;
  });
  MESSAGE(expressions, " expressions, ", checked, " values compared");
}
