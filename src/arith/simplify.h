// The simplifier: rules as rows, and exact reasoning over sums, ranges and divisibility.
#pragma once
#include "arith/facts.h"

namespace tl {

// The same value for every assignment that the facts allow; simplify(simplify(e)) is simplify(e).
Expr simplify(const Expr& e, const Facts& facts = {});
// Walks statements, adding the range of each loop variable and each condition on the way down; removes loops
// of one iteration, branches never taken, empty blocks.
Stmt simplify(const Stmt& s, const Facts& facts = {});
Function simplify(const Function& f);

}  // namespace tl
