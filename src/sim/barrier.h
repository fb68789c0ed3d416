// Warps that wait at barriers of their block.
#pragma once
#include "sim/machine.h"

namespace tl::sim {

inline const Operation& stands_at(const Warp& w) { return w.code->operations[w.next - 1]; }
inline const CallSite& waits_at(const Warp& w) { return w.code->calls[size_t(stands_at(w).row)]; }
inline bool is_waiting(const Warp& w) { return w.state == Warp::State::waiting; }

void leave_barrier(Warp& w);  // it goes on
// Everyone has ended, or waits at the same barrier; else a finding.
void check_barrier(const std::vector<Warp>& warps, const Warp& waiting);
// Warps whose named barrier all have come to go on.
bool release_named(Block& block, std::vector<Warp>& warps);
// Nobody can go on, and someone waits at a named barrier: who waits where, and which barriers have been come
// to.
void check_named(const Block& block, const std::vector<Warp>& warps);

}  // namespace tl::sim
