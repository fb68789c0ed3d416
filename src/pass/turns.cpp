#include "pass/turns.h"

#include <algorithm>

namespace tl {

Expr turn_of(const WalkContext& at) {
  if (!at.whiles.empty() || !at.conditions.empty()) return {};
  auto is_inside = [&](const Var& v) {
    return std::ranges::any_of(at.loops, [&](auto* n) { return n->var.get() == &v; }) ||
           std::ranges::any_of(at.lets, [&](auto* n) { return n->var.get() == &v; });
  };
  Expr number = imm(0);
  for (auto* loop : at.loops) {
    bool outermost = loop == at.loops.front();
    bool varies =
        contains(loop->extent, is_inside) || contains(loop->extent, [](const Load&) { return true; });
    if (varies && !outermost) return {};
    if (!outermost) number = number * cast(i64, loop->extent);
    number = number + cast(i64, loop->var) - cast(i64, loop->min);
  }
  return number;
}

bool has_jumps(const Stmt& body) {
  return contains(body, [](const Call& n) {
    return n.intrinsic == &break_loop || n.intrinsic == &continue_loop || n.intrinsic == &thread_return;
  });
}

}  // namespace tl
