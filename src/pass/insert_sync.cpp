// insert_sync: a barrier before each statement that touches shared memory which another thread may have
// written, or writes what another may still read: footprint.h says which thread touches what.  After
// plan_memory, because two buffers conflict where they overlap.
//
// The same holds for tensors that a kernel writes and also reads or writes again: several threads read an
// element before one of them writes it, or one thread fills it and another one then sets it, also in a later
// turn of a loop (footprint_turns.cpp); and of two tensors that the program says may overlap, where one is
// written: any thread may touch any element. Code for single threads (attribute thread_level of the kernel)
// orders that itself, except in its loops over tiles.
//
// A team whose groups may meet apart (Team::groups) has barriers of these where only threads of one group
// exchange data: what the groups do then need not keep step.
//
// A kernel with the attribute own_barriers places them itself: only buffers from that number on, which the
// compiler has made, are handled.
//
// The asynchronous proxy, by which copies of boxes are made, sees what threads have written only behind their
// fences: one stands in front of each barrier behind writes to what such a copy touches somewhere, in front
// of arrivals by which teams tell others of such writes (signal_fences.h), and where the thread that wrote
// begins the copy itself (own_fences.h).
//
// A statement that threads may leave at different times (a condition on the thread), one parallel loop's
// lowered form, and a loop whose own accesses never conflict count as a whole: the barrier goes before them,
// never inside. Other loops are walked twice, so that the last accesses of an iteration meet the first ones
// of the next; what is pending at a break or a continue is pending at the target of the jump.
//
//   As[…] = A[…]                  ->   As[…] = A[…]
//   ldmatrix_x4(&regs, &As[…])         sync_threads()
//                                      ldmatrix_x4(&regs, &As[…])
#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/block_accesses.h"
#include "pass/own_fences.h"
#include "pass/passes.h"
#include "pass/pending_accesses.h"
#include "pass/rings.h"
#include "pass/signal_fences.h"
#include "pass/splice.h"
#include "pass/varying.h"
#include "pass/warp_width.h"

namespace tl {
namespace {

// A barrier of a team.
Stmt barrier_of(const Kernel& kernel, int warp, const Team& t, Span span) {
  if (t.count == 1) return block({}, span);  // only the fence in front of it
  if (t == whole_block(kernel)) return eval(call(sync_threads, {}), span);
  if (t.count == warp && t.first % warp == 0)
    return eval(call(*find_intrinsic("sync_warp"), {whole_warp(warp)}), span);
  if (t.first % warp || t.count % warp)
    fail(span,
         "the threads [{}, {}) need a barrier of their own here, as they exchange data, but they are not "
         "whole warps of {}: let the range begin and end at multiples of {}",
         t.first, t.first + t.count, warp, warp);
  return eval(call(*find_intrinsic("bar_sync"), {imm(t.barrier, i32), imm(t.count, i32)}), span);
}

// The threads of each group of the team wait for each other.
Stmt barrier_in_groups(const Team& t, Span span) {
  return eval(call(bar_sync_groups, {imm(t.groups, i32), imm(Team::group, i32)}), span);
}

// Where barriers stand, and whose: in front of a statement or behind it.
struct Barriers {
  std::map<const StmtNode*, Team> before = {}, behind = {}, in_groups = {};
  std::set<const StmtNode*> of_warps = {};
  std::set<const StmtNode*> fenced = {};   // with a fence for the asynchronous proxy in front
  std::set<const StmtNode*> signals = {};  // with such a fence, and perhaps without a barrier

