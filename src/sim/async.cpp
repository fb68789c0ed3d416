// Asynchronous copies: a thread begins them, groups them, waits for them.
#include <algorithm>

#include "base/error.h"
#include "sim/async.h"
#include "sim/products.h"
#include "sim/translate.h"

namespace tl::sim {

Logical logical(const Execution& x, Timeline timeline, int64_t thread, uint32_t epoch) {
  if (!watch_of(x)) return {};
  return {.slot = watch_of(x)->clocks.slot(timeline, thread),
          .epoch = epoch,
          .by_proxy = timeline != Timeline::copies};
}

Logical logical_of_barrier(const Execution& x, const Block& of, MBarrier& m, int lane) {
  if (m.initialiser >= 0)
    x.report(lane, Finding::Kind::fence,
             fmt::format("{}: thread {} has initialised the barrier and executed no fence since, so the "
                         "asynchronous proxy may not see it; let that thread execute fence_mbarrier_init(), "
                         "before the barrier of the block",
                         x.site.intrinsic->name, m.initialiser));
  m.copies++;
  if (!of.watch) return {};
  return {.slot = of.watch->clocks.slot_of_barrier(m.number),
          .epoch = m.copies,
          .by_proxy = true,
          .block = of.watch->clocks.number()};
}

void add_chunks(const Block& of, std::vector<Chunk>& all, std::byte* to, const std::byte* from, int64_t bytes,
                int64_t given) {
  constexpr int64_t most = 16;
  if (!from) given = 0;
  for (int64_t at = 0; at < bytes; at += most) {
    int64_t count = std::min(most, bytes - at);
    all.push_back({.from = from ? from + at : nullptr,
                   .to = to ? to + at : nullptr,
                   .bytes = uint8_t(count),
                   .given = uint8_t(std::clamp<int64_t>(given - at, 0, count)),
                   .flight = of.engine->flight()});
  }
}

void begin_load(const Execution& x, Block& of, int lane, size_t barrier, MBarrier& m,
                std::vector<Chunk> chunks) {
  int64_t thread = x.warp.first + lane;
  m.load = {.phase = m.phase, .thread = thread, .block = x.warp.block->number, .site = x.site.site};
  of.engine->begin_telling({.thread = thread,
                            .epoch = m.copies,
                            .barrier = x.place(barrier).address + x.value(barrier, lane).i,
                            .knows = watch_of(x) ? watch_of(x)->clocks.release(thread) : nullptr,
                            .chunks = std::move(chunks)});
}

void begin_store(const Execution& x, int lane, Groups& groups, std::vector<Chunk> chunks,
                 Combination combination) {
  groups.last = groups.epoch;
  groups.site = x.site.site;
  engine_of(x).begin(groups.begun, {.thread = x.warp.first + lane,
                                    .epoch = groups.epoch,
                                    .chunks = std::move(chunks),
                                    .combination = combination});
}

int64_t bulk_bytes(const Execution& x, int lane) {
  int64_t bytes = x.value(2, lane).i;
  if (bytes <= 0 || bytes % bulk_unit)
    stop(Finding::Kind::misaligned, x.site.span, "{}: {} bytes, in {}; a bulk copy moves a multiple of {}",
         x.site.intrinsic->name, bytes, describe_thread(x.warp, lane), bulk_unit);
  return bytes;
}

void count_bulk(const Execution& x, const std::byte* at, size_t arg, int64_t bytes) {
  PerformanceCounters* counters = x.warp.block->counters;
  if (!counters || !at) return;
  std::vector<int64_t> addresses;
  for (int64_t i = 0; i < bytes; i += bulk_unit)
    addresses.push_back(int64_t(reinterpret_cast<uintptr_t>(at)) + i);
  counters->access(x.place(arg), addresses, std::min(bytes, bulk_unit), x.site.site, Counter::Kind::copy,
                   x.site.intrinsic->name);
}

namespace {

using AsyncKind = AsyncInstr::AsyncKind;

// ── cp.async: (to, from) or (to, from, given) ─────────────────────────────────────────────────────────
void begin_copy(const Execution& x) {
  int64_t bytes = x.row<AsyncInstr>().bytes;
  PerformanceCounters::Addresses read(x.warp.block->counters), written(x.warp.block->counters);
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane, given = x.site.args.size() > 2 ? x.value(2, lane).i : bytes;
    if (given < 0 || given > bytes)
      stop(Finding::Kind::fault, x.site.span,
           "{}: {} of {} bytes are to be copied, in {}; the rest is filled with 0, so it must be 0 to {}",
           x.site.intrinsic->name, given, bytes, describe_thread(x.warp, lane), bytes);
    Groups& groups = engine_of(x).groups(Timeline::copies, thread);
    Logical by = logical(x, Timeline::copies, thread, groups.epoch);
    std::byte* from = given ? x.reach(1, lane, x.value(1, lane).i, given, bytes, Touch::read, &by) : nullptr;
    std::byte* to = x.reach(0, lane, x.value(0, lane).i, bytes, bytes, Touch::write, &by);
    read.set(lane, from);
    written.set(lane, to);
    std::vector<Chunk> chunks;
    add_chunks(*x.warp.block, chunks, to, from, bytes, given);
    engine_of(x).begin(groups.begun, {.thread = thread, .epoch = groups.epoch, .chunks = std::move(chunks)});
  });
  read.count(x.warp, x.place(1), bytes, x.site.site, Counter::Kind::load);
  written.count(x.warp, x.place(0), bytes, x.site.site, Counter::Kind::copy, x.site.intrinsic->name);
}

