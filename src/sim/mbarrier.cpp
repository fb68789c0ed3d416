// Barriers in memory: which threads have arrived in a phase, and what has landed.
#include "base/error.h"
#include "sim/async.h"
#include "sim/mbarrier_report.h"
#include "sim/phase_state.h"

namespace tl::sim {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;

Clocks* clocks_of(const Execution& x) { return x.warp.block->watch ? &x.warp.block->watch->clocks : nullptr; }

int64_t address_of_barrier(const Execution& x, size_t arg, int lane) {
  return x.place(arg).address + x.value(arg, lane).i;
}

MBarrier& barrier_at(const Execution& x, const Block& of, size_t arg, int lane) {
  int64_t address = address_of_barrier(x, arg, lane);
  auto& barriers = of.engine->barriers;
  auto it = barriers.find(address);
  const Place& p = x.place(arg);
  if (int64_t size = p.type.bytes(), index = (address - p.address) / size;
      it == barriers.end() && (address < p.address || index >= p.elements))
    stop(Finding::Kind::outside, x.site.span, "{}: {} uses {}, but index {} is outside [0, {})",
         x.site.intrinsic->name, describe_thread(x.warp, lane), name_of_barrier(p, address), index,
         p.elements);
  if (it == barriers.end() || it->second.count == 0)
    stop(Finding::Kind::unwritten, x.site.span,
         "{}: {} uses {} as a barrier, but {}: let one thread execute mbarrier_init, and put a barrier after "
         "that",
         x.site.intrinsic->name, describe_thread(x.warp, lane), name_of_barrier(p, address),
         it == barriers.end() ? "it has not been initialised" : "it has been invalidated");
  return it->second;
}

void touch_barrier(const Execution& x, const Block& of, size_t arg, int lane, Touch touch) {
  constexpr int64_t bytes = 8;
  reach_in(x, of, arg, lane, x.value(arg, lane).i, bytes, bytes, touch);
}

// The phase that a state is of, from the barrier that gave it.
int64_t phase_of_state(const Execution& x, const MBarrier& m, int lane, int64_t state) {
  auto [life, phase] = PhaseState::of(state);
  auto refuse = [&](std::string_view what, std::string_view cure) {
    stop(Finding::Kind::barrier, x.site.span, "{}: {} asks for a phase of {} by {}; {}",
         x.site.intrinsic->name, describe_thread(x.warp, lane),
         name_of_barrier(x.place(0), address_of_barrier(x, 0, lane)), what, cure);
  };
  if (life != m.life) {
    bool existed = life > 0 && life <= x.warp.block->engine->lives;
    std::string what = existed ? "a state of a barrier that has been initialised again"
                               : "a value that is the state of no phase";
    for (auto& [address, other] : x.warp.block->engine->barriers)
      if (other.life == life) what = fmt::format("a state of {}", name_of_barrier(*x.warp.code, address));
    refuse(what, "it takes what an arrival at this barrier gave");
  }
  if (phase < m.phase - 1)
    refuse(fmt::format("the state of phase {}, but phase {} is under way", phase, m.phase),
           "a state serves for the phase under way and the one before it: let this thread wait, or arrive "
           "again, before the next phase can end");
  return phase;
}

// ── what threads do ───────────────────────────────────────────────────────────────────────────────────
void init_barrier(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    x.operand(0, lane, x.row<AsyncInstr>().bytes, x.row<AsyncInstr>().bytes, Touch::write);
    int64_t count = x.value(1, lane).i;
    if (count < 1)
      stop(Finding::Kind::fault, x.site.span,
           "mbarrier_init: the count is {}, in {}; a phase needs at least one arrival", count,
           describe_thread(x.warp, lane));
    auto& barriers = x.warp.block->engine->barriers;
    auto number = int64_t(barriers.size());
    auto [it, is_new] = barriers.try_emplace(address_of_barrier(x, 0, lane));
    MBarrier& m = it->second;
    if (!is_new) number = m.number;
    uint32_t copies = m.copies;  // its slot's epochs go on
    m = {.count = count,
         .pending = count,
         .number = number,
         .life = ++x.warp.block->engine->lives,
         .copies = copies,
         .initialiser = x.warp.first + lane};
    x.warp.block->race_detector->memory_version++;
  });
}

