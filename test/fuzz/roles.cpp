// Random programs for the roles of Hopper: they are divided, or say why not, and compute what the reference
// does, in any order of warps.
#include <doctest/doctest.h>

#include <algorithm>

#include "fuzz/harness.h"
#include "fuzz/on_chip.h"
#include "fuzz/role_text.h"
#include "ops/op.h"

using namespace tl;

namespace {

fuzz::Program divided(uint64_t seed) { return fuzz::RoleText{{.random = std::mt19937_64(seed)}}.make(); }

constexpr std::string_view role_features = R"(
  a name of what only threads know
  a tile that the turn reads again
  a mask by a choice for each element
  a mask under a condition
  factors through shared memory
  in a loop over tiles
  low tiles
  one tile
  one tile for both operands
  one tile for both products
  ragged: columns
  ragged: rows
  rows: from the end
  several products
  several products of one accumulator
  sums that the turn looks at again
  sums that threads change
  tensor of 3 dimensions
  threads exchange in front of the store
  threads in front of the store
  threads read what products read
  tile beside the loop
  trips: 0
  trips: 1
  trips: constant
  trips: of a tensor
  trips: of the block
  trips: of the turn around
  trips: scalar
  two blocks at once
  two late products
  two loops
  two products into one tile
  under a condition)";

}  // namespace

TEST_CASE("programs that roles divide compute what the reference does" * doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "roles",
                      .programs = 24,
                      .fresh = 8,
                      .share = 0.2,
                      .make = divided,
                      .targets = {"sim:sm_90a"}});
}

static fuzz::Program of_packed_tiles(uint64_t seed) {
  fuzz::RoleText text{{.random = std::mt19937_64(seed)}};
  text.unpacks = true;
  return text.make();
}

TEST_CASE("products beside the unpacking of the next turn compute what the reference does" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "unpacked",
                      .programs = 12,
                      .fresh = 4,
                      .share = 0.1,
                      .make = of_packed_tiles,
                      .targets = {"sim:sm_90a"}});
  int64_t beside = 0;
  for (uint64_t seed = 0; seed < 30; seed++) {
    auto kernel = compile(parse_text(of_packed_tiles(seed).text, "fuzz.ir"), *find_target("sm_90a"));
    beside += std::ranges::any_of(kernel.function.notes, [](auto& note) {
      return note.text == "the product runs beside the threads' work for the next one";
    });
  }
  CHECK_GE(beside, 5);
}

// As an H100, but two blocks, or four, already are as many as run at once.
static const Target& narrow_chip() {
  static const Target chip = [] {
    Target t = *find_target("sm_90a");
    t.multiprocessors.count = 2;
    return t;
  }();
  return chip;
}

static fuzz::Program of_many_turns(uint64_t seed) {
  fuzz::RoleText text{{.random = std::mt19937_64(seed)}};
  text.alone = true;
  return text.make();
}

TEST_CASE("programs whose first loads begin before the block has come compute what the reference does" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "first loads",
                      .programs = 8,
                      .fresh = 4,
                      .share = 0.1,
                      .make = of_many_turns,
                      .targets = {"sim:sm_90a"}});
  int64_t refused = 0;  // where blocks go from tile to tile
  fuzz::each_seed({.fixed = 8, .fresh = 4, .share = 0.1}, [&](uint64_t seed) {
    fuzz::Program p = of_many_turns(seed);
    CAPTURE(seed);
    CAPTURE(p.text);
    CHECK_EQ(fuzz::fault_on(narrow_chip(), p, seed, refused), "");
    return true;
  });
  CHECK_EQ(refused, 0);
  int64_t ahead = 0, triggers = 0;
  for (uint64_t seed = 0; seed < 30; seed++) {
    auto kernel = compile(parse_text(of_many_turns(seed).text, "fuzz.ir"), narrow_chip());
    for (auto& note : kernel.function.notes) {
      ahead += note.text.find("loads begin while the block's threads still come") != note.text.npos;
      triggers += note.text.find("the next one may be") != note.text.npos;
    }
  }
  MESSAGE("of 30 programs " << ahead << " begin loads before the block has come, " << triggers
                            << " let the next kernel in");
  CHECK_GE(ahead, 10);
  CHECK_GE(triggers, 3);
}

static fuzz::Program of_many_blocks(uint64_t seed) {
  fuzz::RoleText text{{.random = std::mt19937_64(seed)}};
  text.many = true;
  return text.make();
}

TEST_CASE("programs of more blocks than run at once compute what they mean, in whatever order") {
  int64_t refused = 0, programs = 0;
  fuzz::each_seed({.fixed = 16, .fresh = 6, .share = 0.1}, [&](uint64_t seed) {
    fuzz::Program p = of_many_blocks(seed);
    CAPTURE(seed);
    CAPTURE(p.text);
    programs++;
    CHECK_EQ(fuzz::fault_on(narrow_chip(), p, seed, refused), "");
    return true;
  });
  CHECK(refused <= 3 + programs / 10);
  int64_t walked = 0, listed = 0, reordered = 0, grouped = 0;
  for (uint64_t seed = 0; seed < 60; seed++) {
    auto kernel = compile(parse_text(of_many_blocks(seed).text, "fuzz.ir"), narrow_chip());
    for (auto& note : kernel.function.notes) {
      walked += note.text.find("walk through the grid") != note.text.npos;
      listed += note.text.find("which differ in length") != note.text.npos;
      reordered += note.text.find("in another order") != note.text.npos;
      grouped += note.text.find("along (h) at each of (q) in turn") != note.text.npos;
    }
  }
  MESSAGE("of 60 programs " << walked << " walk, " << listed << " of them from lists, " << reordered
                            << " are in another order, " << grouped << " by heads");
  CHECK_GE(walked, 8);
  CHECK_GE(listed, 4);
  CHECK_GE(reordered, 4);
  CHECK_GE(grouped, 8);
}

TEST_CASE("programs for roles have every feature, and most are divided") {
  constexpr int64_t programs = 400, compiled = 60;
  std::map<std::string, int64_t> counts;
  int64_t in_roles = 0, late = 0;
  for (int64_t seed = 0; seed < programs; seed++) {
    fuzz::RoleText text{{.random = std::mt19937_64(uint64_t(seed))}};
    fuzz::Program p = text.make();
    for (auto& feature : text.features) counts[feature]++;
    if (seed >= compiled) continue;
    auto kernel = compile(parse_text(p.text, "fuzz.ir"), *find_target("sm_90a"));
    bool divides = false, delays = false;
    for (auto& note : kernel.function.notes) {
      divides |= note.text.find("by TMA, the threads") != note.text.npos;
      delays |= note.text.find("are begun a turn late") != note.text.npos;
    }
    in_roles += divides, late += delays;
  }
  fuzz::check_features(role_features, counts, programs);
  CHECK_GE(in_roles * 10, compiled * 6);
  CHECK_GE(late * 10, compiled * 3);
  MESSAGE("of " << compiled << " programs " << in_roles << " are divided, " << late << " with late products");
}