// ── groups ────────────────────────────────────────────────────────────────────────────────────────────
void commit(const Execution& x, Timeline timeline) {
  for_lanes(x.lanes, [&](int lane) {
    Groups& groups = engine_of(x).groups(timeline, x.warp.first + lane);
    groups.committed.push_back(groups.epoch++);
  });
}

void wait(const Execution& x, Timeline timeline, int64_t n, bool only_reads = false) {
  x.count(Counter::Kind::barrier);
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane;
    uint32_t landed = engine_of(x).wait(timeline, thread, size_t(n), only_reads);
    if (!watch_of(x)) return;
    Clocks& clocks = watch_of(x)->clocks;
    if (timeline == Timeline::bulk_writes) clocks.join(thread, Timeline::bulk_reads, landed);
    if (!only_reads) clocks.join(thread, timeline, landed);
  });
}

void commit_copies(const Execution& x) { commit(x, Timeline::copies); }
void wait_copies(const Execution& x) { wait(x, Timeline::copies, x.value(0, 0).i); }
void wait_all_copies(const Execution& x) {
  commit(x, Timeline::copies);
  wait(x, Timeline::copies, 0);
}

// ── bulk copies: (to, from, bytes), a load with its barrier ──────────────────────────────────────────
void begin_bulk_load(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    constexpr size_t barrier = 3;
    int64_t bytes = bulk_bytes(x, lane);
    MBarrier& m = barrier_of(x, barrier, lane, Touch::atomic_update);
    Logical by = logical_of_barrier(x, m, lane);
    std::byte* from = x.reach(1, lane, x.value(1, lane).i, bytes, bulk_unit, Touch::read, &by);
    std::byte* to = x.reach(0, lane, x.value(0, lane).i, bytes, bulk_unit, Touch::write, &by);
    count_bulk(x, from, 1, bytes);
    std::vector<Chunk> chunks;
    add_chunks(*x.warp.block, chunks, to, from, bytes, bytes);
    begin_load(x, *x.warp.block, lane, barrier, m, std::move(chunks));
  });
}

void begin_bulk_store(const Execution& x) {
  for_lanes(x.lanes, [&](int lane) {
    int64_t bytes = bulk_bytes(x, lane), thread = x.warp.first + lane;
    Groups& groups = engine_of(x).groups(Timeline::bulk_writes, thread);
    Logical reads = logical(x, Timeline::bulk_reads, thread, groups.epoch),
            writes = logical(x, Timeline::bulk_writes, thread, groups.epoch);
    std::byte* from = x.reach(1, lane, x.value(1, lane).i, bytes, bulk_unit, Touch::read, &reads);
    std::byte* to = x.reach(0, lane, x.value(0, lane).i, bytes, bulk_unit, Touch::write, &writes);
    count_bulk(x, to, 0, bytes);
    std::vector<Chunk> chunks;
    add_chunks(*x.warp.block, chunks, to, from, bytes, bytes);
    begin_store(x, lane, groups, std::move(chunks));
  });
}

