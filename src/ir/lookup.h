// Tables of constants: lookup(i, "7 -1 5") is the i-th of these, of 32 bits each; i is 0 for the first.
#pragma once
#include <vector>

#include "ir/node.h"

namespace tl {

Expr lookup_of(const Expr& index, const std::vector<int64_t>& values, Span span = {});
std::vector<int64_t> values_of(const Call& lookup);  // empty where the text is no list of integers
Expr as_selects(const Call& lookup);                 // the same value, for executors that have no tables

}  // namespace tl
