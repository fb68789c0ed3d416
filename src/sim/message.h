// Prints, assertions and assumptions as both executors carry them out.
#pragma once
#include <functional>

#include "sim/evaluate.h"

namespace tl {

// One line: {} is the next value, {thread} is `thread`, which is empty where there are no threads.
std::string format_message(std::string_view format, std::string_view thread,
                           const std::function<std::pair<Scalar, DType>(size_t)>& value);
// What is said where T.device_assert or T.assume does not hold.
std::string assertion_text(std::string_view text, std::string_view where);
std::string assumption_text(std::string_view where);
// The code of such a call for the reference; null if it is none.  `args` as in the call, null where it takes
// a text.
Code message_code(const Call& n, const std::vector<Code>& args, Span span);

}  // namespace tl
