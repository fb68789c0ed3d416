// guard_bounds: masks accesses to tensors that may fall outside them: a load then gives 0 (or the tensor's safe value), a
// store is dropped.
// Here, while tensors still have one index per dimension to compare with their extents.
//
//   C[by*128 + i, j] = Cl[r]   ->   C[by*128 + i, j] = Cl[r] mask(by*128 + i < 1000)
#include "pass/passes.h"
#include "pass/scoped.h"

namespace tl {
namespace {

struct Guard final : ScopedRewriter {
  const Function& f;
  explicit Guard(const Function& f) : f(f) {}
  using ScopedRewriter::operator();

  Expr mask_of(BufferId buffer, const std::vector<Expr>& index, Expr mask) {
    const BufferInfo& info = f[buffer];
    if (info.scope != Scope::global) return mask;
    for (size_t d = 0; d < index.size(); d++) {
      Expr i = index[d]->dtype == i64 ? index[d] : cast(i64, index[d]);
      for (Expr bound : {le(imm(0), i), lt(i, info.shape[d])})
        if (Expr c = simplify(bound, facts); !is_int(c, 1)) mask = both(mask, c);
    }
    return mask;
  }

  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Load>()) {
      Expr inner = children(e);
      n = inner.as<Load>();
      Expr mask = mask_of(n->buffer, n->index, n->mask);
      if (mask.same(n->mask)) return inner;
      Expr guarded = load(n->dtype, n->buffer, n->index, n->span, mask);
      double safe = f[n->buffer].safe_value;
      if (safe == 0) return guarded;
      Expr otherwise = n->dtype.is_float() ? fimm(safe, n->dtype) : imm(int64_t(safe), n->dtype);
      return select(mask_of(n->buffer, n->index, {}), guarded, otherwise, n->span);
    }
    if (auto* n = e.as<Select>()) {       // an arm that is not taken is not loaded
      Expr cond = (*this)(n->cond);
      Facts outer = facts;
      facts.assume(cond);
      Expr a = (*this)(n->a);
      facts = std::move(outer);
      return select(cond, a, (*this)(n->b), n->span);
    }
    return children(e);
  }

  Stmt at(const Stmt& s) override {
    Stmt inner = children(s);
    auto* n = inner.as<Store>();
    if (!n) return inner;
    Expr mask = mask_of(n->buffer, n->index, n->mask);
    return mask.same(n->mask) ? inner : store(n->buffer, n->index, n->value, n->span, mask);
  }
};

}  // namespace

Function guard_bounds(Function f, const Target&) {
  for (Kernel& k : f.kernels) {
    Guard guard(f);
    guard.facts = facts_of(f, k);
    k.body = guard(k.body);
  }
  return f;
}

}  // namespace tl
