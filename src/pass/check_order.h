#pragma once
#include "ir/kernel.h"

namespace tl {

// CompileError at the first operator whose result may depend on the order in which threads and blocks come to
// it.
void check_order(const Function& f);

}  // namespace tl
