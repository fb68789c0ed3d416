// Advice on how to fix a race: the end of its finding's text.
#include <algorithm>
#include <set>

#include "ir/rewrite.h"
#include "sim/engine.h"
#include "sim/race_detector.h"

namespace tl::sim {

// Of an access with a bulk load that an mbarrier is to tell.
std::string RaceDetector::cure_of_load(const Warp& w, const Stamp& load) const {
  const Clocks& clocks = w.block->watch->clocks;
  for (auto& [at, m] : w.block->engine->barriers) {
    bool is_last = clocks.slot_of_barrier(m.number) == load.thread && m.copies == load.epoch;
    if (!is_last) continue;
    if (m.phase > m.load.phase && !clocks.covers(m.released, load))
      return "the phase of its mbarrier has ended before all of it had landed: expect all its bytes "
             "(mbarrier_arrive_expect_tx)";
    return fmt::format("wait for phase {} of its mbarrier (parity {}) first", m.load.phase, m.load.phase % 2);
  }
  return "wait for the phase of its mbarrier first";
}

// Does the statement store to one element and read another, so that none is updated by several?
static bool reads_elsewhere(const Stmt& s, const Place& p) {
  auto* store = s.as<Store>();
  if (!store || size_t(store->buffer.value) != p.id) return false;
  return contains(store->value, [&](const Load& n) {
    auto same = [](auto& a, auto& b) { return equal(a, b); };
    return n.buffer == store->buffer && !std::ranges::equal(n.index, store->index, same);
  });
}

// Where threads meet in one statement: several iterations of a parallel loop do, or all threads run it alike.
std::string RaceDetector::cure_of_statement(const Place& p, int32_t site, bool one_reads) const {
  const Site& here = code.sites[size_t(site)];
  bool alike = std::ranges::any_of(code.operations, [&](const Operation& o) {
    bool stores = o.effect == Operation::Effect::store && o.uniform_index && !o.quiet;
    return stores && o.row == p.number && code.sites[size_t(o.site)].stmt.same(here.stmt);
  });
  bool in_parallel = code.parallel_lines.contains(here.span.line);
  if (in_parallel && one_reads && reads_elsewhere(here.stmt, p))
    return fmt::format(
        "iterations of T.Parallel run together, in any order, and one of them reads an element of {0} that "
        "another one writes: read from another buffer (copy {0} first), or use T.serial",
        p.name);
  if (in_parallel)
    return fmt::format(
        "iterations of T.Parallel run together, in any order, and several of them update one element of {}: "
        "sum up with T.reduce_sum (T.reduce_max, …), contribute to a T.alloc_reducer, or use T.atomic_add",
        p.name);
  if (alike)
    return "every thread runs this statement, because it is outside of T.Parallel: let one thread do it (if "
           "T.get_thread_binding() == 0), use an atomic access, or give each thread storage of its own "
           "(T.alloc_var, T.alloc_local)";
  return "use an atomic access, or read, wait at a barrier, and then write";
}

// The innermost condition around a statement that holds for some threads only, as far as the text says.
static const If* condition_of_some(const Kernel& k, const StmtNode* target) {
  std::set<const ExprNode*> varying{k.thread.get()};
  auto varies = [&](const Expr& e) {
    return contains(e, [&](const Var& v) { return varying.contains(&v); }, [](const Load&) { return true; });
  };
  const If* found = nullptr;
  visit_nodes(k.body, [&](const Node& n) {
    if (n.kind == Kind::Let) {
      auto& let = static_cast<const Let&>(n);
      if (varies(let.value)) varying.insert(let.var.get());
    }
    if (n.kind != Kind::If) return;
    auto& one = static_cast<const If&>(n);
    if (!varies(one.cond)) return;
    visit_nodes(Stmt(&one), [&](const Node& inner) {
      if (&inner == target) found = &one;
    });
  });
  return found;
}

// A barrier is for all threads: under a condition that not all of them meet it is the next mistake.
std::string RaceDetector::cure_by_barrier(int32_t site, int32_t other_site, bool same_warp) const {
  std::string_view barrier =
      same_warp ? "T.sync_threads(), or T.sync_warp() if only one warp takes part" : "T.sync_threads()";
  const If* here = condition_of_some(*code.kernel, code.sites[size_t(site)].stmt.get());
  const If* there = condition_of_some(*code.kernel, code.sites[size_t(other_site)].stmt.get());
  const If* inner = here ? here : there;
  if (!inner || !inner->span) return fmt::format("put a barrier between the two ({})", barrier);
  if (here == there)
    return fmt::format(
        "end the condition of line {} after the first of the two, because not all threads come there, put a "
        "barrier behind it ({}), and the second under the condition again",
        inner->span.line, barrier);
  return fmt::format(
      "put a barrier between the two ({}), outside of the condition of line {}, because not all threads come "
      "there",
      barrier, inner->span.line);
}

// What would order the two accesses.
std::string RaceDetector::cure_of(Warp& w, const Place& p, int lane, const Stamp& other, int32_t site,
                                  bool same_statement, bool one_reads) const {
  const Clocks& clocks = w.block->watch->clocks;
  if (other.block != clocks.number() && p.scope == Scope::shared)
    return "let both blocks of the cluster meet in between (T.cluster_sync()), or let the other one arrive "
           "at a "
           "barrier of this one that it waits for (T.mbarrier_arrive(b, cta_id=rank))";
  if (other.block != clocks.number()) {
    constexpr std::string_view cure = "blocks run in any order: use an atomic access, or a kernel of its own";
    if (int32_t asked = w.block->watch->asked_without_order; asked >= 0)
      return fmt::format(
          "{}; or, if the atomic access on line {} signals that the other block is done, give it an order, "
          "because it is relaxed: memory_order='acq_rel', with a barrier of the block (T.sync_threads()) "
          "before and after it",
          cure, code.sites[size_t(asked)].span.line);
    return tells ? fmt::format(
                       "{}, or let the writer's block signal it (a barrier of the block, then an atomic "
                       "release) and the other block wait for the signal (an acquire, then a barrier)",
                       cure)
                 : std::string(cure);
  }
  int64_t owner = clocks.owner(other.thread);
  if (owner < 0) return cure_of_load(w, other);
  bool bulk = !clocks.is_on(other.thread, Timeline::copies);
  if (other.thread < code.thread_count()) {
    if (same_statement) return cure_of_statement(p, site, one_reads);
    if (p.scope != Scope::shared) return "put a barrier between the two, or use an atomic access";
    bool same_warp = other.thread / w.lane_count() == w.first / w.lane_count();
    return cure_by_barrier(site, other.site, same_warp);
  }
  if (clocks.has_joined(other.thread, other.epoch))
    return fmt::format(
        "thread {} has waited for it, but the other threads have not: put a barrier after that wait", owner);
  const Groups& groups = w.block->engine->groups(bulk ? Timeline::bulk_writes : Timeline::copies, owner);
  std::string_view commit = bulk ? "T.tma_store_arrive()" : "T.ptx_commit_group()";
  auto later = groups.committed.end() - std::ranges::lower_bound(groups.committed, other.epoch);
  bool reads = clocks.is_on(other.thread, Timeline::bulk_reads);
  auto wait_for = [&](int64_t left) {
    return bulk ? fmt::format("T.tma_store_wait({}{})", left, reads ? "" : ", read=False")
                : fmt::format("T.ptx_wait_group({})", left);
  };
  std::string wait = later == 0 ? fmt::format("end its group ({}) and wait for it ({})", commit, wait_for(0))
                                : fmt::format("wait for its group ({})", wait_for(later - 1));
  return owner == w.first + lane ? wait + " first"
                                 : fmt::format("let thread {} {}, and put a barrier after that", owner, wait);
}

}  // namespace tl::sim
