// unroll: expands unrolled loops, for targets whose device compiler is not asked to.  Last, so that every
// pass before it sees the short form.
//
//   for i in unrolled(2):   ->   acc[0] = 0.0
//     acc[i] = 0.0               acc[1] = 0.0
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {

Function unroll(Function f, const Target& target) {
  if (!target.unroll) return f;
  for (Kernel& k : f.kernels)
    k.body = rewrite(k.body, [&](const For& n, Rewriter& self) -> Stmt {
      auto extent = as_int(n.extent), min = as_int(n.min);
      if (n.loop != Loop::unrolled || !extent || !min) return self.children(n);
      Stmt body = self(n.body);
      if (jumps(n.body))  // a break leaves a loop: it must stay one
        return for_loop(n.var, n.min, n.extent, Loop::serial, body, n.span, n.attrs);
      int64_t factor = n.attrs.get_int("unroll_factor", *extent);
      if (factor < *extent) {  // that many copies in each turn of a loop
        if (*extent % factor) return for_loop(n.var, n.min, n.extent, Loop::serial, body, n.span, n.attrs);
        std::vector<Stmt> copies;
        Expr turn = var(n.var.as<Var>()->hint, n.var->dtype);
        for (int64_t i = 0; i < factor; i++)
          copies.push_back(substitute(body, {{n.var.get(), turn * factor + (*min + i)}}));
        return for_loop(turn, *extent / factor, Loop::serial, block(std::move(copies), n.span), n.span);
      }
      std::vector<Stmt> copies;
      for (int64_t i = 0; i < *extent; i++)
        copies.push_back(substitute(body, {{n.var.get(), imm(*min + i, n.var->dtype)}}));
      return block(std::move(copies), n.span);
    });
  return f;
}

}  // namespace tl
