// Integer expressions computed for many threads at once.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "ir/node.h"

namespace tl {

using Lanes = std::vector<int64_t>;  // one value per thread
using LaneEnv = std::map<const ExprNode*, Lanes>;

// The value of an integer expression in every thread; nothing if it depends on variables outside `env`.  Of a
// vector the value of one element.
std::optional<Lanes> values_of(const Expr& e, const LaneEnv& env, size_t lanes, int64_t element = 0);
// The threads in which a condition may hold; an unknown one may.
Lanes may_hold(const Expr& condition, const LaneEnv& env, size_t lanes);

}  // namespace tl
