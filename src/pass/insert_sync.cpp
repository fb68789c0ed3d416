// insert_sync: a barrier before each statement that touches shared memory which another thread may have
// written, or writes what another may still read: footprint.h says which thread touches what.  After
// plan_memory, because two buffers conflict where they overlap.
//
// The same holds for tensors that a kernel writes, and reads or writes once more: what several threads read
// of one before one of them writes it, and what one has filled and another one then sets.  Code for single
// threads (attribute thread_level of the kernel) orders that itself, but for its loops over tiles.
//
// A kernel with the attribute own_barriers places them itself: only buffers from that number on, which the
// compiler has made, are looked after.
//
// A statement that threads may leave at different times (a condition on the thread), one parallel loop's
// lowered form, and a loop whose own accesses meet nowhere count as a whole: the barrier goes before them,
// never inside.  Other loops are walked twice, so that the last iteration's accesses meet the next one's
// first; what is pending at a break or a continue is so at the place where the jump ends.
//
//   As[…] = A[…]                  ->   As[…] = A[…]
//   ldmatrix_x4(&regs, &As[…])         sync_threads()
//                                      ldmatrix_x4(&regs, &As[…])
#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/footprint.h"
#include "pass/passes.h"
#include "pass/splice.h"
#include "pass/varying.h"
#include "pass/walk.h"
#include "target/effects.h"

namespace tl {
namespace {

struct Accesses {
  std::map<BufferId, Footprint> reads, writes;
  bool empty() const { return reads.empty() && writes.empty(); }
  static void add(std::map<BufferId, Footprint>& to, BufferId b, const Footprint& footprint, int warp) {
    auto [it, is_new] = to.emplace(b, footprint);
    if (!is_new) it->second.add(footprint, warp);
  }
  void add(const Accesses& o, int warp) {
    for (auto& [b, footprint] : o.reads) add(reads, b, footprint, warp);
    for (auto& [b, footprint] : o.writes) add(writes, b, footprint, warp);
  }
};

// What a statement does at once, what it begins, by what its completion is counted, and what it waits for.
struct StatementAccesses {
  Accesses now = {};
  std::map<Token, Accesses> begun = {};
  std::vector<Completion> completes = {};
  bool meets = false;  // a barrier that the user wrote, as a statement or as a value in one

  bool writes() const {
    return !now.writes.empty() ||
           std::any_of(begun.begin(), begun.end(), [](auto& b) { return !b.second.writes.empty(); });
  }
};

// Are the barriers between accesses of this buffer the program's own affair?  Not of what the compiler
// exchanges.
bool is_own_affair(const Kernel& k, BufferId b) { return b.value < k.attrs.get_int("own_barriers"); }

// Do two buffers share memory?
bool overlap(const Function& f, BufferId a, BufferId b) {
  const BufferInfo &x = f[a], &y = f[b];
  auto bytes = [](const BufferInfo& i) { return i.elements * i.dtype.bytes(); };
  return x.address < y.address + bytes(y) && y.address < x.address + bytes(x);
}

// In shared memory, threads of a warp that meet count as those of a block.
Meeting meeting(const Function& f, const Kernel& k, const std::map<BufferId, Footprint>& before,
                const std::map<BufferId, Footprint>& after, int warp) {
  Meeting worst = Meeting::none;
  for (auto& [a, first] : before)
    for (auto& [b, second] : after) {
      bool shared = f[a].scope == Scope::shared && f[b].scope == Scope::shared;
      if (a != b && !(shared && overlap(f, a, b))) continue;
      if (is_own_affair(k, a) && is_own_affair(k, b)) continue;
      Meeting m = a == b ? meet(first, second, warp) : Meeting::in_block;
      if (m == Meeting::in_warp && shared) m = Meeting::in_block;
      worst = std::max(worst, m);
    }
  return worst;
}

// Must the later accesses wait for the earlier ones, and for whose?
Meeting meeting(const Function& f, const Kernel& k, const Accesses& before, const Accesses& after, int warp) {
  return std::max({meeting(f, k, before.writes, after.reads, warp),
                   meeting(f, k, before.reads, after.writes, warp),
                   meeting(f, k, before.writes, after.writes, warp)});
}

constexpr int64_t all_lanes = 0xFFFFFFFF;

struct Inserter {
  const Function& f;
  const Kernel& kernel;
  std::set<const StmtNode*> barrier = {};  // before which statements
  std::set<const StmtNode*> barrier_after = {};
  Varying varying = {.f = f};
  int warp;  // threads of one
  std::set<const StmtNode*> warp_barrier = {};
  Footprints footprints = {f, kernel, warp};
  Accesses pending = {};  // since the last barrier
  std::map<Token, Accesses> in_flight = {};
  // Of the innermost loop: what was pending where it is left or continued, and what its condition reads.
  struct Jumps {
    Accesses breaks = {}, continues = {}, head = {};
  } jumping = {};
  Span gone = {};  // the statement by which some threads have returned

