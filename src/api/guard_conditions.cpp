// (tile[i] > 0) & (i < 8)   ->   (i < 8) and (tile[i] > 0)
//
// Of two conditions joined by & that are true or false, both are computed. Where one reads a tile at an index
// that may lie outside of it, the other is taken for what keeps it inside: it comes first, and the element is
// read only if it holds.
#include "api/bounds.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct GuardsFirst final : ScopedRewriter {
  const Function& f;
  explicit GuardsFirst(const Function& f) : f(f) {}
  using ScopedRewriter::operator();

  bool may_leave(const Load& n) const {
    const BufferInfo& info = f[n.buffer];
    for (size_t d = 0; info.scope != Scope::global && d < n.index.size(); d++)
      if (!can_prove(both(le(imm(0), n.index[d]), lt(n.index[d], info.shape[d])), facts)) return true;
    return false;
  }

  Expr operator()(const Expr& e) override {
    Expr inner = children(e);
    auto* n = inner.as<Binary>();
    if (!n || n->op != BinaryOp::bit_and || !n->dtype.is_bool()) return inner;
    auto leaves = [&](const Expr& x) { return contains(x, [&](const Load& l) { return may_leave(l); }); };
    bool left = leaves(n->a), right = leaves(n->b);
    if (left == right) return inner;
    return left ? binary(BinaryOp::logical_and, n->b, n->a, n->span)
                : binary(BinaryOp::logical_and, n->a, n->b, n->span);
  }
};

}  // namespace

void guard_conditions(Function& f) {
  for (auto& k : f.kernels) {
    if (!contains(k.body, [](const Binary& b) { return b.op == BinaryOp::bit_and && b.dtype.is_bool(); }))
      continue;
    GuardsFirst guards(f);
    guards.enter(f, k);
    k.body = guards(k.body);
  }
}

}  // namespace tl
