// insert_sync: a barrier before each statement that touches shared memory which another thread may have written,
// or writes what another may still read.  After plan_memory, because two buffers conflict where they overlap.
//
// A statement that threads may leave at different times (a condition on the thread), one parallel loop's lowered
// form, and a loop that only reads count as a whole: the barrier goes before them, never inside.  Other loops are
// walked twice, so that the last iteration's accesses meet the next one's first.
//
//   As[…] = A[…]                  ->   As[…] = A[…]
//   ldmatrix_x4(&regs, &As[…])         sync_threads()
//                                      ldmatrix_x4(&regs, &As[…])
#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {
namespace {

struct Accesses {
  std::set<BufferId> reads, writes;
  bool empty() const { return reads.empty() && writes.empty(); }
  void add(const Accesses& o) {
    reads.insert(o.reads.begin(), o.reads.end());
    writes.insert(o.writes.begin(), o.writes.end());
  }
};

// Do two buffers share memory?
bool overlap(const Function& f, BufferId a, BufferId b) {
  const BufferInfo &x = f[a], &y = f[b];
  auto bytes = [](const BufferInfo& i) { return i.elements * i.versions * i.dtype.bytes(); };
  return a == b || (x.address < y.address + bytes(y) && y.address < x.address + bytes(x));
}

bool meet(const Function& f, const std::set<BufferId>& a, const std::set<BufferId>& b) {
  for (BufferId x : a)
    for (BufferId y : b)
      if (overlap(f, x, y)) return true;
  return false;
}

// Must the later accesses wait for the earlier ones?
bool conflict(const Function& f, const Accesses& before, const Accesses& after) {
  return meet(f, before.writes, after.reads) || meet(f, before.reads, after.writes) || meet(f, before.writes, after.writes);
}

struct Inserter {
  const Function& f;
  const Kernel& kernel;
  std::set<const StmtNode*> barrier = {};         // before which statements
  std::set<const StmtNode*> barrier_after = {};
  std::set<const ExprNode*> varying = {};         // variables that differ among threads
  std::set<BufferId> varying_buffers = {};        // registers whose content does
  Accesses pending = {};                          // since the last barrier

  bool shared(BufferId b) const { return f[b].scope == Scope::shared; }

  // What every thread reads at one place of memory is the same for all; registers are as what was stored to them.
  bool varies(const Expr& e) const {
    bool found = false;
    visit_nodes(e, [&](const Node& n) {
      found |= n.kind == Kind::Var && varying.contains(static_cast<const ExprNode*>(&n));
      if (n.kind == Kind::Load) found |= varying_buffers.contains(static_cast<const Load&>(n).buffer);
      if (n.kind != Kind::Call) return;
      auto& c = static_cast<const Call&>(n);
      bool own = c.callee->effect == Callee::Effect::memory && c.dtype != none_type;  // an old value, a foreign one
      found |= own || c.callee->effect == Callee::Effect::warp || is_foreign(*c.callee);
    });
    return found;
  }

  bool in_registers(BufferId b) const { return f[b].scope == Scope::local || f[b].scope == Scope::fragment; }

  void mark_written(const Call& c) {
    if (c.callee->effect != Callee::Effect::memory) return;
    for (size_t i = 0; i < c.args.size(); i++)
      if (auto* at = place_of(c.args[i]); at && access_of(c, i) != 'r' && in_registers(at->buffer))
        varying_buffers.insert(at->buffer);
  }

  // Finds the registers that differ among threads; once more until nothing is new.
  void mark_varying(const Stmt& s, bool control) {
    if (!s) return;
    if (auto* l = s.as<Let>()) {
      if (varies(l->value)) varying.insert(l->var.get());
    } else if (auto* st = s.as<Store>(); st && in_registers(st->buffer)) {
      bool same = !control && !varies(st->value) && !varies(st->index[0]) && !(st->mask && varies(st->mask));
      if (!same) varying_buffers.insert(st->buffer);
    } else if (auto* e = s.as<Eval>()) {
      visit(e->value, [&](const Call& c) { mark_written(c); });
    } else if (auto* b = s.as<Block>()) {
      for (auto& inner : b->stmts) mark_varying(inner, control);
    } else if (auto* loop = s.as<For>()) {
      bool inside = varies(loop->extent);
      if (inside) varying.insert(loop->var.get());
      mark_varying(loop->body, control || inside);
    } else if (auto* w = s.as<While>()) {
      mark_varying(w->body, control || varies(w->cond));
    } else if (auto* i = s.as<If>()) {
      bool inside = control || varies(i->cond);
      mark_varying(i->then_body, inside);
      mark_varying(i->else_body, inside);
    } else if (auto* g = s.as<Group>()) {
      mark_varying(g->body, control);
    }
  }