  Stmt put(const Kernel& kernel, int warp) const {
    return splice(kernel.body, [&](const Stmt& original, const Stmt& walked) {
      std::vector<Stmt> out;
      auto add = [&](const std::map<const StmtNode*, Team>& where, bool groups = false) {
        auto it = where.find(original.get());
        if (it == where.end()) return false;
        Span span = original->span;
        if (fenced.contains(original.get()))
          out.push_back(eval(call(*find_instr("fence_proxy_async_shared"), {}), span));
        out.push_back(groups ? barrier_in_groups(it->second, span)
                             : barrier_of(kernel, warp, it->second, span));
        return true;
      };
      bool fences = fenced.contains(original.get()) &&
                    (before.contains(original.get()) || in_groups.contains(original.get()));
      if (signals.contains(original.get()) && !fences)
        out.push_back(eval(call(*find_instr("fence_proxy_async_shared"), {}), original->span));
      bool ordered = add(before) || add(in_groups, true);
      if (!ordered && of_warps.contains(original.get()))
        out.push_back(eval(call(*find_intrinsic("sync_warp"), {whole_warp(warp)}), original->span));
      out.push_back(walked);
      add(behind);
      return out;
    });
  }
};

// Has it no more iterations than there are different turns? Then each is walked once.
std::optional<int64_t> few_turns(const For& loop) {
  auto extent = as_int(loop.extent);
  return extent && *extent <= loop.attrs.get_int("turns") && is_int(loop.min, 0) ? extent : std::nullopt;
}

Varying varying_of(const Function& f, const Kernel& kernel, bool states_agree = false) {
  Varying varying{.f = f, .states_agree = states_agree, .vars = {{kernel.thread.get(), "the thread index"}}};
  varying.find(kernel.body);
  return varying;
}

// What held where a loop is left or continued, and what its condition reads.
struct Jumps {
  PendingAccesses breaks = {}, continues = {};
  Accesses head = {};
};

// Where a team's groups do not meet apart, all of it does.
Conflict of_team(Conflict c, const Team& team) {
  return c == Conflict::intra_group && !team.groups ? Conflict::intra_block : c;
}

struct Inserter {
  const Function& f;
  const Kernel& kernel;
  int warp;  // threads of one
  Barriers placed = {};
  std::set<BufferId> by_proxy = {};  // tiles, in whose memory the asynchronous proxy reads or writes
  Varying varying = varying_of(f, kernel);
  // Where threads wait by states: what differs in the phases that they wait for.
  Varying phases = waits_by_state(kernel.body) ? varying_of(f, kernel, true) : varying;
  BlockAccesses accesses = {f, kernel, warp};
  Team team = whole_block(kernel);  // whose statements are being walked
  PendingAccesses now = {};
  const StmtNode* section = nullptr;  // the one whose turn begins, if it is of that kind
  Jumps jumping = {};                 // of the innermost loop
  Span gone = {};                     // the statement by which some threads have returned

  void order(const Stmt& s, const Accesses& a) {
    for (auto* where : {&placed.before, &placed.in_groups})
      if (accesses.turn >= 0 && where->contains(s.get())) pass_barrier(*where, s);
    if (a.empty()) return;
    Conflict m = conflict(&Past::pending, a);
    if (m == Conflict::intra_group) m = conflict(&Past::in_groups, a);
    if (m == Conflict::intra_group) need_barrier(placed.in_groups, s);
    bool whole = team.count % warp == 0;  // else a warp's barrier would name threads that do not exist
    if (m == Conflict::intra_block || (m == Conflict::intra_warp && !whole)) need_barrier(placed.before, s);
    if (m == Conflict::intra_warp && whole) placed.of_warps.insert(s.get());
  }

  void unit(const Stmt& s, const StatementAccesses& a, bool by_some = false) {
    order(s, a);
    follow(a, by_some);
  }
  void order(const Stmt& s, const StatementAccesses& a) {
    order(s, a.now);
    for (auto& [token, begun] : a.begun) {
      order(s, begun);
      Conflict m = token == Token::copies ? Conflict::none : conflict(&Past::unfenced, begun);
      bool all = m == Conflict::intra_block || !team.groups;
      if (m != Conflict::none) need_barrier(all ? placed.before : placed.in_groups, s);
    }
  }
  Conflict conflict(Accesses Past::* which, const Accesses& a) const {
    return of_team(now.conflict(accesses, which, a, section), team);
  }
  void follow(const StatementAccesses& a, bool by_some) { now.follow(a, team, by_some, by_proxy, warp); }

  void need_barrier(std::map<const StmtNode*, Team>& where, const Stmt& s) {
    if (gone)
      fail(s->span,
           "this statement needs a barrier before it, as threads exchange data through shared memory; but "
           "some threads have returned on line {} and would not reach it: put the statement under the "
           "opposite condition instead of returning",
           gone.line);
    where.emplace(s.get(), team);
    pass_barrier(where, s);
  }
  void pass_barrier(const std::map<const StmtNode*, Team>& where, const Stmt& s) {
    if (now.pass_barrier(&where == &placed.in_groups)) placed.fenced.insert(s.get());
  }

  // Where tiles have slots, iterations differ by the slots that they use, and are walked one by one. Barriers
  // that every iteration needs are placed first, as they are needed after many iterations: they may serve for
  // what happened before the loop, too.
  void walk_slotted(const Stmt& body, bool runs, const For& loop) {
    PendingAccesses entry = std::exchange(now, {});
    auto outside = std::tuple(jumping, placed);
    walk_turns(body, {}, &loop);
    std::tie(jumping, placed) = outside;
    walk_turns(body, {}, &loop);
    jumping = std::get<0>(outside);
    now = std::move(entry);
    walk_loop(body, {}, runs, &loop);
  }

