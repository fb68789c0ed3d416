// Puts statements in front of others and behind them.
#pragma once
#include <functional>

#include "ir/rewrite.h"

namespace tl {

// What stands in place of `s`, which has been walked already; both are blocks where they were one.
using Splice = std::function<std::vector<Stmt>(const Stmt& original, const Stmt& walked)>;
// Each statement of the body, those below it first, becomes what `f` says.  What takes the place of a
// statement stands in its block, so that a name which it defines stays visible to what follows.
Stmt splice(const Stmt& body, const Splice& f);

}  // namespace tl
