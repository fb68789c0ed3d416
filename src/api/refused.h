// A device compiler refuses what it was given: whose fault that is.  What the user handed over (a flag, text
// that stands in the program, an edit of it) is the user's; text that we alone wrote is the compiler's.
#pragma once
#include "ir/kernel.h"
#include "runtime/device.h"

namespace tl {

// CompileError or InternalError.  `f` is the function as it was printed; `edited`: the user changed the text.
[[noreturn]] void blame_refusal(const BuildError& refusal, const Function& f, bool edited);

}  // namespace tl
