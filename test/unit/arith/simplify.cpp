// What the simplifier makes of expressions, by families; and what it must leave alone.
#include <doctest/doctest.h>

#include "arith/prove.h"
#include "arith/simplifier.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

struct Scene {
  Facts facts = {};
  Expr make(const char* hint, int64_t min, int64_t max, DType t = i64) {
    Expr v = var(hint, t);
    facts.bind(v, Interval{min, max});
    return v;
  }
  Expr x = var("x"), y = var("y"), n = var("n");
  Expr i = make("i", 0, 7), j = make("j", 0, 63), tx = make("tx", 0, 127), bx = make("bx", 0, 7);
  std::string operator()(const Expr& e) const {
    Expr s = simplify(e, facts);
    CHECK(equal(simplify(s, facts), s));
    CHECK(s->dtype == e->dtype);
    return print(s);
  }
};

Expr bit_xor(Expr a, Expr b) { return binary(BinaryOp::bit_xor, std::move(a), std::move(b)); }
Expr negated(Expr a) { return unary(UnaryOp::neg, std::move(a)); }
Expr inverse(Expr a) { return unary(UnaryOp::logical_not, std::move(a)); }

}  // namespace

TEST_CASE("sums have one form: larger factors first, subtractions last") {
  Scene s;
  CHECK(s(s.i + floordiv(s.tx, 4) * 8 + s.bx * 128) == "bx*128 + tx//4*8 + i");
  CHECK(s(s.bx * 128 + (s.i + floordiv(s.tx, 4) * 8)) == "bx*128 + tx//4*8 + i");
  CHECK(s((s.x + 3) + (s.y - 5)) == "x + y - 2");
  CHECK(s(s.x - s.x) == "0");
  CHECK(s(imm(7) - s.i) == "7 - i");
  CHECK(s((s.x + s.y) * 4 - s.y * 4) == "x*4");
  CHECK(s(s.x * s.n * 4 - s.n * s.x) == "n*x*3");
  CHECK(s(negated(s.x - s.y)) == "y - x");
  CHECK(s(binary(BinaryOp::shl, s.x, imm(3)) + s.x) == "x*9");
}

TEST_CASE("division by a constant takes out what it divides") {
  Scene s;
  CHECK(s(floordiv(s.x * 16 + s.i + s.y * 8, 8)) == "x*2 + y");
  CHECK(s(floormod(s.x * 16 + s.i + s.y * 8, 8)) == "i");
  CHECK(s(floordiv(floordiv(s.x, 4), 8)) == "x//32");
  CHECK(s(floormod(floormod(s.x, 32), 8)) == "x%8");
  CHECK(s(floormod(s.x * 4 + 2, 8)) == "x%2*4 + 2");
  CHECK(s(floordiv(s.x * 4 + 2, 8)) == "x//2");
  CHECK(s(floordiv(s.x * 17 + s.i, 16)) == "(x*17 + i)//16");
  CHECK(s(floordiv(s.bx * 17 + s.i, 16)) == "bx");  // bx + i < 16
  CHECK(s(floordiv(s.i, 8)) == "0");
  CHECK(s(floormod(s.i, 8)) == "i");
  CHECK(s(floormod(s.i - 8, 8)) == "i");
  CHECK(s(floordiv(s.i - 8, 8)) == "-1");
  CHECK(s(floordiv(s.x - 1, 8)) == "(x + 7)//8 - 1");
  CHECK(s(floormod(floormod(s.x, 24) + s.y, 8)) == "(x + y)%8");
}

TEST_CASE("negative numerators and divisors") {
  Scene s;
  CHECK(s(floordiv(negated(s.i), 8)) == "-i//8");
  CHECK(s(floordiv(s.x * 8, -8)) == "-x");
  CHECK(s(floordiv(s.x * -16 + 3, 8)) == "x*-2");
  CHECK(s(floormod(s.x * -16 + 3, 8)) == "3");
  CHECK(s(binary(BinaryOp::truncdiv, s.tx, imm(4))) == "tx//4");
  CHECK(s(binary(BinaryOp::truncdiv, s.x, imm(4))) == "truncdiv(x, 4)");
  CHECK(s(binary(BinaryOp::truncmod, s.x, imm(4))) == "truncmod(x, 4)");
}

