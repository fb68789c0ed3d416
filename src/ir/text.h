// Text IR: one syntax, two directions; equivalent(parse(print(f)), f).  The grammar is one page,
// docs/text_ir.md.
#pragma once
#include "ir/intrinsic.h"
#include "ir/kernel.h"

namespace tl {

std::string print(const Function& f);
// A part, for messages and debugging; without the function a buffer is printed as its id.
std::string print(const Expr& e, const Function* f = nullptr);
std::string print(const Stmt& s, const Function* f = nullptr);

// `file` is the name that errors carry; the text is kept for the lines under them.  Wrong text: CompileError.
Function parse(std::string_view text, std::string_view file, const Vocabulary& vocabulary);

}  // namespace tl
