// plan_schedule: what of a pipelined loop runs ahead of the rest, by which engine, and how many slots its
// tiles get.  Nothing moves: the plan stands in attributes of the loop and of the statements that run ahead,
// and in `slots` of their tiles; pipeline_loops carries it out.
//
// A statement may run ahead if it only moves elements of tensors that the loop does not write into a tile of
// its own: one that every iteration overwrites before it reads it, and that nobody reads after the loop.  A
// statement of stage s works on the iteration (stages - s) later than the one at hand.
//   engine "cp_async"   the copy is begun that early, and every slot but one is in flight
//   otherwise           what cp.async cannot move goes through registers: one statement loads a fragment, one
//                       iteration later another one stores it, cast if need be, into one of two slots
//   a fragment          is loaded for the next iteration as soon as nobody needs it in this one
// `order` says where in the iteration it stands: behind so many statements that do not run ahead.
//
//   As = shared f16[128, 32]                  ->  As = shared f16[128, 32] slots(3)
//   for k in pipelined(16) {num_stages=3}:        for k in pipelined(16) {num_stages=3, stages=2}:
//     copy(A[k*32:], As)                            copy(A[k*32:], As) {engine="cp_async", stage=0}
//     gemm(As, …)                                   gemm(As, …)
#include "pass/check_own_copies.h"
#include "pass/passes.h"
#include "pass/schedule.h"
#include "target/effects.h"

namespace tl {
namespace {

struct Scheduler {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  Team team = whole_block(kernel);
  std::set<BufferId> gone = {};  // fragments of a loop, in whose place come those of an operator's steps

  Stmt run(const Stmt& body) {
    return rewrite(
        body,
        [&](const Group& n, Rewriter& self) -> Stmt {
          Team outer = std::exchange(team, team_of(n));
          Stmt s = self.children(n);
          team = outer;
          return s;
        },
        [&](const For& n, Rewriter& self) -> Stmt {
          if (n.loop == Loop::parallel) return Stmt(&n);
          Stmt s = self.children(n);
          if (n.loop != Loop::pipelined) return s;
          LoopPlanner planner{.f = f, .kernel = kernel, .target = target, .loop_stmt = s, .team = team};
          s = planner.run();
          if (planner.stepped)
            for (auto& filler : planner.stepped->fillers) gone.insert(filler.tile);
          return s;
        });
  }
  Stmt without_gone(const Stmt& body) {
    visit_effects(body, [&](const Stmt& s, const Effect& e) {
      if (!s.as<Alloc>()) gone.erase(e.buffer);
    });
    return rewrite(body, [&](const Alloc& n, Rewriter&) -> Stmt {
      return gone.contains(n.buffer) ? block({}, n.span) : Stmt(&n);
    });
  }
};

}  // namespace

Function plan_schedule(Function f, const Target& target) {
  for (const Kernel& k : f.kernels) check_own_copies(f, k, target);
  for (Kernel& k : f.kernels) {
    Scheduler scheduler{.f = f, .kernel = k, .target = target};
    k.body = scheduler.run(k.body);
    k.body = scheduler.without_gone(k.body);
  }
  return f;
}

}  // namespace tl
