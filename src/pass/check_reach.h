// Where a block has many threads: what they update or read together is in memory that all of them reach.
#pragma once
#include "target/target.h"

namespace tl {

// CompileError at the user's line.
void check_reach(const Function& f, const Kernel& k, const Target& target);

}  // namespace tl
