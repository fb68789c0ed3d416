#include "ops/regions.h"

#include <algorithm>

#include "base/error.h"
#include "ir/text.h"

namespace tl {
namespace {

bool is_base(const Region& r) {
  return std::ranges::any_of(r.ranges, [](auto& range) { return !range.extent; });
}

// Trailing dimensions match, leading ones are points.
void take_extents(std::string_view what, Region& base, const Region& other, const Function& f, Span span) {
  std::vector<Expr> wanted;
  bool is_longer = other.ranges.size() > base.ranges.size();
  for (auto& range : other.ranges)
    if (!range.point && !(is_longer && is_int(range.extent, 1))) wanted.push_back(range.extent);
  if (wanted.size() > base.ranges.size())
    fail(span, "{}: {} has {} dimensions, but the other operand, {}, has {}", what, f[base.buffer].name,
         base.ranges.size(), describe(f, other), wanted.size());
  size_t leading = base.ranges.size() - wanted.size();
  for (size_t d = 0; d < base.ranges.size(); d++) {
    base.ranges[d].point = d < leading;
    base.ranges[d].extent = d < leading ? imm(1) : wanted[d - leading];
  }
}

}  // namespace

const char* loop_name(size_t dimension) {
  static const char* names[] = {"i", "j", "k", "l"};
  return names[dimension % std::size(names)];
}

void complete_pair(std::string_view what, Region& a, Region& b, const Function& f, Span span) {
  if (is_base(a) && is_base(b)) {
    for (Region* r : {&a, &b})
      for (auto& range : r->ranges) range = {.min = range.min, .extent = imm(1), .point = true};
  } else if (is_base(a)) {
    take_extents(what, a, b, f, span);
  } else if (is_base(b)) {
    take_extents(what, b, a, f, span);
  }
}

Moving moving(const Tile& t, const Function& f, const Region& r) {
  Moving dims;
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = as_int(r.ranges[d].extent);
    if (!extent)
      fail(t.span,
           "{}: the extent of dimension {} of {} is {}, but it must be a constant: a tile has a constant "
           "shape, and a slice goes from its start to its end, `i : i + n` for n elements",
           t.op->said(), d, f[r.buffer].name, print(r.ranges[d].extent, &f));
    if (!r.ranges[d].point && *extent != 1) dims.emplace_back(d, *extent);
  }
  return dims;
}

bool same_extents(const Moving& a, const Moving& b) {
  return std::ranges::equal(a, b, {}, &Moving::value_type::second, &Moving::value_type::second);
}

std::vector<int64_t> extents_of(const Moving& dims) {
  std::vector<int64_t> extents;
  for (auto& [dimension, extent] : dims) extents.push_back(extent);
  return extents;
}

std::vector<Expr> element_of(const Region& r, const Moving& dims, const std::vector<Expr>& at) {
  std::vector<Expr> index;
  for (auto& range : r.ranges) index.push_back(range.min);
  for (size_t i = 0; i < dims.size(); i++) index[dims[i].first] = index[dims[i].first] + at[i];
  return index;
}

bool is_whole(const Region& r, const Function& f) {
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto size = as_int(f[r.buffer].shape[d]);
    if (!size || !is_int(r.ranges[d].min, 0) || !r.ranges[d].extent || as_int(r.ranges[d].extent) != size)
      return false;
  }
  return true;
}

std::vector<Expr> in_buffer(const Region& r, const std::vector<Expr>& at) {
  std::vector<Expr> index;
  size_t next = 0;
  for (auto& range : r.ranges) index.push_back(range.point ? range.min : range.min + at[next++]);
  return index;
}

void check_constant(const Tile& t, const Function& f, const Region& r) {
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].extent || !as_int(r.ranges[d].extent))
      fail(t.span,
           "{}: the extent of dimension {} of {} must be a constant; give a slice or the whole buffer",
           t.op->said(), d, f[r.buffer].name);
}

ParallelNest nest_over(const Tile& t, std::vector<int64_t> extents) {
  if (extents.empty()) extents = {1};
  ParallelNest nest{.extents = std::move(extents), .attrs = t.attrs, .span = t.span};
  for (size_t d = 0; d < nest.extents.size(); d++) nest.vars.push_back(var(loop_name(d)));
  return nest;
}

}  // namespace tl
