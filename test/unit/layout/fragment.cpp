// Fragments repeated, replicated, condensed; what accesses cost; pictures.
#include "layout/fragment.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "layout/access.h"
#include "layout/draw.h"
#include "layout/swizzle.h"
#include "target/check.h"
#include "target/fragments.h"
#include "target/nvidia.h"
#include "unit/layout/points.h"

using namespace tl;

namespace {

using Point = std::vector<int64_t>;

// (thread, register) of one copy of an element.
Point at(const Fragment& f, Point x, int64_t copy = 0) {
  x.push_back(copy);
  return map_index(f.layout, x);
}

Fragment ldmatrix() {  // 16×16: lane 4 * (i % 8) + j % 8 / 2
  return make_fragment({16, 16}, 1,
                       {{.output = 0, .stride = 4, .digit = {0, 1, 8}},
                        {.output = 0, .stride = 1, .digit = {1, 2, 4}},
                        {.output = 1, .stride = 1, .digit = {1, 1, 2}},
                        {.output = 1, .stride = 2, .digit = {0, 8, 2}},
                        {.output = 1, .stride = 4, .digit = {1, 8, 2}}});
}

// No digits: neighbours on threads 3 apart, modulo 7.
Fragment odd_fragment(int64_t replicas) {
  std::vector<Expr> v = input_vars(3);
  return fragment_from_map(
      {.vars = v, .extents = {3, 7, replicas}, .outputs = {floormod(v[1] * 3 + 1, 7) + v[2] * 7, v[0]}});
}

}  // namespace

TEST_CASE("repeat numbers the copies after the first tile's registers or threads") {
  for (auto& f : {ldmatrix(), odd_fragment(1), odd_fragment(2)})
    for (bool on_threads : {false, true})
      for (bool last_first : {false, true}) {
        Fragment r = repeat(f, {3, 2}, on_threads, last_first);
        CHECK(r.layout.terms.has_value() == f.layout.terms.has_value());
        CHECK(r.threads == f.threads * (on_threads ? 6 : 1));
        CHECK(r.registers == f.registers * (on_threads ? 1 : 6));
        Point shape = f.shape();
        int wrong = 0;
        each_point(r.layout.extents, [&](const Point& x) {
          int64_t a = x[0] / shape[0], b = x[1] / shape[1], copy = last_first ? a * 2 + b : a + b * 3;
          Point place = at(f, {x[0] % shape[0], x[1] % shape[1]}, x[2]);
          place[on_threads ? 0 : 1] += copy * (on_threads ? f.threads : f.registers);
          wrong += map_index(r.layout, x) != place;
        });
        CHECK(wrong == 0);
        CHECK_FALSE(cover_fault(r).has_value());
      }
}

TEST_CASE("replicate, holders, condense") {
  for (auto& f : {ldmatrix(), odd_fragment(1)}) {
    Fragment r = replicate(f, 3);
    CHECK(r.replicas == 3);
    CHECK(r.threads == 3 * f.threads);
    Point place = at(f, {2, 5});
    std::vector<std::pair<int64_t, int64_t>> expected;
    for (int64_t c = 0; c < 3; c++) expected.emplace_back(place[0] + c * f.threads, place[1]);
    CHECK(holders(r, {2, 5}) == expected);
    CHECK_FALSE(cover_fault(r).has_value());
    CHECK(equal(condense(r), r));
    CHECK(equal(replicate(replicate(f, 3), 2), replicate(f, 6)));
  }
  // six replicas, of which the map looks at r % 2 only, or at r / 2 only
  for (int64_t divisor : {1, 2}) {
    int64_t radix = divisor == 1 ? 2 : 3;
    Fragment f = make_fragment({4}, 6,
                               {{.output = 0, .stride = 1, .digit = {1, divisor, radix}},
                                {.output = 1, .stride = 1, .digit = {0, 1, 4}}});
    Fragment c = condense(f);
    CHECK(c.replicas == radix);
    CHECK(c.layout.terms.has_value());
    for (int64_t i = 0; i < 4; i++) CHECK(holders(c, {i}) == holders(f, {i}));
    CHECK_FALSE(cover_fault(c).has_value());
    CHECK(cover_fault(f).value() == "two replicas of the element (0,) are both register 0 of thread 0");
  }
  std::vector<Expr> v = input_vars(2);  // r * r % 5: three different threads for five replicas, and no digits
  Fragment table =
      fragment_from_map({.vars = v, .extents = {4, 5}, .outputs = {floormod(v[1] * v[1], 5), v[0]}});
  REQUIRE_FALSE(table.layout.terms);
  CHECK(condense(table).replicas == 3);
  for (int64_t i = 0; i < 4; i++) CHECK(holders(condense(table), {i}) == holders(table, {i}));
}

