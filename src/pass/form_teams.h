// Conditions on ranges of threads around tile operators become teams.
#pragma once
#include "pass/varying.h"
#include "target/target.h"

namespace tl {

// Does a team run the statement together: a tile operator or a parallel loop, unless on a thread's own
// arrays?
bool is_collective(const Stmt& s, const Function& f, const Varying& varying);

// The kernel's body, in which every team is a Group: of whole warps if it works on tiles, within the team
// around it, with a barrier of its own.  `resolve` says an expression in terms of the block's thread index.
// CompileError at the user's line.
Stmt form_teams(const Function& f, const Kernel& k, const Target& target,
                const std::function<Expr(const Expr&)>& resolve);

}  // namespace tl
