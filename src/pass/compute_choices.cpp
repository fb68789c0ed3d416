#include "pass/compute_choices.h"

#include <algorithm>
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

// The same, computed in each of so many lanes.
Expr widened(const Expr& e, int lanes) {
  auto wide = [&](const Expr& x) { return widened(x, lanes); };
  if (auto* n = e.as<Unary>()) return unary(n->op, wide(n->a), n->span);
  if (auto* n = e.as<Binary>()) return binary(n->op, wide(n->a), wide(n->b), n->span);
  if (auto* n = e.as<Cast>()) return cast(n->dtype.with_lanes(lanes), wide(n->a), n->span);
  if (auto* n = e.as<Select>()) return select(wide(n->cond), wide(n->a), wide(n->b), n->span);
  auto* n = e.as<Call>();
  if (!n) return broadcast(e, lanes, e->span);
  std::vector<Expr> args;
  for (auto& a : n->args) args.push_back(wide(a));
  return call(*n->intrinsic, std::move(args), n->dtype.with_lanes(lanes), n->span);
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
  bool reads(const Expr& e) const {
    return contains(e, [&](const Load& n) { return !is_harmless(n); });
  }
  // What it reads, only under the conditions around it; else zeros, which nobody uses.
  Expr reading(const Expr& read) {
    Expr value = read, name = var("read", read->dtype), nothing = zero(read->dtype);
    for (auto& [condition, holds] : std::views::reverse(around))
      value = holds ? select(condition, value, nothing, read->span)
                    : select(condition, nothing, value, read->span);
    computed.push_back(let(name, value, read->span));
    return name;
  }
  // One value for all lanes, of which each has a condition of its own: each reads it for itself.
  bool is_for_lanes(const Broadcast& n) const {
    return reads(n.value) && std::ranges::any_of(around, [](auto& a) { return a.first->dtype.lanes > 1; });
  }
  Expr arm(const Select& n, bool holds) {
    const Expr& e = holds ? n.a : n.b;
    bool reads_for_ramp = contains(e, [&](const Ramp& r) { return reads(r.base) || reads(r.stride); });
    around.emplace_back(n.cond, holds);
    bool outer = moves, goes = is_costly(e) && is_harmless(e) && !reads_for_ramp;
    moves |= goes;
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
    if (auto* n = e.as<Load>()) return moves && !is_harmless(*n) ? reading(e) : e;
    if (auto* n = e.as<Broadcast>(); n && moves && is_for_lanes(*n))
      return n->value.as<Load>() ? reading(e) : (*this)(widened(n->value, n->dtype.lanes));
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
