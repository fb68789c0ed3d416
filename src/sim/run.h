// target="sim:CHIP": a Function at level machine, the very one that is printed for that chip, executed on
// the host.  Blocks run one after another; in a block the warps one after another from barrier to barrier,
// the threads of a warp in step.  Memory is poisoned where it begins, so that what was never written shows
// in the result.
#pragma once
#include <memory>

#include "sim/host.h"
#include "target/target.h"

namespace tl {

// A function translated, ready to be called.
struct Simulation;
std::shared_ptr<const Simulation> prepare_simulation(const Function& machine, const Target& target);

// One argument per parameter.  What is wrong with the program itself (an index outside memory, a barrier
// that not all threads reach, an operand that is not aligned) is a CompileError at its line.  Thread-safe.
void run_simulation(const Simulation& simulation, std::span<const HostArg> args);

}  // namespace tl
