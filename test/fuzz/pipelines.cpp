// Random pipelined tile programs: copies of later iterations may run ahead, and the numbers are the
// reference's.
#include <doctest/doctest.h>

#include "fuzz/harness.h"
#include "fuzz/pipelined_program.h"
#include "fuzz/seeds.h"
#include "ops/op.h"

using namespace tl;

namespace {

fuzz::Program pipelined(uint64_t seed) { return fuzz::pipelined_program(seed).program; }
fuzz::Program with_own_copies(uint64_t seed) {
  return fuzz::pipelined_program(seed, {.own_copies = true}).program;
}

// What a schedule has to respect, by the names that the generator gives it.
constexpr std::string_view features = R"(
  2 loops or nests of loops
  3 loops or nests of loops
  a barrier of the program
  a copy by hand in the loop
  a copy by hand over the loop
  a gemm alone with its copies
  a ring by hand beside the loop's
  addresses of no known alignment
  aliased
  allocated in the loop
  by way of a fragment
  by way of another shared tile
  carried: read before it is written
  columns: offset
  condition around copies and uses
  condition around the copy alone
  condition around the copy, filled otherwise
  condition around the use alone
  condition: block
  condition: element of a tensor
  condition: element of a tile
  condition: loop variable
  condition: scalar
  condition: variable
  copies bf16
  copies e2m1
  copies e4m3
  copies e5m2
  copies f16
  copies f32
  copies f64
  copies i16
  copies i32
  copies i4
  copies i64
  copies i8
  copies u8
  copy with a cast
  filled by a nest
  filled by atomics
  in a serial loop
  in a team
  in a while loop
  in the loop over tiles of a persistent kernel
  in two halves
  indirect rows: a tensor
  indirect rows: a tile of the iteration
  loaded in a nest
  loaded into a fragment
  loop begins elsewhere
  modified after the copy
  more slots than fit
  name of a copy's place
  nested in a pipelined loop
  num_stages=0
  num_stages=1
  num_stages=2
  num_stages=3
  num_stages=4
  partly written
  place: an element of a tile of the iteration
  place: an index tensor
  ragged: both
  ragged: columns
  ragged: rows
  result of each iteration
  row stride: no multiple of 16
  row stride: no multiple of 4
  row stride: no multiple of 8
  slots by hand
  tensor of 1 dimensions
  tensor of 2 dimensions
  tensor of 3 dimensions
  tensor that the loop writes
  tile of several loops or strands
  tile read after the loop
  tile with a layout
  trips: 0
  trips: 1
  trips: ceildiv of an extent
  trips: constant
  trips: fewer than stages
  trips: of a tensor
  trips: of the block
  trips: scalar
  under a condition
  use: a nest
  use: a reduction
  use: a scan
  use: gemm
  use: gemm with a computed operand
  use: running statistics
  use: two gemms after each other
  variable of an iteration in a copy's place
  variable that counts in a copy's place
  view of a tensor that the loop writes
  written twice)";

}  // namespace

TEST_CASE("pipelined tile programs compute on every target what the reference does" *
          doctest::test_suite("programs")) {
  fuzz::run_programs(
      {.name = "pipelines", .programs = 36, .fresh = 12, .make = pipelined, .targets = {"sim", "cpu"}});
}

TEST_CASE("pipelined tile programs that begin copies of their own too compute what they mean" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "own_copies",
                      .programs = 12,
                      .fresh = 6,
                      .share = 0.1,
                      .make = with_own_copies,
                      .oracle = fuzz::ask_lockstep,
                      .targets = {"sim"}});
}

TEST_CASE("pipelined tile programs have every feature that a pipeline has to respect") {
  constexpr int64_t programs = 1500;
  std::map<std::string, int64_t> counts;
  for (uint64_t seed = 0; seed < programs; seed++)
    for (auto& feature : fuzz::pipelined_program(seed, {.own_copies = seed % 2 == 0}).features)
      counts[feature]++;
  fuzz::check_features(features, counts, programs);
}
