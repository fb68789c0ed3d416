// Operators that may overwrite what they still have to read.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The kernel's body, in which an operator whose operands may overlap, because only the run knows where they
// begin, has read all of them before it writes: it reads a copy.
Stmt read_first(Function& f, const Kernel& k);

}  // namespace tl
