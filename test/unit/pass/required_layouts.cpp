// Layouts that operators require of shared tiles: they beat what others would like and what the banks would,
// and meet what the user annotated.  The operators are made here: they say what the test tells them to.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/builder.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "layout/algebra.h"
#include "layout/swizzle.h"
#include "ops/user_op.h"
#include "pass/passes.h"

using namespace tl;

namespace {

// What the first and the second of the operators can work with.
std::vector<Layout> first_any, second_any;

LayoutDecisions require_first(const Tile& t, const LayoutContext&, Strictness level) {
  LayoutDecisions out;
  if (level == Strictness::strict) out.required.emplace(region_of(t, 0).buffer, first_any);
  return out;
}
LayoutDecisions require_second(const Tile& t, const LayoutContext&, Strictness level) {
  LayoutDecisions out;
  if (level == Strictness::strict) out.required.emplace(region_of(t, 0).buffer, second_any);
  return out;
}

const OpInfo& row(const char* name, decltype(&require_first) infer) {
  auto& made = const_cast<TileOp&>(add_user_op(name, {{"tile", Access::read}}, nullptr));
  made.infer_layout = infer;
  return made.info;
}
const OpInfo& op_named(std::string_view name) {
  static const OpInfo &first = row("needs", require_first), &second = row("also_needs", require_second);
  return name == "needs" ? first : second;
}

// A program in which `clear(S) {stands_for=1}` is the first operator on S, with 2 the second.
Function laid_out(Function f) {
  const Target& chip = *find_target("sm_80");
  f.kernels[0].body = rewrite(f.kernels[0].body, [&](const Tile& n, Rewriter& self) -> Stmt {
    int64_t which = n.attrs.get_int("stands_for");
    return which ? tile(op_named(which == 1 ? "needs" : "also_needs"), n.operands, {}, n.span)
                 : self.children(n);
  });
  return infer_layouts(canonicalize(f, chip), chip);
}

Function laid_out(const std::string& text) {
  return laid_out(complete_tiles(parse(text, "test", text_vocabulary())));
}

Layout layout_of(const Function& f, std::string_view name) {
  for (auto& b : f.buffers)
    if (b.name == name) return from_map(*b.layout);
  FAIL(name);
  return {};
}

std::string text_of(std::string_view buffer, std::string_view more) {
  return fmt::format(R"(func main(C: f32[64, 64]):
  kernel main grid(bx: 1) threads(128):
    {}
    B = shared f16[64, 64]
    F = fragment f32[64, 64]
    clear(S) {{stands_for=1}}
    {}
    gemm(S, B, F) {{clear_accum=1}}
    copy(F, C)
)",
                     buffer, more);
}
const char* const plain = "S = shared f16[64, 64]";
const char* const twice = "clear(S) {stands_for=2}";

template <class F>
std::string refusal(const F& program, int line) {
  try {
    laid_out(program);
  } catch (const CompileError& e) {
    CHECK(e.span.line == line);
    return e.text;
  }
  return "";
}

const Layout by_rows = row_major({64, 64}), wide_rows = strided({64, 64}, {72, 1}),
             by_columns = strided({64, 64}, {1, 64});

}  // namespace

TEST_CASE("required layouts beat what others want, and the note says so") {
  first_any = {wide_rows};
  Function f = laid_out(text_of(plain, ""));
  CHECK(equal(layout_of(f, "S"), wide_rows));
  CHECK(!equal(layout_of(f, "B"), by_rows));  // nobody requires anything of it: as gemm wants it
  bool required = false, lost = false;
  for (auto& n : f.notes) {
    required |= n.by == "needs" && n.strictness == "required";
    lost |= n.text.starts_with("gemm on line 8 wants ") &&
            n.text.ends_with(": needs on line 6 can only work with the layout that it has");
  }
  CHECK(required);
  CHECK(lost);
}

TEST_CASE("required layouts are intersected in order, the first one's best first") {
  first_any = {by_rows, wide_rows, by_columns};
  second_any = {by_columns, wide_rows};
  CHECK(equal(layout_of(laid_out(text_of(plain, twice)), "S"), wide_rows));
  second_any = {by_columns};
  CHECK(equal(layout_of(laid_out(text_of(plain, twice)), "S"), by_columns));
}

