// Tile operators whose tiles begin where an element of a fragment says.
#pragma once
#include "ir/kernel.h"

namespace tl {

// The body, in which such an element has a name: a statement of its own, which all threads run, can get it
// from the threads that hold it, and the operator cannot.
Stmt name_elements(const Function& f, const Stmt& body);

}  // namespace tl
