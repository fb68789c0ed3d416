// What other files need to know of reducers: what a store contributes, and in which type the threads' parts
// are kept.
#pragma once
#include "ops/op.h"

namespace tl {

// The values, and conditions, that a store to an element of a reducer joins to it by the reducer's operation;
// nothing where it does something else to the element.
std::optional<std::vector<Expr>> contributed(const Function& f, const Store& s);

// Reducers of narrow types get a second array for the threads' parts, of the type in which their values are
// computed: a contribution is not rounded, and the value once, where it is finalised.
Function widen_reducers(Function f);

}  // namespace tl
