// A chip whose warps have 64 threads: what runs in warps of 32 runs there, and what only 64 lanes can show.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "sim/reference.h"
#include "sim/run.h"
#include "unit/sim/machine_text.h"
#include "wide_chip.h"

using namespace tl;

namespace {

constexpr uint64_t seeds = 20;

const Target& wide() { return wide_chip(); }

// ── tile programs ─────────────────────────────────────────────────────────────────────────────────────
struct Arrays {
  std::vector<std::vector<std::byte>> memory = {};
  std::vector<HostArg> args = {};
  explicit Arrays(const Function& f) {
    std::mt19937 random(1);
    for (auto& p : f.params) {
      const BufferInfo& b = f[p.buffer];
      int64_t size = 1;
      for (auto& e : b.shape) size *= *as_int(e);
      auto& bytes = memory.emplace_back(size_t(size * b.dtype.bytes()));
      for (int64_t i = 0; i < size; i++) {
        int64_t v = int64_t(random() % 7) - 3;
        element_access(b.dtype).put(bytes.data() + i * b.dtype.bytes(),
                                    b.dtype.is_float() ? scalar(double(v)) : scalar(v));
      }
      args.push_back({.data = bytes.data()});
    }
  }
};

Function machine_level(const Function& f, const Target& target, std::vector<std::string> skip = {}) {
  Options options;
  options.stop_after = pass_names().back();
  options.skip = std::move(skip);
  return compile(f, target, options).function;
}

// As the reference has it, whatever the order of the warps, and nothing is found.
Function check_wide(const std::string& text) {
  CAPTURE(text);
  Function f = parse(text, "wide.ir", {find_op_info, find_instr});
  Arrays expected(f);
  run_reference(f, expected.args);
  Function machine = machine_level(f, wide());
  auto simulation = prepare_simulation(machine, wide());
  for (uint64_t seed = 0; seed < seeds; seed++) {
    Arrays got(f);
    run_simulation(*simulation, got.args, {.seed = seed, .count = true});
    CHECK(expected.memory == got.memory);
  }
  return machine;
}

int64_t calls_of(const Function& f, std::string_view name) {
  int64_t count = 0;
  for (auto& k : f.kernels) visit(k.body, [&](const Call& n) { count += n.intrinsic->name == name; });
  return count;
}

// ── machine programs ──────────────────────────────────────────────────────────────────────────────────
// X: 128 integers that count up; Y: as many that the kernel writes.
struct Run {
  std::vector<int32_t> x = counted<int32_t>(128), y = std::vector<int32_t>(128, -1);
  std::vector<uint64_t> lanes = std::vector<uint64_t>(128, 1);
  SimulationReport report;
};
Run run_wide(std::string_view body, uint64_t seed, int threads = 128, const Target& target = wide()) {
  Run r;
  std::string text = fmt::format(
      "func main(X: i32[128], Y: i32[128], L: u64[128]):\n  kernel main grid(b: 1) threads({}) "
      "thread(tx):\n{}",
      threads, body);
  auto simulation = prepare_simulation(machine_function(text), target);
  std::vector<HostArg> args = {{.data = r.x.data()}, {.data = r.y.data()}, {.data = r.lanes.data()}};
  r.report = simulate(*simulation, args, {.seed = seed});
  return r;
}

std::string found(const Run& r) { return r.report.findings.empty() ? "" : r.report.findings[0].text; }

}  // namespace

TEST_CASE("warps of 64: copies between tensors, shared memory and fragments") {
  for (int threads : {64, 128, 192, 96})
    for (auto [rows, cols] : {std::pair{64, 64}, {32, 48}, {7, 128}}) {
      check_wide(fmt::format(R"(
func main(A: f32[{0}, {1}], B: f16[{0}, {1}], C: f32[{1}, {0}]):
  kernel main grid(b: 1) threads({2}):
    As = shared f32[{0}, {1}]
    At = shared f32[{1}, {0}]
    Al = fragment f32[{0}, {1}]
    copy(A, As)
    copy(As, Al)
    copy(Al, B)
    transpose(As, At)
    copy(At, C)
)",
                             rows, cols, threads));
    }
}

TEST_CASE("warps of 64: elementwise loops, with tails") {
  for (int threads : {64, 128, 256, 70})
    check_wide(fmt::format(R"(
func main(A: f32[1000], B: f32[1000], C: f32[1000]):
  kernel main grid(b: 4) threads({}):
    Al = fragment f32[300]
    copy(A[b*300 : +300], Al)
    for i in parallel(300):
      Al[i] = Al[i]*2.0 + 1.0
    for i in parallel(300):
      if b*300 + i < 1000:
        C[b*300 + i] = Al[i] + B[b*300 + i]
)",
                           threads));
}

