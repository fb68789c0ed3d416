// Which loops of a program cannot be what they are called, and have a meaning all the same.
//
//   for i in parallel(8):             for i in serial(8):        for i in parallel(8):        for i in
//   parallel(8):
//     copy(A[i, 0:64], S)      ->       copy(A[i, 0:64], S)        for k in pipelined(4): ->    for k in
//     serial(4): gemm(S, B, C[i])                  gemm(S, B, C[i])             O[i] = O[i] + A[i, k] O[i] =
//     …
#include "api/loops_of_operators.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/rewrite.h"
#include "pass/check_schedules.h"

namespace tl {
namespace {

// Does it consist of tile operators, and of names, tiles, loops and branches around them?
bool is_of_operators(const Stmt& s) {
  if (!s || s.as<Tile>() || s.as<Let>() || s.as<Alloc>()) return true;
  if (auto* n = s.as<Block>()) return std::ranges::all_of(n->stmts, is_of_operators);
  if (auto* n = s.as<For>()) return is_of_operators(n->body);
  if (auto* n = s.as<If>()) return is_of_operators(n->then_body) && is_of_operators(n->else_body);
  return false;
}
bool has_operator(const Stmt& s) {
  return contains(s, [](const Tile&) { return true; });
}

struct Ordering : Rewriter {
  Function& f;
  bool in_parallel = false;

  explicit Ordering(Function& f) : f(f) {}
  Expr operator()(const Expr& e) override { return e; }
  Stmt operator()(const Stmt& s) override {
    auto* loop = s ? s.as<For>() : nullptr;
    if (!loop) return children(s);
    bool operators = is_of_operators(loop->body) && has_operator(loop->body);
    if (loop->loop == Loop::parallel && operators && loop->attrs.entries.empty())
      return serial(*loop,
                    "its iterations run one after another: all threads carry out a tile operator together");
    if (loop->loop == Loop::pipelined && in_parallel && !has_given_schedule(*loop))
      return serial(*loop, "runs as a serial loop of one thread, which has no copies to overlap");
    bool outer = std::exchange(in_parallel, in_parallel || loop->loop == Loop::parallel);
    Stmt made = children(s);
    in_parallel = outer;
    return made;
  }

  Stmt serial(const For& loop, std::string why) {
    f.notes.push_back({.pass = "",
                       .subject = "loop " + loop.var.as<Var>()->hint,
                       .text = std::move(why),
                       .span = loop.span,
                       .refusal = true});
    return for_loop(loop.var, loop.min, loop.extent, Loop::serial, (*this)(loop.body), loop.span);
  }
};

}  // namespace

Function order_loops_of_operators(Function f) {
  for (Kernel& k : f.kernels) k.body = Ordering(f)(k.body);
  return f;
}

}  // namespace tl
