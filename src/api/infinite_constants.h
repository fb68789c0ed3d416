// Constants that a program writes and that their float type makes infinite: taken, and said.
#pragma once
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tl {

// The pass of these notes.
inline constexpr std::string_view infinite_constant = "constants";
// What was said in this thread since it was last asked.
std::vector<Note> take_infinite_constants();

}  // namespace tl
