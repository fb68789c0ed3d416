// What cp.async cannot carry of the copies that a program begins itself is an error on the copy's line.
#pragma once
#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

void check_own_copies(const Function& f, const Kernel& k, const Target& target);

}  // namespace tl
