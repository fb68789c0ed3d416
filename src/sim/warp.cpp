// Shuffles, votes and barriers.  A mask says which lanes must take part; a lane that has returned, or never
// existed, need not. What a shuffle reads from a lane that does not take part is poison, as on the chip it
// may be anything.
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
LaneMask mask_of(const Execution& x, size_t arg, int lane) {
  return LaneMask(x.value(arg, lane).i) & x.warp.whole();
}
// One digit for four lanes.
std::string mask_text(const Execution& x, LaneMask mask) {
  return fmt::format("0x{:0{}x}", mask, x.warp.lane_count() / 4);
}

// Every executing lane stands in its own mask, and all others of that mask execute, too.
void check_mask(const Execution& x, size_t arg) {
  LaneMask here = x.warp.alive & ~x.warp.returned;
  for_lanes(x.lanes, [&](int lane) {
    LaneMask mask = mask_of(x, arg, lane);
    if (!has_lane(mask, lane))
      stop(Finding::Kind::divergence, x.site.span,
           "{} executes {} with the mask {}, which does not contain it: bit {} must be set",
           describe_thread(x.warp, lane), x.site.intrinsic->name, mask_text(x, mask), lane);
    if (LaneMask missing = mask & here & ~x.lanes)
      stop(Finding::Kind::divergence, x.site.span,
           "{} executes {} with the mask {}, but {}, which the mask contains, does not take part: leave it "
           "out of the mask, or move the call out of the condition",
           describe_thread(x.warp, lane), x.site.intrinsic->name, mask_text(x, mask),
           describe_thread(x.warp, first_lane(missing)));
  });
}

// ── shuffles: (value, number, width, mask) ────────────────────────────────────────────────────────────
Scalar poison_of(DType type) {
  return type.is_float() ? scalar(std::nan("")) : scalar(wrap_int(int64_t(0xCDCDCDCDCDCDCDCD), type));
}

// Of one lane: the width of its segment, and where that begins.
struct Segment {
  int lane, base, width, warp;
};
// from(segment, number): the lane that it reads, its own where that lies outside.
template <int (*from)(const Segment& s, int64_t number)>
void shuffle(const Execution& x) {
  check_mask(x, 3);
  x.count(Counter::Kind::shuffle);
  std::array<Scalar, max_lanes> taken;
  std::array<int8_t, max_lanes> source;
  int warp = x.warp.lane_count();
  for_lanes(x.lanes, [&](int lane) {
    int64_t width = x.value(2, lane).i;
    if (width < 1 || width > warp || (width & (width - 1)))
      stop(Finding::Kind::fault, x.site.span, "{}: the width is {}; it must be a power of two, at most {}",
           x.site.intrinsic->name, width, warp);
    int other = from({lane, lane / int(width) * int(width), int(width), warp}, x.value(1, lane).i);
    bool there = has_lane(x.lanes, other);
    source[size_t(lane)] = int8_t(other);
    taken[size_t(lane)] = there ? x.value(0, other) : poison_of(x.site.type);
  });
  if (x.warp.block->watch) follow_shuffle(x.warp, x.site, x.lanes, source);
  for_lanes(x.lanes, [&](int lane) { x.give(lane, taken[size_t(lane)]); });
}
int given(const Segment& s, int64_t number) { return s.base + int(number & (s.width - 1)); }
int across(const Segment& s, int64_t number) {
  int64_t other = (s.lane ^ number) & (s.warp - 1);
  return other < s.base + s.width ? int(other) : s.lane;
}
int below(const Segment& s, int64_t number) {
  return s.lane - number >= s.base ? int(s.lane - number) : s.lane;
}
int above(const Segment& s, int64_t number) {
  return number >= 0 && s.lane + number < s.base + s.width ? int(s.lane + number) : s.lane;
}

// ── votes: (value, mask) ──────────────────────────────────────────────────────────────────────────────
enum class Vote { any, all, ballot, match_any, match_all };