TEST_CASE("a fragment that does not cover its tile says which elements") {
  Fragment twice = make_fragment(
      {4, 8}, 1,
      {{.output = 0, .stride = 1, .digit = {1, 1, 8}}, {.output = 1, .stride = 1, .digit = {0, 1, 2}}});
  CHECK(cover_fault(twice).value() == "the elements (0, 0) and (2, 0) are both register 0 of thread 0");
  Fragment holes = make_fragment({4}, 1, {{.output = 0, .stride = 2, .digit = {0, 1, 4}}});
  CHECK(cover_fault(holes).value() == "register 0 of thread 1 holds no element of (4,)");
  CHECK_THROWS_WITH_AS(repeat(twice, {2}, true),
                       doctest::Contains("1 factors, (2,), for a fragment of 2 dimensions, (4, 8)"),
                       CompileError);
  CHECK_THROWS_WITH_AS(repeat(twice, {2, 0}, true), doctest::Contains("factor 0 of dimension 1"),
                       CompileError);
  CHECK_THROWS_WITH_AS(replicate(twice, 0), doctest::Contains("0 copies"), CompileError);
  CHECK_THROWS_WITH_AS(holders(twice, {4, 0}), doctest::Contains("index 4 of dimension 0"), CompileError);
}

TEST_CASE("every operand of every matrix row is a fragment that covers its tile once") {
  auto check = [](const OperandFragment& f, int rows, int cols) {
    Fragment fragment = operand_fragment(f, 32);
    CHECK(fragment.shape() == Point{rows, cols});
    CHECK(fragment.threads == 32);
    CHECK(fragment.registers == f.registers);
    CHECK_FALSE(cover_fault(fragment).has_value());
    for (int lane = 0; lane < 32; lane++)
      for (int reg = 0; reg < f.registers; reg++) {
        auto [i, j] = element_of(f, lane, reg);
        CHECK(at(fragment, {i, j}) == Point{lane, reg});
      }
  };
  for (auto* target : all_targets())
    for (auto* row : target->matrix) {
      check(row->a, row->m, row->k);
      check(row->b, row->k, row->n);
      check(row->c, row->m, row->n);
    }
  for (auto& row : nvidia_matrix_shapes()) {
    check(row.a, row.m, row.k);
    check(row.b, row.k, row.n);
    check(row.c, row.m, row.n);
  }
  OperandFragment bad = mma_16bit[0].c;
  bad.digits.back().row = 4;  // rows 0..3 and 4..7 twice, 12.. never
  CHECK_THROWS_WITH_AS(operand_fragment(bad, 32), doctest::Contains("both go to"), CompileError);
  CHECK_THROWS_WITH_AS(matrix_fragment("mma_m1n1k1", 'a'), doctest::Contains("mma_m16n8k32_fp8"),
                       CompileError);
}

TEST_CASE("the bare fragments hold what the instruction set manual says") {
  for (int lane = 0; lane < 32; lane++) {
    int g = lane / 4, q = lane % 4;
    Fragment a = matrix_fragment("mma_m16n8k8_tf32", 'a'), b = matrix_fragment("mma_m16n8k8_tf32", 'b');
    for (int i = 0; i < 4; i++) CHECK(at(a, {g + 8 * (i % 2), q + 4 * (i / 2)}) == Point{lane, i});
    for (int i = 0; i < 2; i++) CHECK(at(b, {q + 4 * i, g}) == Point{lane, i});
    for (auto* name : {"mma_m16n8k32_s8", "mma_m16n8k32_fp8"}) {
      Fragment x = matrix_fragment(name, 'a'), y = matrix_fragment(name, 'b'), c = matrix_fragment(name, 'c');
      for (int i = 0; i < 16; i++)
        CHECK(at(x, {g + 8 * (i / 4 % 2), 4 * q + i % 4 + 16 * (i / 8)}) == Point{lane, i});
      for (int i = 0; i < 8; i++) CHECK(at(y, {4 * q + i % 4 + 16 * (i / 4), g}) == Point{lane, i});
      for (int i = 0; i < 4; i++) CHECK(at(c, {g + 8 * (i / 2), 2 * q + i % 2}) == Point{lane, i});
    }
  }
}

