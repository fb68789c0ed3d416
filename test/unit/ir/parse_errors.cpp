// Wrong text: what is said, and the place it is said of.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/op.h"

using namespace tl;

namespace {

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (auto* op : all_ops()) names.push_back(op->info.name);
  return names;
}

// The statement stands in line 4, its first character in column 5.
struct Wrong {
  std::string_view statement;
  int column;
  std::string_view text;
};
constexpr Wrong statements[] = {
    {"A[0, 0] = n", 5, "`A` holds f16 but the value is i64: cast it"},
    {"A[0, 0] = 1", 5, "`A` holds f16 but the value is i64: cast it"},
    {"x = cast<u8>(n) + 300", 23, "300 does not fit into u8"},
    {"x = cast<u8>(n)*-1", 21, "-1 does not fit into u8"},
    {"x = n + 1.0", 9, "`+` has operands of two types, i64 and f32: cast one to the other"},
    {"x = m", 9, "there is no variable `m` here"},
    {"x = As[0, 0]", 9, "there is no buffer `As` here; did you mean `A`?"},
    {"x = exp3(1.0)", 9, "there is no function `exp3` here; did you mean `exp`?"},
    {"coppy(A, A)", 5, "there is no function `coppy` here; did you mean `copy`?"},
    {"x = copy(A, A)", 9, "copy is a tile operator: it is a statement of its own"},
    {"copy(A)", 5, "copy takes 2 operands (src, dst), not 1"},
    {"x = A", 9, "`A` is a buffer: index it, `A[…]`"},
    {"x = 300:u8", 9, "300 does not fit into u8"},
    {"x = -129:i8", 9, "-129 does not fit into i8"},
    {"x = 1.5:i32", 9, "`1.5` is not an integer, but i32 is"},
    {"x = 1:bool", 9, "a bool is written `true` or `false`"},
    {"x = 99999999999999999999", 9, "99999999999999999999 does not fit into i64"},
    {"x = 1 < n < 3", 15, "comparisons do not chain: write `a < b and b < c`"},
    {"x = (n + 1", 9, "`(` is never closed"},
    {"x = (n + 1]", 15, "expected `)` after an expression in parentheses, found `]`"},
    {"x = n +", 12, "expected an expression, found the end of the line"},
    {"x = n n", 11, "expected the end of the line, found `n`"},
    {"x = n / n", 9, "`/` takes float operands, not i64: use `//`, or cast to a float first"},
    {"x = 7 // 0", 9,
     "`//` divides by 0: its divisor is that constant, and an integer divided by it has no value; correct "
     "the divisor"},
    {"x = n % 0", 9,
     "`%` divides by 0: its divisor is that constant, and an integer divided by it has no value; correct the "
     "divisor"},
    {"x = sync_threads()", 9, "expected a value, found an expression of type none"},
    {"x = exp(1.0, 2.0)", 9, "exp takes 1 argument, not 2"},
    {"x = ramp(0, 1, n)", 9, "the lanes of a ramp are a constant from 2 to 65535"},
    {"x = ramp(0.5, 1.0, 4)", 9, "a ramp takes two integers of one type"},
    {"x = 1 << 64", 9, "a shift of i64 by 64: the amount must lie in [0, 64)"},
    {"n = 1", 5, "`n` is already defined, at 1:22"},
    {"n + 1 = 2", 5, "what stands left of `=` is neither a name nor an element of a buffer"},
    {"if n:", 8, "the condition of an if is i64, not bool"},
    {"for i in range(8):", 14, "expected serial, parallel, pipelined, unrolled or vectorized, found `range`"},
    {"for i in serial(2, 8):", 22, "a loop over [2, 10) is written `serial(2 : +8)`"},
    {"for i in serial(1.5):", 21, "a loop runs over integers, not f32"},
    {"for for in serial(8):", 9,
     "expected the name of the loop's variable (a word of the language can be one between backquotes), found "
     "`for`"},
    {"for i in serial(8)", 23, "expected `:` at the end of the line, found the end of the line"},
    {"for i in serial(8):", 1, "expected an indented block, found the end of the block"},
    {"copy(A[0 : 8, 0], A)", 16, "expected `+` and an extent, as in `A[i : +128]`, or nothing, found `8`"},
    {"copy(A, A) {a=1, a=2}", 22, "the attribute a is given twice"},
    {"copy(A, A) {a=b}", 19,
     "expected an integer, a number, a string, a list, (an expression) or a map, found `b`"},
    {"gemm(A, A, A) {policy=\"sqare\"}", 19,
     "gemm: policy must be one of \"square\", \"full_row\", \"full_col\""},
    {"gemm(A, A, A) {trans_a=2}", 19, "gemm: trans_a must be 0 or 1"},
    {"S = shared f16[0.5]", 20, "an extent is f32, not i64"},
    {"S = shared f16[8] id(0)", 5, "the id 0 of `S` is taken"},
    {"S = shared f16[8] layout((i, j) -> i)", 34, "the extent of a map's variable is missing: write `j: 8`"},
    {"alloc S", 11, "there is no buffer `S` here"},
    {"x = 5 $ 3", 11, "unexpected character `$`"},
    {"x = 3abc", 9, "`3abc` is neither a number nor a name"},
    {"copy(A, A) {a=\"b}", 19, "a string without its closing quote"},
    {"x = `n", 9, "a name without its closing backquote"},
    {"\tx = 1", 5, "a tab in the indentation: use spaces"},
};

}  // namespace

