// Random programs of several products that add to one accumulator: its sums stay where one product left them,
// or change hands, and are right either way.
#include <doctest/doctest.h>

#include <algorithm>

#include "fuzz/harness.h"
#include "fuzz/seeds.h"
#include "fuzz/sums_text.h"
#include "ops/op.h"

using namespace tl;

static fuzz::Program of_one_accumulator(uint64_t seed) {
  return fuzz::SumsText{{.random = std::mt19937_64(seed)}}.make();
}
static fuzz::Program of_named_instructions(uint64_t seed) {
  fuzz::SumsText text{{.random = std::mt19937_64(seed)}};
  text.pinned = true;
  return text.make();
}

TEST_CASE("products of one accumulator compute what the reference does" * doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "sums",
                      .programs = 24,
                      .fresh = 8,
                      .share = 0.1,
                      .make = of_one_accumulator,
                      .targets = {"sim:sm_80", "sim:sm_120", "sim:sm_90a"}});
}

TEST_CASE("products of one accumulator by named instructions compute what the reference does" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "named instructions",
                      .programs = 24,
                      .fresh = 8,
                      .share = 0.1,
                      .make = of_named_instructions,
                      .targets = {"sim:sm_90a"}});
}

constexpr std::string_view sums_features = R"(
  A in registers
  A in registers, transposed
  B along its columns
  B in registers
  a clear by a scalar
  a clear by the turn
  a named instruction
  as many registers as a thread has
  in a loop around
  operands of bf16
  operands of e4m3
  operands of e5m2
  operands of f16
  operands of i8
  operands of tf32
  operands of u8
  products of one loop
  several loops
  threads between products)";

TEST_CASE("programs of one accumulator have every feature, and few of its sums change hands") {
  constexpr int64_t programs = 200, compiled = 40;
  std::map<std::string, int64_t> counts;
  int64_t named = 0, moved = 0, by_warps = 0;
  for (int64_t seed = 0; seed < programs; seed++)
    for (bool pinned : {false, true}) {
      fuzz::SumsText text{{.random = std::mt19937_64(uint64_t(seed))}};
      text.pinned = pinned;
      fuzz::Program p = text.make();
      for (auto& feature : text.features) counts[feature]++;
      if (seed >= compiled) continue;
      auto kernel = compile(parse_text(p.text, "fuzz.ir"), *find_target("sm_90a"));
      bool through = false, with_others = false;
      for (auto& note : kernel.function.notes) {
        through |= note.text.starts_with("sums goes through");
        with_others |= note.text.find("adds to sums as well") != note.text.npos;
      }
      (pinned ? named : moved) += through;
      by_warps += with_others;
    }
  fuzz::check_features(sums_features, counts, 2 * programs);
  MESSAGE("of " << compiled << " programs sums change hands in " << moved << ", with named instructions in "
                << named << "; in " << by_warps << " a product is by mma.sync for the sake of others");
  CHECK_GE(named * 2, compiled);
  CHECK_LE(moved * 4, compiled);
  CHECK_GE(by_warps, 4);
}

// Where all products are by mma.sync: why a product's sums go through shared memory.  The sums of all of its
// instructions lie alike in one grid, so there is always a common one.
static std::optional<std::string> why_sums_move(const fuzz::Program& p, std::string_view chip) {
  auto kernel = compile(parse_text(p.text, "fuzz.ir"), *find_target(chip));
  std::string moved;
  for (auto& note : kernel.function.notes) {
    if (note.text.starts_with("fma")) return std::nullopt;
    if (note.text.starts_with("sums goes through")) moved = note.text;
  }
  return moved;
}

TEST_CASE("the sums of products by mma.sync alone stay where they are") {
  int64_t alone = 0;
  for (int64_t seed = 0; seed < 60; seed++) {
    fuzz::Program p = of_one_accumulator(uint64_t(seed));
    for (auto* chip : {"sm_80", "sm_90", "sm_120"}) {
      CAPTURE(p.text);
      std::optional<std::string> why;
      try {
        why = why_sums_move(p, chip);
      } catch (const CompileError& e) {
        CHECK_NE(std::string(e.what()).find("the tiles need"), std::string::npos);
      }
      CHECK_EQ(why.value_or(""), "");
      alone += why.has_value();
    }
  }
  CHECK_GE(alone, 100);
}
