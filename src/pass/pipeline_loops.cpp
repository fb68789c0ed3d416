// pipeline_loops: a pipelined loop becomes a serial one, and explain() says so: overlapping its copies with
// its arithmetic is left to a later version. Before layouts, which need the final order of statements.
//
//   for k in pipelined(0, 32) {num_stages=3}:   ->   for k in serial(0, 32):
#include "base/error.h"
#include "ir/rewrite.h"
#include "pass/passes.h"

namespace tl {

Function pipeline_loops(Function f, const Target&) {
  for (Kernel& k : f.kernels)
    k.body = rewrite(k.body, [&](const For& n, Rewriter& self) -> Stmt {
      if (n.loop != Loop::pipelined) return self.children(n);
      int64_t stages = n.attrs.get_int("num_stages");
      if (stages > 1)
        f.notes.push_back(
            {.pass = "pipeline_loops",
             .subject = "loop " + n.var.as<Var>()->hint,
             .text = fmt::format("runs serially: num_stages={} has no effect in this version", stages),
             .span = n.span,
             .refusal = true});
      return for_loop(n.var, n.min, n.extent, Loop::serial, self(n.body), n.span);
    });
  return f;
}

}  // namespace tl
