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

bool meet(const std::set<BufferId>& a, const std::set<BufferId>& b) {
  for (BufferId x : a)
    if (b.contains(x)) return true;
  return false;
}

// Must the later accesses wait for the earlier ones?
bool conflict(const Accesses& before, const Accesses& after) {
  return meet(before.writes, after.reads) || meet(before.reads, after.writes) || meet(before.writes, after.writes);
}

struct Inserter {
  const Function& f;
  const Kernel& kernel;
  std::map<const StmtNode*, bool> barrier = {};   // before which statements
  std::set<const ExprNode*> varying = {};         // variables that differ among threads
  Accesses pending = {};                          // since the last barrier

  bool shared(BufferId b) const { return f[b].scope == Scope::shared; }

  bool varies(const Expr& e) const {
    bool found = false;
    visit_nodes(e, [&](const Node& n) {
      found |= varying.contains(static_cast<const ExprNode*>(&n)) && n.kind == Kind::Var;
      found |= n.kind == Kind::Load;              // data may differ; only its place is known here
      found |= n.kind == Kind::Call && static_cast<const Call&>(n).callee->effect == Callee::Effect::warp;
    });
    return found;
  }

  void through_handles(const Call& c, Accesses& out) const {
    if (c.callee->effect != Callee::Effect::memory) return;
    for (size_t i = 0; i < c.args.size() && i < c.callee->access.size(); i++) {
      auto* a = c.args[i].as<Call>();
      if (!a || a->callee != &address_of) continue;
      BufferId b = a->args[0].as<Load>()->buffer;
      if (!shared(b)) continue;
      if (c.callee->access[i] != 'w') out.reads.insert(b);
      if (c.callee->access[i] != 'r') out.writes.insert(b);
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
    if (conflict(pending, a)) {
      barrier[s.get()] = true;
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
    walk(kernel.body);
    return place(kernel.body);
  }

  Stmt place(const Stmt& s) {
    struct Placer final : Rewriter {
      const std::map<const StmtNode*, bool>& barrier;
      explicit Placer(const std::map<const StmtNode*, bool>& b) : barrier(b) {}
      using Rewriter::operator();
      Stmt operator()(const Stmt& s) override {
        Stmt out = children(s);
        return barrier.contains(s.get()) ? block({eval(call(sync_threads, {}), s->span), out}, s->span) : out;
      }
    };
    return Placer(barrier)(s);
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
