// Questions about conditions and linear forms.
#pragma once
#include "arith/simplify.h"

namespace tl {

bool can_prove(const Expr& condition, const Facts& facts = {});
// e == stride * var + base with base free of var, if it is linear in var with a constant stride.
struct Linear {
  int64_t stride = 0;
  Expr base;
};
std::optional<Linear> linear_in(const Expr& e, const Expr& var, const Facts& facts = {});
// The facts that hold inside a kernel: those of the function, and ranges of extents, grid variables and the
// thread.
Facts facts_of(const Function& f, const Kernel& k);

// Whether an index into all of a buffer, one for all dimensions, lies inside it.
bool is_inside(const BufferInfo& b, const Expr& index, const Facts& facts);

}  // namespace tl
