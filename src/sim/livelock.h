// Why a thread does not leave a loop.
#pragma once
#include "sim/machine.h"

namespace tl::sim {

// How often a loop that looks at its registers alone may go on before it counts as stuck.
inline constexpr int64_t most_computing_rounds = 125'000;

// Does the loop that it spins in read memory, or call what may?  Else only its own registers can end it.
bool reads_memory(const Warp& w);
// `repeats`: all values are what they have been before; `residents`, `to_come`: blocks that the chip holds at
// once, and those that begin later.
std::string describe_livelock(const Warp& w, int lane, bool repeats, int64_t residents, size_t to_come);

}  // namespace tl::sim
