// Puts statements in front of others and behind them.
#pragma once
#include <functional>

#include "ir/rewrite.h"

namespace tl {

// The replacement of `s`, which has been walked already; both are blocks where they were one.
using Splice = std::function<std::vector<Stmt>(const Stmt& original, const Stmt& walked)>;
// Each statement of the body, those below it first, is replaced by what `f` gives. The replacement is put
// into the statement's block, so that a name which it defines stays visible to what follows.
Stmt splice(const Stmt& body, const Splice& f);

}  // namespace tl