TEST_CASE("warps of 64: reductions go through shuffles of up to 32 lanes, and through shared memory") {
  int64_t shuffles = 0;
  for (int threads : {64, 128, 256, 96})
    for (auto [rows, cols] : {std::pair{8, 64}, {1, 512}, {64, 32}, {3, 100}})
      for (const char* op : {"sum", "max", "abssum"}) {
        Function f = check_wide(fmt::format(R"(
func main(A: f32[{0}, {1}], B: f32[{0}]):
  kernel main grid(b: 1) threads({2}):
    Al = fragment f32[{0}, {1}]
    Bl = fragment f32[{0}]
    copy(A, Al)
    reduce_{3}(Al, Bl) {{clear=1, dim=1}}
    copy(Bl, B)
)",
                                            rows, cols, threads, op));
        if (threads % 64) CHECK_EQ(calls_of(f, "shfl_xor"), 0);
        shuffles = std::max(shuffles, calls_of(f, "shfl_xor"));
      }
  CHECK_GE(shuffles, 6);  // 64 lanes to one
}

TEST_CASE("warps of 64: scans, whose lines belong to up to 64 threads") {
  for (int threads : {64, 128, 160})
    for (auto [rows, cols] : {std::pair{1, 512}, {4, 100}, {64, 64}})
      check_wide(fmt::format(R"(
func main(A: i32[{0}, {1}], B: i32[{0}, {1}]):
  kernel main grid(b: 1) threads({2}):
    As = shared i32[{0}, {1}]
    copy(A, As)
    cumsum(As, As) {{dim=1}}
    copy(As, B)
)",
                             rows, cols, threads));
}

TEST_CASE("warps of 64: gemm by multiply-adds") {
  for (int threads : {64, 128, 256})
    for (auto [trans_a, trans_b] : {std::pair{0, 0}, {0, 1}, {1, 0}})
      check_wide(fmt::format(R"(
func main(A: f16[{2}, {3}], B: f16[{4}, {5}], C: f32[32, 64]):
  kernel main grid(b: 1) threads({6}):
    As = shared f16[{2}, {3}]
    Bs = shared f16[{4}, {5}]
    Cl = fragment f32[32, 64]
    clear(Cl)
    copy(A, As)
    copy(B, Bs)
    gemm(As, Bs, Cl) {{trans_a={0}, trans_b={1}}}
    copy(Cl, C)
)",
                             trans_a, trans_b, trans_a ? 16 : 32, trans_a ? 32 : 16, trans_b ? 64 : 16,
                             trans_b ? 16 : 64, threads));
}

// ── lanes ─────────────────────────────────────────────────────────────────────────────────────────────
TEST_CASE("warps of 64: shuffles reach all lanes of their warp and no other one's") {
  Run r = run_wide(R"(
    Y[tx] = shfl_xor_sync(X[tx], 32, 64, 18446744073709551615:u64)
    L[tx] = cast<u64>(shfl_sync(X[tx], 40, 64, 18446744073709551615:u64))
)",
                   0);
  REQUIRE_EQ(found(r), "");
  for (int t = 0; t < 128; t++) {
    CHECK_EQ(r.y[size_t(t)], t ^ 32);
    CHECK_EQ(r.lanes[size_t(t)], t / 64 * 64 + 40);
  }
  r = run_wide(R"(
    Y[tx] = shfl_down_sync(X[tx], 1, 16, 18446744073709551615:u64)
    L[tx] = cast<u64>(shfl_up_sync(X[tx], 33, 64, 18446744073709551615:u64))
)",
               0);
  REQUIRE_EQ(found(r), "");
  for (int t = 0; t < 128; t++) {
    CHECK_EQ(r.y[size_t(t)], t % 16 == 15 ? t : t + 1);
    CHECK_EQ(r.lanes[size_t(t)], t % 64 >= 33 ? t - 33 : t);
  }
}

TEST_CASE("warps of 64: votes have a bit for each of 64 lanes, and conditions part them") {
  Run r = run_wide(R"(
    L[tx] = ballot_sync64(X[tx] % 3 == 0, 18446744073709551615:u64)
    if tx % 64 >= 40:
      Y[tx] = cast<i32>(activemask64() == 18446742974197923840:u64)
    else:
      Y[tx] = cast<i32>(activemask64() == 1099511627775:u64)
)",
                   0);
  REQUIRE_EQ(found(r), "");
  for (size_t t = 0; t < 128; t++) {
    uint64_t expected = 0;
    for (size_t lane = 0; lane < 64; lane++) expected |= uint64_t((t / 64 * 64 + lane) % 3 == 0) << lane;
    CHECK_EQ(r.lanes[t], expected);
    CHECK_EQ(r.y[t], 1);
  }
}

