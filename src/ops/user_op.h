// Tile operators that users define: a Tile that carries its expansion, the body. Layouts are inferred in the
// body, lowering replaces the Tile by it; the reference runs the operator's `eval`, or the body where there
// is none.
#pragma once
#include "ops/op.h"

namespace tl {

// What it means: (the operands that are read, in their order; zeros in the shapes of those that are written;
// the options) -> the operands that are written.
struct UserArgument {
  Array array;
  bool is_number = false;  // a value: one element
};
using UserEval = std::function<std::vector<Array>(const std::vector<UserArgument>& read,
                                                  const std::vector<Array>& written, const Attrs& options)>;

struct UserOperand {
  std::string name;
  Access access = Access::read;
};

// A new operator, for the life of the process. CompileError (no position) for a name that is ambiguous in
// text IR.
const TileOp& add_user_op(const std::string& name, std::vector<UserOperand> operands, UserEval eval);
// For text: the latest operator of that name and those accesses; else one without `eval`.  Null where the
// language has an operator of that name.
const OpInfo* user_op_info(std::string_view name, const std::vector<Access>& operands);
const TileOp* find_user_op(const OpInfo* info);
// The statement without the bodies that the reference does not run.
Stmt as_evaluated(const Stmt& s);

}  // namespace tl
