// Random tile programs: each gets its layouts and code, twice the same, and computes on every target what its
// operators mean.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "api/kernel.h"
#include "fuzz/harness.h"
#include "fuzz/integer_text.h"
#include "fuzz/seeds.h"
#include "ops/op.h"

using namespace tl;

namespace {

// As much as fits the smallest target.
fuzz::Program tile_program(uint64_t seed) {
  return fuzz::random_program(seed, find_target("sm_80")->shared_bytes, 200);
}

fuzz::Program moves(uint64_t seed) {
  return fuzz::random_moves(seed, find_target("sm_80")->shared_bytes, 200);
}

}  // namespace

TEST_CASE("tile programs are laid out the same every time") {
  fuzz::each_seed({.fixed = 9, .fresh = 3}, [](uint64_t seed) {
    fuzz::Program p = tile_program(seed);
    CAPTURE(p.text);
    std::string texts[2];
    for (auto& text : texts) try {
        text = compile(parse_text(p.text, "fuzz.ir"), *find_target("sm_80")).program.text;
      } catch (const CompileError& e) {
        text = e.text;
      }
    CHECK_EQ(texts[0], texts[1]);
    return true;
  });
}

TEST_CASE("tile programs have every tile operator, statement and kind of type") {
  std::string all;
  for (uint64_t seed = 0; seed < 1200; seed++) all += tile_program(seed).text;
  for (uint64_t seed = 0; seed < 20; seed++) all += fuzz::random_boxes(seed).text;
  std::vector<std::string> wanted = {"serial(", "unrolled(", "pipelined(", "while ",
                                     "if ",     "else:",     "break()",    "continue()"};
  for (auto* op : all_ops())
    if (!op->info.name.ends_with("_cluster"))  // they have programs of their own: test_random_clusters.py
      wanted.push_back(std::string(op->info.name) + "(");
  for (auto* type : {"f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2", "i8", "i16", "i32", "i64", "u8",
                     "u32", "bool", "i4", "u4", "e2m1"})
    wanted.push_back(fmt::format(" {}[", type));
  for (auto& word : wanted) CHECK_MESSAGE(all.find(word) != all.npos, word);
}

TEST_CASE("tile programs compute on every target what they mean" * doctest::test_suite("programs")) {
  fuzz::run_programs(
      {.name = "tiles", .programs = 25, .fresh = 10, .make = tile_program, .targets = {"sim:sm_80", "cpu"}});
}

TEST_CASE("integers of every type wrap alike on every target" * doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "integers",
                      .programs = 60,
                      .fresh = 20,
                      .make = fuzz::random_integers,
                      .oracle = fuzz::ask_wrapping,
                      .targets = {"reference", "sim:sm_80", "cpu"},
                      .inputs = Inputs::extreme});
}

TEST_CASE("what tile programs only move keeps its bits on every target" * doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "moves",
                      .programs = 20,
                      .fresh = 10,
                      .share = 0.1,
                      .make = moves,
                      .targets = {"sim:sm_80", "cpu"},
                      .inputs = Inputs::bits});
}

TEST_CASE("a tile program with one fault is refused at the fault's line") {
  fuzz::each_seed({.fixed = 60, .fresh = 30, .share = 0.1}, [](uint64_t seed) {
    fuzz::Program p = fuzz::faulty_program(seed, find_target("sm_80")->shared_bytes, 200);
    auto at = p.text.find("\n" + p.fault + "\n");
    int line = 1 + int(std::count(p.text.begin(), p.text.begin() + std::ptrdiff_t(at + 1), '\n'));
    CAPTURE(p.text);
    REQUIRE(at != p.text.npos);
    CAPTURE(seed);
    CAPTURE(p.fault);
    for (const char* target : {"sim:sm_80", "cpu", "reference"}) {
      Verdict v = judge(p.text, {.target = target, .given = {p.given}, .inputs = Inputs::whole});
      CHECK_MESSAGE(v.kind == Verdict::Kind::refused, to_string(v));
      CHECK_MESSAGE(v.line == line, to_string(v));
    }
    return true;
  });
}
