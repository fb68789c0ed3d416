// Output of a running kernel: one line at a time on standard output, on every target.
#pragma once
#include <string_view>

namespace tl {

void write_output(std::string_view text);

}  // namespace tl
