// Most walks over trees are recursive: deep trees are walked on a large stack, and trees that are too deep
// are refused.
#pragma once
#include <map>

#include "base/large_stack.h"
#include "ir/rewrite.h"

namespace tl {

// CompileError, at the user's line, if a tree is deeper than what may be written, or an expression larger.
void check_written(const Function& f);
// Runs `work`, which walks over f.
void on_stack_for(const Function& f, const std::function<void()>& work);

// Operations of an expression whose names are written out, each of so many; at most `most`.
int64_t written_out(const Expr& e, const std::map<const ExprNode*, int64_t>& of_names, int64_t most);

// The names of a body that `counts` says, in terms of what has none of these; those of 256 operations or more
// stay names, as what reads one twice would write it out twice.
VarMap names_written_out(const Stmt& body, const std::function<bool(const Let&)>& counts);

}  // namespace tl
