// Ranges, divisibility, facts and proofs.
#include <doctest/doctest.h>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

Expr bounded(Facts& facts, const char* hint, int64_t min, int64_t max, DType t = i64) {
  Expr v = var(hint, t);
  facts.bind(v, Interval{min, max});
  return v;
}

}  // namespace

namespace doctest {
template <>
struct StringMaker<Interval> {
  static String convert(const Interval& i) { return fmt::format("[{}, {}]", i.min, i.max).c_str(); }
};
template <>
struct StringMaker<Modular> {
  static String convert(const Modular& m) { return fmt::format("{} mod {}", m.remainder, m.modulus).c_str(); }
};
}  // namespace doctest

TEST_CASE("intervals of the operators") {
  Facts facts;
  Expr a = bounded(facts, "a", -3, 10), b = bounded(facts, "b", 2, 5), x = var("x");
  auto range = [&](Expr e) { return interval_of(e, facts); };
  CHECK(range(a + b) == Interval{-1, 15});
  CHECK(range(a - b) == Interval{-8, 8});
  CHECK(range(a * b) == Interval{-15, 50});
  CHECK(range(floordiv(a, b)) == Interval{-2, 5});
  CHECK(range(binary(BinaryOp::truncdiv, a, b)) == Interval{-1, 5});
  CHECK(range(floormod(a, b)) == Interval{0, 4});
  CHECK(range(binary(BinaryOp::truncmod, a, b)) == Interval{-3, 4});
  CHECK(range(floormod(b, imm(8))) == Interval{2, 5});
  CHECK(range(floormod(b + 8, imm(8))) == Interval{2, 5});
  CHECK(range(floormod(x, imm(-8))) == Interval{-7, 0});
  CHECK(range(binary(BinaryOp::bit_xor, b, imm(8))) == Interval{0, 15});
  CHECK(range(binary(BinaryOp::bit_and, a, b)) == Interval{0, 5});
  CHECK(range(binary(BinaryOp::bit_or, a, b)) == Interval{-16, 15});
  CHECK(range(min(a, b)) == Interval{-3, 5});
  CHECK(range(binary(BinaryOp::lt, a, imm(11))) == Interval{1, 1});
  CHECK(range(x) == Interval{});
  CHECK(range(x + 1) == Interval{});
  CHECK_FALSE(range(floordiv(x, 2)).bounded());
  CHECK(range(x * 0 + b * b) == Interval{4, 25});
}

TEST_CASE("what may wrap has the range of its type") {
  Facts facts;
  Expr u = bounded(facts, "u", 200, 255, u8), s = bounded(facts, "s", 100, 127, i8),
       h = bounded(facts, "h", 0, 3, u8);
  auto range = [&](Expr e) { return interval_of(e, facts); };
  CHECK(range(u + u) == Interval{0, 255});
  CHECK(range(s + s) == Interval{-128, 127});
  CHECK(range(h - h) == Interval{0, 255});
  CHECK(range(h * 4) == Interval{0, 12});
  CHECK(range(unary(UnaryOp::bit_not, h)) == Interval{252, 255});
  CHECK(range(unary(UnaryOp::neg, s)) == Interval{-127, -100});
  CHECK(range(cast(i8, u)) == Interval{-128, 127});
  CHECK(range(cast(i32, u)) == Interval{200, 255});
  CHECK(range(floordiv(bounded(facts, "m", -128, -100, i8), imm(-1, i8))) == Interval{-128, 127});
  CHECK(range(var("w", u64)) == Interval{0, INT64_MAX});
  CHECK(range(imm(-1, u64)) == Interval{INT64_MAX, INT64_MAX});
  CHECK_FALSE(can_prove(eq(imm(-1, u64), bounded(facts, "w", INT64_MAX - 1, INT64_MAX, u64)), facts));
}

TEST_CASE("intervals saturate: int64 never overflows inside") {
  Facts facts;
  Expr big = bounded(facts, "big", 0, int64_t(1) << 40), low = bounded(facts, "low", INT64_MIN, -5);
  CHECK(interval_of(big * big, facts) == Interval{0, INT64_MAX});
  CHECK(interval_of(big * big * big * big, facts) == Interval{0, INT64_MAX});
  CHECK(interval_of(low * big, facts) == Interval{INT64_MIN, 0});
  CHECK(interval_of(low * -1, facts) == Interval{5, INT64_MAX});
  CHECK(interval_of(low - big, facts) == Interval{INT64_MIN, -5});
}

