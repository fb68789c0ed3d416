// Regions of constant extents: the extents that a base element takes from the other operand, which dimensions
// of two regions correspond, the loops over one.
#pragma once
#include "ops/parallel.h"

namespace tl {

// The name of the loop over a dimension: i, j, k, l, and again from i.
const char* loop_name(size_t dimension);

// A base element (no extents are given) takes the extents of the other operand; where both are, one element
// is meant. `what` begins the message.
void complete_pair(std::string_view what, Region& a, Region& b, const Function& f, Span span);

// A region's dimensions that have an extent other than 1, and those extents.
using Moving = std::vector<std::pair<size_t, int64_t>>;
Moving moving(const Tile& t, const Function& f, const Region& r);
bool same_extents(const Moving& a, const Moving& b);
std::vector<int64_t> extents_of(const Moving& dims);
std::vector<Expr> element_of(const Region& r, const Moving& dims, const std::vector<Expr>& at);

// All of a buffer whose shape is constant.
bool is_whole(const Region& r, const Function& f);

// The element of the region's buffer at an index that leaves out the points.
std::vector<Expr> in_buffer(const Region& r, const std::vector<Expr>& at);
// CompileError where an extent of the operand is no constant.
void check_constant(const Tile& t, const Function& f, const Region& r);

// Parallel loops over these extents, one iteration where there are none; the body is left to the caller.
ParallelNest nest_over(const Tile& t, std::vector<int64_t> extents);

}  // namespace tl
