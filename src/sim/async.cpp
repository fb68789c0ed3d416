// Copies that go on by themselves: a thread begins them, groups them, waits for them.
#include "base/error.h"
#include "sim/engine.h"
#include "sim/instr.h"

namespace tl::sim {
namespace {

using Does = AsyncInstr::Does;

BlockWatch* watch_of(const Execution& x) { return x.warp.block->watch; }
Engine& engine_of(const Execution& x) { return *x.warp.block->engine; }

// A logical thread of that line, where anyone watches.
Logical logical(const Execution& x, Line line, int64_t thread, uint32_t epoch) {
  if (!watch_of(x)) return {};
  return {.slot = watch_of(x)->clocks.slot(line, thread), .epoch = epoch, .by_proxy = line != Line::copies};
}

// to[0, bytes), of which the first `given` come from `from`, in pieces of at most 16 bytes.
std::vector<Piece> pieces_of(const Execution& x, std::byte* to, const std::byte* from, int64_t bytes, int64_t given) {
  std::vector<Piece> all;
  constexpr int64_t most = 16;
  for (int64_t at = 0; at < bytes; at += most) {
    int64_t count = std::min(most, bytes - at);
    all.push_back({.from = from + at, .to = to + at, .bytes = uint8_t(count),
                   .given = uint8_t(std::clamp<int64_t>(given - at, 0, count)), .flight = engine_of(x).flight()});
  }
  return all;
}

// ── cp.async: (to, from) or (to, from, given) ─────────────────────────────────────────────────────────
void begin_copy(const Execution& x) {
  int64_t bytes = x.row<AsyncInstr>().bytes;
  Tally::Addresses read(x.warp.block->tally), written(x.warp.block->tally);
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane, given = x.site.args.size() > 2 ? x.value(2, lane).i : bytes;
    if (given < 0 || given > bytes)
      stop(Finding::Kind::fault, x.site.span, "{}: {} of {} bytes are to be copied, in {}; the rest is filled with 0, so it must "
           "be 0 to {}", x.site.callee->name, given, bytes, describe_thread(x.warp, lane), bytes);
    Groups& groups = engine_of(x).groups(Line::copies, thread);
    Logical by = logical(x, Line::copies, thread, groups.epoch);
    std::byte* from = given ? x.operand(1, lane, given, bytes, Touch::read, &by) : nullptr;
    std::byte* to = x.operand(0, lane, bytes, bytes, Touch::write, &by);
    read.set(lane, from);
    written.set(lane, to);
    engine_of(x).begin(groups.begun, {.thread = thread, .epoch = groups.epoch, .pieces = pieces_of(x, to, from, bytes, given)});
  });
  read.count(x.warp, x.place(1), bytes, x.site.site, Counter::Kind::load);
  written.count(x.warp, x.place(0), bytes, x.site.site, Counter::Kind::copy, x.site.callee->name);
}

// ── groups ────────────────────────────────────────────────────────────────────────────────────────────
void commit(const Execution& x, Line line) {
  for_lanes(x.lanes, [&](int lane) {
    Groups& groups = engine_of(x).groups(line, x.warp.first + lane);
    groups.committed.push_back(groups.epoch++);
  });
}

void wait(const Execution& x, Line line, int64_t n, bool only_reads = false) {
  x.tally(Counter::Kind::barrier);
  for_lanes(x.lanes, [&](int lane) {
    int64_t thread = x.warp.first + lane;
    uint32_t landed = engine_of(x).wait(line, thread, size_t(n), only_reads);
    if (!watch_of(x)) return;
    Clocks& clocks = watch_of(x)->clocks;
    if (line == Line::bulk_writes) clocks.join(thread, Line::bulk_reads, landed);
    if (!only_reads) clocks.join(thread, line, landed);
  });
}

void commit_copies(const Execution& x) { commit(x, Line::copies); }
void wait_copies(const Execution& x) { wait(x, Line::copies, x.value(0, 0).i); }
void wait_all_copies(const Execution& x) {
  commit(x, Line::copies);
  wait(x, Line::copies, 0);
}

struct AsyncRow {
  Does does;
  Semantics run;
};
constexpr AsyncRow rows[] = {
    {Does::copy, begin_copy},
    {Does::commit, commit_copies},
    {Does::wait_groups, wait_copies},
    {Does::wait_all, wait_all_copies},
};

}  // namespace

Semantics async_semantics(Does does) {
  for (auto& row : rows)
    if (row.does == does) return row.run;
  return barrier_semantics(does);
}

}  // namespace tl::sim
