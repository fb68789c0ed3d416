// Who caused a rejection by the device compiler. A flag, text in the program or an edit of it came from the
// user; text that we alone wrote is a bug of the compiler.
#pragma once
#include "ir/kernel.h"
#include "runtime/device.h"

namespace tl {

// CompileError or InternalError.  `f` is the function as it was printed; `edited`: the user changed the text.
[[noreturn]] void blame_refusal(const BuildError& refusal, const Function& f, bool edited);

}  // namespace tl
