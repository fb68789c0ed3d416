// Which threads of the block reach a statement: all of them, where a tile operator needs them; one, where the
// others must not repeat it.
#pragma once
#include "ir/rewrite.h"

namespace tl {

// CompileError at a tile operator or parallel loop that some threads of the block would not reach.  Where
// such a statement, or a jump, stands under a condition that is read from registers, the condition becomes a
// block_uniform: later passes see each thread's registers, and could not tell.  `resolve` puts thread indices
// in terms of the kernel's thread variable.
Stmt check_convergence(const Function& f, const Kernel& k, const std::function<Expr(const Expr&)>& resolve);

// For an executor that runs one thread per block: CompileError at an atomic update that each of the kernel's
// threads would make, because it is not in a parallel loop.  `who` runs it.
void check_repeated_updates(const Function& f, const Kernel& k, std::string_view who);

}  // namespace tl
