// Operators that may overwrite what they still have to read.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The kernel's body, in which an operator whose operands meet or not, as they begin where only the run can
// tell, has read all of them before it writes: it reads a copy.
Stmt read_first(Function& f, const Kernel& k);

}  // namespace tl
