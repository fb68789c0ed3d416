// The legality table and the rules of every level: one wrong function per rule.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"

using namespace tl;

namespace {

// A kernel of these lines, with tensors A: f32[8, 8], C: f32[64] and the scalar n.
Function kernel_of(std::string_view lines) {
  std::string text =
      "func f(A: f32[8, 8], C: f32[64], n: i64):\n  kernel k grid(b: 8) threads(32) thread(tx):\n";
  for (size_t at = 0; at < lines.size();) {
    size_t end = std::min(lines.find('\n', at), lines.size());
    text += "    " + std::string(lines.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return parse(text, "verify", {find_op_info, find_instr});
}

struct Case {
  Level level;
  std::string_view lines;
  int line;
  std::string_view text;  // "": nothing is wrong
};
constexpr Case cases[] = {
    {Level::tile, "S = shared f32[8, 8]\ncopy(A, S)\nfor i in parallel(8):\n  S[i, 0] = A[i, n]", 0, ""},
    {Level::tile, "C[b] = cast<f32>(lookup(b, \"7 -1 5\"))", 0, ""},
    {Level::tile, "C[b] = cast<f32>(lookup(b, \"7  5\"))", 3,
     "the values of a lookup are a text of integers, a space between two"},
    {Level::tile, "C[b] = cast<f32>(lookup(b, \"\"))", 3,
     "the values of a lookup are a text of integers, a space between two"},
    {Level::tile, "C[b] = cast<f32>(lookup(b, \"1 9999999999\"))", 3,
     "the values of a lookup are a text of integers, a space between two"},
    {Level::thread, "copy(A, A)", 3, "at level thread there are no tile operators"},
    {Level::thread, "for i in parallel(8):\n  C[i] = 1.0", 3, "at level thread there are no parallel loops"},
    {Level::thread, "for i in pipelined(8):\n  C[i] = 1.0", 3,
     "at level thread there are no pipelined loops"},
    {Level::thread, "for i in vectorized(8):\n  C[i] = 1.0", 0, ""},
    {Level::machine, "for i in vectorized(8):\n  C[i] = 1.0", 3,
     "at level machine there are no vectorized loops"},
    {Level::tile, "C[ramp(0, 1, 4)] = broadcast(1.0, 4)", 3, "at level tile there are no vectors"},
    {Level::thread, "C[ramp(0, 1, 4)] = broadcast(1.0, 4)", 0, ""},
    {Level::tile, "A[3] = 1.0", 3,
     "A has 2 dimensions; at level tile an access takes one index per dimension, not 1 indices"},
    {Level::thread, "A[3] = A[1, 2]", 0, ""},
    {Level::machine, "A[1, 2] = 1.0", 3,
     "A has 2 dimensions; at level machine an access takes one index in elements, not 2 indices"},
    {Level::thread, "S = shared f32[8, 8]\nS[1, 2] = 1.0", 4,
     "S has 2 dimensions; at level thread an access takes one index in elements, not 2 indices"},
    {Level::tile,
     "S = shared f32[8, 8] layout((i, j) -> j*8 + i)\nV = shared i32[64] alias(S) layout((i) -> i%8*8 + "
     "i//8)",
     0, ""},
    {Level::tile,
     "S = shared f32[8, 8] layout((i, j) -> i*8 + (j//4 ^ i%2)*4 + j%4)\nV = shared f16[8, 16] alias(S)\n"
     "W = shared u64[8, 4] alias(S) layout((i, j) -> i*4 + (j//2 ^ i%2)*2 + j%2)",
     0, ""},
    {Level::tile,
     "S = shared f32[8, 8] layout((i, j) -> j*8 + i)\n"
     "V = shared f16[8, 16] alias(S) layout((i, j) -> i*16 + j)",
     4,
     "S and V share one storage, but their layouts disagree: S[0, 1] begins at byte 32, and V[0, 2], which "
     "is the same byte, at byte 4; annotate one of the two, and the other follows"},
    {Level::tile,
     "S = shared f32[8, 8]\nV = shared i32[64] alias(S) layout((i) -> i)\n"
     "W = shared u8[256] alias(S) layout((i) -> i ^ 1)",
     5,
     "V and W share one storage, but their layouts disagree: V[0] begins at byte 0, and W[0], which is the "
     "same byte, at byte 1; annotate one of the two, and the other follows"},
    {Level::tile,
     "F = fragment f32[64] layout((i, r) -> (i//2, i%2))\n"
     "G = fragment f32[8, 8] alias(F) layout((i, j, r) -> (j*4 + i//2, i%2))",
     4,
     "F and G share one storage, but their layouts disagree: F[1] begins at byte 4 of thread 0, and G[0, 1], "
     "which is the same byte, at byte 0 of thread 4; annotate one of the two, and the other follows"},
    {Level::tile, "V = global i32[64] alias(A) layout((i) -> i)", 3,
     "the tensor V has a layout, and shares its storage with a tensor of another shape or type; only tensors "
     "in row-major order do"},
    {Level::machine, "S = shared f32[8, 8]\nS[1] = 1.0", 3,
     "at level machine the shared buffer S has no address"},
    {Level::machine, "S = shared f32[8, 8] address(0) elements(64)\nS[1] = 1.0", 0, ""},
    {Level::tile, "copy(A[0 : +8], A)", 3, "A has 2 dimensions, but its region has 1"},
    {Level::tile, "copy(A[0:, 0:], A)", 3, "an expression is missing"},
    {Level::tile, "A[1.5 > 0.5, 0] = 1.0", 3, ""},
    {Level::tile, "if n > 0:\n  S = shared f32[8]\nS[0] = 1.0", 5,
     "the buffer S is used where it is not allocated"},
    {Level::tile, "S = shared f32[8]\nif n > 0:\n  alloc S", 5, "the buffer S is allocated twice"},
    {Level::tile, "S = shared f32[n]", 3, "S is a f32 tile: its extents must be constants"},
    {Level::tile, "S = shared f32[0]", 3, "an extent of S is 0, not positive"},
    {Level::tile, "F = fragment f32[8]\ngroup(0 : +32):\n  F[0] = 1.0\ngroup(32 : +32):\n  C[0] = F[0]", 7,
     "the fragment F is used by two groups of threads, but a fragment belongs to one: move the value through "
     "shared memory"},
    {Level::tile, "F = local f32[8]\ngroup(0 : +32):\n  F[0] = 1.0\ngroup(32 : +32):\n  C[0] = F[0]", 0, ""},
    {Level::thread, "group(0 : +32):\n  group(0 : +8):\n    pass", 0, ""},
    {Level::thread, "group(0 : +32):\n  group(16 : +32):\n    pass", 4,
     "a group of the threads [16, 48) within one of others"},
    {Level::tile, "group(-1 : +32):\n  pass", 3, "a group of threads [-1, 31)"},
    {Level::tile, "F = fragment f32[8] layout((i, r) -> i)", 3,
     "a layout of F has 2 variables and 2 outputs, not 2 and 1"},
    {Level::tile, "C[0] mask(broadcast(true, 4)) = 1.0", 3, "at level tile there are no vectors"},
    {Level::thread, "C[0] mask(broadcast(true, 4)) = 1.0", 3,
     "the mask has 4 lanes where 1 or 1 are expected"},
    {Level::tile, "address_of(n)", 3, "address_of takes an element of a buffer"},
};

}  // namespace

TEST_CASE("each rule of each level") {
  for (auto& c : cases) {
    CAPTURE(c.lines);
    CAPTURE(to_string(c.level));
    std::optional<Function> f;
    try {
      f = kernel_of(c.lines);
    } catch (const CompileError& e) {
      CHECK_EQ(e.text, "an index is bool, not an integer");  // the makers know that much
      continue;
    }
    auto finding = check(*f, c.level);
    CHECK_EQ(finding ? finding->text : "", c.text);
    if (finding) CHECK_EQ(finding->span.line, c.line);
  }
}

TEST_CASE("what no text can say") {
  Function f = kernel_of("C[0] = 1.0");
  Kernel& k = f.kernels[0];
  auto text = [&](Level level = Level::tile) {
    auto finding = check(f, level);
    return finding ? finding->text : "";
  };
  Stmt good = k.body;
  CHECK_EQ(text(), "");

  k.body = store({1}, {var("i")}, fimm(0));
  CHECK_EQ(text(), "the variable i is used where it is not defined");
  k.body = store({7}, {imm(0)}, fimm(0));
  CHECK_EQ(text(), "there is no buffer 7");
  k.body = store({1}, {imm(0)}, imm(0));
  CHECK_EQ(text(), "C holds f32 but the value is i64: cast it");
  Expr x = var("x");
  k.body = block({if_then(lt(x, x), good), let(x, imm(1)), good});
  CHECK_EQ(text(), "the variable x is used where it is not defined");
  k.body = block({for_loop(x, 8, Loop::serial, good), for_loop(x, 8, Loop::serial, good)});
  CHECK_EQ(text(), "");
  k.body = for_loop(x, 8, Loop::serial, for_loop(x, 8, Loop::serial, good));
  CHECK_EQ(text(), "the variable x is defined twice");
  k.body = {};
  CHECK_EQ(text(), "a body is missing");
  k.body = good;
  k.thread = {};
  CHECK_EQ(text(), "");
  CHECK_EQ(text(Level::thread), "the thread variable is missing");
  k.threads = {0};
  CHECK_EQ(text(), "0 threads");
  k.threads = {};
  k.grid = {};
  CHECK_EQ(text(), "a grid has 1 to 3 extents");
}

TEST_CASE("a malformed node is found whoever made it") {
  Function f = kernel_of("C[0] = C[1] + C[2]");
  auto* sum = new Binary;  // without its maker
  sum->op = BinaryOp::add;
  sum->dtype = f32;
  sum->a = fimm(1);
  sum->b = imm(1);
  f.kernels[0].body = store({1}, {imm(0)}, own(sum), f.kernels[0].span);
  auto finding = check(f, Level::tile);
  REQUIRE(finding);
  CHECK_EQ(finding->text, "`+` has operands of two types, f32 and i64");
  CHECK_EQ(finding->span.line, 2);
  CHECK_THROWS_WITH_AS(verify(f, Level::tile, "some_pass"),
                       doctest::Contains("after some_pass: `+` has operands"), InternalError);
}

TEST_CASE("an extent that no argument tells is found") {
  Function f = parse("func f(A: f32[n//2]):\n  kernel k grid(b: 8):\n    A[0] = 1.0\n", "t",
                     {find_op_info, find_instr});
  auto finding = check(f, Level::tile);
  REQUIRE(finding);
  CHECK_EQ(finding->text, "the variable n is used where it is not defined");
  CHECK_EQ(finding->span.line, 1);
}
