// Random tile programs on a chip whose warps have 64 threads: they compute there what they mean, and nothing
// is found.
#include <doctest/doctest.h>

#include "base/error.h"
#include "fuzz/pipelined_program.h"
#include "fuzz/seeds.h"
#include "fuzz/tile_program.h"
#include "sim/run.h"
#include "trial.h"
#include "wide_chip.h"

using namespace tl;

namespace {

// The simulator's arguments of a trial.
struct Arguments {
  std::vector<HostArg> args = {};
  std::vector<std::array<std::byte, 8>> scalars;
  explicit Arguments(Trial& trial) : scalars(trial.tensors.size()) {
    for (size_t i = 0; i < trial.tensors.size(); i++) {
      Tensor& t = trial.tensors[i];
      if (t.bytes.empty()) {
        double v = trial.scalars[i];
        int64_t whole = v >= 0x1p63 ? int64_t(uint64_t(v)) : int64_t(v);
        element_access(t.type).put(scalars[i].data(), t.type.is_float() ? scalar(v) : scalar(whole));
        args.push_back({.data = scalars[i].data()});
      } else {
        std::byte *begin = t.bytes.data(), *end = begin + t.bytes.size();
        args.push_back({.data = begin, .shape = t.shape, .strides = t.strides, .memory = {begin, end}});
      }
    }
  }
};

// Why a program is wrong there, as a sentence; nothing where it is right, or refused.
std::string fault_of(const fuzz::Program& p, uint64_t seed, int64_t& refused) {
  Function f = parse_text(p.text, "fuzz.ir");
  auto reference = compile_kernel(f, "reference");
  Trial wanted = random_trial(reference->program, {p.given}, seed, Inputs::whole), got = wanted;
  std::shared_ptr<const Simulation> simulation;
  try {
    launch(*reference, wanted);
    Options options{.skip = p.skip, .stop_after = std::string(pass_names().back()), .flags = {}};
    simulation = prepare_simulation(compile(f, wide_chip(), options).function, wide_chip());
  } catch (const CompileError&) {
    refused++;
    return "";
  }
  Arguments arguments(got);
  SimulationReport report = simulate(*simulation, arguments.args, {.seed = seed});
  if (!report.findings.empty()) return report.findings[0].text;
  Verdict v = compare(reference->program, got, wanted, {.tolerance = p.tolerance});
  return v.is_failure() ? to_string(v) : "";
}

void check_programs(const fuzz::Seeds& seeds, fuzz::Program (*make)(uint64_t seed)) {
  int64_t refused = 0, programs = 0;
  fuzz::each_seed(seeds, [&](uint64_t seed) {
    fuzz::Program p = make(seed);
    CAPTURE(seed);
    CAPTURE(p.text);
    programs++;
    CHECK_EQ(fault_of(p, seed, refused), "");
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
