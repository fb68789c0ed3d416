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
#include "pass/varying.h"

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
  // Of the innermost loop: what was pending where it is left or continued, and what its condition reads.
  struct Jumps {
    Accesses breaks = {}, continues = {}, head = {};
  } jumping = {};
  Span gone = {};  // the statement by which some threads have returned

  bool shared(BufferId b) const { return f[b].scope == Scope::shared; }

  // What a statement or an expression does, gathered with the conditions around each access.
  struct Gatherer {
    const Inserter& in;
    Accesses out = {};
    Footprints::Conditions conditions = {};
    bool tiles = !in.kernel.attrs.get_int("thread_level");  // or within a loop over a tile

    void touch(bool writes, BufferId b, const std::vector<Expr>& index, const Expr& mask) {
      if (!in.shared(b) && !(tiles && in.exchanged.contains(b))) return;
      if (mask) conditions.emplace_back(mask, true);
      Accesses::add(writes ? out.writes : out.reads, b, in.footprints.of(b, index, conditions), in.warp);
      if (mask) conditions.pop_back();
    }
    // Through a handle an instruction reaches as far as it likes, on behalf of any thread of its warp.
    void through_handles(const Call& c) {
      if (c.callee->effect != Callee::Effect::memory) return;
      for (size_t i = 0; i < c.args.size(); i++) {
        auto* at = place_of(c.args[i]);
        if (!at || !in.shared(at->buffer)) continue;
        if (access_of(c, i) != 'w') Accesses::add(out.reads, at->buffer, {}, in.warp);
        if (access_of(c, i) != 'r') Accesses::add(out.writes, at->buffer, {}, in.warp);
      }
    }
    void expression(const Expr& e) {
      if (!e) return;
      std::set<const Node*> places;  // loads that only name a place
      visit(
          e,
          [&](const Call& c) {
            if (c.callee == &address_of) places.insert(c.args[0].get());
            through_handles(c);
          },
          [&](const Load& l) {
            if (!places.contains(&l)) touch(false, l.buffer, l.index, l.mask);
          });
    }
    void under(const Expr& condition, bool holds, const Stmt& s) {
      conditions.emplace_back(condition, holds);
      statement(s);
      conditions.pop_back();
    }
    void statement(const Stmt& s) {
      if (!s) return;
      if (auto* b = s.as<Block>()) {
        for (auto& inner : b->stmts) statement(inner);
      } else if (auto* loop = s.as<For>()) {
        expression(loop->min), expression(loop->extent);
        bool outer = std::exchange(tiles, tiles || loop->attrs.get_int("independent"));
        statement(loop->body);
        tiles = outer;
      } else if (auto* i = s.as<If>()) {
        expression(i->cond);
        under(i->cond, true, i->then_body);
        under(i->cond, false, i->else_body);
      } else if (auto* w = s.as<While>()) {
        expression(w->cond);
        statement(w->body);
      } else if (auto* g = s.as<Group>()) {
        statement(g->body);
      } else if (auto* st = s.as<Store>()) {
        for (auto& e : st->index) expression(e);
        expression(st->mask);
        if (st->mask) conditions.emplace_back(st->mask, true);  // its value is asked for there alone
        expression(st->value);
        if (st->mask) conditions.pop_back();
        touch(true, st->buffer, st->index, st->mask);
      } else if (auto* let = s.as<Let>()) {
        expression(let->value);
      } else if (auto* e = s.as<Eval>()) {
        expression(e->value);
      }
    }
  };
  std::map<const Node*, Accesses> known = {};
  std::set<BufferId> exchanged = {};  // tensors that are written, and touched elsewhere too

  const Accesses& accesses(const Stmt& s) {
    auto [it, is_new] = known.emplace(s.get(), Accesses());
    if (is_new && s) {
      Gatherer g{.in = *this};
      g.statement(s);
      it->second = std::move(g.out);
    }
    return it->second;
  }
  Accesses accesses(const Expr& e) const {
    Gatherer g{.in = *this};
    g.expression(e);
    return std::move(g.out);
  }

  void unit(const Stmt& s, const Accesses& a) {
    if (a.empty()) return;
    Meeting m = meeting(f, kernel, pending, a, warp);
    bool whole =
        thread_count(kernel) % warp == 0;  // else a warp's barrier would name threads that do not exist
    if (m == Meeting::in_block || (m == Meeting::in_warp && !whole)) need_barrier(barrier, s);
    if (m == Meeting::in_warp && whole) warp_barrier.insert(s.get());
    pending.add(a, warp);
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

  // A barrier that the user wrote, as a statement or as a value in one.
  template <class R>
  static bool has_barrier(const R& r) {
    bool found = false;
    visit(r, [&](const Call& c) { found |= c.callee->effect == Callee::Effect::barrier; });
    return found;
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
    const Accesses& all = accesses(s);
    bool whole = all.writes.empty() ||
                 (!has_barrier(loop.body) && meeting(f, kernel, all, all, warp) == Meeting::none);
    if (whole || varying.separates(s)) return apart(s, all);
    Accesses bounds = accesses(loop.min);  // read once, before the loop
    bounds.add(accesses(loop.extent), warp);
    unit(s, bounds);
    auto extent = as_int(loop.extent);
    walk_loop(loop.body, {}, extent && *extent > 0);
  }

  void walk_while(const Stmt& s, const While& loop) {
    if (varying.separates(s)) return apart(s, accesses(s));
    unit(s, accesses(loop.cond));
    walk_loop(loop.body, accesses(loop.cond), false);
  }

  // Threads run it at different times, or it needs no barrier inside.
  void apart(const Stmt& s, const Accesses& all) {
    unit(s, all);
    if (!varying.returns(s).empty()) gone = s->span;
  }

  void walk_if(const Stmt& s, const If& n) {
    if (varying.separates(s)) {
      apart(s, accesses(s));
      visit(s, [&](const Call& c) {
        if (c.callee == &thread_return) gone = s->span;
      });
      return;
    }
    unit(s, accesses(n.cond));
    if (has_barrier(n.cond)) pending = {};
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
    if (!s) return;
    if (auto* b = s.as<Block>()) {
      for (auto& inner : b->stmts) walk(inner);
    } else if (auto* loop = s.as<For>()) {
      walk_for(s, *loop);
    } else if (auto* w = s.as<While>()) {
      walk_while(s, *w);
    } else if (auto* i = s.as<If>()) {
      walk_if(s, *i);
    } else if (const Callee* c = control_of(s)) {
      jump(s, *c);
    } else {
      const Accesses& a = accesses(s);
      unit(s, a);
      if (has_barrier(s)) pending = {.reads = {}, .writes = a.writes};
    }
  }

  Stmt run() {
    varying.vars.emplace(kernel.thread.get(), "the thread index");
    varying.find(kernel.body);
    std::map<BufferId, Span> touched;  // where first; a loop over tiles and its tail are one place
    visit(kernel.body, [&](const Load& l) { touched.emplace(l.buffer, Span()); });
    visit(kernel.body, [&](const Store& s) {
      if (f[s.buffer].scope == Scope::global && touched.emplace(s.buffer, s.span).first->second != s.span)
        exchanged.insert(s.buffer);
    });
    visit(kernel.body, [&](const For& l) { footprints.enter(l); }, [&](const Let& l) { footprints.bind(l); });
    walk(kernel.body);
    return place(kernel.body);
  }

  Stmt place(const Stmt& s) {
    struct Placer final : Rewriter {
      const Inserter& plan;
      explicit Placer(const Inserter& p) : plan(p) {}
      using Rewriter::operator();
      Stmt operator()(const Stmt& s) override {
        auto before = [&](const Stmt& x) { return x.as<Let>() && plan.barrier.contains(x.get()); };
        if (auto* b = s.as<Block>(); b && std::any_of(b->stmts.begin(), b->stmts.end(), before)) {
          std::vector<Stmt> all;  // spliced: the Let stays visible to what follows
          for (auto& inner : b->stmts) {
            if (before(inner)) all.push_back(eval(call(sync_threads, {}), inner->span));
            all.push_back(before(inner) ? children(inner) : (*this)(inner));
          }
          return block(std::move(all), b->span);
        }
        std::vector<Stmt> out;
        add(s, out);
        return out.size() == 1 ? out[0] : block(std::move(out), s->span);
      }
      void add(const Stmt& s, std::vector<Stmt>& out) {
        if (plan.barrier.contains(s.get()))
          out.push_back(eval(call(sync_threads, {}), s->span));
        else if (plan.warp_barrier.contains(s.get()))
          out.push_back(eval(call(*find_callee("sync_warp"), {imm(all_lanes, u32)}), s->span));
        out.push_back(s.as<Block>() ? inside(s) : children(s));
        if (plan.barrier_after.contains(s.get())) out.push_back(eval(call(sync_threads, {}), s->span));
      }
      Stmt inside(const Stmt& s) {  // so that a Let stays visible to what follows it
        std::vector<Stmt> out;
        for (auto& inner : s.as<Block>()->stmts) add(inner, out);
        return block(std::move(out), s->span);
      }
    };
    return Placer(*this)(s);
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
