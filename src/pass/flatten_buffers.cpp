// flatten_buffers: accesses to tensors get one index, in elements, from their strides or their annotated layout.  After
// guard_bounds, which needs the index of each dimension; before vectorize, which asks whether the one index is contiguous.
//
// Other shapes of a buffer (T.reshape, T.view) end here: one index in elements says the same of both.  Only an alias of
// another type in shared memory stays, as a buffer at the same address.
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

BufferId storage_of(const Function& f, BufferId b) {
  BufferId root = f[b].alias_of;
  return root && f[root].dtype == f[b].dtype ? root : b;
}

}  // namespace

Function flatten_buffers(Function f, const Target&) {
  for (Kernel& k : f.kernels)
    k.body = rewrite(
        k.body,
        [&](const Load& n, Rewriter& self) -> Expr {
          Expr inner = self.children(n);
          auto* l = inner.as<Load>();
          BufferId to = storage_of(f, l->buffer);
          if (f[n.buffer].scope != Scope::global)
            return to == l->buffer ? inner : load(l->dtype, to, l->index, l->span, l->mask);
          return load(l->dtype, to, flat(f[l->buffer], l->index), l->span, l->mask);
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          Stmt inner = self.children(n);
          auto* s = inner.as<Store>();
          BufferId to = storage_of(f, s->buffer);
          if (f[n.buffer].scope != Scope::global)
            return to == s->buffer ? inner : store(to, s->index, s->value, s->span, s->mask);
          return store(to, flat(f[s->buffer], s->index), s->value, s->span, s->mask);
        },
        [&](const Alloc& n, Rewriter& self) -> Stmt {
          return storage_of(f, n.buffer) == n.buffer ? self.children(n) : block({}, n.span);
        });
  for (size_t i = 0; i < f.buffers.size(); i++)  // nothing names them any more
    if (BufferId b{int(i)}; storage_of(f, b) != b) f[b].alias_of = {};
  return f;
}

}  // namespace tl