TEST_CASE("digits: kept as (x // place) % radix, and put together again") {
  Scene s;
  CHECK(s(floordiv(floormod(s.x, 32), 4)) == "x//4%8");
  CHECK(s(floormod(floordiv(s.x, 4), 8)) == "x//4%8");
  CHECK(s(floordiv(s.x, 4) * 4 + floormod(s.x, 4)) == "x");
  CHECK(s(floormod(floordiv(s.x, 4), 8) * 4 + floormod(s.x, 4)) == "x%32");
  CHECK(s(floordiv(s.x, 32) * 8 + floormod(floordiv(s.x, 4), 8)) == "x//4");
  CHECK(s(s.x - floormod(s.x, 8)) == "x//8*8");
  CHECK(s(s.x - floordiv(s.x, 8) * 8) == "x%8");
  CHECK(s(floordiv(s.x, 4) * 8 + floormod(s.x, 4)) == "x//4*8 + x%4");  // padded: stays
  CHECK(s(floordiv(s.x + s.y, 5) * 5 + floormod(s.x + s.y, 5)) == "x + y");
}

TEST_CASE("exclusive or of digits") {
  Scene s;
  CHECK(s(bit_xor(s.x, imm(0))) == "x");
  CHECK(s(bit_xor(s.x, s.x)) == "0");
  CHECK(s(bit_xor(bit_xor(s.x, s.y), s.x)) == "y");
  CHECK(s(floormod(bit_xor(s.x * 8, s.y * 8), 8)) == "0");
  CHECK(s(floordiv(bit_xor(s.x * 8, s.y * 8), 8)) == "x ^ y");
  CHECK(s(bit_xor(s.x * 8, s.y * 8)) == "x*8 ^ y*8");
  CHECK(s(bit_xor(s.x * 8, s.i)) == "x*8 + i");  // no bit in common
  CHECK(s(floormod(bit_xor(s.x, s.i), 8)) == "x%8 ^ i");
  CHECK(s(floormod(bit_xor(s.x, s.y), 8)) == "(x ^ y)%8");
  // A swizzled tile of 8 rows of 64: where it is, and the way back.
  Expr at = s.i * 64 + bit_xor(floordiv(s.j, 8), s.i) * 8 + floormod(s.j, 8);
  CHECK(s(floordiv(at, 64)) == "i");
  CHECK(s(bit_xor(floormod(floordiv(at, 8), 8), floordiv(at, 64)) * 8 + floormod(at, 8)) == "j");
}

TEST_CASE("run-time divisors") {
  Scene s;
  CHECK(s(floordiv(s.y * s.n, s.n)) == "n*y//n");  // n may be 0
  CHECK(s(floordiv(s.n, s.n)) == "n//n");
  CHECK(s(floordiv(imm(0), s.n)) == "0//n");
  CHECK(s(binary(BinaryOp::mul, floormod(s.n, s.n), imm(0))) == "n%n*0");
  CHECK(s(floormod(s.y * s.n + s.x, s.n)) == "x%n");
  CHECK(s(s.n * floordiv(s.x, s.n) + floormod(s.x, s.n)) == "x//n*n + x%n");
  s.facts.assume(lt(s.tx, s.n));
  CHECK(s(floordiv(s.y * s.n, s.n)) == "y");
  CHECK(s(floordiv(s.n, s.n)) == "1");
  CHECK(s(floordiv(imm(0), s.n)) == "0");
  CHECK(s(binary(BinaryOp::mul, floormod(s.n, s.n), imm(0))) == "0");
  CHECK(s(s.n * floordiv(s.x, s.n) + floormod(s.x, s.n)) == "x");
  CHECK(s(floordiv(s.y * s.n + s.tx, s.n)) == "y");
  CHECK(s(floormod(s.y * s.n + s.tx, s.n)) == "tx");
}

