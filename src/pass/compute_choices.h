// Choices between values that are costly to compute.
#pragma once
#include <set>

#include "ir/kernel.h"

namespace tl {

// The kernel's body, in which what is stored to `sums` is computed first and chosen then:
//
//   S[i] = select(c, exp2(S[i]), 0)   ->   let value = exp2(S[i])
//                                          S[i] = select(c, value, 0)
//
// The device compiler branches around a costly arm, and where registers of products come together behind a
// branch, ptxas lets each product end before the next begins (C7514).  What an arm reads of memory is still
// read only where its condition holds.  An arm stays that divides integers by what may be 0.
Stmt compute_choices(const Function& f, const Kernel& k, const std::set<BufferId>& sums);

}  // namespace tl
