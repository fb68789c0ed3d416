// Operations on layouts, and questions about them. Every result has digits where its operands have them and
// no carry prevents it; else it is a table.  A question without an answer is a CompileError that names the
// two elements or extents in conflict.
#pragma once
#include "layout/layout.h"

namespace tl {

// outer(inner(x)).  Every output of inner must be within outer's extents.
Layout compose(const Layout& outer, const Layout& inner);
// The way back: inverse(l)(l(x)) == x.  l must be injective.  A place where l puts nothing (padding) is sent
// outside l's extents.
Layout inverse(const Layout& l);
// The same elements in the same row-major order, under other indices.
Layout reshape(const Layout& l, std::vector<int64_t> extents);
// New leading dimensions, which the outputs begin with unchanged: (b, i, j) -> (b, l(i, j)).
Layout expand(const Layout& l, const std::vector<int64_t>& leading);
// `factor` copies along one dimension, distinguished by a new first output: (x  extent, l(x % extent)).
Layout repeat(const Layout& l, size_t dim, int64_t factor);
// One output: the outputs of l, row-major over its ranges.
Layout flattened(const Layout& l);
// l plus further terms.
Layout added(const Layout& l, std::vector<Term> terms);

// Injective, and every place below the largest of each output is taken.
bool is_bijective(const Layout& l);
// Two elements that go to the same place.
std::optional<std::pair<std::vector<int64_t>, std::vector<int64_t>>> collision(const Layout& l);

}  // namespace tl