TEST_CASE("warps of 64: a mask without the upper lanes leaves them out") {
  Run r = run_wide("    Y[tx] = shfl_sync(X[tx], 0, 64, 4294967295:u64)\n", 0);
  CHECK(contains(found(r), "the mask 0x00000000ffffffff, which does not contain it: bit 32 must be set"));
  r = run_wide(R"(
    if tx % 64 < 40:
      Y[tx] = shfl_sync(X[tx], 0, 64, 18446744073709551615:u64)
)",
               0);
  CHECK(
      contains(found(r), "but thread 40 of block (0) of main, which the mask contains, does not take part"));
}

TEST_CASE("warps of 64: a block of 96 threads has one whole warp and half of one") {
  Run r = run_wide("    Y[tx] = cast<i32>(activemask64() == 4294967295:u64)\n", 0, 96);
  REQUIRE_EQ(found(r), "");
  for (int t = 0; t < 128; t++) CHECK_EQ(r.y[size_t(t)], t < 64 ? 0 : t < 96 ? 1 : -1);
}

// ── what programs leave to the target ─────────────────────────────────────────────────────────────────
namespace {

Function leaves_to_target(std::string_view body) {
  return parse(fmt::format("func main(X: i32[128], Y: i32[128], L: u64[128]):\n  kernel main grid(b: 1) "
                           "threads(128):\n    t = thread_number()\n{}",
                           body),
               "wide.ir", {find_op_info, find_instr});
}

std::string refused(std::string_view body, const Target& target) {
  try {
    machine_level(leaves_to_target(body), target);
  } catch (const CompileError& e) {
    return fmt::format("{}: {}", e.span.line, e.text);
  }
  return "";
}

}  // namespace

