// Advice on how to fix a race: the end of its finding's text.
#include <algorithm>
#include <set>

#include "arith/simplify.h"
#include "ir/rewrite.h"
#include "sim/engine.h"
#include "sim/mbarrier_report.h"
#include "sim/products.h"
#include "sim/race_detector.h"

namespace tl::sim {

// Of a read before anything was written; a load that fills the place may come later.
std::string RaceDetector::cure_of_unwritten(const Place& p) const {
  using AsyncKind = AsyncInstr::AsyncKind;
  for (auto& call : code.calls) {
    if (!call.is_async || call.args.empty()) continue;
    auto& row = *static_cast<const AsyncInstr*>(call.row);
    bool loads = row.does == AsyncKind::bulk_load || row.does == AsyncKind::tensor_load ||
                 row.does == AsyncKind::tensor_multicast || row.does == AsyncKind::bulk_push;
    if (!loads || call.args[0].place != p.number) continue;
    return fmt::format("a load{} fills it: wait first for the phase of {} that it signals (T.barrier_wait)",
                       call.span ? fmt::format(" on line {}", call.span.line) : "",
                       code.places[size_t(call.args.back().place)].name);
  }
  return "fill it first (T.clear, T.fill, T.copy)";
}

constexpr std::string_view cure_of_two_loads =
    "several blocks load to the same place of one: let one of them issue the load for all of the mask, the "
    "same in all (issuer=), or load after the others have read";

// A warp reads a tile, or overwrites it, while a load is under way there.
static std::string cure_of_early(const Warp& w, int64_t barrier, const MBarrier& m) {
  if (std::string why = why_unordered(w, m.load.thread); !why.empty()) return why;
  if (std::string why = why_told_elsewhere(w, barrier, m); !why.empty()) return why;
  if (std::string why = why_ended_early(*w.block, w.first, barrier, m.load); !why.empty()) return why;
  auto seen = m.seen_by.find(w.first);
  bool is_reading = seen != m.seen_by.end() && m.load.phase > 0 && seen->second.phase == m.load.phase - 1;
  if (is_reading && !was_told(*w.block, m.load.thread, w)) {
    std::string why = why_not_counted(*w.block, w.first, m.load.thread);
    return !why.empty()
               ? why
               : "nothing makes that load wait for this reader of the tile before it: " + cure_by_empty();
  }
  return fmt::format("wait for phase {} of its mbarrier, {} (parity {}), first", m.load.phase,
                     name_of_barrier(*w.code, barrier), m.load.phase % 2);
}

// Of an access with a bulk load that an mbarrier is to tell.
std::string RaceDetector::cure_of_load(const Warp& w, const Stamp& load, const Stamp& me) const {
  const Clocks& clocks = w.block->watch->clocks;
  bool loads = clocks.owner(me.thread) < 0 && clocks.warp_of_products(me.thread) < 0;
  int64_t loader = -1;
  for (auto& [at, m] : w.block->engine->barriers) {
    bool is_its = clocks.slot_of_barrier(m.number) == load.thread;
    if (loads && is_its && m.load.block != w.block->number) return std::string(cure_of_two_loads);
    bool is_last = is_its && m.copies == load.epoch;
    if (is_its && m.load.block == w.block->number) loader = m.load.thread;
    if (!is_last) continue;
    if (m.phase > m.load.phase && !clocks.covers(m.released, load))
      return "the phase of its mbarrier has ended before all of it had landed: expect all its bytes "
             "(mbarrier_arrive_expect_tx)";
    if (!loads) return cure_of_early(w, at, m);
  }
  if (std::string why = loads ? why_ahead(*w.block, w.first) : ""; !why.empty()) return why;
  if (loads) return "nothing makes this load wait until that tile has come and been read: " + cure_by_empty();
  std::string why = loader >= 0 ? why_unordered(w, loader) : "";
  if (why.empty() && loader >= 0) why = why_not_counted(*w.block, w.first, loader);
  if (!why.empty()) return why;
  return "wait for the phase of its mbarrier first";
}

// The barrier that a load of the block signals, by the load's timeline; null: it is no load.
static const std::pair<const int64_t, MBarrier>* barrier_of_load(const Block& block, const Stamp& load) {
  const Clocks& clocks = block.watch->clocks;
  if (clocks.owner(load.thread) >= 0 || clocks.warp_of_products(load.thread) >= 0) return nullptr;
  for (auto& entry : block.engine->barriers)
    if (clocks.slot_of_barrier(entry.second.number) == load.thread) return &entry;
  return nullptr;
}

// A load that the warp begins writes to what that thread has read, after a phase that was to be the load's.
static std::string cure_of_late_load(const Warp& w, int64_t reader, const Stamp& load) {
  auto* entry = barrier_of_load(*w.block, load);
  if (!entry) return "";
  return why_ended_early(*w.block, reader, entry->first,
                         {.phase = entry->second.phase,
                          .thread = w.first + first_lane(w.active),
                          .block = w.block->number,
                          .site = load.site});
}

// A load writes to what that thread has read before it ever waited for the load's barrier.
std::string RaceDetector::cure_of_early_read(const Warp& w, int64_t reader, const Stamp& load) const {
  auto* entry = barrier_of_load(*w.block, load);
  if (!entry) return "";
  auto& [at, m] = *entry;
  if (m.seen_by.contains(reader / w.lane_count() * w.lane_count())) return cure_of_late_load(w, reader, load);
  return fmt::format(
      "the reader comes before the load: let it wait first for phase {} of {}, which the load "
      "signals (T.barrier_wait, parity {})",
      m.phase, name_of_barrier(code, at), m.phase % 2);
}

// Of a write to a tile that a product of a warpgroup reads.
std::string RaceDetector::cure_of_product(const Warp& w, const Stamp& product, const Stamp& me) const {
  const Clocks& clocks = w.block->watch->clocks;
  constexpr int64_t group_warps = 4;
  int64_t warp = clocks.warp_of_products(product.thread), here = w.first / w.lane_count();
  if (std::string why = cure_of_early_read(w, warp * w.lane_count(), me); !why.empty()) return why;
  bool same_group = warp / group_warps == here / group_warps;
  if (std::string why = same_group ? "" : why_unordered(w, warp * w.lane_count()); !why.empty()) return why;
  if (!same_group)
    return "nothing makes this thread wait for the product: let those that have begun it wait for it "
           "(T.wait_wgmma(0)) and then arrive at a barrier that this thread waits for before it writes "
           "(T.barrier_arrive(empty[slot]), T.barrier_wait(empty[slot], (k // slots + 1) % 2))";
  if (clocks.has_joined(product.thread, product.epoch))
    return fmt::format(
        "warp {} has waited for it, but the other warps have not: put a barrier after that wait", warp);
  auto& groups = w.products->committed;
  auto later = std::ranges::count_if(groups, [&](uint32_t group) { return group > product.epoch; });
  return fmt::format("wait for the product first (T.wait_wgmma({}){})", later,
                     warp == here ? "" : ", and a barrier after that");
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

// What lets some threads only come to a statement, as far as the text says: a condition, with the arm in
// which the statement stands, or a team's section.
struct Some {
  const If* condition = nullptr;
  bool otherwise = false;
  const Group* team = nullptr;
};

// From the outermost one on.
static std::vector<Some> around(const Kernel& k, const StmtNode* target) {
  std::set<const ExprNode*> varying{k.thread.get()};
  auto varies = [&](const Expr& e) {
    return contains(e, [&](const Var& v) { return varying.contains(&v); }, [](const Load&) { return true; });
  };
  auto holds = [&](const Stmt& body) {
    bool found = false;
    if (body) visit_nodes(body, [&](const Node& inner) { found |= &inner == target; });
    return found;
  };
  std::vector<Some> found;
  visit_nodes(k.body, [&](const Node& n) {
    if (n.kind == Kind::Let) {
      auto& let = static_cast<const Let&>(n);
      if (varies(let.value)) varying.insert(let.var.get());
    } else if (n.kind == Kind::Group) {
      auto& group = static_cast<const Group&>(n);
      if (holds(group.body)) found.push_back({.team = &group});
    } else if (n.kind == Kind::If) {
      auto& one = static_cast<const If&>(n);
      if (!varies(one.cond)) return;
      bool otherwise = holds(one.else_body);
      if (otherwise || holds(one.then_body)) found.push_back({.condition = &one, .otherwise = otherwise});
    }
  });
  return found;
}

// Do these run beside each other?
static bool are_of_teams(const std::vector<Some>& all, const std::vector<Some>& others, bool has_barriers) {
  for (auto& a : all)
    for (auto& b : others) {
      if (a.team && b.team && a.team != b.team) return true;
      if (has_barriers && a.condition && a.condition == b.condition && a.otherwise != b.otherwise)
        return true;
    }
  return false;
}

// Teams are told by barriers in memory: `w` by that thread, or the other way round.
std::string RaceDetector::cure_of_teams(const Warp& w, const Stamp& other, const Stamp& me) const {
  if (std::string why = why_unordered(w, other.thread); !why.empty()) return why;
  if (std::string why = why_alone(w, other.thread, Touch(other.how) == Touch::read ? "read" : "wrote");
      !why.empty())
    return why;
  if (Touch(me.how) == Touch::read || !was_told(*w.block, other.thread, w))
    return fmt::format(
        "let the writer arrive at a barrier when it has written (T.barrier_arrive(full)), and let the {} "
        "wait "
        "for all that write (T.barrier_wait(full, k // slots % 2))",
        Touch(me.how) == Touch::read || Touch(other.how) == Touch::read ? "reader" : "other one");
  if (std::string why = why_not_counted(*w.block, other.thread, w.first); !why.empty()) return why;
  return "nothing makes the writer wait for the reader of this slot: " + cure_by_empty();
}

// Does a thread come to where these conditions stand?  Nothing where more than the thread decides it.
static std::optional<bool> comes(const std::vector<Some>& all, const Kernel& k, const VarMap& lets,
                                 int64_t thread) {
  for (auto& some : all) {
    if (some.team && (thread < some.team->first || thread >= some.team->first + some.team->count))
      return false;
    if (!some.condition) continue;
    Expr condition = some.condition->cond;
    constexpr int names = 8;  // of names
    for (int i = 0; i < names; i++) condition = substitute(condition, lets);
    auto holds = as_int(simplify(substitute(condition, {{k.thread.get(), imm(thread, k.thread->dtype)}})));
    if (!holds) return std::nullopt;
    if ((*holds != 0) == some.otherwise) return false;
  }
  return true;
}

// A named barrier to which both threads come, and more threads than it counts: its phases end too early.
std::string RaceDetector::cure_by_count(int64_t one, int64_t other) const {
  const Kernel& k = *code.kernel;
  struct Named {
    int64_t counted = 0, come = 0;
    Span span = {};
    bool is_known = true, both[2] = {false, false};
  };
  std::map<int64_t, Named> barriers;
  VarMap lets;
  visit(k.body, [&](const Let& n) { lets[n.var.get()] = n.value; });
  visit(k.body, [&](const Eval& n) {
    auto* call = n.value.as<Call>();
    if (!call || !is_named_barrier(*call->intrinsic)) return;
    auto id = as_int(call->args[0]), counted = as_int(call->args[1]);
    if (!id || !counted || *counted <= 0) return;
    Named& b = barriers[*id];
    b.counted = *counted;
    if (call->intrinsic->name == "bar_sync" || !b.span) b.span = call->span ? call->span : n.span;
    std::vector<Some> all = around(k, &n);
    for (int64_t warp = 0; warp < code.thread_count(); warp += code.warp) {
      auto there = comes(all, k, lets, warp);
      if (!there) b.is_known = false;
      if (!there.value_or(false)) continue;
      b.come += code.warp;
      b.both[0] |= one / code.warp == warp / code.warp;
      b.both[1] |= other / code.warp == warp / code.warp;
    }
  });
  for (auto& [id, b] : barriers)
    if (b.is_known && b.both[0] && b.both[1] && b.come > b.counted)
      return fmt::format(
          "barrier {} counts {} threads{}, but {} come to it: its phase ends before all have come; "
          "let it count {} (T.sync_threads({}, {}), and where threads only arrive as well)",
          id, b.counted, b.span ? fmt::format(" on line {}", b.span.line) : "", b.come, b.come, id, b.come);
  return "";
}

// A barrier is for all threads: under a condition that not all of them meet it is the next mistake.
std::string RaceDetector::cure_by_barrier(const Warp& w, const Stamp& other, const Stamp& me) const {
  bool same_warp = other.thread / w.lane_count() == w.first / w.lane_count();
  std::string_view barrier =
      same_warp ? "T.sync_threads(), or T.sync_warp() if only one warp takes part" : "T.sync_threads()";
  auto all_here = around(*code.kernel, code.sites[size_t(me.site)].stmt.get());
  auto all_there = around(*code.kernel, code.sites[size_t(other.site)].stmt.get());
  if (std::string why =
          w.block->engine && Touch(other.how) == Touch::read ? cure_of_early_read(w, other.thread, me) : "";
      !why.empty())
    return why;
  if (std::string why = same_warp ? "" : cure_by_count(w.first, other.thread); !why.empty()) return why;
  if (!same_warp && w.block->engine && are_of_teams(all_here, all_there, code.barriers > 0))
    return cure_of_teams(w, other, me);
  auto innermost = [](auto& all) {
    auto it = std::ranges::find_if(all.rbegin(), all.rend(), [](auto& s) { return s.condition != nullptr; });
    return it == all.rend() ? nullptr : it->condition;
  };
  const If *here = innermost(all_here), *there = innermost(all_there), *inner = here ? here : there;
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

std::string RaceDetector::cure_of_blocks(const Warp& w, const Place& p, const Stamp& other,
                                         const Stamp& me) const {
  const Clocks& clocks = w.block->watch->clocks;
  auto loads = [&](const Stamp& s) {
    return clocks.owner(s.thread) < 0 && clocks.warp_of_products(s.thread) < 0;
  };
  if (p.scope == Scope::shared && loads(me) && loads(other)) return std::string(cure_of_two_loads);
  if (p.scope == Scope::shared)
    return "let both blocks of the cluster meet in between (T.cluster_sync()), or let the other one arrive "
           "at "
           "a barrier of this one that it waits for (T.mbarrier_arrive(b, cta_id=rank))";
  constexpr std::string_view cure =
      "blocks run in any order, and no barrier within a block orders them: let each block write elements of "
      "its own, use an atomic access, let all blocks meet (T.sync_grid()), or do the second in a kernel of "
      "its "
      "own";
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

// Of an access with a copy of a thread's group.
std::string RaceDetector::cure_of_group(const Warp& w, int lane, const Stamp& copy) const {
  const Clocks& clocks = w.block->watch->clocks;
  int64_t owner = clocks.owner(copy.thread);
  bool bulk = !clocks.is_on(copy.thread, Timeline::copies);
  if (clocks.has_joined(copy.thread, copy.epoch))
    return fmt::format(
        "thread {} has waited for it, but the other threads have not: put a barrier after that wait", owner);
  const Groups& groups = w.block->engine->groups(bulk ? Timeline::bulk_writes : Timeline::copies, owner);
  std::string_view commit = bulk ? "T.tma_store_arrive()" : "T.ptx_commit_group()";
  auto later = groups.committed.end() - std::ranges::lower_bound(groups.committed, copy.epoch);
  bool reads = clocks.is_on(copy.thread, Timeline::bulk_reads);
  auto wait_for = [&](int64_t left) {
    return bulk ? fmt::format("T.tma_store_wait({}{})", left, reads ? "" : ", read=False")
                : fmt::format("T.ptx_wait_group({})", left);
  };
  std::string wait = later == 0 ? fmt::format("end its group ({}) and wait for it ({})", commit, wait_for(0))
                                : fmt::format("wait for its group ({})", wait_for(later - 1));
  return owner == w.first + lane ? wait + " first"
                                 : fmt::format("let thread {} {}, and put a barrier after that", owner, wait);
}

// What would order the two accesses.
std::string RaceDetector::cure_of(Warp& w, const Place& p, int lane, const Stamp& other,
                                  const Stamp& me) const {
  const Clocks& clocks = w.block->watch->clocks;
  if (other.block != clocks.number()) return cure_of_blocks(w, p, other, me);
  if (clocks.warp_of_products(other.thread) >= 0) return cure_of_product(w, other, me);
  if (clocks.owner(other.thread) < 0) return cure_of_load(w, other, me);
  if (other.thread >= code.thread_count()) {
    std::string why = cure_of_late_load(w, clocks.owner(other.thread), me);
    return why.empty() ? cure_of_group(w, lane, other) : why;
  }
  if (code.sites[size_t(other.site)].stmt.get() == code.sites[size_t(me.site)].stmt.get())
    return cure_of_statement(p, me.site, Touch(me.how) == Touch::read || Touch(other.how) == Touch::read);
  if (p.scope != Scope::shared)
    return "put a barrier between the two (T.sync_threads()), or use an atomic access";
  return cure_by_barrier(w, other, me);
}

}  // namespace tl::sim