  // Twice as many turns as there are different ones; what is pending behind any of them.
  PendingAccesses walk_turns(const Stmt& body, const Accesses& head, const For* slotted) {
    PendingAccesses ends;
    int64_t turns = slotted ? slotted->attrs.get_int("turns") : 1;
    auto few = slotted ? few_turns(*slotted) : std::nullopt;
    for (int64_t round = 0; round < few.value_or(2 * turns); round++) {
      if (slotted) accesses.take_turn(slotted, round % turns, few ? 0 : turns);
      walk(body);
      if (conflict(&Past::pending, head) != Conflict::none) need_barrier(placed.behind, body);
      now.add(std::exchange(jumping.continues, {}), warp);
      now.note(head, team, warp);
      if (slotted && !few) ends.add(now, warp);
    }
    if (slotted) accesses.take_turn(nullptr, 0, 1);
    return ends;
  }

  void walk_loop(const Stmt& body, const Accesses& head, bool runs, const For* slotted = nullptr) {
    Jumps outer = std::exchange(jumping, {.head = head});
    PendingAccesses before = now;
    now.add(walk_turns(body, head, slotted), warp);
    now.add(jumping.breaks, warp);
    if (!runs) now.add(before, warp);
    jumping = std::move(outer);
  }

  void walk_for(const Stmt& s, const For& loop) {
    const StatementAccesses& all = accesses.of(s, team);
    bool waits = std::any_of(all.completes.begin(), all.completes.end(),
                             [](const Completion& c) { return c.token != Token::phase; });
    bool whole = !waits && (!all.writes() || (!all.meets && !accesses.meets_itself(all)));
    if (whole || varying.may_diverge(s)) return apart(s, all);
    StatementAccesses bounds = accesses.of(loop.min, team);  // read once, before the loop
    bounds.now.add(accesses.of(loop.extent, team).now, warp);
    unit(s, bounds);
    if (has_ring(loop.body)) order(s, all);  // once, rather than in each of its turns
    auto extent = as_int(loop.extent);
    bool runs = extent && *extent > 0;
    if (!loop.attrs.find("turns"))
      walk_loop(loop.body, {}, runs);
    else if (few_turns(loop))
      walk_loop(loop.body, {}, runs, &loop);
    else
      walk_slotted(loop.body, runs, loop);
  }

  void walk_while(const Stmt& s, const While& loop) {
    if (varying.may_diverge(s)) return apart(s, accesses.of(s, team));
    StatementAccesses head = accesses.of(loop.cond, team);
    unit(s, head);
    walk_loop(loop.body, head.now, false);
  }

  // Threads run it at different times, or it needs no barrier inside.
  void apart(const Stmt& s, const StatementAccesses& all) {
    unit(s, all, varying.may_diverge(s) && !is_wait_of_all(s, phases));
    if (!varying.returns(s).empty()) gone = s->span;
  }

  void walk_if(const Stmt& s, const If& n) {
    if (varying.may_diverge(s)) {
      apart(s, accesses.of(s, team));
      visit(s, [&](const Call& c) {
        if (c.intrinsic == &thread_return) gone = s->span;
      });
      return;
    }
    // What copies and loads ahead need stands in front of the condition that there is such an iteration: what
    // follows needs it as well.
    if (accesses.turn >= 0 && !n.else_body) order(s, accesses.of(s, team));
    StatementAccesses head = accesses.of(n.cond, team);
    unit(s, head);
    if (head.meets) now.meet();
    if (auto holds = accesses.footprints.known(n.cond)) return walk(*holds ? n.then_body : n.else_body);
    PendingAccesses before = now;
    walk(n.then_body);
    PendingAccesses after = std::exchange(now, std::move(before));
    walk(n.else_body);
    now.add(after, warp);
  }