TEST_CASE("what memory holds wraps at 64 bits, what counts and places does not") {
  Scene s;
  auto data = [](int64_t at) { return load(i64, BufferId{0}, {imm(at)}); };
  auto shifted = [](const Expr& e) {
    return binary(BinaryOp::shr, binary(BinaryOp::shl, e, imm(40)), imm(40));
  };
  Expr a = data(0), small = floormod(a, 1000);
  for (bool is_data : {true, false}) {
    Expr x = is_data ? a : s.x;
    auto stays = [&](const Expr& e, bool data_only = true) {
      CHECK((s(e) == print(e)) == (is_data && data_only));
    };
    stays(floordiv(x * 7, 7));
    stays(floormod(x * 3, 3));
    stays(floordiv(x * 4 + 1, 4));
    CHECK((s(shifted(x)) == (is_data ? print(floordiv(x * (int64_t(1) << 40), int64_t(1) << 40)) : "x")));
    CHECK(is_int(simplify(lt(x, x + 1)), 1) == !is_data);
    CHECK(is_int(simplify(lt(x - 1, x)), 1) == !is_data);
    CHECK(s((x + 1) - x) == "1");  // modulo 2^64
    CHECK(s(floormod(x * 8, 4)) == "0");
    CHECK(s(eq(x + 1, x + 2)) == "false");
  }
  CHECK(s(floordiv(small * 7, 7)) == print(small));
  CHECK(s(floordiv(cast(i64, load(i32, BufferId{0}, {imm(0)})) * 7, 7)) == "cast<i64>(buffer0[0])");
  // -x wraps, of which the least integer is its own negative.
  CHECK(s(floordiv(a, -2)) == print(floordiv(a, -2)));
  CHECK(s(floormod(a, -3)) == print(floormod(a, -3)));
  CHECK(s(floordiv(s.x, -2)) == "-x//2");
  // A name of data is data.
  Expr name = var("name");
  learn(s.facts, name, a);
  CHECK(s(floordiv(name * 7, 7)) == "name*7//7");
}

TEST_CASE("a product with 0 that divides goes where another term divides by the same") {
  Scene s;
  Expr gone = imm(0) * bit_xor(floordiv(s.x, s.n), s.y), kept = floordiv(s.y, s.n);
  Simplifier inner(s.facts);
  Expr sum = inner.run(binary(BinaryOp::bit_or, kept, gone));  // which makes a sum of two simplified operands
  CHECK(print(sum) == "y//n");
}

TEST_CASE("a division that a condition guards does not stand for one that is always made") {
  Scene s;
  Expr q = binary(BinaryOp::truncdiv, s.x, s.n);
  Expr guarded = select(lt(s.y, imm(3)), binary(BinaryOp::truncmod, s.y, s.n), imm(1));
  CHECK(s(q - q + guarded).find("truncdiv(x, n)") != std::string::npos);
  CHECK(s(q - q + binary(BinaryOp::truncmod, s.y, s.n)) == "truncmod(y, n)");
}

TEST_CASE("a factor of half of what an unsigned type counts has one sign") {
  Scene s;
  Expr u = var("u", u32), q = binary(BinaryOp::floordiv, imm(0, u32), u), half = imm(int64_t(1) << 31, u32);
  CHECK(s(lt(q * half, u)) == "0//u*2147483648 < u");
  CHECK(s(eq(u, q * half)) == "0//u*2147483648 == u");
}

TEST_CASE("what is made of a constant beyond all indices wraps, whatever else it is made of") {
  Scene s;
  auto stays = [&](const Expr& e) { CHECK(s(e) == print(e)); };
  int64_t large = int64_t(1) << 61;
  stays(floordiv(s.x * large, large));
  stays(floordiv(s.j * large, large));
  CHECK(s(floordiv(s.j * 3, 3)) == "j");
  CHECK(s(floordiv(binary(BinaryOp::shl, s.j, imm(58)), -3)).starts_with("j*"));  // and not -(…)//3
  Expr least = var("least");
  learn(s.facts, least, imm(INT64_MIN));
  stays(floordiv(least * -3, -3));  // least * -3 is the least again
}

TEST_CASE("a condition that is never asked for goes, a division by 0 in front of it stays") {
  Scene s;
  Expr fails = lt(s.x, floordiv(imm(100), s.n)), never = lt(s.tx, imm(0));
  CHECK(s(both(never, fails)) == "false");
  CHECK(s(both(fails, never)) == "x < 100//n and false");
  CHECK(s(both(eq(bit_xor(s.x, s.x), imm(0)), both(fails, never))) == "x < 100//n and false");
  CHECK(s(both(fails, fails)) == "x < 100//n and x < 100//n");
}

