#include "ops/warp_accesses.h"

#include <algorithm>
#include <map>

#include "arith/prove.h"

namespace tl {
namespace {

// constant + Σ factors[d] * iteration[d]
struct Position {
  int64_t constant = 0;
  std::vector<int64_t> factors;

  int64_t at(const std::vector<int64_t>& iteration) const {
    int64_t sum = constant;
    for (size_t d = 0; d < factors.size(); d++) sum += factors[d] * iteration[d];
    return sum;
  }
};

// `leading`: of a dimension in front of the rows, such as a slot. What stands there for all iterations of the
// nest moves all of a warp's elements by whole rows times their number, which changes no bank cycle.
std::optional<Position> position_of(const ParallelNest& nest, Expr e, bool leading) {
  Position p;
  for (auto& v : nest.vars) {
    auto linear = linear_in(e, v);
    if (!linear) return std::nullopt;
    p.factors.push_back(linear->stride);
    e = linear->base;
  }
  auto rest = as_int(e);
  if (!rest && !leading) return std::nullopt;
  p.constant = rest.value_or(0);
  return p;
}

}  // namespace

std::optional<std::vector<WarpAccess>> warp_accesses(const ParallelNest& nest, const Fragment& mapping,
                                                     const std::vector<Expr>& index, int64_t lanes,
                                                     int64_t warp) {
  constexpr size_t enough = 64;
  std::vector<Position> positions;
  for (auto& e : index)
    if (auto p = position_of(nest, e, positions.size() + 2 < index.size()))
      positions.push_back(std::move(*p));
    else
      return std::nullopt;
  bool side_by_side = true;  // along the last loop: the last index counts, the others stay
  for (auto& p : positions) side_by_side &= p.factors.back() == (&p == &positions.back() ? 1 : 0);
  int64_t together = side_by_side ? std::max<int64_t>(1, lanes) : 1;

  std::map<std::pair<int64_t, int64_t>, WarpAccess> found;  // by warp and register
  std::vector<int64_t> places = table(mapping.layout), iteration(nest.extents.size(), 0);
  for (size_t at = 0; at < places.size();) {
    for (int64_t copy = 0; copy < mapping.replicas; copy++, at += 2) {
      std::pair key(places[at] / warp, places[at + 1]);
      if (key.second % together || (found.size() >= enough && !found.contains(key))) continue;
      WarpAccess& a = found[key];
      a.elements = together;
      a.lanes.resize(size_t(warp));
      std::vector<int64_t>& element = a.lanes[size_t(places[at] % warp)];
      element.clear();
      for (auto& p : positions) element.push_back(p.at(iteration));
    }
    for (size_t d = iteration.size(); d-- > 0;) {
      if (++iteration[d] < nest.extents[d]) break;
      iteration[d] = 0;
    }
  }
  std::vector<WarpAccess> out;
  for (auto& [key, access] : found) out.push_back(std::move(access));
  return out;
}

WarpAccess copy_writes(const std::vector<int64_t>& shape, int bits, const Target& target) {
  size_t rank = shape.size();
  int64_t n = target.vector_bytes * 8 / bits, rows = shape[rank - 2], cols = shape[rank - 1];
  while (n > 1 && cols % n) n /= 2;
  WarpAccess access{
      .elements = n, .times = (rows * cols / n + target.warp - 1) / target.warp, .stores = true};
  for (int64_t lane = 0; lane < std::min<int64_t>(target.warp, rows * cols / n); lane++) {
    std::vector<int64_t> index(rank, 0);
    index[rank - 2] = lane * n / cols;
    index[rank - 1] = lane * n % cols;
    access.lanes.push_back(std::move(index));
  }
  return access;
}

}  // namespace tl
