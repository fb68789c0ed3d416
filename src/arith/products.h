// Bounds of products of several variables.
#pragma once
#include <optional>

#include "arith/interval.h"

namespace tl {

// The most that `e`, a product of lengths such as ceildiv(M, 128), can be; nothing where no bound of a
// product of their variables is among the facts.
std::optional<int64_t> most_of_product(const Expr& e, const Facts& facts);
// Is it a product that its type holds by such a bound?
bool is_small_product(const Expr& e, const Facts& facts);

}  // namespace tl
