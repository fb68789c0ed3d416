// Slices of tiles that tile operators work on, where an access outside would reach the memory behind them.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The kernel's body with a check in front of each tile operator with a slice of a tile that is not known to
// lie inside: the call fails at the user's line.  `unclaimed`: of operators alone whose lowered form keeps no
// indices (Claim) that the simulator could check.
Stmt with_slices_checked(const Function& f, const Kernel& k, bool unclaimed = false);

}  // namespace tl
