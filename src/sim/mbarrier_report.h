// What is said of a phase of a barrier in memory that goes wrong, and why it does.
#pragma once
#include <span>

#include "sim/engine.h"
#include "sim/machine.h"
#include "sim/report.h"

namespace tl::sim {

std::string name_of_barrier(const Place& p, int64_t address);
std::string name_of_barrier(const Code& code, int64_t address);

// A thread arrives at that block's barrier in a phase that has all its arrivals, and waits for bytes.
std::string no_room(const Warp& w, const Block& of, const MBarrier& m, int lane, int64_t address);
// Does everything that ends the phase under way come after what warps have seen of the one before?
void check_overtaken(const Block& block, int64_t barrier, const MBarrier& m);
// Barriers of a block that ends, at which one instruction of a warp has arrived in several phases.
void check_crowds(const Block& block);
// Why barriers at which the warp or that thread has waited have not ordered the two; empty: no such reason.
std::string why_unordered(const Warp& w, int64_t thread);
// Why the thread's warp runs ahead of others: it has seen one phase end twice; empty: it has not.
std::string why_ahead(const Block& block, int64_t thread);
// Of a load that signals that barrier, for which nobody waits before the block ends.
std::string cure_of_unawaited(const Block& block, int64_t barrier);
// Why the warp, which has waited, has not waited for the load that `m` is told of: it was at another barrier;
// empty: no such reason.
std::string why_told_elsewhere(const Warp& w, int64_t barrier, const MBarrier& m);
// The same: the phase that the reader has seen end did so before the load, of the phase under way, was begun.
std::string why_ended_early(const Block& block, int64_t reader, int64_t barrier, const MBarrier::Load& load);
// What if not that thread but another one of its warp arrives at the barrier that `w` has waited for.
std::string why_alone(const Warp& w, int64_t thread, std::string_view did);
// Why the writer of a slot has not waited for that reader: at the barrier for which it waits, the reader's
// warp has not arrived, and others have ended the phases; empty: no such barrier.
std::string why_not_counted(const Block& block, int64_t reader, int64_t writer);
std::string cure_by_empty();  // a writer waits for the readers of a slot
// Has the thread's warp waited for a phase of a barrier at which that warp arrives?
bool was_told(const Block& block, int64_t thread, const Warp& by);

// A warp waits for ever for a phase: what is missing there, why, and what where others wait.
Finding phase_finding(const Warp& w, std::span<const Warp* const> others);
// How much can be said of a warp that waits for ever: the most of one that will miss its phase.
int told_of_phase(const Warp& w);

}  // namespace tl::sim
