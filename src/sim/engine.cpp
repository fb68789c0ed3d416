#include "sim/engine.h"

#include <algorithm>
#include <cstring>

#include "ops/atomic.h"
#include "sim/evaluate.h"
#include "sim/mbarrier_report.h"
#include "sim/race_detector.h"

namespace tl::sim {
namespace {

constexpr int64_t at_once = INT64_MIN, at_last = INT64_MAX;

void read_chunk(Chunk& p) {
  if (p.given) std::memcpy(p.held.data(), p.from, p.given);
  p.was_read = true;
}

void combine_chunk(const Chunk& p, const Combination& c) {
  const ElementAccess& element = element_access(c.type);
  for (int64_t at = 0; at < p.bytes; at += c.type.bytes()) {
    Scalar old = element.get(p.to + at), value = element.get(p.held.data() + at);
    element.put(p.to + at, c.type.is_float() ? scalar(combine(c.op, old.d, value.d, c.type))
                                             : scalar(combine(c.op, old.i, value.i, c.type)));
  }
}

}  // namespace

// Threads that have arrived more than once.
static MBarrier::Arrivals repeated(MBarrier::Arrivals came) {
  auto who = [](auto& a) { return std::pair(a.block, a.thread); };
  std::ranges::sort(came, {}, who);
  MBarrier::Arrivals twice;
  for (size_t i = 1; i < came.size(); i++)
    if (who(came[i]) == who(came[i - 1])) twice.push_back(came[i]);
  return twice;
}

void Engine::end_phase(int64_t barrier) {
  MBarrier& m = barriers.at(barrier);
  if (m.pending != 0 || m.bytes != 0) return;
  if (block.watch) check_overtaken(block, barrier, m);
  m.had_load = m.load.phase == m.phase;
  m.phase++;
  m.pending = m.count;
  m.released = m.joined;
  constexpr size_t most = 2;
  if (m.first_phases.size() < most) m.first_phases.push_back(m.came);
  if (m.rushed.empty()) m.rushed = repeated(m.came);
  m.ended_with = std::exchange(m.came, {});
}

InFlight Engine::flight() const { return schedule.flight(block.executed); }

void Engine::begin(std::vector<AsyncCopy>& list, AsyncCopy b) {
  b.left = b.chunks.size();
  for (auto& p : b.chunks) due = std::min({due, p.flight.read_at, p.flight.write_at});
  list.push_back(std::move(b));
  land(list.back(), at_once);
  if (list.back().left == 0) list.pop_back();
}

void Engine::write(AsyncCopy& b, Chunk& p) {
  if (!p.was_read) read_chunk(p);
  if (p.to && b.combination.op != Intrinsic::Atomic::none)
    combine_chunk(p, b.combination);
  else if (p.to)
    std::memcpy(p.to, p.held.data(), p.bytes);
  p.landed = true;
  b.left--;
  block.race_detector->memory_version++;
  if (b.barrier >= 0) tell(b, p);
}

// Its last piece tells what its thread knew, and that all copies have landed that were begun before the first
// one that is still under way.
void Engine::tell(AsyncCopy& b, const Chunk& p) {
  MBarrier& m = barriers.at(b.barrier);
  bool copies = p.bytes > 0;
  if (!copies) land(groups(Timeline::copies, b.thread).begun, at_last);
  if (b.left == 0 && block.watch) {
    const Clocks& clocks = block.watch->clocks;
    uint32_t landed = copies ? m.copies : b.epoch;
    for (auto& other : telling)
      if (copies && other.barrier == b.barrier && other.left > 0) landed = std::min(landed, other.epoch - 1);
    int32_t slot = copies ? clocks.slot_of_barrier(m.number) : clocks.slot(Timeline::copies, b.thread);
    // Bytes make known what they are, and nothing that was done before they were asked for.
    m.joined = merge(m.joined, clocks.with(copies ? nullptr : b.knows, slot, landed));
    m.ended_by = merge(m.ended_by, b.knows);
  }
  copies ? m.bytes -= p.bytes : m.pending--;
  end_phase(b.barrier);
}

// What is due then.
void Engine::land(AsyncCopy& b, int64_t now) {
  for (auto& p : b.chunks) {
    if (p.landed) continue;
    if (!p.was_read && p.flight.read_at <= now) read_chunk(p);
    if (p.flight.write_at <= now)
      write(b, p);
    else
      due = std::min(due, p.was_read ? p.flight.write_at : std::min(p.flight.read_at, p.flight.write_at));
  }
}

void Engine::land(std::vector<AsyncCopy>& list, int64_t now) {
  for (auto& b : list) land(b, now);
  std::erase_if(list, [](auto& b) { return b.left == 0; });
}

void Engine::advance() {
  if (block.executed < due) return;
  due = at_last;
  land(telling, block.executed);
  for (auto& [key, g] : grouped) land(g.begun, block.executed);
}

uint32_t Engine::wait(Timeline timeline, int64_t thread, size_t n, bool only_reads) {
  Groups& g = groups(timeline, thread);
  if (g.committed.size() <= n) return 0;
  uint32_t last = g.committed[g.committed.size() - 1 - n];
  g.waited = std::max(g.waited, last);
  for (auto& b : g.begun)
    if (b.epoch <= last && only_reads)
      for (auto& p : b.chunks) p.was_read ? void() : read_chunk(p);
    else if (b.epoch <= last)
      land(b, at_last);
  std::erase_if(g.begun, [](auto& b) { return b.left == 0; });
  return last;
}

bool Engine::land_next() {
  std::vector<std::vector<AsyncCopy>*> lists;
  if (!telling.empty())
    lists.push_back(&telling);
  else
    for (auto& [key, g] : grouped)
      if (!g.begun.empty()) lists.push_back(&g.begun);
  if (lists.empty()) return false;
  auto& list = *lists[schedule.choose(lists.size())];
  land(list[schedule.choose(list.size())], at_last);
  std::erase_if(list, [](auto& b) { return b.left == 0; });
  return true;
}

std::vector<Engine::Unawaited> Engine::unawaited() const {
  std::vector<Unawaited> all;
  for (auto& [key, g] : grouped)
    if (key.first == Timeline::bulk_writes && g.waited < g.last) all.push_back({false, key.second, g.site});
  for (auto& [address, m] : barriers)
    if (m.load.phase >= m.seen) all.push_back({true, m.load.thread, m.load.site, address});
  return all;
}

void Engine::land_telling(size_t which) {
  land(telling[which], at_last);
  std::erase_if(telling, [](auto& b) { return b.left == 0; });
}

void Engine::append_state(std::string& state) const {
  for (auto& [at, m] : barriers) {
    state += fmt::format("{} {} {} {} {} {};", at, m.pending, m.bytes, m.phase, m.seen, m.load.phase);
    for (auto& [first, seen] : m.seen_by)
      state += fmt::format("{} {} {};", first, seen.phase, fmt::join(seen.epochs, " "));
  }
  for (auto& b : telling) state += fmt::format("{} {} {};", b.thread, b.epoch, b.left);
}

void Engine::finish() {
  land(telling, at_last);
  for (auto& [key, g] : grouped) land(g.begun, at_last);
}

}  // namespace tl::sim
