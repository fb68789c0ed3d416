// What a user's own fold must satisfy, because its elements are joined in any order.
#pragma once
#include <string>

#include "ir/node.h"

namespace tl {

// With which numbers the function (a, b) -> (combination, identity) is sure to depend on the order, or its
// identity to change a value; empty: none is known.
std::string broken_law(const IndexMap& combine);

}  // namespace tl