TEST_CASE("divisibility") {
  Facts facts;
  Expr x = var("x"), y = var("y"), n = var("n"), u = var("u", i32);
  facts.bind(n, Modular{16, 0});
  facts.bind(y, Modular{6, 2});
  auto known = [&](Expr e) { return modular_of(e, facts); };
  CHECK(known(x * 8 + 3) == Modular{8, 3});
  CHECK(known(n * 3 + x * 32) == Modular{16, 0});
  CHECK(known(n + y) == Modular{2, 0});
  CHECK(known(y * y) == Modular{12, 4});
  CHECK(known(floordiv(n, 4)) == Modular{4, 0});
  CHECK(known(floormod(n + 5, imm(8))) == Modular{0, 5});
  CHECK(known(binary(BinaryOp::bit_xor, x * 8, y * 16)) == Modular{8, 0});
  CHECK(known(binary(BinaryOp::bit_and, x, imm(-16))) == Modular{16, 0});
  CHECK(known(u * 24) == Modular{8, 0});  // may wrap: only the power of two remains
  CHECK(known(min(n, x * 24)) == Modular{8, 0});
  CHECK(known(imm(12)) == Modular{0, 12});
}

TEST_CASE("facts from conditions") {
  Facts facts;
  Expr x = var("x"), y = var("y"), n = var("n"), p = var("p", boolean);
  facts.assume(both(le(imm(0), x), lt(x, imm(8))));
  CHECK(facts.ranges[x.get()] == Interval{0, 7});
  facts.assume(eq(floormod(n, 16), imm(0)));
  facts.assume(eq(floormod(n, 24), imm(0)));
  CHECK(facts.divisibility[n.get()] == Modular{48, 0});
  facts.assume(lt(imm(0), n));
  CHECK(interval_of(n, facts) == Interval{48, INT64_MAX});
  facts.assume(binary(BinaryOp::ne, x, imm(0)));
  CHECK(facts.ranges[x.get()] == Interval{1, 7});
  facts.assume(eq(y, x + 3));
  CHECK(facts.ranges[y.get()] == Interval{4, 10});
  CHECK(can_prove(eq(y - x, imm(3)), facts));
  facts.assume(unary(UnaryOp::logical_not, p));
  CHECK(print(simplify(p, facts)) == "false");
  facts.assume(lt(imm(9), x));  // never reached: must not make nonsense of the range
  CHECK(facts.ranges[x.get()].min <= facts.ranges[x.get()].max);
}

TEST_CASE("a load is no fact: memory may change") {
  Facts facts;
  Expr element = load(i64, BufferId{0}, {imm(0)});
  facts.assume(lt(element, imm(4)));
  CHECK_FALSE(can_prove(lt(element, imm(4)), facts));
}

TEST_CASE("proofs with run-time extents") {
  Facts facts;
  Expr m = var("M"), n = var("N"), bx = var("bx"), tx = bounded(facts, "tx", 0, 127), i = var("i");
  facts.assume(le(imm(0), bx));
  facts.assume(lt(bx, ceildiv(m, imm(128))));
  CHECK(can_prove(lt(bx * 128, m), facts));
  CHECK_FALSE(can_prove(lt(bx * 128 + tx, m), facts));
  facts.assume(eq(floormod(m, 128), imm(0)));
  CHECK(can_prove(lt(bx * 128 + tx, m), facts));
  CHECK_FALSE(can_prove(lt(bx * 128 + tx + 1, m), facts));
  // i < min(128, N - bx*128) is both bounds.
  facts.assume(lt(i, min(imm(128), n - bx * 128)));
  CHECK(can_prove(lt(i, imm(128)), facts));
  CHECK(can_prove(lt(bx * 128 + i, n), facts));
  CHECK_FALSE(can_prove(lt(bx * 128 + i, n - 1), facts));
  CHECK(can_prove(le(min(n, m), m), facts));
  CHECK_FALSE(can_prove(lt(n, m), facts));
}

