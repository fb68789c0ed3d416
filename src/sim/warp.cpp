// Shuffles, votes and barriers.  Which lanes must take part a mask says; a lane that has returned, or never
// existed, need not come.  What a shuffle reads from a lane that does not take part is poison, as on the chip
// it is anything.
#include "sim/warp.h"

#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ir/dtype.h"
#include "sim/undefined.h"

namespace tl::sim {
namespace {

// ── masks ─────────────────────────────────────────────────────────────────────────────────────────────
Mask mask_of(const Execution& x, size_t arg, int lane) { return Mask(uint64_t(x.value(arg, lane).i)); }

// Every executing lane stands in its own mask, and all others of that mask execute, too.
void check_mask(const Execution& x, size_t arg) {
  Mask here = x.warp.alive & ~x.warp.returned;
  for_lanes(x.lanes, [&](int lane) {
    Mask mask = mask_of(x, arg, lane);
    if (!(mask >> lane & 1))
      stop(Finding::Kind::divergence, x.site.span,
           "{} executes {} with the mask 0x{:08x}, in which it is not: bit {} must be set",
           describe_thread(x.warp, lane), x.site.callee->name, mask, lane);
    if (Mask missing = mask & here & ~x.lanes)
      stop(Finding::Kind::divergence, x.site.span,
           "{} executes {} with the mask 0x{:08x}, but {}, which is in it, does not take part: leave it out "
           "of the mask, "
           "or move the call out of the condition",
           describe_thread(x.warp, lane), x.site.callee->name, mask,
           describe_thread(x.warp, std::countr_zero(missing)));
  });
}

// ── shuffles: (value, number, width, mask) ────────────────────────────────────────────────────────────
Scalar poison_of(DType type) {
  return type.is_float() ? scalar(std::nan("")) : scalar(wrap_int(int64_t(0xCDCDCDCDCDCDCDCD), type));
}

// from(lane, number, first lane of the segment, width): the lane it reads, its own where it lies outside.
template <int (*from)(int lane, int64_t number, int base, int width)>
void shuffle(const Execution& x) {
  check_mask(x, 3);
  x.tally(Counter::Kind::shuffle);
  std::array<Scalar, lane_count> taken;
  std::array<int8_t, lane_count> source;
  for_lanes(x.lanes, [&](int lane) {
    int64_t width = x.value(2, lane).i;
    if (width < 1 || width > lane_count || (width & (width - 1)))
      stop(Finding::Kind::fault, x.site.span, "{}: the width is {}; it must be a power of two, at most {}",
           x.site.callee->name, width, lane_count);
    int other = from(lane, x.value(1, lane).i, lane / int(width) * int(width), int(width));
    bool there = x.lanes >> other & 1;
    source[size_t(lane)] = int8_t(other);
    taken[size_t(lane)] = there ? x.value(0, other) : poison_of(x.site.type);
  });
  if (x.warp.block->watch) follow_shuffle(x.warp, x.site, x.lanes, source);
  for_lanes(x.lanes, [&](int lane) { x.give(lane, taken[size_t(lane)]); });
}
int given(int, int64_t number, int base, int width) { return base + int(number & (width - 1)); }
int across(int lane, int64_t number, int base, int width) {
  int64_t other = (lane ^ number) & (lane_count - 1);
  return other < base + width ? int(other) : lane;
}
int below(int lane, int64_t number, int base, int) {
  return lane - number >= base ? int(lane - number) : lane;
}
int above(int lane, int64_t number, int base, int width) {
  return number >= 0 && lane + number < base + width ? int(lane + number) : lane;
}

// ── votes: (value, mask) ──────────────────────────────────────────────────────────────────────────────
enum class Vote { any, all, ballot, match_any, match_all };

template <Vote kind>
void vote(const Execution& x) {
  check_mask(x, 1);
  x.tally(Counter::Kind::vote);
  Mask yes = 0;
  for_lanes(x.lanes, [&](int lane) { yes |= Mask(x.value(0, lane).i != 0) << lane; });
  for_lanes(x.lanes, [&](int lane) {
    Mask among = mask_of(x, 1, lane) & x.lanes, equal = 0;
    for_lanes(among, [&](int other) { equal |= Mask(x.value(0, other).i == x.value(0, lane).i) << other; });
    int64_t result = kind == Vote::any         ? (yes & among) != 0
                     : kind == Vote::all       ? (yes & among) == among
                     : kind == Vote::ballot    ? int64_t(yes & among)
                     : kind == Vote::match_any ? int64_t(equal)
                                               : int64_t(equal == among ? among : 0);
    x.give(lane, scalar(result));
  });
}

void active_mask(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) { x.give(lane, scalar(int64_t(x.lanes))); });
}

// ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
void require_all(const Execution& x, std::string_view others) {
  Warp& w = x.warp;
  if (Mask missing = w.alive & ~x.lanes) {
    int there = std::countr_zero(missing);
    stop(Finding::Kind::barrier, x.site.span,
         "{} in divergent flow: {} waits here, but {} {}; {} must reach the barrier: move it out of the "
         "condition",
         x.site.callee->name, describe_thread(w, std::countr_zero(x.lanes)), describe_thread(w, there),
         w.returned >> there & 1 ? "has returned" : "does not come", others);
  }
}

void block_barrier(const Execution& x) {
  require_all(x, "every thread of the block");
  x.tally(Counter::Kind::barrier);
  x.warp.state = Warp::State::waiting;
}

void warp_barrier(const Execution& x) {
  check_mask(x, 0);
  x.tally(Counter::Kind::barrier);
  if (!x.warp.block->watch) return;
  std::vector<int32_t> threads;
  for (Mask left = x.lanes; left;) {  // each group that one mask names
    Mask group = mask_of(x, 0, std::countr_zero(left)) & left;
    threads.clear();
    for_lanes(group, [&](int lane) { threads.push_back(int32_t(x.warp.first + lane)); });
    x.warp.block->watch->clocks.meet(threads);
    left &= ~group;
  }
}

// Does it come for a second time to one phase, or may it?  Then it counts twice, and lets those go on who
// wait for others.
void check_again(const Execution& x, int64_t id, NamedBarrier& b) {
  Warp& w = x.warp;
  auto [it, is_first] = b.arrivals.try_emplace(w.first);
  NamedBarrier::Arrival& last = it->second;
  bool knows = is_first;  // one lane does: the warp comes as a whole
  for (Mask left = last.told ? x.lanes : 0; left && !knows; left &= left - 1)
    knows = w.block->watch->clocks.knows(w.first + std::countr_zero(left), last.told, w.first,
                                         w.first + lane_count);
  if (!knows) {
    const Span& there = w.code->sites[size_t(last.site)].span;
    Finding f{.kind = Finding::Kind::barrier,
              .text = fmt::format(
                  "{} comes to barrier {} again{}, and nothing makes it wait until those have come whom it "
                  "awaited{}: "
                  "it may count twice there; let it wait in between, at another barrier, to which they come "
                  "behind this one",
                  describe_thread(w, 0), id, last.told ? "" : ", in the same phase",
                  there ? fmt::format(" on line {}", there.line) : "")};
    f.other_thread = w.first;
    w.block->monitor->report(w, 0, std::move(f), x.site.site, last.site);
  }
  last = {.phase = b.phase, .site = x.site.site, .told = nullptr};
}

