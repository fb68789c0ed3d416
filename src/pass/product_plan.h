// Which products of a divided loop run beside what else.
#pragma once
#include "pass/role_plan.h"

namespace tl {

// There are two ways, by who looks at what a product sums up, and at what it multiplies.
// - Nobody in the loop does: each product stays in flight until that of the next turn has begun.
// - Threads do, in between: a product of what they compute from another one is begun a turn late, behind the
//   next turn's first products, and runs while threads compute from those.
// Says in `loop` what happens, or returns why the loop's products have to end where they stand.
std::string plan_products(const Function& f, const Kernel& k, const Target& target, RoleLoop& loop);
// May the fragment lie otherwise than this product wants it: by the program, or by another operator?
bool may_lie_otherwise(const Function& f, const Kernel& k, const Target& target, const Tile& gemm,
                       BufferId fragment);
// By wgmma?  "" or why not.  `divided`: if it stands in a loop that is divided among roles.
std::string why_no_wgmma(const Function& f, const Kernel& k, const Target& target, const Stmt& gemm,
                         bool divided = false);

}  // namespace tl
