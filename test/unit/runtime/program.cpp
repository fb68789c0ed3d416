// Formulas, and Programs as bytes.
#include "codegen/program.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace tl;
using Op = Formula::Op;

static int64_t binary(Op op, int64_t a, int64_t b) {
  return evaluate({{{Op::constant, a}, {Op::constant, b}, {op, 0}}}, {});
}

TEST_CASE("formulas: floor division and modulo agree with Python's") {
  CHECK_EQ(binary(Op::floordiv, 7, 2), 3);
  CHECK_EQ(binary(Op::floordiv, -7, 2), -4);
  CHECK_EQ(binary(Op::floordiv, 7, -2), -4);
  CHECK_EQ(binary(Op::floordiv, -7, -2), 3);
  CHECK_EQ(binary(Op::floormod, -7, 2), 1);
  CHECK_EQ(binary(Op::floormod, 7, -2), -1);
  CHECK_EQ(binary(Op::floormod, -7, -2), -1);
  CHECK_EQ(binary(Op::floormod, INT64_MIN, -1), 0);
  CHECK_EQ(binary(Op::min, -7, 2), -7);
  CHECK_EQ(binary(Op::max, -7, 2), 2);
  CHECK_THROWS_AS(binary(Op::floordiv, 1, 0), std::range_error);
  CHECK_THROWS_AS(binary(Op::floordiv, INT64_MIN, -1), std::range_error);
  CHECK_THROWS_AS(binary(Op::mul, INT64_MAX, 2), std::range_error);
}

TEST_CASE("formulas: over integers, nested, long") {
  // (n + 127) // 128 * m
  Formula blocks{{{Op::integer, 0},
                  {Op::constant, 127},
                  {Op::add, 0},
                  {Op::constant, 128},
                  {Op::floordiv, 0},
                  {Op::integer, 1},
                  {Op::mul, 0}}};
  const int64_t integers[] = {1000, 3};
  CHECK_EQ(evaluate(blocks, integers), 24);
  CHECK_EQ(evaluate(Formula::constant(5), {}), 5);
  Formula sum = Formula::constant(0);
  for (int i = 1; i <= 100; i++) {
    sum.steps.push_back({Op::constant, i});
    sum.steps.push_back({Op::add, 0});
  }
  CHECK_EQ(evaluate(sum, {}), 5050);
  for (auto [op, expected] :
       {std::pair(Op::eq, 0), {Op::ne, 1}, {Op::lt, 1}, {Op::le, 1}, {Op::both, 0}, {Op::either, 1}})
    CHECK_EQ(evaluate({{{Op::constant, 0}, {Op::constant, 5}, {op, 0}}}, {}), expected);
  CHECK_THROWS(evaluate(Formula{}, {}));
  CHECK_THROWS(evaluate({{{Op::add, 0}}}, {}));
  CHECK_THROWS(evaluate({{{Op::integer, 3}}}, {}));
}

TEST_CASE("programs: as bytes and back; a part of one is none") {
  Program p;
  p.name = "f";
  p.language = "llvm";
  p.chip = "haswell";
  p.text = "; text\n";
  p.flags = {"-mattr=+sse"};
  p.params = {{"A", true, "f32", 32, {Formula::constant(4)}, {Formula::constant(1)}, true, false},
              {"n", false, "i32", 32, {}, {}, false}};
  p.integers = {{"n", 1, IntegerSource::From::extent, 2, 3, 4}};
  p.workspaces = {{"w", {{{Op::integer, 0}}}, true}};
  p.maps = {{"M", true, 5, "f16", 16, {Formula::constant(6)}, {Formula::constant(7)}, {8}, 128}};
  EntrySpec entry{.name = "f",
                  .grid = {Formula::constant(2)},
                  .threads = {128, 1, 1},
                  .shared_bytes = 3,
                  .arena_bytes = 4,
                  .cooperative = true,
                  .args = {{EntrySpec::Arg::From::workspace, 2}}};
  p.entries = {entry};
  p.checks = {
      CheckSpec{.holds = {{{Op::integer, 0}, {Op::constant, 3}, {Op::lt, 0}}}, .text = "k.py:3: `n < 3`"}};
  p.alignment = 64;
  std::string bytes = serialize(p);
  auto back = deserialize_program(bytes);
  REQUIRE(back);
  CHECK(*back == p);
  for (size_t size = 0; size < bytes.size(); size++)
    CHECK(!deserialize_program(std::string_view(bytes).substr(0, size)));
  CHECK(!deserialize_program(bytes + "x"));
}
