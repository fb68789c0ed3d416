// What reaches other blocks of the cluster: copies to their shared memory, and the barrier of all their
// threads.
#include "sim/cluster.h"

#include <cstring>

#include "base/error.h"
#include "sim/async.h"
#include "sim/barrier.h"

namespace tl::sim {
namespace {

using AsyncKind = AsyncInstr::AsyncKind;

LaneMask present(const Warp& w) { return w.state == Warp::State::ended ? 0 : w.alive & ~w.returned; }

std::vector<int32_t> threads_of(const Warp& w, LaneMask lanes) {
  std::vector<int32_t> threads;
  for_lanes(lanes, [&](int lane) { threads.push_back(int32_t(w.first + lane)); });
  return threads;
}

void leave(Warp& w, const Cluster& cluster) {
  if (BlockWatch* watch = w.block->watch) watch->clocks.acquire(threads_of(w, present(w)), cluster.released);
  if (w.waits_for_cluster) leave_barrier(w);
  w.cluster_phase = -1;
  w.waits_for_cluster = false;
}

Cluster& cluster_of(const Execution& x) {
  Warp& w = x.warp;
  if (x.lanes != present(w))
    stop(Finding::Kind::divergence, x.site.span,
         "{} needs every thread of the warp, but {} does not take part; move it out of the condition",
         x.site.intrinsic->name, describe_thread(w, first_lane(present(w) & ~x.lanes)));
  return *w.block->cluster;
}

void cluster_arrive(const Execution& x) {
  x.count(Counter::Kind::barrier);
  Warp& w = x.warp;
  Cluster& cluster = cluster_of(x);
  if (w.cluster_phase >= 0)
    stop(
        Finding::Kind::barrier, x.site.span,
        "{}: {} has arrived at the cluster's barrier before and not waited there since; each arrival needs a "
        "cluster_wait() before the next one",
        x.site.intrinsic->name, describe_thread(w, 0));
  w.cluster_phase = cluster.phase;
  bool releases = x.site.intrinsic->name == "cluster_arrive";
  if (BlockWatch* watch = w.block->watch; watch && releases)
    cluster.joined = merge(cluster.joined, watch->clocks.release(threads_of(w, x.lanes)));
}

void cluster_wait(const Execution& x) {
  Warp& w = x.warp;
  cluster_of(x);
  if (w.cluster_phase < 0)
    stop(Finding::Kind::barrier, x.site.span,
         "cluster_wait: {} waits at the cluster's barrier, but has not arrived there: put cluster_arrive() "
         "in front",
         describe_thread(w, 0));
  w.state = Warp::State::waiting;
  w.waits_for_cluster = true;
}

// ── copies ────────────────────────────────────────────────────────────────────────────────────────────
// (to, from, bytes, rank, barrier)
void push(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    constexpr size_t barrier = 4;
    int64_t bytes = bulk_bytes(x, lane);
    Block& of = block_of_rank(x, lane, x.value(3, lane).i);
    MBarrier& m = barrier_in(x, of, barrier, lane, Touch::atomic_update);
    Logical by = logical_of_barrier(x, of, m, lane);
    std::byte* from =
        reach_in(x, *x.warp.block, 1, lane, x.value(1, lane).i, bytes, bulk_unit, Touch::read, &by);
    std::byte* to = reach_in(x, of, 0, lane, x.value(0, lane).i, bytes, bulk_unit, Touch::write, &by);
    count_bulk(x, from, 1, bytes);
    std::vector<Chunk> chunks;
    add_chunks(of, chunks, to, from, bytes, bytes);
    begin_load(x, of, lane, barrier, m, std::move(chunks));
  });
}

// (to, from, rank)
void store_there(const Execution& x) {
  int64_t bytes = x.row<AsyncInstr>().bytes;
  for_lanes(x.lanes, [&](int lane) {
    Block& of = block_of_rank(x, lane, x.value(2, lane).i);
    std::byte* from = x.reach(1, lane, x.value(1, lane).i, bytes, bytes, Touch::read);
    std::byte* to = reach_in(x, of, 0, lane, x.value(0, lane).i, bytes, bytes, Touch::write);
    if (from && to) std::memcpy(to, from, size_t(bytes));
  });
}

}  // namespace