void invalidate(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) { barrier_of(x, 0, lane, Touch::write).count = 0; });
}

void fence_inits(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    for (auto& [address, m] : x.warp.block->engine->barriers)
      if (m.initialiser == x.warp.first + lane) m.initialiser = -1;
  });
}

void expect_bytes(const Execution& x, MBarrier& m, int lane) {
  m.bytes += x.value(1, lane).i;
  x.warp.block->race_detector->memory_version++;
}

void check_room(const Execution& x, const Block& of, const MBarrier& m, int lane) {
  if (m.pending == 0)
    stop(Finding::Kind::barrier, x.site.span, "{}: {}", x.site.intrinsic->name,
         no_room(x.warp, of, m, lane, address_of_barrier(x, 0, lane)));
}

// One instruction of a warp should not end a phase and go on in the next: no thread could wait in between.
void note_crowd(const Execution& x, MBarrier& m, int lane, int64_t began_in) {
  if (m.crowded_by || m.phase == began_in) return;
  m.crowded_by = &x.warp, m.crowded_at = x.site.site, m.crowding = lane;
}

void come(const Execution& x, const Block& of, MBarrier& m, int lane) {
  int64_t thread = x.warp.first + lane;
  if (Clocks* clocks = clocks_of(x)) m.joined = merge(m.joined, clocks->release(thread));
  m.came.push_back({x.site.site, x.warp.block->number, thread});
  m.arrivers.insert(x.warp.block->number * x.warp.code->thread_count() + thread);
  m.pending--;
  x.warp.block->race_detector->memory_version++;
  of.engine->end_phase(address_of_barrier(x, 0, lane));
}

void expect(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) { expect_bytes(x, barrier_of(x, 0, lane, Touch::atomic_update), lane); });
}

void arrive(const Execution& x) {
  x.count(Counter::Kind::barrier);
  bool expects = x.row<AsyncInstr>().does == AsyncKind::arrive_expect;
  std::map<const MBarrier*, int64_t> began_in;  // which phases
  for_lanes(x.lanes, [&](int lane) {
    MBarrier& m = barrier_of(x, 0, lane, Touch::atomic_update);
    note_crowd(x, m, lane, began_in.try_emplace(&m, m.phase).first->second);
    check_room(x, *x.warp.block, m, lane);
    if (expects) expect_bytes(x, m, lane);
    if (x.row<AsyncInstr>().gives_state()) x.give(lane, scalar(PhaseState{m.life, m.phase}.packed()));
    come(x, *x.warp.block, m, lane);
  });
}

// At the barrier of another block of the cluster.
void arrive_there(const Execution& x) {
  x.count(Counter::Kind::barrier);
  for_lanes(x.lanes, [&](int lane) {
    Block& of = block_of_rank(x, lane, x.value(1, lane).i);
    MBarrier& m = barrier_in(x, of, 0, lane, Touch::atomic_update);
    check_room(x, of, m, lane);
    come(x, of, m, lane);
  });
}

// Arrives when all has landed that the thread has begun to copy; for itself it adds an arrival, unless that
// was counted.
void arrive_later(const Execution& x) {
  x.count(Counter::Kind::barrier);
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane;
    Engine& engine = *x.warp.block->engine;
    MBarrier& m = barrier_of(x, 0, lane, Touch::atomic_update);
    bool counted = x.row<AsyncInstr>().does == AsyncKind::signal_counted;
    if (counted) m.arrivers.insert(x.warp.block->number * x.warp.code->thread_count() + thread);
    m.pending += !counted;
    m.came.push_back({x.site.site, x.warp.block->number, thread});
    uint32_t epoch = engine.groups(Timeline::copies, thread).epoch++;
    AsyncCopy b{.thread = thread,
                .epoch = epoch,
                .barrier = address_of_barrier(x, 0, lane),
                .chunks = {{.flight = engine.flight()}}};
    if (Clocks* clocks = clocks_of(x)) b.knows = clocks->release(thread);
    engine.begin_telling(std::move(b));
  });
}

