// canonicalize: one form for what the fronts may write in several.  First, so that no later pass sees a loop that
// does not count from 0, a parallel loop whose extent is known only at run time, or a thread index that is not an
// expression of Kernel::thread.
//
//   for i in serial(2, 8):            for i in serial(0, 8):
//     A[i] = thread_index(1)            A[i + 2] = tx // 32 % 4        with threads(32, 4)
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/parallel.h"
#include "pass/passes.h"

namespace tl {
namespace {

Expr thread_coordinate(const Kernel& k, int64_t dim) {
  int64_t below = 1;
  for (int64_t d = 0; d < dim && d < int64_t(k.threads.size()); d++) below *= k.threads[size_t(d)];
  if (dim >= int64_t(k.threads.size())) return imm(0);
  Expr e = floordiv(k.thread, below);
  return dim + 1 == int64_t(k.threads.size()) ? e : floormod(e, k.threads[size_t(dim)]);
}

Stmt body_of(const Kernel& k, const Target& target) {
  return rewrite(
      k.body,
      [&](const For& n, Rewriter& self) -> Stmt {
        if (is_int(n.min, 0)) return self.children(n);
        Stmt body = substitute(n.body, {{n.var.get(), binary(BinaryOp::add, n.var, n.min)}});
        return for_loop(n.var, zero(n.var->dtype), self(n.extent), n.loop, self(body), n.span, n.attrs);
      },
      [&](const Call& n, Rewriter& self) -> Expr {
        using Effect = Callee::Effect;
        Effect effect = n.callee->effect;
        bool thread_level = effect == Effect::thread || effect == Effect::warp || effect == Effect::barrier;
        if (thread_level && !target.has_threads())
          fail(n.span, "{} is thread-level code, but {} runs one thread per block: run it on a GPU target, or write it "
                       "with tile operators and T.Parallel", n.callee->name, target.name);
        if (n.callee == &elected)  // one thread says or does it for its block
          return target.has_threads() ? eq(k.thread, cast(i64, n.args[0])) : imm(1, boolean);
        if (n.callee == &random_sequence) {
          if (!target.has_threads()) return self(n.args[0]);
          return binary(BinaryOp::add, binary(BinaryOp::mul, self(n.args[0]), imm(thread_count(k), u64)),
                        cast(u64, k.thread));
        }
        if (n.callee != &thread_index) return self.children(n);
        auto dim = as_int(n.args[0]);
        if (!dim || *dim < 0 || *dim > 2) fail(n.span, "thread_index takes a constant dimension: 0, 1 or 2");
        return thread_coordinate(k, *dim);
      });
}

}  // namespace

Function canonicalize(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    if (k.threads.empty()) k.threads = {target.default_threads};
    if (!target.has_threads()) k.threads = {1};
    if (thread_count(k) > target.max_threads)
      fail(k.span, "{} threads per block, but {} allows {}", thread_count(k), target.name, target.max_threads);
    if (!k.thread) k.thread = var("tx");
    k.body = rewrite(body_of(k, target), [&](const For& n, Rewriter& self) -> Stmt {
      if (n.loop != Loop::parallel) return self.children(n);
      return with_constant_extents(f, n, thread_count(k));
    });
  }
  return f;
}

}  // namespace tl
