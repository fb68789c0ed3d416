// As many blocks as the chip runs at once walk through all those of the grid.
#pragma once
#include "ops/op.h"

namespace tl {

// The kernel's grid gets at most so many blocks; its body runs once for each block that the program asks for.
// What the roles of a kernel do beside each other then goes on from one of them to the next.  Nothing changes
// where the grid is known to be no larger.
void walk_grid(Function& f, Kernel& k, int64_t resident, int64_t together);
// How many rows of a grid so many blocks visit together, so that they load the least in all; 1: its loads do
// not say it.
int64_t rows_together(const Function& f, const Kernel& k, const std::vector<Stmt>& loads, int64_t resident);

}  // namespace tl
