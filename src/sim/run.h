// target="sim:CHIP": a Function at level machine, the very one that is printed for that chip, executed on the
// host, thread by thread.  In a block the warps run in an order that a seed decides, the threads of a warp in
// step.  Memory is poisoned when it is allocated, so that unwritten elements show in the result.
#pragma once
#include <functional>
#include <memory>

#include "sim/host.h"
#include "sim/limits.h"
#include "sim/report.h"
#include "sim/stop.h"
#include "target/target.h"

namespace tl {

// A function translated, ready to be called.
struct Simulation;
std::shared_ptr<const Simulation> prepare_simulation(const Function& machine, const Target& target);

// Instead of a number: every order in which the warps can meet, of small kernels.
inline constexpr int64_t all_schedules = -1;

struct SimulationOptions {
  uint64_t seed = 0;
  int64_t schedules = 1;  // seeds from there on, one after another, on the same arguments
  std::vector<int64_t> blocks =
      {};                 // of each kernel, by number (x fastest), those that there are; empty: all
  int64_t sample = 0;     // or so many, evenly from the first to the last; 0: all
  bool watch = true;      // races, reads of unwritten memory
  bool count = false;     // bank cycles, sectors, instructions
  StopHandler stop = {};  // called by each warp at each breakpoint; it may throw
  RunLimits limits = RunLimits::of_environment(1'000'000);
};

// One argument per parameter.  Thread-safe.  What is wrong with the program itself is in the findings; of
// several schedules, those of the first one that has any.
SimulationReport simulate(const Simulation& simulation, std::span<const HostArg> args,
                          const SimulationOptions& options = {});
// The same, and a SimulationError where there are findings.
SimulationReport run_simulation(const Simulation& simulation, std::span<const HostArg> args,
                                const SimulationOptions& options = {});

}  // namespace tl
