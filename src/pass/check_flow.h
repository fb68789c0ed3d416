// Are all threads of the block there where a tile operator needs them?
#pragma once
#include "ir/rewrite.h"

namespace tl {

// CompileError at a tile operator or parallel loop that some threads of the block would not reach.  Where such a
// statement, or a jump, stands under a condition that is read from registers, the condition becomes a block_uniform:
// later passes see each thread's registers, and could not tell.  `resolve` puts thread indices in terms of the
// kernel's thread variable.
Stmt check_flow(const Function& f, const Kernel& k, const std::function<Expr(const Expr&)>& resolve);

}  // namespace tl