TEST_CASE("two requirements that no layout meets are refused on the second one's line") {
  first_any = {by_rows, wide_rows};
  second_any = {by_columns};
  CHECK_THROWS_WITH_AS(
      laid_out(text_of(plain, twice)),
      doctest::Contains("test:7:5: error: also_needs on line 7 can only work with S laid out as (i, "
                        "j) -> j*64 + i, which needs on line 6 cannot; give one of the two"),
      CompileError);
}

TEST_CASE("an annotated layout stays where an operator can work with it, else it is refused on its line") {
  const char* annotated = "S = shared f16[64, 64] layout((i, j) -> j*64 + i)";
  first_any = {by_rows, by_columns};
  CHECK(equal(layout_of(laid_out(text_of(annotated, "")), "S"), by_columns));
  first_any = {by_rows, wide_rows};
  CHECK(refusal(text_of(annotated, ""), 3) ==
        "S is annotated with the layout (i, j) -> j*64 + i, but needs on line 6 can only work with S laid "
        "out as (i, j) -> i*64 + j or (i, j) -> i*72 + j: leave the annotation out, or give it that layout");
}

TEST_CASE("an annotation is refused where it stands, not where the tile is made") {
  Builder b("f");
  auto at_line = [&](int line) { b.at({.file = intern_file("f.py"), .line = line, .column = 1}); };
  at_line(1);
  b.begin_kernel({Value(1)}, {128}, {});
  at_line(2);
  Buffer S = b.alloc("S", "shared", {Value(64), Value(64)}, f16, {});
  at_line(3);
  b.annotate_layout(S, by_columns);
  at_line(4);
  b.tile("clear", {S}, {});
  b.end_kernel();
  Function f = b.finish();
  f.kernels[0].body = rewrite(f.kernels[0].body, [&](const Tile& n, Rewriter&) -> Stmt {
    return tile(*n.op, n.operands, {.entries = {{"stands_for", int64_t(1)}}}, n.span);
  });
  first_any = {by_rows};
  CHECK(refusal(f, 3).starts_with(
      "S is annotated with the layout (i, j) -> j*64 + i, but needs on line 4 can only"));
}

TEST_CASE("a required layout holds for the other shapes of the tile, or is refused") {
  first_any = {wide_rows};
  Function f = laid_out(text_of(fmt::format("{}\n    V = shared f16[4096] alias(S)", plain), ""));
  CHECK(map_index(layout_of(f, "V"), std::vector<int64_t>{65})[0] == 73);
  first_any = {by_columns};
  CHECK(
      refusal(text_of(fmt::format("{}\n    V = shared i32[64, 32] alias(S)", plain), ""), 7)
          .starts_with(
              "needs can only work with S laid out as (i, j) -> j*64 + i, which would separate the elements "
              "of a view of a wider type"));
  first_any = {by_columns, wide_rows};
  Function wide = laid_out(text_of(fmt::format("{}\n    V = shared i32[64, 32] alias(S)", plain), ""));
  CHECK(equal(layout_of(wide, "S"), wide_rows));
}

TEST_CASE("the banks do not move a tile that an operator requires") {
  std::string text = R"(func main(A: f32[32, 32], C: f32[32, 32]):
  kernel main grid(bx: 1) threads(32):
    S = shared f32[32, 32]
    for i in parallel(32):
      for j in parallel(32):
        S[j, i] = A[i, j]
    OP
    for i in parallel(32):
      for j in parallel(32):
        C[i, j] = S[i, j]
)";
  auto with = [&](const std::string& op) {
    std::string t = text;
    return t.replace(t.find("    OP\n"), 7, op);
  };
  CHECK(!equal(layout_of(laid_out(with("")), "S"), row_major({32, 32})));
  first_any = {row_major({32, 32})};
  CHECK(equal(layout_of(laid_out(with("    clear(S) {stands_for=1}\n")), "S"), row_major({32, 32})));
}
