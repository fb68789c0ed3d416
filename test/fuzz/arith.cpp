// Random expressions under random facts: the simplifier keeps the value and the type, is idempotent, and what
// the analyses claim holds.  Then digits of an index, composed as layouts do, must come back as the index.
#include <doctest/doctest.h>

#include "arith/prove.h"
#include "fuzz/arith_expressions.h"
#include "fuzz/seeds.h"
#include "ir/text.h"

using namespace tl;
using namespace tl::test;

namespace {

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
