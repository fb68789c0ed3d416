// Random tile programs on a chip whose warps have 64 threads: they compute there what they mean, and nothing
// is found.
#include <doctest/doctest.h>

#include "fuzz/on_chip.h"
#include "fuzz/pipelined_program.h"
#include "fuzz/seeds.h"
#include "fuzz/tile_program.h"
#include "wide_chip.h"

using namespace tl;

namespace {

void check_programs(const fuzz::Seeds& seeds, fuzz::Program (*make)(uint64_t seed)) {
  int64_t refused = 0, programs = 0;
  fuzz::each_seed(seeds, [&](uint64_t seed) {
    fuzz::Program p = make(seed);
    CAPTURE(seed);
    CAPTURE(p.text);
    programs++;
    CHECK_EQ(fuzz::fault_on(wide_chip(), p, seed, refused), "");
    return true;
  });
  CHECK(refused <= 3 + programs / 10);
}

}  // namespace

TEST_CASE("tile programs compute in warps of 64 threads what they mean") {
  check_programs({.fixed = 20, .fresh = 5}, [](uint64_t seed) {
    return fuzz::random_program(seed, wide_chip().shared_bytes, 200, wide_chip().warp);
  });
}

TEST_CASE("pipelined tile programs compute in warps of 64 threads what the reference does") {
  check_programs({.fixed = 12, .fresh = 4, .share = 0.1}, [](uint64_t seed) {
    return fuzz::pipelined_program(seed, {.warp = wide_chip().warp}).program;
  });
}