TEST_CASE("linear forms") {
  Facts facts;
  Expr i = bounded(facts, "i", 0, 3), x = var("x"), n = var("n");
  auto l = linear_in(x * 32 + i * 4 - i + 7, i, facts);
  REQUIRE(l);
  CHECK(l->stride == 3);
  CHECK(print(l->base) == "x*32 + 7");
  CHECK(linear_in(floordiv(x * 4 + i, 4) * 4 + floormod(x * 4 + i, 4), i, facts)->stride == 1);
  CHECK(linear_in(floordiv(i, 4) + x, i, facts)->stride == 0);
  CHECK(linear_in(n, i, facts)->stride == 0);
  CHECK_FALSE(linear_in(i * n, i, facts));
  CHECK_FALSE(linear_in(floormod(i + x, 8), i, facts));
}

TEST_CASE("facts of a kernel") {
  Function f;
  Kernel k;
  Expr m = var("M"), bx = var("bx"), by = var("by"), t = var("t");
  f.facts = {lt(imm(0), m)};
  k.grid_vars = {bx, by};
  k.grid = {imm(8), ceildiv(m, imm(64))};
  k.threads = {32, 4};
  k.thread = t;
  Facts facts = facts_of(f, k);
  CHECK(interval_of(bx, facts) == Interval{0, 7});
  CHECK(interval_of(by, facts).min == 0);
  CHECK(interval_of(t, facts) == Interval{0, 127});
  CHECK(can_prove(lt(by * 64, m), facts));
}

TEST_CASE("an unsigned number of 64 bits may be no number of int64") {
  Facts facts;
  Expr u = var("u", u64), large = imm(INT64_MIN, u64);
  facts.bind(u, Modular{24, 13});
  CHECK(modular_of(cast(i64, u), facts) == Modular{8, 5});  // 2^64 is a multiple of 8, and none of 3
  CHECK(interval_of(cast(i64, u), facts) == Interval{});
  CHECK(interval_of(large, facts).min == INT64_MAX);
  CHECK(!as_int(simplify(lt(u, large), facts)));
  CHECK(!as_int(simplify(binary(BinaryOp::floordiv, u, large), facts)));
  CHECK(is_int(binary(BinaryOp::lt, imm(5, u64), large), 1));
  CHECK(is_int(binary(BinaryOp::shr, large, imm(63, u64)), 1));
  CHECK_EQ(cast(f64, imm(-1, u64)).as<FloatImm>()->value, 0x1p64);
  CHECK_EQ(cast(f32, imm((int64_t(1) << 60) + (int64_t(1) << 36) + 1, i64)).as<FloatImm>()->value,
           0x1p60 + 0x1p37);
}

TEST_CASE("a product of numbers of tiles is bounded by a product of lengths") {
  constexpr int64_t most = 600, longest = 600;
  Facts facts;
  Expr m = bounded(facts, "m", 1, longest), n = bounded(facts, "n", 1, longest),
       k = bounded(facts, "k", 1, longest);
  facts.assume(le(m * n, imm(most)));
  Expr tiles = ceildiv(m, imm(8)) * ceildiv(n, imm(16));
  int64_t reached = 0;
  for (int64_t x = 1; x <= longest; x++)
    for (int64_t y = 1; x * y <= most; y++) reached = std::max(reached, (x + 7) / 8 * ((y + 15) / 16));
  Interval r = interval_of(tiles, facts);
  CHECK(r.min >= 0);
  CHECK(r.max >= reached);
  CHECK(r.max < 2 * most);
  CHECK(interval_of(floordiv(m + 3, imm(4)) * n, facts).max >= (most + 3) / 4);
  // One with more factors is no smaller, as all are at least 1; one with others says nothing.
  facts.assume(le(m * k * 2, imm(100)));
  CHECK(interval_of(m * k, facts).max == 50);
  CHECK(interval_of(n * k, facts).max == longest * longest);
  Facts empty;  // lengths that may be 0: m*n <= most says nothing of m
  Expr a = bounded(empty, "a", 0, longest), b = bounded(empty, "b", 0, longest);
  empty.assume(le(a * b, imm(most)));
  CHECK(interval_of(ceildiv(a, imm(8)) * ceildiv(b, imm(16)), empty).max == 75 * 38);
}
