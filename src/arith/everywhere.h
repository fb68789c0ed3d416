// From a condition on the elements of a nest to one on the nest.
#pragma once
#include <functional>

#include "arith/prove.h"

namespace tl {

// A condition on what is the same for all elements, from which `bound` follows for all values that the rest
// takes; null if there is none, or none that can hold.
Expr everywhere(const Expr& bound, const Facts& facts, const std::function<bool(const Expr&)>& same_for_all);

}  // namespace tl
