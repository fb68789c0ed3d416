// flatten_buffers: accesses to tensors get one index, in elements, from their strides or their annotated layout.  After
// guard_bounds, which needs the index of each dimension; before vectorize, which asks whether the one index is contiguous.
//
//   A[i, k*32 + j]   ->   A[i*1024 + k*32 + j]
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {
namespace {

std::vector<Expr> flat(const BufferInfo& info, const std::vector<Expr>& index) {
  std::vector<Expr> wide;
  for (auto& i : index) wide.push_back(i->dtype == i64 ? i : cast(i64, i));
  return {tensor_offset(info, wide)};
}

}  // namespace

Function flatten_buffers(Function f, const Target&) {
  for (Kernel& k : f.kernels)
    k.body = rewrite(
        k.body,
        [&](const Load& n, Rewriter& self) -> Expr {
          Expr inner = self.children(n);
          if (f[n.buffer].scope != Scope::global) return inner;
          auto* l = inner.as<Load>();
          return load(l->dtype, l->buffer, flat(f[l->buffer], l->index), l->span, l->mask);
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          Stmt inner = self.children(n);
          if (f[n.buffer].scope != Scope::global) return inner;
          auto* s = inner.as<Store>();
          return store(s->buffer, flat(f[s->buffer], s->index), s->value, s->span, s->mask);
        });
  return f;
}

}  // namespace tl