void note_seen(const Execution& x, MBarrier& m, int lane) {
  MBarrier::Seen& seen = m.seen_by[x.warp.first];
  bool same_phase = seen.warp && seen.phase == m.phase - 1;
  bool same_wait = same_phase && seen.site == x.site.site && !seen.lanes[size_t(lane)];
  if (!same_wait) {
    seen.again = same_phase;
    seen.warp = &x.warp, seen.phase = m.phase - 1, seen.site = x.site.site;
    seen.by_state = x.row<AsyncInstr>().takes_state();
    seen.lanes.assign(size_t(x.warp.lane_count()), false);
    seen.epochs.assign(size_t(x.warp.lane_count()), 0);
  }
  seen.lanes[size_t(lane)] = true;
  if (Clocks* clocks = clocks_of(x))
    seen.epochs[size_t(lane)] = clocks->now(x.warp.first + lane, x.site.site).epoch;
}

// The phase that a test asks for, by its state or its parity: the one before the phase under way, or that.
int64_t asked_phase(const Execution& x, const MBarrier& m, int lane) {
  int64_t given = x.value(1, lane).i;
  if (x.row<AsyncInstr>().takes_state()) return phase_of_state(x, m, lane, given);
  if (given != 0 && given != 1)
    stop(Finding::Kind::fault, x.site.span,
         "{}: the parity is {}, in {}; it must be 0 (even phases) or 1 (odd phases)", x.site.intrinsic->name,
         given, describe_thread(x.warp, lane));
  return m.phase - (m.phase % 2 != given);
}

// Has the phase ended?  The condition of a loop waits for that; anything else asks, and goes on.
void test_phase(const Execution& x) {
  Warp& w = x.warp;
  bool waits = w.code->sites[size_t(x.site.site)].stmt.as<While>();
  w.awaited = -1;
  for_lanes(x.lanes, [&](int lane) {
    MBarrier& m = barrier_at(x, *w.block, 0, lane);
    bool ended = asked_phase(x, m, lane) < m.phase;
    x.give(lane, scalar(int64_t(ended)));
    if (ended) {  // a wait reads once, however often it has to ask
      touch_barrier(x, *w.block, 0, lane, Touch::atomic_read);
      m.seen = m.phase;
      if (Clocks* clocks = clocks_of(x)) clocks->acquire(w.first + lane, m.released);
      note_seen(x, m, lane);
      return;
    }
    if (w.awaited >= 0 || !waits) return;
    w.awaited = address_of_barrier(x, 0, lane);
    w.awaits_by_state = x.row<AsyncInstr>().takes_state();
    w.awaits_at = x.site.site;
    w.awaiting = lane;
  });
  if (w.awaited < 0) return;
  w.seen_version = w.block->race_detector->memory_version;  // no use in asking again before something happens
  w.idle_trips = INT32_MAX;
}

struct BarrierRow {
  AsyncKind does;
  Semantics run;
};
constexpr BarrierRow rows[] = {
    {AsyncKind::init, init_barrier},      {AsyncKind::inval, invalidate},
    {AsyncKind::arrive, arrive},          {AsyncKind::arrive_expect, arrive},
    {AsyncKind::expect, expect},          {AsyncKind::test, test_phase},
    {AsyncKind::signal, arrive_later},    {AsyncKind::signal_counted, arrive_later},
    {AsyncKind::fence_init, fence_inits}, {AsyncKind::remote_arrive, arrive_there},
};

}  // namespace

Semantics barrier_semantics(AsyncKind does) {
  for (auto& row : rows)
    if (row.does == does) return row.run;
  return nullptr;
}

MBarrier& barrier_in(const Execution& x, const Block& of, size_t arg, int lane, Touch touch) {
  MBarrier& m = barrier_at(x, of, arg, lane);
  touch_barrier(x, of, arg, lane, touch);
  return m;
}
MBarrier& barrier_of(const Execution& x, size_t arg, int lane, Touch touch) {
  return barrier_in(x, *x.warp.block, arg, lane, touch);
}

}  // namespace tl::sim