  void add(StatementAccesses& summary, const Effect& e, Footprints::Conditions conditions,
           bool in_tile) const {
    Accesses& to = e.begins == Token::none ? summary.now : summary.begun[e.begins];
    bool shared = f[e.buffer].scope == Scope::shared;
    if (e.is_through_address() ? !shared : !shared && !(in_tile && exchanged.contains(e.buffer))) return;
    for (auto& mask : e.masks) conditions.emplace_back(mask, true);
    // Through an address an instruction reaches as far as it likes, on behalf of any thread of its warp.
    Footprint touched = e.index.empty() ? Footprint() : footprints.of(e.buffer, e.index, conditions);
    if (e.reads()) Accesses::add(to.reads, e.buffer, touched, warp);
    if (e.writes()) Accesses::add(to.writes, e.buffer, touched, warp);
  }
  std::map<const Node*, StatementAccesses> known = {};
  std::set<BufferId> exchanged = {};  // tensors that are written, and touched elsewhere too
  bool thread_level = kernel.attrs.get_int("thread_level") != 0;

  // What a statement does with all that is in it, each access under the conditions around it there.
  const StatementAccesses& summary(const Stmt& s) {
    auto [it, is_new] = known.emplace(s.get(), StatementAccesses());
    if (!is_new || !s) return it->second;
    tl::walk(s, {}, [&](const Stmt& inner, const WalkContext& at) {
      auto is_nest = [](const For* loop) { return loop->attrs.get_int("independent") != 0; };
      bool in_tile = !thread_level || std::any_of(at.loops.begin(), at.loops.end(), is_nest);
      include(it->second, effects_of(inner), at.conditions, in_tile);
      return true;
    });
    return it->second;
  }
  StatementAccesses summary(const Expr& e) const {
    StatementAccesses found;
    include(found, effects_of(e), {}, !thread_level);
    return found;
  }
  void include(StatementAccesses& to, const Effects& effects, const Footprints::Conditions& conditions,
               bool in_tile) const {
    for (auto& e : effects.list) add(to, e, conditions, in_tile);
    to.completes.insert(to.completes.end(), effects.completes.begin(), effects.completes.end());
    to.meets |= effects.meets;
  }

  void order(const Stmt& s, const Accesses& a) {
    if (a.empty()) return;
    Meeting m = meeting(f, kernel, pending, a, warp);
    bool whole =
        thread_count(kernel) % warp == 0;  // else a warp's barrier would name threads that do not exist
    if (m == Meeting::in_block || (m == Meeting::in_warp && !whole)) need_barrier(barrier, s);
    if (m == Meeting::in_warp && whole) warp_barrier.insert(s.get());
  }

  // What was begun counts from where it is waited for: no barrier before that has ordered it.  Where all
  // threads wait for a phase, each has waited for itself; what groups complete is known to their own thread
  // alone.
  void unit(const Stmt& s, const StatementAccesses& a, bool by_some = false) {
    order(s, a.now);
    for (auto& [token, accesses] : a.begun) order(s, accesses);
    pending.add(a.now, warp);
    for (auto& [token, accesses] : a.begun) in_flight[token].add(accesses, warp);
    for (const Completion& c : a.completes) {
      if (c.token != Token::phase || by_some) pending.add(in_flight[c.token], warp);
      if (c.token != Token::phase && c.left == 0 && !by_some) in_flight.erase(c.token);
    }
  }

  // Do threads exchange data from one turn of a loop to the next?
  bool meets_itself(const StatementAccesses& a) const {
    Accesses sum = a.now;
    for (auto& [token, accesses] : a.begun) sum.add(accesses, warp);
    return meeting(f, kernel, sum, sum, warp) != Meeting::none;
  }

  void need_barrier(std::set<const StmtNode*>& where, const Stmt& s) {
    if (gone)
      fail(s->span,
           "this statement needs a barrier before it, as threads exchange data through shared memory; but "
           "some "
           "threads have returned on line {} and would not come to it: put the statement under the opposite "
           "condition "
           "instead of returning",
           gone.line);
    where.insert(s.get());
    pending = {};
  }

  void walk_loop(const Stmt& body, const Accesses& head, bool runs) {
    Jumps outer = std::exchange(jumping, {.head = head});
    Accesses before = pending;
    for (int round = 0; round < 2; round++) {
      walk(body);
      if (meeting(f, kernel, pending, head, warp) != Meeting::none) need_barrier(barrier_after, body);
      pending.add(std::exchange(jumping.continues, {}), warp);
      pending.add(head, warp);
    }
    pending.add(jumping.breaks, warp);
    if (!runs) pending.add(before, warp);
    jumping = std::move(outer);
  }

