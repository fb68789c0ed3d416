// Tiles that no statement names.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The body without them: they take no memory, whatever their size.
Stmt without_unused_tiles(const Function& f, const Stmt& body);

}  // namespace tl