TEST_CASE("a wrong statement is refused at its place") {
  for (auto& wrong : statements) {
    std::string text = "func f(A: f16[8, 8], n: i64):\n  assume n > 0\n  kernel k grid(b: 8):\n    " +
                       std::string(wrong.statement) + "\n";
    CAPTURE(wrong.statement);
    try {
      parse(text, "wrong", {find_op_info, find_instr, op_names});
      CHECK_MESSAGE(false, "was read");
    } catch (const CompileError& e) {
      CHECK_EQ(e.text, wrong.text);
      CHECK_EQ(e.span.column, wrong.column);
      CHECK((e.span.line == 4 || wrong.column == 1));
    }
  }
}

TEST_CASE("a wrong frame is refused at its place") {
  struct Frame {
    std::string_view text;
    int line, column;
    std::string_view message;
  };
  constexpr Frame frames[] = {
      {"", 1, 1, "expected `func` at the start of the text, found the end of the text"},
      {"func f(A: f99[8]):\n  pass\n", 1, 11, "expected a type (f32, i8, bool, …), found `f99`"},
      {"func f(A: f32[8], A: f32[8]):\n  pass\n", 1, 19, "two parameters are called `A`"},
      {"func f(A: f32[8], n: i64, A as B: f32[8]):\n  pass\n", 1, 27, "two parameters are called `A`"},
      {"func f():\npass\n", 2, 1, "expected an indented block, found `pass`"},
      {"func f():\n    pass\n  pass\n", 3, 3, "indented by 2 spaces, which no line above it is: expected 0"},
      {"func f():\n  pass\nfunc g():\n  pass\n", 3, 1,
       "expected the end of the text after the one function, found `func`"},
      {"func f():\n  W = shared f32[8]\n", 2, 7,
       "a shared buffer is allocated inside a kernel; a function's own are global"},
      {"func f():\n  W = global f32[8] id(1)\n", 1, 1,
       "no buffer has the id 0, though a larger one is given"},
      {"func f():\n  kernel k grid(b: 8) grid(c: 8):\n    pass\n", 2, 23, "`grid` is given twice"},
      {"func f():\n  kernel k grid(b: 8, c: b):\n    pass\n", 2, 26, "there is no variable `b` here"},
      {"func f():\n  kernel k grid(b: 8) threads(32) blocks(3):\n    pass\n", 2, 35,
       "expected grid(…), threads(…), thread(…), cluster(…), {…} or `:`, found `blocks`"},
  };
  for (auto& frame : frames) {
    CAPTURE(frame.text);
    try {
      parse(frame.text, "frame", {find_op_info, find_instr});
      CHECK_MESSAGE(false, "was read");
    } catch (const CompileError& e) {
      CHECK_EQ(e.text, frame.message);
      CHECK_EQ(e.span.line, frame.line);
      CHECK_EQ(e.span.column, frame.column);
    }
  }
}

TEST_CASE("the line and a caret stand under the error, also for text that is in no file") {
  try {
    parse("func f(n: i64):\n  assume n + 1.5 > 0\n", "<stdin>", {find_op_info, find_instr});
    CHECK(false);
  } catch (const CompileError& e) {
    CHECK_EQ(std::string(e.what()),
             "<stdin>:2:10: error: `+` has operands of two types, i64 and f32: cast one to the other\n"
             "    assume n + 1.5 > 0\n"
             "           ^~~~~~~");
  }
}

TEST_CASE("deep nesting is refused, not a crash") {
  std::string deep =
      "func f(n: i64):\n  assume " + std::string(100000, '(') + "n" + std::string(100000, ')') + " > 0\n";
  CHECK_THROWS_WITH_AS(parse(deep, "deep", {find_op_info, find_instr}),
                       doctest::Contains("nested too deeply"), CompileError);
}
