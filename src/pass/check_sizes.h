// Is a tile larger than all memory that it could lie in?
#pragma once
#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

// CompileError at the allocation of such a tile, if its layout has too many points to be enumerated: that
// comes long before plan_memory, which knows what all tiles take.
void check_sizes(const Function& f, const Kernel& k, const Target& target);
// The same for the reference, whose tiles are arrays of this machine.
void check_sizes_on_host(const Function& f);

}  // namespace tl
