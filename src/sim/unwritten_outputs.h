// The elements that a run has left unwritten in the tensors that the call allocated.
#pragma once
#include "sim/host.h"
#include "sim/race_detector.h"

namespace tl::sim {

// After a run of all blocks: the cells know what was written.
std::vector<UnwrittenOutput> unwritten_outputs_of(const Host& host, std::span<const HostArg> args,
                                                  const GlobalShadow& cells);

}  // namespace tl::sim
