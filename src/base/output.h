// What a running kernel says: one line at a time on standard output, whoever runs it.
#pragma once
#include <string_view>

namespace tl {

void write_output(std::string_view text);

}  // namespace tl