TEST_CASE("comparisons of sums") {
  Scene s;
  CHECK(s(lt(s.bx * 128 + s.tx, imm(1024))) == "true");
  CHECK(s(lt(s.bx * 128 + s.tx, imm(1000))) == "bx*128 + tx < 1000");
  CHECK(s(lt(s.x * 8 + s.i, imm(1000))) == "x < 125");  // uniform in i
  CHECK(s(lt(imm(5), s.x)) == "x >= 6");
  CHECK(s(lt(s.x * 4 + 3, imm(16))) == "x < 4");
  CHECK(s(binary(BinaryOp::ge, s.x + 1, s.y)) == "y <= x + 1");
  CHECK(s(lt(s.x - s.y, s.x + 2)) == "y >= -1");
  CHECK(s(eq(s.x * 4, s.y * 8 + 4)) == "y*2 + 1 == x");
  CHECK(s(eq(s.x * 4, s.y * 8 + 3)) == "false");
  CHECK(s(binary(BinaryOp::ne, floormod(s.x, 4), imm(4))) == "true");
  CHECK(s(lt(floordiv(s.x, 4), imm(8))) == "x < 32");
  CHECK(s(le(imm(2), floordiv(s.x, 4))) == "x >= 8");
  CHECK(s(inverse(lt(s.x, s.y))) == "y <= x");
}

TEST_CASE("logic keeps the order of its operands and drops what is implied") {
  Scene s;
  Expr a = lt(s.x, imm(8)), b = lt(s.x, imm(4)), p = var("p", boolean), q = var("q", boolean);
  CHECK(s(both(a, b)) == "x < 4");
  CHECK(s(binary(BinaryOp::logical_or, a, b)) == "x < 8");
  CHECK(s(both(a, inverse(b))) == "x < 8 and x >= 4");
  CHECK(s(both(b, inverse(a))) == "false");
  CHECK(s(binary(BinaryOp::logical_or, a, inverse(b))) == "true");
  CHECK(s(both(both(p, q), p)) == "p and q");
  CHECK(s(both(p, inverse(p))) == "false");
  CHECK(s(binary(BinaryOp::logical_or, both(p, q), q)) == "q");
  CHECK(s(inverse(inverse(p))) == "p");
  CHECK(s(eq(p, imm(0, boolean))) == "not p");
  // The first condition guards the load of the second: the third may not take its place behind it.
  Expr element = lt(load(i64, BufferId{0}, {s.x}), imm(5));
  CHECK(s(both(both(a, element), b)) == "x < 4 and buffer0[x] < 5");
  Expr guarded = both(both(lt(s.y, imm(100)), binary(BinaryOp::ne, s.x, imm(0))),
                      lt(s.y + floordiv(s.n, s.x) * 0, imm(50)));
  CHECK(s(guarded) == "y < 50 and x != 0");
}

TEST_CASE("extremes and selections") {
  Scene s;
  Expr p = var("p", boolean);
  CHECK(s(min(s.x + 4, s.x)) == "x");
  CHECK(s(max(s.x + 4, s.x)) == "x + 4");
  CHECK(s(min(s.tx, imm(200))) == "tx");
  CHECK(s(min(min(s.x, imm(9)), imm(7))) == "min(x, 7)");
  CHECK(s(min(s.y, min(s.x, s.y))) == "min(x, y)");
  CHECK(s(select(p, s.x, s.x)) == "x");
  CHECK(s(select(inverse(p), s.x, s.y)) == print(select(p, s.y, s.x)));
  CHECK(s(select(lt(s.tx, imm(128)), s.x, s.y)) == "x");
  CHECK(s(select(lt(s.x, s.y), s.x, s.y)) == "min(x, y)");
}

TEST_CASE("floats: exact identities only") {
  Scene s;
  Expr a = var("a", f32), b = var("b", f32);
  CHECK(s(binary(BinaryOp::mul, a, fimm(1))) == "a");
  CHECK(s(binary(BinaryOp::mul, fimm(2), a)) == "a*2.0");
  CHECK(s(binary(BinaryOp::sub, a, fimm(0.0))) == "a");
  CHECK(s(binary(BinaryOp::add, a, fimm(-0.0))) == "a");
  CHECK(s(binary(BinaryOp::add, a, fimm(0.0))) == "a + 0.0");  // -0 + 0 is +0
  CHECK(s(binary(BinaryOp::mul, a, fimm(0.0))) == "a*0.0");    // NaN, infinity, -0
  CHECK(s(binary(BinaryOp::sub, a, a)) == "a - a");
  CHECK(s(binary(BinaryOp::eq, a, a)) == "a == a");  // a NaN is not
  CHECK(s(inverse(binary(BinaryOp::lt, a, b))) == "not a < b");
  CHECK(s(binary(BinaryOp::sub, binary(BinaryOp::add, a, b), b)) == "a + b - b");
  CHECK(s(negated(negated(a))) == "a");
  CHECK(s(binary(BinaryOp::add, a, negated(b))) == "a - b");
  CHECK(s(call(*find_intrinsic("sqrt"), {fimm(4)})) == "2.0");
  CHECK(s(call(*find_intrinsic("log"), {fimm(-1)})) == "log(-1.0)");  // not a number: left to run time
}

