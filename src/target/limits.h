// How large a launch may be on a chip.
#pragma once
#include "target/target.h"

namespace tl {

// CompileError at the kernel's line where what is constant of its launch is more than the chip takes.
void check_limits(const Kernel& k, const Target& target);
// The same of the grid of a call.
void check_grid(const Kernel& k, const std::array<int64_t, 3>& grid, std::string_view chip,
                const std::array<int64_t, 3>& most);

}  // namespace tl
