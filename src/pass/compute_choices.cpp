#include "pass/compute_choices.h"

#include "ir/rewrite.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct ComputingChoices : ScopedRewriter {
  const Function& f;
  const std::set<BufferId>& sums;
  std::vector<Stmt> computed = {};  // in front of the store

  ComputingChoices(const Function& f, const Kernel& k, const std::set<BufferId>& sums) : f(f), sums(sums) {
    enter(f, k);
  }

  static bool divides(const Binary& n) {
    return n.op == BinaryOp::div || n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod ||
           n.op == BinaryOp::truncdiv || n.op == BinaryOp::truncmod;
  }
  static bool is_costly(const Expr& e) {
    return contains(
        e, [](const Call&) { return true; },
        [](const Binary& n) { return n.dtype.is_float() && divides(n); });
  }
  // May it be computed where its condition does not hold?
  bool is_harmless(const Expr& e) const {
    return !contains(
        e, [](const Call& n) { return !n.intrinsic->computes(); },
        [](const Binary& n) { return !n.dtype.is_float() && divides(n); },
        [&](const Load& n) {
          bool in_registers = f[n.buffer].scope == Scope::fragment || f[n.buffer].scope == Scope::local;
          return !in_registers || n.mask || n.index.size() != 1 || !is_inside(f[n.buffer], n.index[0], facts);
        });
  }
  Expr arm(const Expr& e, Span span) {
    if (!is_costly(e) || !is_harmless(e)) return e;
    Expr value = var("value", e->dtype);
    Expr made = (*this)(e);
    computed.push_back(let(value, made, span));
    return value;
  }

  using ScopedRewriter::operator();
  Expr operator()(const Expr& e) override {
    auto* n = e.as<Select>();
    if (!n) return children(e);
    Expr condition = (*this)(n->cond);
    Expr a = arm(n->a, n->span), b = arm(n->b, n->span);
    return select(condition, a, b, n->span);
  }
  Stmt at(const Stmt& s) override {
    auto* n = s.as<Store>();
    if (!n) return s.as<Let>() || s.as<Eval>() ? s : children(s);
    if (!sums.contains(n->buffer) || n->mask) return s;
    Expr value = (*this)(n->value);
    if (computed.empty()) return s;
    std::vector<Stmt> out = std::exchange(computed, {});
    out.push_back(store(n->buffer, n->index, value, n->span));
    return block(std::move(out), n->span);
  }
};

}  // namespace

Stmt compute_choices(const Function& f, const Kernel& k, const std::set<BufferId>& sums) {
  return ComputingChoices(f, k, sums)(k.body);
}

}  // namespace tl
