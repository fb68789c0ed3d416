// Random programs on a chip that no target string names.
#pragma once
#include "base/error.h"
#include "fuzz/harness.h"
#include "sim/run.h"
#include "trial.h"

namespace tl::fuzz {

// The simulator's arguments of a trial.
struct ChipArguments {
  std::vector<HostArg> args = {};
  std::vector<std::array<std::byte, 8>> scalars;
  explicit ChipArguments(Trial& trial) : scalars(trial.tensors.size()) {
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
inline std::string fault_on(const Target& chip, const Program& p, uint64_t seed, int64_t& refused) {
  Function f = parse_text(p.text, "fuzz.ir");
  auto reference = compile_kernel(f, "reference");
  Trial wanted = random_trial(reference->program, {p.given}, seed, Inputs::whole), got = wanted;
  std::shared_ptr<const Simulation> simulation;
  try {
    launch(*reference, wanted);
    Options options{.skip = p.skip, .stop_after = std::string(pass_names().back()), .flags = {}};
    simulation = prepare_simulation(compile(f, chip, options).function, chip);
  } catch (const CompileError&) {
    refused++;
    return "";
  }
  ChipArguments arguments(got);
  SimulationReport report = simulate(*simulation, arguments.args, {.seed = seed});
  if (!report.findings.empty()) return report.findings[0].text;
  Verdict v = compare(reference->program, got, wanted, {.tolerance = p.tolerance});
  return v.is_failure() ? to_string(v) : "";
}

}  // namespace tl::fuzz
