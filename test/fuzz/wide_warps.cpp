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

void check_programs(const std::string& kind, const fuzz::Seeds& seeds, fuzz::Program (*make)(uint64_t seed)) {
  if (fuzz::is_only_named(kind)) return;
  int64_t refused = 0, programs = 0, failures = 0;
  fuzz::each_seed(seeds, [&](uint64_t seed) {
    fuzz::Program p = make(seed);
    CAPTURE(seed);
    CAPTURE(p.text);
    programs++;
    std::string fault = fuzz::fault_on(wide_chip(), p, seed, refused);
    failures += !fault.empty();
    CHECK_EQ(fault, "");
    return true;
  });
  fuzz::report({kind, programs, programs - refused, refused, 0, failures});
  CHECK(refused <= 3 + programs / 10);
}

}  // namespace

TEST_CASE("tile programs compute in warps of 64 threads what they mean" * doctest::test_suite("programs")) {
  check_programs("tiles in warps of 64", {.fixed = 20, .fresh = 5}, [](uint64_t seed) {
    return fuzz::random_program(seed, wide_chip().shared_bytes, 200, wide_chip().warp);
  });
}

TEST_CASE("pipelined tile programs compute in warps of 64 threads what the reference does" *
          doctest::test_suite("programs")) {
  check_programs("pipelines in warps of 64", {.fixed = 12, .fresh = 4, .share = 0.1}, [](uint64_t seed) {
    return fuzz::pipelined_program(seed, {.warp = wide_chip().warp}).program;
  });
}