  void through_handles(const Call& c, Accesses& out) const {
    if (c.callee->effect != Callee::Effect::memory) return;
    for (size_t i = 0; i < c.args.size(); i++) {
      auto* at = place_of(c.args[i]);
      if (!at || !shared(at->buffer)) continue;
      if (access_of(c, i) != 'w') out.reads.insert(at->buffer);
      if (access_of(c, i) != 'r') out.writes.insert(at->buffer);
    }
  }

  template <class R>
  Accesses accesses(const R& r) const {
    Accesses out;
    if (!r) return out;
    std::set<const Node*> places;                 // loads that only name a place
    visit(r,
          [&](const Call& c) {
            if (c.callee == &address_of) places.insert(c.args[0].get());
            through_handles(c, out);
          },
          [&](const Load& l) { if (shared(l.buffer) && !places.contains(&l)) out.reads.insert(l.buffer); },
          [&](const Store& s) { if (shared(s.buffer)) out.writes.insert(s.buffer); });
    return out;
  }

  void unit(const Stmt& s, const Accesses& a) {
    if (a.empty()) return;
    if (conflict(f, pending, a)) {
      barrier.insert(s.get());
      pending = {};
    }
    pending.add(a);
  }

  bool is_barrier(const Stmt& s) const {
    auto* e = s.as<Eval>();
    auto* c = e ? e->value.as<Call>() : nullptr;
    return c && c->callee == &sync_threads;
  }

  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* b = s.as<Block>()) {
      for (auto& inner : b->stmts) walk(inner);
    } else if (auto* l = s.as<Let>()) {
      if (varies(l->value)) varying.insert(l->var.get());
      unit(s, accesses(s));
    } else if (auto* loop = s.as<For>()) {
      Accesses all = accesses(s);
      if (all.writes.empty() || loop->attrs.get_int("independent") || varies(loop->extent)) {
        unit(s, all);
      } else {
        walk(loop->body);
        walk(loop->body);
      }
    } else if (auto* w = s.as<While>(); w && !varies(w->cond)) {
      unit(s, accesses(w->cond));
      for (int round = 0; round < 2; round++) {
        walk(w->body);
        if (!conflict(f, pending, accesses(w->cond))) continue;
        barrier_after.insert(w->body.get());
        pending = {};
      }
    } else if (auto* i = s.as<If>()) {
      if (varies(i->cond)) return unit(s, accesses(s));
      unit(s, accesses(i->cond));
      Accesses before = pending;
      walk(i->then_body);
      Accesses after = pending;
      pending = before;
      walk(i->else_body);
      pending.add(after);
    } else if (is_barrier(s)) {
      pending = {};
    } else {
      unit(s, accesses(s));
    }
  }

  Stmt run() {
    varying.insert(kernel.thread.get());
    for (size_t before = 0, first = 1; first || before != varying.size() + varying_buffers.size(); first = 0) {
      before = varying.size() + varying_buffers.size();
      mark_varying(kernel.body, false);
    }
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
          std::vector<Stmt> all;                 // spliced: the Let stays visible to what follows
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
        if (plan.barrier.contains(s.get())) out.push_back(eval(call(sync_threads, {}), s->span));
        out.push_back(s.as<Block>() ? inside(s) : children(s));
        if (plan.barrier_after.contains(s.get())) out.push_back(eval(call(sync_threads, {}), s->span));
      }
      Stmt inside(const Stmt& s) {                  // so that a Let stays visible to what follows it
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
  for (Kernel& k : f.kernels)
    if (thread_count(k) > 1) k.body = Inserter{.f = f, .kernel = k}.run();
  return f;
}

}  // namespace tl
