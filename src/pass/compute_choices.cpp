#include "pass/compute_choices.h"

#include <ranges>

#include "ir/rewrite.h"
#include "pass/walk.h"

namespace tl {
namespace {

bool divides(const Binary& n) {
  return n.op == BinaryOp::div || n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod ||
         n.op == BinaryOp::truncdiv || n.op == BinaryOp::truncmod;
}

bool is_costly(const Expr& e) {
  return contains(
      e, [](const Call&) { return true; }, [](const Binary& n) { return n.dtype.is_float() && divides(n); });
}

// One value: what its choices are between goes in front of it.
struct Choices : Rewriter {
  const Function& f;
  const Facts& facts;
  std::vector<Stmt> computed = {};
  std::vector<std::pair<Expr, bool>> around = {};  // conditions, and whether they hold
  bool moves = false;                              // is an arm around moved?
  Choices(const Function& f, const Facts& facts) : f(f), facts(facts) {}

  // May it be read where no condition holds?
  bool is_harmless(const Load& n) const {
    bool in_registers = f[n.buffer].scope == Scope::fragment || f[n.buffer].scope == Scope::local;
    return in_registers && !n.mask && n.index.size() == 1 && is_inside(f[n.buffer], n.index[0], facts);
  }
  // May it be computed there, apart from what it reads?
  static bool is_harmless(const Expr& e) {
    return !contains(
        e, [](const Call& n) { return !n.intrinsic->computes(); },
        [](const Binary& n) {
          auto* same = n.b.as<Broadcast>();
          return !n.dtype.is_float() && divides(n) && !as_int(same ? same->value : n.b);
        });
  }
  // What it reads, only under the conditions around it; else zeros, which nobody uses.
  Expr reading(const Load& n) {
    Expr value(&n), name = var("read", n.dtype), nothing = zero(n.dtype);
    for (auto& [condition, holds] : std::views::reverse(around))
      value = holds ? select(condition, value, nothing, n.span) : select(condition, nothing, value, n.span);
    computed.push_back(let(name, value, n.span));
    return name;
  }
  Expr arm(const Select& n, bool holds) {
    const Expr& e = holds ? n.a : n.b;
    bool outer = moves, goes = is_costly(e) && is_harmless(e);
    moves |= goes;
    around.emplace_back(n.cond, holds);
    Expr made = (*this)(e);
    around.pop_back();
    moves = outer;
    if (!goes) return made;
    Expr value = var("value", e->dtype);
    computed.push_back(let(value, made, e->span));
    return value;
  }
  using Rewriter::operator();
  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Load>()) return moves && !is_harmless(*n) ? reading(*n) : e;
    auto* n = e.as<Select>();
    if (!n) return children(e);
    Expr condition = (*this)(n->cond), a = arm(*n, true);
    return select(condition, a, arm(*n, false), n->span);
  }
};

struct ChoicesOfKernel : ScopedRewriter {
  const Function& f;
  const std::set<BufferId>& sums;
  ChoicesOfKernel(const Function& f, const Kernel& k, const std::set<BufferId>& sums) : f(f), sums(sums) {
    enter(f, k);
  }
  using ScopedRewriter::operator();
  Stmt at(const Stmt& s) override {
    auto* n = s.as<Store>();
    if (!n || !sums.contains(n->buffer)) return children(s);
    Choices choices(f, facts);
    Expr value = choices(n->value);
    if (choices.computed.empty()) return s;
    choices.computed.push_back(store(n->buffer, n->index, value, n->span, n->mask, n->claim));
    return block(std::move(choices.computed), n->span);
  }
};

}  // namespace

Stmt compute_choices(const Function& f, const Kernel& k, const std::set<BufferId>& sums) {
  return ChoicesOfKernel(f, k, sums)(k.body);
}

}  // namespace tl