TEST_CASE("the width of a warp is the target's: warp_size, all_lanes, votes and reductions") {
  Function f = leaves_to_target(R"(
    sum = warp_reduce_add(X[t])
    Y[t] = sum + cast<i32>(t % warp_size())
    even = ballot_sync64(X[t] % 2 == 0 and t % warp_size() != 2, all_lanes())
    L[t] = even + cast<u64>(shfl_sync(t // warp_size(), 3, warp_size(), all_lanes()))
)");
  for (const Target* target : {&wide(), find_target("sm_80")}) {
    CAPTURE(target->warp);
    int warp = target->warp;
    auto simulation = prepare_simulation(machine_level(f, *target), *target);
    for (uint64_t seed = 0; seed < seeds; seed++) {
      std::vector<int32_t> x = counted<int32_t>(128), y(128);
      std::vector<uint64_t> lanes(128);
      std::vector<HostArg> args = {{.data = x.data()}, {.data = y.data()}, {.data = lanes.data()}};
      run_simulation(*simulation, args, {.seed = seed});
      for (int t = 0; t < 128; t++) {
        int first = t / warp * warp;
        CHECK_EQ(y[size_t(t)], warp * first + warp * (warp - 1) / 2 + t % warp);
        uint64_t even = uint64_t(0x5555555555555551) & (~uint64_t(0) >> (64 - warp));
        CHECK_EQ(lanes[size_t(t)], even + uint64_t(t / warp));
      }
    }
  }
}

TEST_CASE("what a target's warps have no bits or lanes for is refused at its line") {
  const Target& narrow = *find_target("sm_80");
  constexpr std::string_view vote = "    L[t] = cast<u64>(ballot_sync(X[t] > 3, all_lanes()))\n";
  CHECK_EQ(refused(vote, narrow), "");
  CHECK_EQ(refused(vote, wide()),
           "4: ballot_sync gives 32 bits, one for each lane, but a warp of wide has 64; ask for 64: "
           "dtype='uint64'");
  constexpr std::string_view shuffle = "    Y[t] = shfl_xor_sync(X[t], 1, 64, all_lanes())\n";
  CHECK_EQ(refused(shuffle, wide()), "");
  CHECK(contains(refused(shuffle, narrow),
                 "4: shfl_xor_sync: width is 64, but a warp of sm_80 has 32 threads"));
  constexpr std::string_view distance = "    Y[t] = shfl_xor_sync(X[t], 32, warp_size(), all_lanes())\n";
  CHECK_EQ(refused(distance, wide()), "");
  CHECK(contains(refused(distance, narrow), "4: shfl_xor_sync: 32 is not a distance within a warp of sm_80"));
  constexpr std::string_view barrier = "    bar_sync(1, 96)\n    Y[t] = 1\n";
  CHECK(contains(refused(barrier, wide()), "4: bar_sync: 96 threads; the number must be a multiple of 64"));
  constexpr std::string_view nobody = "    bar_sync_groups(3, 0)\n    Y[t] = 1\n";
  CHECK(contains(refused(nobody, wide()),
                 "4: bar_sync_groups: 0, the threads of a group, must be a positive constant"));
  constexpr std::string_view computed = "    bar_sync(t // 32 + 1, 32)\n    Y[t] = 1\n";
  CHECK(contains(refused(computed, narrow),
                 "4: bar_sync: t//32 + 1, the number of a barrier, must be a "
                 "constant: it is part of the instruction"));
}

// ── races ─────────────────────────────────────────────────────────────────────────────────────────────
TEST_CASE("warps of 64: a race between lanes 40 and 8 is one within a warp, to lane 3 of the next across") {
  for (uint64_t seed = 0; seed < seeds; seed++) {
    CAPTURE(seed);
    auto race = [&](int writer, int reader) {
      return run_wide(fmt::format(R"(
    S = shared i32[128] address(0) elements(128)
    if tx == {}:
      S[5] = 7
    if tx == {}:
      Y[0] = S[5]
)",
                                  writer, reader),
                      seed);
    };
    Run within = race(40, 8);
    REQUIRE_EQ(within.report.findings.size(), 1);
    CHECK(within.report.findings[0].kind == Finding::Kind::race);
    CHECK(contains(found(within), "T.sync_warp() if only one warp takes part"));
    Run across = race(40, 67);
    REQUIRE_GE(across.report.findings.size(), 1);
    bool has_race = false;  // where the reader comes first it reads what is not written yet, too
    for (auto& f : across.report.findings) {
      has_race |= f.kind == Finding::Kind::race;
      CHECK(!contains(f.text, "T.sync_warp()"));
    }
    CHECK(has_race);
    // In a chip of narrower warps the first two are of two warps.
    Run narrow = run_wide(
        "    S = shared i32[128] address(0) elements(128)\n    if tx == 40:\n      S[5] = 7\n    if tx == "
        "8:\n      Y[0] = S[5]\n",
        seed, 128, *find_target("sm_80"));
    for (auto& f : narrow.report.findings) CHECK(!contains(f.text, "T.sync_warp()"));
  }
}

TEST_CASE("warps of 64: sync_warp orders all 64 lanes and no other warp, sync_threads the block") {
  auto text = [](std::string_view barrier, std::string_view other) {
    return fmt::format(R"(
    S = shared i32[128] address(0) elements(128)
    S[tx] = X[tx]
    {}
    Y[tx] = S[{}]
)",
                       barrier, other);
  };
  constexpr std::string_view in_warp = "tx // 64*64 + (tx + 40) % 64", in_block = "(tx + 40) % 128";
  constexpr std::string_view whole = "sync_warp(18446744073709551615:u64)";
  constexpr std::string_view halves =
      "sync_warp(select(tx % 64 < 32, 4294967295:u64, 18446744069414584320:u64))";
  for (uint64_t seed = 0; seed < seeds; seed++) {
    CAPTURE(seed);
    Run r = run_wide(text(whole, in_warp), seed);
    REQUIRE_EQ(found(r), "");
    for (int t = 0; t < 128; t++) CHECK_EQ(r.y[size_t(t)], t / 64 * 64 + (t + 40) % 64);
    CHECK(contains(found(run_wide(text(halves, in_warp), seed)), "data race on S"));
    CHECK_NE(found(run_wide(text(whole, in_block), seed)), "");
    CHECK_EQ(found(run_wide(text("sync_threads()", in_block), seed)), "");
  }
}

TEST_CASE("warps of 64: a barrier that is left out is found") {
  Function f = parse(R"(
func main(A: f32[128], B: f32[128]):
  kernel main grid(b: 1) threads(128):
    As = shared f32[128]
    copy(A, As)
    for i in parallel(128):
      B[i] = As[127 - i]
)",
                     "wide.ir", {find_op_info, find_instr});
  Function with = machine_level(f, wide());
  CHECK_EQ(calls_of(with, "sync_threads"), 1);
  Function without = machine_level(f, wide(), {"insert_sync"});
  auto simulation = prepare_simulation(without, wide());
  for (uint64_t seed = 0; seed < seeds; seed++) {
    Arrays arrays(f);
    SimulationReport report = simulate(*simulation, arrays.args, {.seed = seed});
    REQUIRE_GE(report.findings.size(), 1);
    CHECK(contains(report.findings[0].text, "T.sync_threads()"));
  }
}

TEST_CASE("warps of 64: a barrier of the block that half a warp does not reach is found") {
  Run r = run_wide("    if tx < 96:\n      sync_threads()\n    Y[tx] = 1\n", 0);
  CHECK(contains(found(r),
                 "sync_threads in divergent flow: thread 64 of block (0) of main waits here, but thread 96 "
                 "of block (0) of main does not arrive"));
}
