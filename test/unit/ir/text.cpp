// Printing and parsing: the spelling of things, and one function that has everything.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/op.h"

using namespace tl;

namespace {

const Vocabulary vocabulary{find_op_info, find_instr};

void check_round_trip(const Function& f, int line = __builtin_LINE()) {
  std::string text = print(f);
  CAPTURE(line);
  CAPTURE(text);
  Function back = parse(text, "round", vocabulary);
  CHECK(equivalent(f, back));
  CHECK_EQ(print(back), text);
}

}  // namespace

TEST_CASE("expressions carry no parentheses that their operators do not need") {
  Expr a = var("a"), b = var("b"), c = var("c"), x = var("x", f32), p = var("p", boolean),
       q = var("q", boolean);
  using Op = BinaryOp;
  CHECK_EQ(print(a * b + c), "a*b + c");
  CHECK_EQ(print(a * (b + c)), "a*(b + c)");
  CHECK_EQ(print(a - (b - c)), "a - (b - c)");
  CHECK_EQ(print(a - b - c), "a - b - c");
  CHECK_EQ(print(floormod(floordiv(a, 8), 4)), "a//8%4");
  CHECK_EQ(print(binary(Op::bit_xor, floordiv(a, 8), floormod(b, 4))), "a//8 ^ b%4");
  CHECK_EQ(print(binary(Op::mul, binary(Op::bit_xor, a, b), c)), "(a ^ b)*c");
  CHECK_EQ(print(binary(Op::shl, a, imm(3)) + 1), "(a << 3) + 1");
  CHECK_EQ(print(unary(UnaryOp::neg, a * b)), "-(a*b)");
  CHECK_EQ(print(binary(Op::mul, unary(UnaryOp::neg, a), b)), "-a*b");
  CHECK_EQ(print(binary(Op::mul, a, imm(-3))), "a*-3");
  CHECK_EQ(
      print(binary(Op::logical_or, binary(Op::logical_and, p, q), unary(UnaryOp::logical_not, lt(a, b)))),
      "p and q or not a < b");
  CHECK_EQ(print(binary(Op::logical_and, p, binary(Op::logical_or, p, q))), "p and (p or q)");
  CHECK_EQ(print(eq(lt(a, b), p)), "(a < b) == p");
  CHECK_EQ(print(min(a, max(b, c))), "min(a, max(b, c))");
  CHECK_EQ(print(cast(f16, x)), "cast<f16>(x)");
  CHECK_EQ(print(select(p, x, call(*find_intrinsic("exp2"), {x}))), "select(p, x, exp2(x))");
  CHECK_EQ(print(call(*find_intrinsic("exp2"), {x}, f16)), "exp2<f16>(x)");
  CHECK_EQ(print(ramp(a, imm(1), 8)), "ramp(a, 1, 8)");
  CHECK_EQ(print(broadcast(x, 4)), "broadcast(x, 4)");
  CHECK_EQ(print(load(f32, BufferId{2}, {a, b})), "buffer2[a, b]");
}

TEST_CASE("constants are typed where i64 and f32 do not go without saying") {
  CHECK_EQ(print(imm(3)), "3");
  CHECK_EQ(print(imm(-3, i32)), "-3:i32");
  CHECK_EQ(print(imm(-1, u64)), "18446744073709551615:u64");
  CHECK_EQ(print(imm(INT64_MIN)), "-9223372036854775808");
  CHECK_EQ(print(imm(1, boolean)), "true");
  CHECK_EQ(print(fimm(1)), "1.0");
  CHECK_EQ(print(fimm(0.1)), "0.1");
  CHECK_EQ(print(fimm(0.1, f64)), "0.1:f64");
  CHECK_EQ(print(fimm(0.1, f16)), "0.1:f16");
  CHECK_EQ(print(fimm(1.0 / 3, f64)), "0.3333333333333333:f64");
  CHECK_EQ(print(fimm(-0.0)), "-0.0");
  CHECK_EQ(print(fimm(INFINITY, bf16)), "inf:bf16");
  CHECK_EQ(print(fimm(3e38)), "3e+38");
  CHECK_EQ(print(fimm(std::nan(""))), "nan");
}