template <Vote kind>
void vote(const Execution& x) {
  check_mask(x, 1);
  x.count(Counter::Kind::vote);
  LaneMask yes = 0;
  for_lanes(x.lanes, [&](int lane) { yes |= LaneMask(x.value(0, lane).i != 0) << lane; });
  for_lanes(x.lanes, [&](int lane) {
    LaneMask among = mask_of(x, 1, lane) & x.lanes, equal = 0;
    for_lanes(among,
              [&](int other) { equal |= LaneMask(x.value(0, other).i == x.value(0, lane).i) << other; });
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
  if (LaneMask missing = w.alive & ~x.lanes) {
    int there = first_lane(missing);
    stop(Finding::Kind::barrier, x.site.span,
         "{} in divergent flow: {} waits here, but {} {}; {} must reach the barrier: move it out of the "
         "condition",
         x.site.intrinsic->name, describe_thread(w, first_lane(x.lanes)), describe_thread(w, there),
         has_lane(w.returned, there) ? "has returned" : "does not arrive", others);
  }
}

void block_barrier(const Execution& x) {
  require_all(x, "every thread of the block");
  x.count(Counter::Kind::barrier);
  x.warp.state = Warp::State::waiting;
}

void warp_barrier(const Execution& x) {
  check_mask(x, 0);
  x.count(Counter::Kind::barrier);
  if (!x.warp.block->watch) return;
  std::vector<int32_t> threads;
  for (LaneMask left = x.lanes; left;) {  // each group that one mask names
    LaneMask group = mask_of(x, 0, first_lane(left)) & left;
    threads.clear();
    for_lanes(group, [&](int lane) { threads.push_back(int32_t(x.warp.first + lane)); });
    x.warp.block->watch->clocks.meet(threads);
    left &= ~group;
  }
}

// Does it arrive for a second time in one phase, or may it, or without having to wait for others that meet
// there? Then it counts among those of another phase, and releases threads that still wait for others.
void check_again(const Execution& x, int64_t id, NamedBarrier& b) {
  Warp& w = x.warp;
  auto [it, is_first] = b.arrivals.try_emplace(w.first);
  NamedBarrier::Arrival& last = it->second;
  bool is_again = !is_first && !last.released, was_there = !is_first && last.phase == b.phase - 1;
  bool knows = !is_again && !b.released;  // one lane does: the warp comes as a whole
  for (LaneMask left = is_again || !b.released ? 0 : x.lanes; left && !knows; left &= left - 1)
    knows = w.block->watch->clocks.knows(w.first + first_lane(left), b.released, w.first,
                                         w.first + w.lane_count());
  if (!knows) {
    int32_t other = last.site;
    int64_t other_thread = w.first;
    if (!is_again && !was_there)  // of those that met, rather one from another place
      for (auto& [first, arrival] : b.arrivals)
        if (arrival.phase == b.phase - 1 && (other_thread == w.first || arrival.site != x.site.site))
          other = arrival.site, other_thread = first;
    const Span& there = w.code->sites[size_t(other)].span;
    std::string line = there ? fmt::format(" on line {}", there.line) : "";
    Finding f{.kind = Finding::Kind::barrier};
    if (is_again || was_there)
      f.text = fmt::format(
          "{} arrives at barrier {} again{}, and nothing makes it wait for the threads that it expected "
          "there{}: it may be counted twice; let it wait in between, at another barrier that those threads "
          "reach after this one",
          describe_thread(w, 0), id, last.released ? "" : ", in the same phase", line);
    else
      f.text = fmt::format(
          "{} arrives at barrier {}, where others have met{}, and nothing makes it wait for those: it may be "
          "counted as one of them; let the two meet at barriers of different numbers, or expect all of them",
          describe_thread(w, 0), id, line);
    f.other_thread = other_thread;
    w.block->race_detector->report(w, 0, std::move(f), x.site.site, other);
  }
  last = {.phase = b.phase, .site = x.site.site};
}

// Its number, and how many threads it expects; those of the warp's group where threads meet in groups.
std::pair<int64_t, int64_t> barrier_named(const Execution& x) {
  int64_t id = x.value(0, 0).i, threads = x.value(1, 0).i;
  return {x.site.intrinsic == &bar_sync_groups ? id + x.warp.first / threads : id, threads};
}

// A warp counts as a whole, as on the chip.
void come_to_named(const Execution& x) {
  require_all(x, "every thread of the warp");
  auto [id, threads] = barrier_named(x);
  int64_t warp = x.warp.lane_count(), all = (x.warp.code->thread_count() + warp - 1) / warp * warp;
  NamedBarrier& b = x.warp.block->barriers[id];
  int64_t expected = threads < 0 ? all : threads;
  if (b.arrived > 0 && b.expected != expected) {
    const Span& there = x.warp.code->sites[size_t(b.site)].span;
    Finding f{.kind = Finding::Kind::barrier, .span = x.site.span, .other = there};
    f.thread = x.warp.first;
    f.other_thread = b.first;
    f.text = fmt::format(
        "{} expects {} threads at barrier {}, but thread {}, which arrived there{}, expects {}; all must "
        "name the same count",
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
  b.arrived += warp;
  x.count(Counter::Kind::barrier);
  if (BlockWatch* watch = x.warp.block->watch)
    for_lanes(x.lanes,
              [&](int lane) { b.joined = merge(b.joined, watch->clocks.release(x.warp.first + lane)); });
  if (b.arrived < b.expected) return;
  b.arrived = 0;
  b.released = std::exchange(b.joined, {});
  for (auto& [first, arrival] : b.arrivals)
    if (arrival.phase == b.phase) arrival.released = b.released;
  b.phase++;
}
}  // namespace

void leave_named(Warp& w, const NamedBarrier& b) {
  if (BlockWatch* watch = w.block->watch)
    for_lanes(w.alive & ~w.returned, [&](int lane) { watch->clocks.acquire(w.first + lane, b.released); });
}

namespace {

void named_barrier(const Execution& x) {
  int64_t id = barrier_named(x).first;
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
    {"ballot_sync64", vote<Vote::ballot>},
    {"match_any_sync64", vote<Vote::match_any>},
    {"match_all_sync64", vote<Vote::match_all>},
    {"activemask64", active_mask},
    {"sync_threads", block_barrier},
    {"sync_threads_count", block_barrier},
    {"sync_threads_and", block_barrier},
    {"sync_threads_or", block_barrier},
    {"sync_grid", block_barrier},
    {"sync_warp", warp_barrier},
    {"bar_sync", named_barrier},
    {"bar_sync_groups", named_barrier},
    {"bar_arrive", come_to_named},
};

}  // namespace

std::span<const ThreadRow> warp_rows() { return rows; }

void finish_barrier(std::vector<Warp>& warps) {
  const CallSite& site = warps[0].code->calls[size_t(warps[0].code->operations[warps[0].next - 1].row)];
  if (site.intrinsic->result == Intrinsic::Result::none) return;
  int64_t yes = 0, all = 0;
  auto each = [&](auto f) {
    for (auto& w : warps) for_lanes(w.alive, [&](int lane) { f(Execution{.warp = w, .site = site}, lane); });
  };
  each([&](const Execution& x, int lane) {
    yes += x.value(0, lane).i != 0;
    all++;
  });
  std::string_view name = site.intrinsic->name;
  int64_t result = name == "sync_threads_count" ? yes : name == "sync_threads_and" ? yes == all : yes != 0;
  each([&](const Execution& x, int lane) { x.give(lane, scalar(result)); });
}

}  // namespace tl::sim
