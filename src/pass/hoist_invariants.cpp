// hoist_invariants: what a loop reads from tiles that it does not change, and what it computes from that
// alone, is computed before it.  For CPUs, whose device compiler sees one arena instead of many tiles, and so
// must assume that every store may change every tile; compilers for GPUs decide this themselves. After the
// index passes, which need an access in its own loop, and before plan_memory lets tiles share memory.
//
//   for r in serial(64):                                    scale = broadcast(rsqrt(variance[0]), 16)
//     x[r*16 : ramp 16] =                              ->   for r in serial(64):
//         x[r*16 : ramp 16] * broadcast(rsqrt(variance[0]))   x[r*16 : ramp 16] = x[r*16 : ramp 16] * scale
#include <algorithm>

#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

bool is_value(const Call& n) {
  return n.intrinsic->effect == Intrinsic::Effect::pure && n.intrinsic != &address_of;
}

// Takes out of one loop's body what may stand before the loop.
struct Mover : Rewriter {
  const Function& f;
  const Facts& facts;
  std::set<const ExprNode*> defined = {};  // variables of the loop and inside it
  std::set<BufferId> stored = {};          // storage: a view of another type is the same memory
  bool writes_tensors = false, finds_any = false;
  std::vector<Stmt> before = {};
  VarMap moved = {};             // names of the body whose values stand before it now
  std::vector<Stmt> names = {};  // kept, so that what `moved` refers to lives

  Mover(const Function& function, const Facts& known, const For& loop) : f(function), facts(known) {
    bool is_opaque = false;
    std::vector<const Load*> loads;
    defined.insert(loop.var.get());
    visit(
        loop.body, [&](const For& n) { defined.insert(n.var.get()); },
        [&](const Let& n) { defined.insert(n.var.get()); },
        [&](const Store& n) { stored.insert(f.storage(n.buffer)); },
        [&](const Load& n) { loads.push_back(&n); },
        [&](const Call& n) { is_opaque |= n.intrinsic->effect != Intrinsic::Effect::pure; });
    for (BufferId b : stored) writes_tensors |= f[b].scope == Scope::global;
    finds_any = !is_opaque && std::ranges::any_of(loads, [&](const Load* n) {
      return !stored.contains(f.storage(n->buffer)) && is_movable(Expr(n));
    });
  }

  // Is it the same in all iterations, and harmless where there are none?  Only what reads memory is worth a
  // name.
  bool is_movable(const Expr& e) const {
    bool reads = false, fixed = true;
    visit(
        e, [&](const Var& v) { fixed &= !defined.contains(&v); },
        [&](const Load& n) {
          bool global = f[n.buffer].scope == Scope::global;
          reads = true;
          fixed &= !stored.contains(f.storage(n.buffer)) && !(global && writes_tensors);
          fixed &= n.index.size() == 1 && !n.mask && is_inside(f[n.buffer], n.index[0], facts);
        },
        [&](const Call& n) { fixed &= is_value(n); },
        [&](const Binary& n) { fixed &= !is_division(n.op) || as_int(n.b).value_or(0) != 0; });
    return reads && fixed;
  }

  Expr name_of(const Expr& value) {
    for (auto& s : before)
      if (equal(s.as<Let>()->value, value)) return s.as<Let>()->var;
    Expr name = var("fixed", value->dtype);
    before.push_back(let(name, value));
    return name;
  }

  using Rewriter::operator();
  Expr operator()(const Expr& e) override {
    if (auto it = moved.find(e.get()); it != moved.end()) return it->second;
    if (auto* n = e.as<Call>(); n && !is_value(*n)) return e;
    return is_movable(e) ? name_of(substitute(e, moved)) : children(e);
  }
  Stmt operator()(const Stmt& s) override {
    Stmt out = children(s);
    auto* n = s.as<Let>();
    if (!n || !is_movable(n->value)) return out;
    moved.emplace(n->var.get(), out.as<Let>()->value);
    defined.erase(n->var.get());
    names.push_back(s);
    return block({});
  }
};

struct Hoister final : ScopedRewriter {
  const Function& f;
  explicit Hoister(const Function& function) : f(function) {}

  Stmt at(const Stmt& s) override {
    Stmt out = children(s);
    auto* loop = out.as<For>();
    if (!loop) return out;
    Mover mover(f, facts, *loop);
    if (!mover.finds_any) return out;
    Stmt body = mover(loop->body);
    if (mover.before.empty()) return out;
    std::vector<Stmt> all = std::move(mover.before);
    all.push_back(for_loop(loop->var, loop->min, loop->extent, loop->loop, body, loop->span, loop->attrs));
    return block(std::move(all), loop->span);
  }
};

}  // namespace

Function hoist_invariants(Function f, const Target& target) {
  if (target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    Hoister hoister(f);
    hoister.enter(f, k);
    k.body = hoister(k.body);
  }
  return f;
}

}  // namespace tl
