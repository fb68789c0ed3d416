// Fences of the asynchronous proxy between what a thread writes and what the same thread lets the proxy
// touch: no barrier stands there, which a fence would go with (insert_sync).
#pragma once
#include "ir/kernel.h"

namespace tl {

// The kernel's body behind insert_sync's barriers and their fences, with those that are missing.
Stmt with_own_fences(const Function& f, const Kernel& k);

}  // namespace tl