  void walk_for(const Stmt& s, const For& loop) {
    const StatementAccesses& all = summary(s);
    bool whole = !all.writes() || (!all.meets && !meets_itself(all));
    if (whole || varying.separates(s)) return apart(s, all);
    StatementAccesses bounds = summary(loop.min);  // read once, before the loop
    bounds.now.add(summary(loop.extent).now, warp);
    unit(s, bounds);
    auto extent = as_int(loop.extent);
    walk_loop(loop.body, {}, extent && *extent > 0);
  }

  void walk_while(const Stmt& s, const While& loop) {
    if (varying.separates(s)) return apart(s, summary(s));
    StatementAccesses head = summary(loop.cond);
    unit(s, head);
    walk_loop(loop.body, head.now, false);
  }

  // Threads run it at different times, or it needs no barrier inside.
  void apart(const Stmt& s, const StatementAccesses& all) {
    unit(s, all, varying.separates(s));
    if (!varying.returns(s).empty()) gone = s->span;
  }

  void walk_if(const Stmt& s, const If& n) {
    if (varying.separates(s)) {
      apart(s, summary(s));
      visit(s, [&](const Call& c) {
        if (c.callee == &thread_return) gone = s->span;
      });
      return;
    }
    StatementAccesses head = summary(n.cond);
    unit(s, head);
    if (head.meets) pending = {};
    Accesses before = pending;
    walk(n.then_body);
    Accesses after = pending;
    pending = before;
    walk(n.else_body);
    pending.add(after, warp);
  }

  void jump(const Stmt& s, const Callee& callee) {
    if (&callee == &continue_loop && (meeting(f, kernel, pending, jumping.head, warp) != Meeting::none))
      need_barrier(barrier, s);
    if (&callee == &break_loop) jumping.breaks.add(pending, warp);
    if (&callee == &continue_loop) jumping.continues.add(pending, warp);
    pending = {};  // nothing comes here
  }

  void walk(const Stmt& s) {
    if (s) dispatch(s, [&](const auto& n) { node(s, n); });
  }
  void node(const Stmt&, const Block& n) {
    for (auto& inner : n.stmts) walk(inner);
  }
  void node(const Stmt& s, const For& n) { walk_for(s, n); }
  void node(const Stmt& s, const While& n) { walk_while(s, n); }
  void node(const Stmt& s, const If& n) { walk_if(s, n); }
  void node(const Stmt& s, const Group&) { leaf(s); }
  void node(const Stmt& s, const Store&) { leaf(s); }
  void node(const Stmt& s, const Let&) { leaf(s); }
  void node(const Stmt&, const Alloc&) {}
  void node(const Stmt&, const Tile&) { internal_error("a tile operator at level machine"); }
  void node(const Stmt& s, const Eval&) {
    if (const Callee* c = control_of(s))
      jump(s, *c);
    else
      leaf(s);
  }
  void leaf(const Stmt& s) {
    const StatementAccesses& a = summary(s);
    unit(s, a);
    if (a.meets) pending = {.reads = {}, .writes = a.now.writes};
  }

  Stmt run() {
    varying.vars.emplace(kernel.thread.get(), "the thread index");
    varying.find(kernel.body);
    find_exchanged();
    visit(kernel.body, [&](const For& l) { footprints.enter(l); }, [&](const Let& l) { footprints.bind(l); });
    walk(kernel.body);
    return place(kernel.body);
  }

  void find_exchanged() {
    std::map<BufferId, Span> touched;  // where first; a loop over tiles and its tail are one place
    visit(kernel.body, [&](const Load& l) { touched.emplace(l.buffer, Span()); });
    visit(kernel.body, [&](const Store& s) {
      if (f[s.buffer].scope == Scope::global && touched.emplace(s.buffer, s.span).first->second != s.span)
        exchanged.insert(s.buffer);
    });
  }

  Stmt place(const Stmt& body) const {
    return splice(body, [&](const Stmt& original, const Stmt& walked) {
      auto sync = [&](const Callee& callee, std::vector<Expr> args) {
        return eval(call(callee, std::move(args)), original->span);
      };
      std::vector<Stmt> out;
      if (barrier.contains(original.get()))
        out.push_back(sync(sync_threads, {}));
      else if (warp_barrier.contains(original.get()))
        out.push_back(sync(*find_callee("sync_warp"), {imm(all_lanes, u32)}));
      out.push_back(walked);
      if (barrier_after.contains(original.get())) out.push_back(sync(sync_threads, {}));
      return out;
    });
  }
};

}  // namespace

Function insert_sync(Function f, const Target& target) {
  if (!target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    if (k.attrs.find("own_barriers"))
      f.notes.push_back({"insert_sync", k.name,
                         "barriers between accesses of the program's own buffers are left to it "
                         "(tl.disable_thread_storage_sync): "
                         "the simulator finds those that are missing",
                         k.span, true});
    if (thread_count(k) > 1) k.body = Inserter{.f = f, .kernel = k, .warp = target.warp}.run();
  }
  return f;
}

}  // namespace tl