Semantics cluster_semantics(AsyncKind does) {
  switch (does) {
    case AsyncKind::cluster_arrive:
      return cluster_arrive;
    case AsyncKind::cluster_wait:
      return cluster_wait;
    case AsyncKind::bulk_push:
      return push;
    case AsyncKind::remote_store:
      return store_there;
    default:
      return nullptr;
  }
}

Block& block_of_rank(const Execution& x, int lane, int64_t rank) {
  Block& own = *x.warp.block;
  int64_t size = own.cluster ? int64_t(own.cluster->blocks.size()) : 1;
  if (rank < 0 || rank >= size)
    stop(Finding::Kind::fault, x.site.span,
         "{}: {} reaches the block of rank {}, but its cluster has {} block{}", x.site.intrinsic->name,
         describe_thread(x.warp, lane), rank, size, size == 1 ? "" : "s");
  Block& of = own.cluster ? *own.cluster->blocks[size_t(rank)] : own;
  if (of.ended)
    stop(Finding::Kind::fault, x.site.span,
         "{}: {} reaches {}, which has ended, and its memory with it; let no block of the cluster end before "
         "the "
         "others have reached it for the last time: end with T.cluster_sync()",
         x.site.intrinsic->name, describe_thread(x.warp, lane), of.where);
  return of;
}

std::byte* reach_in(const Execution& x, const Block& of, size_t arg, int lane, int64_t offset, int64_t bytes,
                    int64_t alignment, Touch touch, const Logical* begun) {
  if (&of == x.warp.block) return x.reach(arg, lane, offset, bytes, alignment, touch, begun);
  const Place& p = x.place(arg);
  auto [local, inside] = locate(x.warp, p, lane, offset, bytes, alignment, x.site.site);
  if (!inside) return nullptr;
  std::byte* at = of.shared + (local - x.warp.block->shared);
  if (of.watch) of.race_detector->access(x.warp, p, lane, at, bytes, touch, x.site.site, false, begun);
  return at;
}

// ── the cluster's barrier ─────────────────────────────────────────────────────────────────────────────
bool release_cluster(Cluster& cluster, const std::function<void(const std::function<void(Warp&)>&)>& each) {
  bool any = false, all = true;
  each([&](Warp& w) {
    bool has_come = w.cluster_phase == cluster.phase;
    any |= has_come;
    all &= has_come || !present(w);
  });
  if (any && all) {
    cluster.phase++;
    cluster.released = std::exchange(cluster.joined, {});
  }
  bool released = false;
  each([&](Warp& w) {
    if (!w.waits_for_cluster || cluster.phase <= w.cluster_phase) return;
    leave(w, cluster);
    released = true;
  });
  return released;
}

Finding cluster_finding(const Warp& waiting, const Cluster& cluster,
                        const std::function<void(const std::function<void(Warp&)>&)>& each) {
  int64_t missing = 0;
  const Warp* other = nullptr;
  each([&](Warp& w) {
    if (w.cluster_phase == cluster.phase || !present(w)) return;
    missing += count_of(present(w));
    if (!other) other = &w;
  });
  Finding f{.kind = Finding::Kind::deadlock, .span = waits_at(waiting).span};
  f.thread = waiting.first;
  f.text =
      fmt::format("{} waits at the cluster's barrier, but {} threads of the cluster have not arrived there",
                  describe_thread(waiting, 0), missing);
  if (!other || !is_waiting(*other)) return f;
  f.other = waits_at(*other).span;
  f.other_thread = other->first;
  f.text += fmt::format("; {} waits at {}{}", describe_thread(*other, 0), waits_at(*other).intrinsic->name,
                        f.other ? fmt::format(" on line {}", f.other.line) : "");
  return f;
}

}  // namespace tl::sim
