// Function@machine -> Program: one printer per language.
#pragma once
#include "codegen/program.h"
#include "target/target.h"

namespace tl {

Program print_cuda(const Function& f, const Target& target);
Program print_hip(const Function& f, const Target& target);
Program print_llvm(const Function& f, const Target& target);

// The part of a Program that does not depend on the language: parameters, integers, workspaces, entries with
// their grids, argument lists and symbols.  The text is left out.  Arguments: all parameters, then all
// workspaces, then, as i64, the integers that are extents or strides (a scalar is passed once, as it is).
Program signature_of(const Function& f, const Target& target);

// The variables that stand for Program::integers, in the same order.
std::vector<Expr> integer_vars(const Function& f);
// What the program says of a kernel that changes nothing, T.annotate_consumer_reg_alloc(240): lines, as
// comments.
std::vector<std::string> comments_of(const Kernel& k);

}  // namespace tl
