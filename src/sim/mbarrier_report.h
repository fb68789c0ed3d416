// What is said of a phase of a barrier in memory that goes wrong, and why it does.
#pragma once
#include <span>

#include "sim/engine.h"
#include "sim/machine.h"
#include "sim/report.h"

namespace tl::sim {

std::string name_of_barrier(const Place& p, int64_t address);
std::string name_of_barrier(const Code& code, int64_t address);

// A thread arrives in a phase that has all its arrivals, and waits for bytes.
std::string no_room(const Warp& w, const MBarrier& m, int lane, int64_t address);
// Does everything that ends the phase under way come after what warps have seen of the one before?
void check_overtaken(const Block& block, int64_t barrier, const MBarrier& m);
// Barriers of a block that ends, at which one instruction of a warp has arrived in several phases.
void check_crowds(const Block& block);
// Why barriers at which the warp or that thread has waited have not ordered the two; empty: no such reason.
std::string why_unordered(const Warp& w, int64_t thread);
// Why the thread's warp runs ahead of others: it has seen one phase end twice; empty: it has not.
std::string why_ahead(const Block& block, int64_t thread);
std::string cure_by_empty();  // a writer waits for the readers of a slot
// Has the thread's warp waited for a phase of a barrier at which that warp arrives?
bool was_told(const Block& block, int64_t thread, const Warp& by);

// A warp waits for ever for a phase: what is missing there, why, and what where others wait.
Finding phase_finding(const Warp& w, std::span<const Warp* const> others);
// How much can be said of a warp that waits for ever: the most of one that will miss its phase.
int told_of_phase(const Warp& w);

}  // namespace tl::sim
