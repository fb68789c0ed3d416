// A CPU's one thread reaches all memory of its block, so that no front can refuse these; other targets have
// threads whose registers are their own.
#include "pass/check_reach.h"

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/op.h"
#include "target/said.h"

namespace tl {

void check_reach(const Function& f, const Kernel& k, const Target& target) {
  visit(
      k.body,
      [&](const Tile& t) {
        if (auto* check = row_of(t).check_threads) check(t, f, target);
      },
      [&](const Call& c) {
        if (c.intrinsic->atomic == Intrinsic::Atomic::none) return;
        const Load* at = place_of(c.args[0]);
        if (!at || f[at->buffer].scope == Scope::global || f[at->buffer].scope == Scope::shared) return;
        fail(c.span,
             "{}: {} is private to one thread or distributed over the registers of several, so other threads "
             "cannot access it; on {} atomics are for tensors and shared tiles",
             c.intrinsic->name, f[at->buffer].name, said(target));
      });
}

}  // namespace tl
