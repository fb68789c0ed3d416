// Where a warp goes next, and which of its threads take part.
#include "sim/instr.h"
#include "sim/race_detector.h"
#include "sim/steps.h"

namespace tl::sim {
namespace {

void go(Warp& w, const Operation& o) { w.next = size_t(int64_t(w.next) - 1 + o.jump); }

LaneMask where(Warp& w, const Operation& o) {
  if (o.count == 1) return w.slot(o.a)->i ? w.whole() : 0;
  return lanes_where(w, o.a);
}

void let_through(Warp& w, const Operation& o, LaneMask mask) {
  w.masks.push_back({w.active, w.active & mask});
  w.active &= mask;
  if (!w.active) go(w, o);
}

LaneMask unfinished(Warp& w, const Operation& o) {
  const Scalar *at = w.slot(o.to), *end = w.slot(o.c);
  return lanes_that(w.lane_count(), [&](int lane) { return at[lane].i < end[lane].i; });
}

}  // namespace

void for_begin(Warp& w, const Operation& o) {
  int64_t from = w.slot(o.a)->i, count = w.slot(o.b)->i;
  *w.slot(o.to) = scalar(from);
  *w.slot(o.c) = scalar(from + count);
  if (count <= 0) go(w, o);
}
void for_next(Warp& w, const Operation& o) {
  if (++w.slot(o.to)->i < w.slot(o.c)->i) go(w, o);
}

void lanes_begin(Warp& w, const Operation& o) {
  const Scalar *from = w.slot(o.a), *count = w.slot(o.b);
  for (int lane = 0; lane < w.lane_count(); lane++) {
    w.slot(o.to)[lane] = from[lane];
    w.slot(o.c)[lane] = scalar(from[lane].i + count[lane].i);
  }
  let_through(w, o, unfinished(w, o));
}
void lanes_next(Warp& w, const Operation& o) {
  for (int lane = 0; lane < w.lane_count(); lane++) w.slot(o.to)[lane].i++;
  w.active &= unfinished(w, o);
  if (w.active) go(w, o);
}

void narrow(Warp& w, const Operation& o) { let_through(w, o, where(w, o)); }
void narrow_group(Warp& w, const Operation& o) {
  let_through(w, o, lanes_that(w.lane_count(), [&](int lane) {
                int64_t thread = w.first + lane - o.value.i;
                return thread >= 0 && thread < o.count;
              }));
}
void narrow_else(Warp& w, const Operation& o) {
  Saved& saved = w.masks.back();
  w.active = saved.before & ~saved.taken & ~w.out;
  if (!w.active) go(w, o);
}
void widen(Warp& w, const Operation&) {
  w.active = w.masks.back().before & ~w.out;
  w.masks.pop_back();
}
void enter_while(Warp& w, const Operation& o) { w.trips[size_t(o.value.i)] = 0; }
void save(Warp& w, const Operation&) { w.masks.push_back({w.active, w.active}); }
void narrow_on(Warp& w, const Operation& o) {
  w.active &= where(w, o);
  if (!w.active) return go(w, o);
  if (o.value.i > 0 &&
      ++w.trips[size_t(o.value.i)] > w.block->race_detector->most_iterations(*w.block->limits))
    stop(Finding::Kind::livelock, w.code->sites[size_t(o.site)].span, "{} does not leave this loop: {}",
         describe_thread(w, first_lane(w.active)), w.block->limits->too_many(w.trips[size_t(o.value.i)] - 1));
  // A loop that repeatedly finds memory unchanged waits for another thread.
  int64_t version = w.block->race_detector->memory_version;
  w.idle_trips = version == w.seen_version ? w.idle_trips + 1 : 0;
  w.seen_version = version;
  w.spins = w.idle_trips > w.block->patience;
}

void jump(Warp& w, const Operation& o) { go(w, o); }

// A thread that jumps is `out` until the target of its jump; widening the mask does not include it.
void label(Warp&, const Operation&) {}
void widen_or_go(Warp& w, const Operation& o) {
  widen(w, o);
  if (!w.active) go(w, o);
}
void go_if_empty(Warp& w, const Operation& o) {
  if (!w.active) go(w, o);
}
void enter_jumping(Warp& w, const Operation&) {
  w.jumping.push_back({.entry = w.active, .running = w.active});
}
void begin_trip(Warp& w, const Operation&) { w.jumping.back().running = w.active; }
void end_trip(Warp& w, const Operation& o) {
  Jumping& loop = w.jumping.back();
  w.out &= ~loop.continued;
  loop.continued = 0;
  w.active = loop.running & ~w.out;
  if (!w.active) go(w, o);
}
void leave_jumping(Warp& w, const Operation&) {
  w.out &= ~w.jumping.back().broken;
  w.active = w.jumping.back().entry & ~w.out;
  w.jumping.pop_back();
}
void break_threads(Warp& w, const Operation&) {
  w.jumping.back().broken |= w.active;
  w.out |= w.active;
  w.active = 0;
}
void continue_threads(Warp& w, const Operation&) {
  w.jumping.back().continued |= w.active;
  w.out |= w.active;
  w.active = 0;
}
void return_threads(Warp& w, const Operation&) {
  w.returned |= w.active;
  w.out |= w.active;
  w.active = 0;
}
void end(Warp& w, const Operation&) { w.state = Warp::State::ended; }
void call(Warp& w, const Operation& o) {
  const CallSite& site = w.code->calls[size_t(o.row)];
  site.run({.warp = w, .site = site});
}

}  // namespace tl::sim
