// peel_blocks: a loop nest whose accesses can leave their tensors only in the last blocks, or in the last
// iteration of a loop around it, is duplicated: one version for where it is wholly inside, and one for the
// rest. One comparison, the same for all threads of a block, chooses; adjacent nests share it, so that their
// loads are still in flight together.  Before guard_bounds, which finds nothing to guard in the first
// version.
//
//   for i in unrolled(4):              ->   if bx*512 + 511 < n:
//     C[bx*512 + i*128 + tx] = 0.0            for i in unrolled(4):  C[bx*512 + i*128 + tx] = 0.0
//                                           else:
//                                             for i in unrolled(4):  C[bx*512 + i*128 + tx] = 0.0
#include <set>

#include "arith/everywhere.h"
#include "arith/simplify.h"
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

using Vars = std::set<const ExprNode*>;

bool may_vary(const Expr& e, const Vars& varying) {
  return contains(
      e, [](const Load&) { return true; }, [](const Call&) { return true; },
      [&](const Var& n) { return varying.contains(&n); });
}

// Finds what must hold around one statement so that conditions hold everywhere in it.
struct Needs final : ScopedRewriter {
  const Function& f;
  Vars varying;  // variables bound inside, and those that differ among threads
  std::vector<Expr> found = {};
  bool plain = true;   // the statement is made of loops, conditions and stores only
  bool reads = false;  // tensors

  Needs(const Function& f, Vars varying) : f(f), varying(std::move(varying)) {}
  using ScopedRewriter::operator();

  bool same_for_all(const Expr& e) const { return !may_vary(e, varying); }

  void need(const Expr& bound) {
    if (auto* n = bound.as<Binary>(); n && n->op == BinaryOp::logical_and) {
      need(n->a);
      return need(n->b);
    }
    if (Expr e = everywhere(bound, facts, [&](const Expr& x) { return same_for_all(x); })) found.push_back(e);
  }

  void access(BufferId buffer, const std::vector<Expr>& index) {
    const BufferInfo& info = f[buffer];
    if (info.scope != Scope::global) return;
    for (size_t d = 0; d < index.size(); d++) {
      Expr i = index[d]->dtype == i64 ? index[d] : cast(i64, index[d]);
      for (Expr bound : {le(imm(0), i), lt(i, info.shape[d])}) need(simplify(bound, facts));
    }
  }

  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Load>()) {
      access(n->buffer, n->index);
      reads |= f[n->buffer].scope == Scope::global;
    }
    if (auto* n = e.as<Call>()) plain &= n->intrinsic->effect == Intrinsic::Effect::pure;
    auto* n = e.as<Select>();
    if (!n) return children(e);
    (*this)(n->cond);
    Facts outer = facts;
    facts.assume(n->cond);
    (*this)(n->a);
    facts = std::move(outer);
    (*this)(n->b);
    return e;
  }

  Stmt operator()(const Stmt& s) override {
    if (auto* n = s.as<For>()) varying.insert(n->var.get());
    if (auto* n = s.as<If>()) need(simplify(n->cond, facts));
    return ScopedRewriter::operator()(s);
  }

  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Store>()) access(n->buffer, n->index);
    plain &= s.as<Store>() || s.as<For>() || s.as<If>() || s.as<Block>();
    return children(s);
  }
};

struct Splitter final : ScopedRewriter {
  const Function& f;
  Vars varying;

  Splitter(const Function& f, const Kernel& k) : f(f) {
    if (k.thread) varying.insert(k.thread.get());
  }
  using ScopedRewriter::operator();

  bool varies(const Expr& e) const { return may_vary(e, varying); }

  // Neighbours that lie inside together.
  struct Run {
    std::vector<Stmt> stmts = {};
    Expr cond = {};  // null while none of them needs any
    Facts known = {};
    bool reads = false;  // tensors, every one of them
  };

  // Takes a nest that may lie outside its tensors, but need not.  Those that read tensors share a condition,
  // also with one that never lies outside, so that the loads of all are in flight together.
  bool extend(Run& run, const Stmt& s) const {
    auto* loop = s.as<For>();
    if (!loop || !loop->attrs.get_int("independent")) return false;
    Needs inside(f, varying);
    inside.facts = facts;
    inside(s);
    if (!inside.plain || (inside.found.empty() && !inside.reads)) return false;
    if (!run.stmts.empty() && !(run.reads && inside.reads)) return false;
    Facts known = run.stmts.empty() ? facts : run.known;
    Expr cond = run.cond;
    for (auto& e : inside.found) {
      Expr more = simplify(e, known);
      if (is_int(more, 0)) return false;
      if (is_int(more, 1)) continue;
      cond = both(cond, more);
      known.assume(more);
    }
    run.reads = inside.reads;
    run.cond = cond;
    run.known = std::move(known);
    run.stmts.push_back(s);
    return true;
  }

  static void finish(Run& run, std::vector<Stmt>& out) {
    Span at = run.cond ? run.stmts[0]->span : Span();
    Stmt rest = block(run.stmts, at);
    if (run.cond)
      out.push_back(if_then(run.cond, renamed(rest), rest, at));
    else
      out.insert(out.end(), run.stmts.begin(), run.stmts.end());
    run = {};
  }

  Stmt at(const Stmt& s) override {
    auto* b = s.as<Block>();
    std::vector<Stmt> stmts = b ? b->stmts : std::vector<Stmt>{s}, out;
    Run run;
    for (auto& inner : stmts) {
      bool first = run.stmts.empty();
      if (extend(run, inner)) continue;
      finish(run, out);
      if (!first && extend(run, inner)) continue;
      out.push_back(b ? (*this)(inner) : walk(inner));
    }
    finish(run, out);
    return b ? block(std::move(out), s->span) : out[0];
  }

  Stmt walk(const Stmt& s) {
    if (auto* n = s.as<Let>(); n && varies(n->value)) varying.insert(n->var.get());
    if (auto* n = s.as<For>(); n && (varies(n->extent) || varies(n->min))) varying.insert(n->var.get());
    return children(s);
  }
};

}  // namespace

Function peel_blocks(Function f, const Target&) {
  for (Kernel& k : f.kernels) {
    Splitter splitter(f, k);
    splitter.enter(f, k);
    k.body = splitter(k.body);
  }
  return f;
}

}  // namespace tl