TEST_CASE("beside an expression of its type a constant needs none") {
  Expr i = var("i", i32), h = var("h", f16), p = var("p", boolean);
  CHECK_EQ(print(i * 4 + 3), "i*4 + 3");
  CHECK_EQ(print(lt(imm(3, i32), i)), "3 < i");
  CHECK_EQ(print(max(h, fimm(-INFINITY, f16))), "max(h, -inf)");
  CHECK_EQ(print(select(p, fimm(0.1, f16), h)), "select(p, 0.1, h)");
  CHECK_EQ(print(select(p, fimm(0.1, f16), fimm(1, f16))), "select(p, 0.1:f16, 1.0:f16)");
  CHECK_EQ(print(ramp(i, imm(1, i32), 4)), "ramp(i, 1, 4)");
  CHECK_EQ(print(ramp(imm(0, i32), imm(1, i32), 4)), "ramp(0:i32, 1:i32, 4)");
  CHECK_EQ(print(call(fma_function, {h, fimm(2, f16), h})), "fma(h, 2.0:f16, h)");
  Function f = parse(R"(func f(A: f16[8], D: f64[8], u: u64, i: i32):
  kernel k grid(b: 1):
    A[0] = -0.1
    A[1] = A[0]*0.1
    D[0] = D[1] + 0.1
    D[1] = 0.30000000000000004
    D[2] = select(u < 18446744073709551615:u64 and u > 7, D[0], -inf)
    D[3] = select(i > -2147483648, nan, D[0])
)",
                     "weak", vocabulary);
  check_round_trip(f);
  auto& stmts = f.kernels[0].body.as<Block>()->stmts;
  CHECK_EQ(stmts[0].as<Store>()->value.as<FloatImm>()->value, round_float(-0.1, f16));
  CHECK_EQ(stmts[2].as<Store>()->value.as<Binary>()->b.as<FloatImm>()->value,
           0.1);  // rounded once, not through f32
  CHECK_EQ(stmts[3].as<Store>()->value.as<FloatImm>()->value, 0.30000000000000004);
}

TEST_CASE("floats come back bit for bit") {
  Function f;
  std::vector<std::pair<DType, Expr>> xs;
  for (DType t : {f16, bf16, f32, f64}) {
    xs.emplace_back(t, var("x" + to_string(t), t));
    f.params.push_back({.name = "x" + to_string(t), .buffer = {}, .var = xs.back().second});
  }
  uint64_t state = 1;
  for (int i = 0; i < 2000; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double v = std::ldexp(double(state >> 11), int(state % 120) - 110);
    for (auto& [t, x] : xs) f.facts.push_back(lt(fimm(v, t), x));
  }
  CHECK(equivalent(f, parse(print(f), "floats", vocabulary)));
}

TEST_CASE("what every call checks comes back, and is a part of what makes two functions equal") {
  Function f;
  f.name = "f";
  Expr n = var("n", i32);
  f.params.push_back({.name = "n", .buffer = {}, .var = n});
  f.checks.push_back(
      {.cond = lt(imm(3, i32), n), .message = "more than \"three\"", .place = "k.py:7", .span = {}});
  check_round_trip(f);
  Function other = f;
  other.checks[0].place = "k.py:8";
  CHECK_FALSE(equivalent(f, other));
}

TEST_CASE("names that are taken, empty or words of the language come back as they were") {
  Function f;
  f.name = "func";
  auto tensor = [&](std::string name) {
    BufferInfo b;
    b.name = std::move(name);
    b.dtype = f32;
    b.shape = {imm(8)};
    return f.add(std::move(b));
  };
  BufferId a = tensor("A"), a2 = tensor("A"), empty = tensor("");
  f.params = {{.name = "A", .buffer = a, .var = {}},
              {.name = "for", .buffer = a2, .var = {}},
              {.name = "x", .buffer = empty, .var = {}}};
  Expr outer = var("i"), inner = var("i"), later = var("i");
  Stmt body = block({for_loop(outer, 8, Loop::serial,
                              for_loop(inner, 8, Loop::serial, store(a, {inner}, load(f, a2, {outer})))),
                     for_loop(later, 8, Loop::serial, store(a, {later}, load(f, empty, {later})))});
  Kernel k;
  k.name = "a kernel";
  k.grid_vars = {var("f32")};
  k.grid = {imm(1)};
  k.body = body;
  f.kernels.push_back(k);
  CHECK_EQ(print(f), R"(func `func`(A: f32[8], `for` as A.1: f32[8], x as ``: f32[8]):
  kernel `a kernel` grid(`f32`: 1):
    for i in serial(8):
      for i.1 in serial(8):
        A[i.1] = A.1[i]
    for i in serial(8):
      A[i] = ``[i]
)");
  check_round_trip(f);
}

