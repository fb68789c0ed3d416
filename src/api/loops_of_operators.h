#pragma once
#include "ir/kernel.h"

namespace tl {

// T.Parallel around tile operators alone is a serial loop: all threads of the block carry out each operator
// together, so that the iterations, which are independent, come one after another.  T.Pipelined in a
// T.Parallel of single elements is a serial loop of each thread, which has no copies to overlap.
Function order_loops_of_operators(Function f);

}  // namespace tl
