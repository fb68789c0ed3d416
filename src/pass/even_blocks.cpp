// Whether a kernel's blocks have as much to do as each other, which decides how they share the chip.
#include <set>

#include "pass/role_plan.h"
#include "pass/walk.h"

namespace tl {

bool has_even_blocks(const Kernel& k, const RolePlan& plan) {
  bool even = true;
  walk(k.body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    if (!plan.find(s)) return true;
    std::set<const ExprNode*> differ;
    for (auto& v : k.grid_vars) differ.insert(v.get());
    auto differs = [&](const Expr& e) {
      return contains(e, [&](const Var& v) { return differ.contains(&v); }, [](const Load&) { return true; });
    };
    for (auto* n : at.lets)
      if (differs(n->value)) differ.insert(n->var.get());
    even &= !differs(s.as<For>()->extent);
    for (auto* n : at.loops) even &= !differs(n->extent);
    for (auto& [condition, holds] : at.conditions) even &= !differs(condition);
    return false;
  });
  return even;
}

}  // namespace tl
