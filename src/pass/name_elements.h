// Tile operators whose tiles begin at an index that is an element of a fragment.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The body, in which such an element gets a name by a statement before the operator: that can fetch it from
// the threads that hold it, and the operator cannot.
Stmt name_elements(const Function& f, const Stmt& body);

}  // namespace tl
