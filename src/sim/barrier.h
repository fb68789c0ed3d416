// Warps that wait at barriers of their block.
#pragma once
#include "sim/machine.h"

namespace tl::sim {

inline const Operation& stands_at(const Warp& w) { return w.code->operations[w.next - 1]; }
inline const CallSite& waits_at(const Warp& w) { return w.code->calls[size_t(stands_at(w).row)]; }
inline bool is_waiting(const Warp& w) { return w.state == Warp::State::waiting; }

void leave_barrier(Warp& w);  // it goes on
// All warps have ended, or wait at the same barrier; else a finding.
void check_barrier(const std::vector<Warp>& warps, const Warp& waiting);
// Releases the warps of complete named barriers.
bool release_named(Block& block, std::vector<Warp>& warps);
// A deadlock at named barriers: the finding says which warps wait where, and which barriers are incomplete.
void check_named(const Block& block, const std::vector<Warp>& warps);

}  // namespace tl::sim
