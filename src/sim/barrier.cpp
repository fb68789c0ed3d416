// Which warps wait where, and whether all have arrived.
#include "sim/barrier.h"

#include <algorithm>
#include <set>

#include "sim/performance_counters.h"
#include "sim/report.h"
#include "sim/warp.h"

namespace tl::sim {

void leave_barrier(Warp& w) {
  if (PerformanceCounters* t = w.block->counters; t && is_waiting(w))
    t->waited(waits_at(w).site, waits_at(w).intrinsic->name, w.block->executed - w.came);
  w.state = Warp::State::running;
}

// Each team comes to the barrier of the block at its own place.
static bool are_of_two_teams(const CallSite& a, const CallSite& b) {
  return a.intrinsic == b.intrinsic && a.team.count && b.team.count && a.team != b.team;
}

void check_barrier(const std::vector<Warp>& warps, const Warp& waiting) {
  for (auto& w : warps) {
    if (is_waiting(w) && (w.next == waiting.next || are_of_two_teams(waits_at(w), waits_at(waiting))))
      continue;
    const CallSite& here = waits_at(waiting);
    std::string other = "has ended";
    Finding f{.kind = Finding::Kind::barrier, .span = here.span};
    if (is_waiting(w)) {
      f.other = waits_at(w).span;
      f.other_thread = w.first;
      other =
          fmt::format("waits at another barrier{}", f.other ? fmt::format(", on line {}", f.other.line) : "");
    }
    f.thread = waiting.first;
    f.text = fmt::format(
        "{} in divergent flow: {} waits here, but {} {}; every thread of the block must reach the same "
        "barrier: move it out of the condition",
        here.intrinsic->name, describe_thread(waiting, 0), describe_thread(w, 0), other);
    throw Fault(std::move(f));
  }
}

bool release_named(Block& block, std::vector<Warp>& warps) {
  bool released = false;
  for (auto& w : warps) {
    if (!is_waiting(w) || w.barrier < 0 || block.barriers[w.barrier].phase <= w.phase) continue;
    leave_named(w, block.barriers[w.barrier]);
    leave_barrier(w);
    w.barrier = -1;
    released = true;
  }
  return released;
}

void check_named(const Block& block, const std::vector<Warp>& warps) {
  auto waits_named = [](auto& w) { return is_waiting(w) && w.barrier >= 0; };
  auto first = std::ranges::find_if(warps, waits_named);
  if (first == warps.end()) return;
  const NamedBarrier& b = block.barriers.at(first->barrier);
  Finding f{.kind = Finding::Kind::deadlock, .span = waits_at(*first).span};
  f.thread = first->first;
  f.text = fmt::format("{} waits at barrier {} for {} threads, but only {} arrive",
                       describe_thread(*first, 0), first->barrier, b.expected, b.arrived);
  if (b.phase > 0)
    f.text += fmt::format(" (all of them have arrived {} time{} before)", b.phase, b.phase > 1 ? "s" : "");
  std::set<size_t> told = {first->next};
  for (auto& w : warps) {
    if (!is_waiting(w) || !told.insert(w.next).second) continue;
    const Span& span = waits_at(w).span;
    f.text += fmt::format(
        "; thread {} waits at {}{}", w.first,
        w.barrier >= 0 ? fmt::format("barrier {}", w.barrier) : std::string(waits_at(w).intrinsic->name),
        span ? fmt::format(" on line {}", span.line) : "");
    if (f.other_thread >= 0) continue;
    f.other = span;
    f.other_thread = w.first;
  }
  if (told.size() == 1) f.text += ": the others have ended";
  for (auto& [id, other] : block.barriers)
    if (auto waits_there = [&](auto& w) { return waits_named(w) && w.barrier == id; };
        other.arrived > 0 && std::ranges::none_of(warps, waits_there))
      f.text += fmt::format("; {} of {} threads have arrived at barrier {}, where no thread waits",
                            other.arrived, other.expected, id);
  throw Fault(std::move(f));
}

}  // namespace tl::sim