TEST_CASE("one variable defined in two places is one variable, or two, to `equivalent`") {
  Function f =
      parse("func f(A: f32[8]):\n  kernel k grid(b: 1):\n    for i in serial(8):\n      A[i] = 1.0\n", "t",
            vocabulary);
  Stmt loop = f.kernels[0].body;
  f.kernels[0].body = block({loop, loop});
  check_round_trip(f);
}

TEST_CASE("a nest of blocks stays as it was built") {
  Function f = parse("func f(A: f32[8]):\n  kernel k grid(b: 1):\n    A[b] = 1.0\n", "t", vocabulary);
  Stmt s = f.kernels[0].body;
  auto nest = [](std::vector<Stmt> stmts) {
    auto* b = new Block;
    b->stmts = std::move(stmts);
    return own(b);
  };
  for (Stmt body : {nest({}), nest({s}), nest({nest({s})}), nest({nest({}), s}),
                    nest({nest({s, s}), nest({nest({s, s})})}), nest({let(var("x"), imm(1))}),
                    nest({s, nest({let(var("x"), imm(1)), s}), s})}) {
    f.kernels[0].body = body;
    check_round_trip(f);
  }
}

TEST_CASE("places: a node's span is its text") {
  std::string text = "func f(A: f32[8], n: i64):\n  kernel k grid(b: 1):\n    A[b] = A[n] + exp2(1.0)*A[0]\n";
  Function f = parse(text, "places", vocabulary);
  auto* s = f.kernels[0].body.as<Store>();
  REQUIRE(s);
  CHECK_EQ(*s->span.file, "places");
  CHECK(s->span == Span{s->span.file, 3, 5, 3, 33});
  auto* sum = s->value.as<Binary>();
  CHECK(sum->span == Span{s->span.file, 3, 12, 3, 33});
  CHECK(sum->b->span == Span{s->span.file, 3, 19, 3, 33});
  CHECK(sum->b.as<Binary>()->a->span == Span{s->span.file, 3, 19, 3, 28});
  CHECK(f.kernels[0].span.line == 2);
  CHECK(f[BufferId{0}].span == Span{s->span.file, 1, 8, 1, 9});
}

TEST_CASE("tensor maps come back, and are a part of what makes two functions equal") {
  std::string_view text = R"(func main(A: f16[m, n], B: f16[m, 128]):
  tensor_map `for` = A box(64, 64) swizzle(128) fetch(256)
  tensor_map panels = A[n//64, m, 64] strides(64, n, 1) box(2, 64, 64)
  tensor_map M = B box(8, 16)
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared f16[4096] address(0) elements(4096)
    cp_async_bulk_tensor_2d_store("for", address_of(A[0]), 0, 64, address_of(S[0]))
)";
  Function f = parse(text, "maps", vocabulary);
  CHECK_EQ(print(f), text);
  check_round_trip(f);
  REQUIRE_EQ(f.maps.size(), 3);
  CHECK_EQ(f.maps[0].box_elements(), 4096);
  CHECK_EQ(strides_of(f, f.maps[2]).size(), 2);
  for (auto change : {+[](TensorMap& m) { m.swizzle = 64; }, +[](TensorMap& m) { m.box[0] = 3; },
                      +[](TensorMap& m) { m.fetch = 64; }, +[](TensorMap& m) { m.name = "x"; }}) {
    Function other = f;
    change(other.maps[1]);
    CHECK(!equivalent(f, other));
  }
}

TEST_CASE("sugar: ceildiv, base elements, comments, lines that go on inside brackets") {
  Function f = parse(R"(
# a comment first
func f(A: f16[n, 64],   # n comes from the call
       C: f16[n, 64]):

  kernel k grid(b: ceildiv(n, 32)):
      # indented by four
      S = shared f16[32, 64]
      copy(A[b*32:, 0:], S)
      copy(S, C[b*32 : +32,
                0 : +64])
)",
                     "sugar", vocabulary);
  CHECK_EQ(print(f.kernels[0].grid[0]), "(n + 31)//32");
  auto& region = std::get<Region>(f.kernels[0].body.as<Block>()->stmts[1].as<Tile>()->operands[0]);
  CHECK(!region.ranges[0].extent);
  CHECK(!region.ranges[0].point);
  check_round_trip(f);
}