TEST_CASE("a column of chunks: conflicts in row-major order, none under a swizzle or padding") {
  // 32 lanes, one 16-byte chunk each, down the rows
  Fragment down = make_fragment(
      {32, 64}, 1,
      {{.output = 0, .stride = 1, .digit = {0, 1, 32}}, {.output = 1, .stride = 1, .digit = {1, 1, 64}}});
  WarpCost plain = bank_cycles(row_major({32, 64}), 16, down, 8),
           swizzle = bank_cycles(swizzled({32, 64}, 16), 16, down, 8);
  CHECK(plain.least == 32);
  CHECK(plain.count == 8 * 32);
  CHECK(swizzle.count == 32);
  CHECK(bank_cycles(padded({32, 64}, 16), 16, down, 8).count == 32);
  Fragment narrow = make_fragment(
      {32, 48}, 1,
      {{.output = 0, .stride = 1, .digit = {0, 1, 32}}, {.output = 1, .stride = 1, .digit = {1, 1, 48}}});
  CHECK(bank_cycles(conflict_free({32, 48}, 16, true), 16, narrow, 8).count == 24);
  CHECK(sectors(row_major({32, 64}), 16, down, 8).count == 8 * 32);
  CHECK_THROWS_WITH_AS(bank_cycles(row_major({8, 64}), 16, down, 8),
                       doctest::Contains("(8, 64) but the mapping (32, 64)"), CompileError);
  CHECK(vector_width(swizzled({32, 64}, 16), 16) == 8);
  CHECK(vector_width(row_major({32, 64}), 16) == 16);
  CHECK(vector_width(strided({4, 8}, {10, 1}), 16) == 2);
  CHECK(vector_width(strided({4, 8}, {1, 4}), 16) == 1);
}

TEST_CASE("pictures: text and SVG") {
  Fragment f = replicate(make_fragment({2, 4}, 1,
                                       {{.output = 0, .stride = 2, .digit = {0, 1, 2}},
                                        {.output = 0, .stride = 1, .digit = {1, 2, 2}},
                                        {.output = 1, .stride = 1, .digit = {1, 1, 2}}}),
                         2);
  CHECK(to_text(draw(f)) ==
        "(i, j, k) -> (k*4 + i*2 + j//2, j%2)\n"
        "  |     0     1     2     3\n"
        "--+------------------------\n"
        "0 | 0,4:0 0,4:1 1,5:0 1,5:1\n"
        "1 | 2,6:0 2,6:1 3,7:0 3,7:1\n");
  CHECK(to_text(draw(row_major({3, 2, 4})), 2, 3) ==
        "(i, j, k) -> i*8 + j*4 + k\n"
        "    | 0 1 2\n"
        "----+------\n"
        "0,0 | 0 1 2\n"
        "0,1 | 4 5 6\n"
        "… and 1 more columns\n"
        "… and 4 more rows\n");
  std::string svg = to_svg(draw(f));
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("-&gt;") != std::string::npos);
  size_t cells = 0;
  for (size_t i = svg.find("stroke="); i != std::string::npos; i = svg.find("stroke=", i + 1)) cells++;
  CHECK(cells == 8);
  Drawing threads = draw(f), banks = draw(row_major({2, 64}), 16);
  CHECK(threads.cells[0].colour == threads.cells[1].colour);  // one thread
  CHECK(threads.cells[0].colour != threads.cells[2].colour);
  CHECK(banks.cells[0].colour == banks.cells[64].colour);  // 128 bytes further: the same bank
  CHECK(banks.cells[0].colour == banks.cells[1].colour);   // two f16 to a bank
  CHECK(banks.cells[0].colour != banks.cells[2].colour);
  CHECK_THROWS_WITH_AS(draw(row_major({1024, 1024})), doctest::Contains("too many to draw"), CompileError);
}