TEST_CASE("narrow integers wrap") {
  Scene s;
  Expr u = var("u", u8), v = var("v", u8), w = var("w", i32);
  Expr small = s.make("small", 0, 9, u8);
  auto u8_imm = [](int64_t x) { return imm(x, u8); };
  CHECK(s(binary(BinaryOp::sub, binary(BinaryOp::add, u, v), v)) == "u");
  CHECK(s(lt(binary(BinaryOp::add, u, u8_imm(1)), u)) == "u + 1 < u");  // true for 255
  CHECK(s(lt(binary(BinaryOp::add, small, u8_imm(1)), small)) == "false");
  CHECK(s(floordiv(binary(BinaryOp::mul, u, u8_imm(2)), 2)) == "u*2//2");  // loses a bit
  CHECK(s(floordiv(binary(BinaryOp::mul, small, u8_imm(2)), 2)) == "small");
  CHECK(s(binary(BinaryOp::mul, binary(BinaryOp::mul, u, u8_imm(16)), u8_imm(16))) == "0:u8");
  CHECK(s(eq(binary(BinaryOp::add, u, u8_imm(3)), u8_imm(1))) == "u == 254");
  CHECK(s(lt(binary(BinaryOp::sub, w, imm(1, i32)), w)) == "w - 1 < w");  // INT32_MIN
  CHECK(s(cast(i64, cast(i32, s.x))) == "cast<i64>(cast<i32>(x))");
  CHECK(s(cast(i64, cast(i32, s.tx))) == "tx");
  CHECK(s(cast(i8, cast(i32, s.x))) == "cast<i8>(x)");
  CHECK(s(cast(f32, cast(f64, var("a", f32)))) == "a");
  CHECK(s(cast(f32, cast(f16, var("a", f32)))) == "cast<f32>(cast<f16>(a))");
  CHECK(s(binary(BinaryOp::bit_and, u, u8_imm(15))) == "u%16");
  CHECK(s(binary(BinaryOp::shr, w, imm(3, i32))) == "w//8");
}

TEST_CASE("lanes") {
  Scene s;
  Expr row = ramp(s.y * 8, imm(1), 8);
  auto all = [](int64_t v) { return broadcast(imm(v), 8); };
  CHECK(s(binary(BinaryOp::add, row, all(3))) == "ramp(y*8 + 3, 1, 8)");
  CHECK(s(binary(BinaryOp::mul, row, all(4))) == "ramp(y*32, 4, 8)");
  CHECK(s(binary(BinaryOp::floordiv, row, all(8))) == "broadcast(y, 8)");
  CHECK(s(binary(BinaryOp::floormod, row, all(64))) == "ramp(y%8*8, 1, 8)");
  CHECK(s(binary(BinaryOp::lt, row, all(1000))) == "broadcast(y < 125, 8)");
  CHECK(s(binary(BinaryOp::lt, ramp(s.y, imm(1), 8), all(8))) == "ramp(y, 1, 8) < broadcast(8, 8)");
}

TEST_CASE("what has an effect stays, once, in its place") {
  Scene s;
  Intrinsic bump{
      .name = "bump", .arity = 0, .result = Intrinsic::Result::i64, .effect = Intrinsic::Effect::memory};
  Expr e = call(bump, {});
  CHECK(s(e - e) == "bump() - bump()");
  CHECK(s(e * 2 + s.x + s.x) == "bump()*2 + x + x");
  CHECK(s(select(var("p", boolean), e, e)) == print(select(var("p", boolean), e, e)));
}

TEST_CASE("a division by the constant zero is left where it is") {
  Scene s;
  auto* n = new Binary();
  n->dtype = i64;
  n->op = BinaryOp::floordiv;
  n->a = s.x + s.x;
  n->b = imm(0);
  CHECK(s(own(n)) == "x*2//0");
}

TEST_CASE("an unchanged expression is the same node") {
  Scene s;
  Expr e = simplify(s.bx * 128 + floordiv(s.tx, 4) * 8 + s.i, s.facts);
  CHECK(simplify(e, s.facts).same(e));
  Expr shared = s.x + 1;
  for (int i = 0; i < 60; i++) shared = shared + shared;  // 2^60 paths, 60 nodes
  CHECK(print(simplify(shared)) == "x*1152921504606846976 + 1152921504606846976");
}
