// Who uses a tile in shared memory, and whether it may lie as the boxes of the tensor memory accelerator fill
// it.
#pragma once
#include "ops/op.h"

namespace tl {

// Of each tile that is better laid out in another way: who wants that, in words.
std::map<BufferId, std::string> tiles_for_threads(const Function& f, const Kernel& k);

}  // namespace tl