// A warp counts as a whole, as on the chip.
void come_to_named(const Execution& x) {
  require_all(x, "every thread of the warp");
  int64_t id = x.value(0, 0).i, threads = x.value(1, 0).i;
  int64_t all = (x.warp.code->thread_count() + lane_count - 1) / lane_count * lane_count;
  NamedBarrier& b = x.warp.block->barriers[id];
  int64_t expected = threads < 0 ? all : threads;
  if (b.arrived > 0 && b.expected != expected) {
    const Span& there = x.warp.code->sites[size_t(b.site)].span;
    Finding f{.kind = Finding::Kind::barrier, .span = x.site.span, .other = there};
    f.thread = x.warp.first;
    f.other_thread = b.first;
    f.text = fmt::format(
        "{} expects {} threads at barrier {}, but thread {}, which came to it{}, expects {}; all must name "
        "the same count",
        describe_thread(x.warp, 0), expected, id, b.first,
        there ? fmt::format(" on line {}", there.line) : "", b.expected);
    throw Fault(std::move(f));
  }
  if (b.arrived == 0) {
    b.first = x.warp.first;
    b.site = x.site.site;
  }
  if (x.warp.block->watch) check_again(x, id, b);
  b.expected = expected;
  b.arrived += lane_count;
  x.tally(Counter::Kind::barrier);
  if (BlockWatch* watch = x.warp.block->watch)
    for_lanes(x.lanes,
              [&](int lane) { b.gathered = merge(b.gathered, watch->clocks.release(x.warp.first + lane)); });
  if (b.arrived < b.expected) return;
  b.arrived = 0;
  b.told = std::exchange(b.gathered, {});
  for (auto& [first, arrival] : b.arrivals)
    if (arrival.phase == b.phase) arrival.told = b.told;
  b.phase++;
}
}  // namespace

void leave_named(Warp& w, const NamedBarrier& b) {
  if (BlockWatch* watch = w.block->watch)
    for_lanes(w.alive & ~w.returned, [&](int lane) { watch->clocks.acquire(w.first + lane, b.told); });
}

namespace {

void named_barrier(const Execution& x) {
  int64_t id = x.value(0, 0).i;
  x.warp.phase = x.warp.block->barriers[id].phase;
  come_to_named(x);
  if (x.warp.block->barriers[id].phase > x.warp.phase) return leave_named(x.warp, x.warp.block->barriers[id]);
  x.warp.barrier = id;
  x.warp.state = Warp::State::waiting;
}

constexpr ThreadRow rows[] = {
    {"shfl_sync", shuffle<given>},
    {"shfl_xor_sync", shuffle<across>},
    {"shfl_up_sync", shuffle<below>},
    {"shfl_down_sync", shuffle<above>},
    {"any_sync", vote<Vote::any>},
    {"all_sync", vote<Vote::all>},
    {"ballot_sync", vote<Vote::ballot>},
    {"match_any_sync", vote<Vote::match_any>},
    {"match_all_sync", vote<Vote::match_all>},
    {"activemask", active_mask},
    {"sync_threads", block_barrier},
    {"sync_threads_count", block_barrier},
    {"sync_threads_and", block_barrier},
    {"sync_threads_or", block_barrier},
    {"sync_grid", block_barrier},
    {"sync_warp", warp_barrier},
    {"bar_sync", named_barrier},
    {"bar_arrive", come_to_named},
};

}  // namespace

std::span<const ThreadRow> warp_rows() { return rows; }

void finish_barrier(std::vector<Warp>& warps) {
  const CallSite& site = warps[0].code->calls[size_t(warps[0].code->operations[warps[0].next - 1].row)];
  if (site.callee->result == Callee::Result::none) return;
  int64_t yes = 0, all = 0;
  auto each = [&](auto f) {
    for (auto& w : warps) for_lanes(w.alive, [&](int lane) { f(Execution{.warp = w, .site = site}, lane); });
  };
  each([&](const Execution& x, int lane) {
    yes += x.value(0, lane).i != 0;
    all++;
  });
  std::string_view name = site.callee->name;
  int64_t result = name == "sync_threads_count" ? yes : name == "sync_threads_and" ? yes == all : yes != 0;
  each([&](const Execution& x, int lane) { x.give(lane, scalar(result)); });
}

}  // namespace tl::sim