void commit_bulk(const Execution& x) { commit(x, Timeline::bulk_writes); }
void wait_bulk(const Execution& x) { wait(x, Timeline::bulk_writes, x.value(0, 0).i); }
void wait_bulk_read(const Execution& x) { wait(x, Timeline::bulk_writes, x.value(0, 0).i, true); }

void fence_of(const Execution& x, bool everywhere) {
  if (BlockWatch* w = watch_of(x))
    for_lanes(x.lanes, [&](int lane) { w->clocks.fence(x.warp.first + lane, everywhere); });
}
void fence_proxy(const Execution& x) { fence_of(x, true); }
void fence_proxy_shared(const Execution& x) { fence_of(x, false); }

// Which one is up to the chip, but always the same.
void elect_thread(const Execution& x) {
  x.require_whole_warp();
  constexpr int chosen = 11;
  for_lanes(x.lanes, [&](int lane) { x.give(lane, scalar(int64_t(lane == chosen))); });
}

// What the warps of the block have executed so far, all together.
void read_clock(const Execution& x) {
  int64_t now = x.warp.block->executed + x.warp.executing;
  for_lanes(x.lanes, [&](int lane) { x.give(lane, scalar(now)); });
}

struct AsyncRow {
  AsyncKind does;
  Semantics run;
};
constexpr AsyncRow rows[] = {
    {AsyncKind::copy, begin_copy},
    {AsyncKind::commit, commit_copies},
    {AsyncKind::wait_groups, wait_copies},
    {AsyncKind::wait_all, wait_all_copies},
    {AsyncKind::bulk_load, begin_bulk_load},
    {AsyncKind::bulk_store, begin_bulk_store},
    {AsyncKind::tensor_load, begin_tensor_load},
    {AsyncKind::tensor_store, begin_tensor_store},
    {AsyncKind::tensor_multicast, begin_tensor_multicast},
    {AsyncKind::tensor_reduce, begin_tensor_reduce},
    {AsyncKind::elect, elect_thread},
    {AsyncKind::clock, read_clock},
    {AsyncKind::bulk_commit, commit_bulk},
    {AsyncKind::bulk_wait, wait_bulk},
    {AsyncKind::bulk_wait_read, wait_bulk_read},
    {AsyncKind::fence, fence_proxy},
    {AsyncKind::fence_shared, fence_proxy_shared},
};

}  // namespace

Semantics async_semantics(AsyncKind does) {
  for (auto& row : rows)
    if (row.does == does) return row.run;
  if (auto run = warpgroup_semantics(does)) return run;
  if (auto run = cluster_semantics(does)) return run;
  return barrier_semantics(does);
}

// ── translating ───────────────────────────────────────────────────────────────────────────────────────
// What goes on beside the threads needs logical ones.
void Translator::prepare_async(const AsyncInstr& row) {
  check_offered(row.intrinsic);
  bool is_products = row.scope == ExecutionScope::warpgroup;
  code.has_products |= is_products;
  code.has_cluster |= row.scope == ExecutionScope::cluster;
  int needed = is_products || row.concerns_proxy() ? timeline_count : int(Timeline::copies) + 1;
  code.timelines = std::max(code.timelines, needed);
}
void Translator::prepare_product(const WarpgroupInstr& row) {
  check_offered(row.intrinsic);
  code.has_products = true;
  code.timelines = timeline_count;
}
void Translator::check_offered(const Intrinsic& row) const {
  if (!target.lacks(row)) return;
  auto all = all_targets();
  auto first = std::ranges::find_if(all, [&](const Target* t) { return t->has_threads() && !t->lacks(row); });
  fail(span, "{} has no {}; {} has it", target.name, row.name, (*first)->name);
}

void Translator::async_operand(const AsyncInstr& row, size_t arg, int place) {
  Place& p = code.places[size_t(place)];
  constexpr int widest = 16;
  if (row.operands[arg] == 'v') return touch(p, p.type.bytes(), true);
  bool shared = row.operands[arg] == 's', tensor = row.operands[arg] == 't';
  touch(p, row.bytes ? row.bytes : tensor ? p.type.bytes() : widest, row.intrinsic.access[arg] != 'r');
  if (p.scope != (shared ? Scope::shared : Scope::global))
    fail(span, "{}: its argument {} must be in {} memory, but {} is not", row.intrinsic.name, arg + 1,
         shared ? "shared" : "global", p.name);
  if (row.does == AsyncKind::init) code.barriers += p.elements * p.type.bytes() / row.bytes;
}

}  // namespace tl::sim
