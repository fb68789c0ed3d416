#include "ops/neighbours.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/product.h"
#include "ir/rewrite.h"

namespace tl {

std::optional<GroupIndex> group_index(const ParallelNest& nest, const Expr& index, int64_t extent) {
  for (size_t l = 0; l < nest.vars.size(); l++) {
    auto linear = linear_in(index, nest.vars[l]);
    auto place = linear ? as_int(linear->base) : std::nullopt;
    if (place && linear->stride > 0 && *place >= 0 && *place < linear->stride &&
        linear->stride * nest.extents[l] == extent)
      return GroupIndex{l, linear->stride, *place};
  }
  return std::nullopt;
}

std::optional<GroupAccess> group_access(const ParallelNest& nest, const NestAccess& a,
                                        const std::vector<int64_t>& shape) {
  GroupAccess out{.access = a, .groups = std::vector<int64_t>(a.index.size(), 1)};
  for (size_t d = 0; d < a.index.size(); d++) {
    if (loop_of(nest, a.index[d]) || as_int(a.index[d])) continue;
    auto index = group_index(nest, a.index[d], shape[d]);
    if (!index) return std::nullopt;
    out.access.index[d] = nest.vars[index->loop];
    out.groups[d] = index->group;
  }
  return product(out.groups) > 1 ? std::optional(out) : std::nullopt;
}

std::optional<Fragment> fragment_of_groups(const Fragment& fragment, const std::vector<int64_t>& groups) {
  if (!fragment.layout.terms) return std::nullopt;
  std::vector<Term> terms, registers;
  for (Term t : *fragment.layout.terms) {
    size_t d = size_t(t.digit.input);
    int64_t group = d < groups.size() ? groups[d] : 1, end = t.digit.divisor * t.digit.radix;
    if (group > 1) {
      if (!t.xors.empty()) return std::nullopt;
      if (t.digit.divisor < group) {
        int64_t low = std::min(group, end) / t.digit.divisor;  // what of the digit is a place in the group
        if (t.output == 0 || std::min(group, end) % t.digit.divisor || t.digit.radix % low)
          return std::nullopt;
        t.stride *= low;
        t.digit = {.input = int(d), .divisor = group, .radix = t.digit.radix / low};
        if (t.digit.radix == 1) continue;
      }
      if (t.digit.divisor % group) return std::nullopt;
      t.digit.divisor /= group;
    }
    (t.output == 1 ? registers : terms).push_back(t);
  }
  std::ranges::sort(registers, [](auto& x, auto& y) { return x.stride < y.stride; });
  int64_t stride = 1;
  for (Term& t : registers) {
    t.stride = stride;
    stride *= t.digit.radix;
    terms.push_back(t);
  }
  std::vector<int64_t> shape = fragment.shape();
  for (size_t d = 0; d < groups.size(); d++) shape[d] /= groups[d];
  return make_fragment(std::move(shape), fragment.replicas, std::move(terms));
}

Fragment fragment_of_elements(const Fragment& of_groups, const std::vector<int64_t>& groups) {
  std::vector<Term> terms;
  int64_t all = product(groups);
  for (Term t : *of_groups.layout.terms) {
    if (size_t(t.digit.input) < groups.size()) t.digit.divisor *= groups[size_t(t.digit.input)];
    if (t.output == 1) t.stride *= all;
    terms.push_back(t);
  }
  std::vector<int64_t> shape = of_groups.shape();
  int64_t stride = 1;
  for (size_t d = groups.size(); d-- > 0;) {
    shape[d] *= groups[d];
    if (groups[d] == 1) continue;
    terms.push_back({.output = 1, .stride = stride, .digit = {int(d), 1, groups[d]}});
    stride *= groups[d];
  }
  return make_fragment(std::move(shape), of_groups.replicas, std::move(terms));
}

std::optional<CommonRead> common_read(const ParallelNest& nest, const NestAccess& a, const Fragment& mapping,
                                      const std::vector<int64_t>& shape) {
  if (a.is_store) return std::nullopt;
  CommonRead out{.nest = nest, .access = a, .mapping = mapping};
  std::vector<int64_t> groups(nest.vars.size(), 1);
  for (size_t d = 0; d < a.index.size(); d++) {
    auto* quotient = a.index[d].as<Binary>();
    if (!quotient || quotient->op != BinaryOp::floordiv) continue;
    auto l = loop_of(nest, quotient->a);
    auto group = as_int(quotient->b);
    if (!l || !group || *group < 2 || nest.extents[*l] != *group * shape[d] || groups[*l] > 1)
      return std::nullopt;
    for (size_t other = 0; other < a.index.size(); other++)  // a place in the group says more than the group
      if (other != d && uses_var(a.index[other], nest.vars[*l])) return std::nullopt;
    groups[*l] = *group;
    out.nest.extents[*l] /= *group;
    out.access.index[d] = nest.vars[*l];
  }
  if (product(groups) == 1) return std::nullopt;
  auto of_groups = fragment_of_groups(mapping, groups);
  if (!of_groups) return std::nullopt;
  out.mapping = std::move(*of_groups);
  return out;
}

}  // namespace tl