  // Groups beside each other run at the same time where they signal each other: the program orders what they
  // exchange, also from one turn of a loop around them to the next where each waits for others.  Others run
  // one after the other as far as their accesses meet.  In a group its own barrier orders; behind it is
  // pending what all have done.
  void walk_section(std::span<const Stmt> groups) {
    auto signals = [&](const Stmt& s) { return accesses.of(s, team).signals || accesses.of(s, team).meets; };
    bool at_once = std::ranges::any_of(groups, signals);
    bool ring = is_ring(groups);
    section = ring ? groups[0].get() : nullptr;
    if (at_once)
      for (auto& s : groups) order(groups[0], accesses.of(s, team));
    section = nullptr;
    for (auto& s : groups) {
      if (!at_once) order(s, accesses.of(s, team));
      if (ring) {
        walk_beside(s, groups[0].get());
      } else {
        walk_group(s, {});
        follow(accesses.of(s, team), true);
      }
    }
  }
  // What its team has done before; and what it has done behind it.
  Past walk_group(const Stmt& s, Past before) {
    auto outside = std::tuple(now, jumping, team);
    for (auto& [token, begun] : now.in_flight) before.in_flight[token].add(begun, warp);
    now = {std::move(before)}, jumping = {}, team = team_of(*s.as<Group>());
    walk(s.as<Group>()->body);
    Past after = now;
    std::tie(now, jumping, team) = std::move(outside);
    return after;
  }
  void walk_beside(const Stmt& s, const StmtNode* first) {
    std::pair key(first, team_of(*s.as<Group>()));
    Past own = walk_group(s, now.beside[key].own);
    PendingAccesses outside = std::exchange(now, {});
    const StatementAccesses& a = accesses.of(s, team);
    follow(a, true);
    for (auto& [token, begun] : a.begun) now.note(begun, team, warp);
    outside.beside[key] = {.all = now, .own = std::move(own)};
    now = std::move(outside);
  }

  void jump(const Stmt& s, const Intrinsic& intrinsic) {
    if (&intrinsic == &continue_loop && conflict(&Past::pending, jumping.head) != Conflict::none)
      need_barrier(placed.before, s);
    if (&intrinsic == &break_loop) jumping.breaks.add(now, warp);
    if (&intrinsic == &continue_loop) jumping.continues.add(now, warp);
    now = {};  // nothing comes here
  }

  void walk(const Stmt& s) {
    if (s) dispatch(s, [&](const auto& n) { node(s, n); });
  }
  void node(const Stmt&, const Block& n) {
    for (size_t i = 0; i < n.stmts.size();) {
      size_t groups = section_length(n.stmts, i);
      if (groups == 0)
        walk(n.stmts[i]);
      else
        walk_section(std::span(n.stmts).subspan(i, groups));
      i += std::max<size_t>(1, groups);
    }
  }
  void node(const Stmt& s, const For& n) { walk_for(s, n); }
  void node(const Stmt& s, const While& n) { walk_while(s, n); }
  void node(const Stmt& s, const If& n) { walk_if(s, n); }
  void node(const Stmt& s, const Group&) { walk_section({&s, 1}); }
  void node(const Stmt& s, const Store&) { leaf(s); }
  void node(const Stmt& s, const Let&) { leaf(s); }
  void node(const Stmt&, const Alloc&) {}
  void node(const Stmt&, const Tile&) { internal_error("a tile operator at level machine"); }
  void node(const Stmt& s, const Eval&) {
    if (const Intrinsic* c = control_of(s))
      jump(s, *c);
    else
      leaf(s);
  }
  void leaf(const Stmt& s) {
    const StatementAccesses& a = accesses.of(s, team);
    unit(s, a);
    if (a.meets) {
      now.meet();
      now.note({.reads = {}, .writes = a.now.writes}, team, warp);
    }
    if (a.fences) now.unfenced = {};
  }

  Stmt run() {
    accesses.find();
    by_proxy = tiles_by_proxy(f, kernel);
    walk(kernel.body);
    return placed.put(kernel, warp);
  }
};

}  // namespace

Function insert_sync(Function f, const Target& target) {
  if (!target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    if (k.attrs.find("own_barriers"))
      f.notes.push_back({"insert_sync", k.name,
                         "no barriers are inserted between accesses to the program's own buffers "
                         "(tl.disable_thread_storage_sync): the simulator finds those that are missing",
                         k.span, true});
    if (thread_count(k) <= 1 && tiles_by_proxy(f, k).empty() && k.attrs.get_int("thread_level") < 2) continue;
    SignalFences fences = fences_of_signals(f, k, target.warp);
    Barriers placed{.signals = std::move(fences.before)};
    k.body = Inserter{.f = f, .kernel = k, .warp = target.warp, .placed = std::move(placed)}.run();
    k.body = with_own_fences(f, k);
    k.body = rewrite(k.body, [](const For& n, Rewriter& self) -> Stmt {  // see lower_parallel
      return n.attrs.find("nest") ? self(n.body) : self.children(n);
    });
    f.notes.insert(f.notes.end(), fences.notes.begin(), fences.notes.end());
  }
  return f;
}

}  // namespace tl
