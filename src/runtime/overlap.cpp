// Two elements share an address if their indices differ and the strides times the differences add up to 0.
// Searched for dimension by dimension, largest stride first; what the later ones can make up limits the
// choice, so that ordinary strides leave one choice each.
#include "runtime/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace tl {
namespace {

struct Digit {
  int64_t stride, extent;  // extent > 1, stride >= 0
};

// Are there differences, not all 0, that make `distance`?
bool adds_up(std::span<const Digit> digits, __int128 distance, bool differ, int& budget) {
  if (digits.empty()) return differ && distance == 0;
  const Digit& d = digits[0];
  if (d.stride == 0) return distance == 0;  // all others are 0, too
  __int128 rest = 0;
  for (const Digit& o : digits.subspan(1)) rest += __int128(o.extent - 1) * o.stride;
  __int128 most = d.extent - 1, reach = rest / d.stride + 1, near = distance / d.stride;
  for (__int128 x = std::max(near - reach, -most); x <= std::min(near + reach, most); x++) {
    __int128 left = distance - x * d.stride;
    if (left > rest || left < -rest) continue;
    if (--budget < 0) return false;
    if (adds_up(digits.subspan(1), left, differ || x != 0, budget)) return true;
  }
  return false;
}

struct Extent {  // a tensor's memory: from its lowest to past its highest byte
  uintptr_t begin = 0, end = 0;
};

Extent extent_of(const TensorView& t) {
  int64_t low = 0, high = 0, row_major = 1, bytes = t.bits * t.lanes / 8;
  for (int d = t.ndim - 1; d >= 0; d--) {
    int64_t reach = (t.shape[d] - 1) * (t.strides ? t.strides[d] : row_major);
    (reach < 0 ? low : high) += reach;
    row_major *= t.shape[d];
  }
  auto base = reinterpret_cast<uintptr_t>(t.data);
  return {base + uintptr_t(low * bytes), base + uintptr_t((high + 1) * bytes)};
}

// Is there a pair of indices, one in each of two equally strided tensors, whose addresses differ by
// `distance` elements?  Dimension by dimension, largest stride first; what the later ones can make up limits
// the choice. Yes also where the strides are so odd that the search is long.
bool meets(const TensorView& a, const TensorView& b, std::span<const int> dims, int64_t distance,
           int& budget) {
  if (dims.empty()) return distance == 0;
  int64_t rest = 0;
  for (int d : dims.subspan(1)) rest += std::max(a.shape[d], b.shape[d]) * std::abs(stride_of(a, d));
  int d = dims[0];
  int64_t stride = stride_of(a, d);
  if (stride == 0) return meets(a, b, dims.subspan(1), distance, budget);
  int64_t near = distance / stride, reach = rest / std::abs(stride) + 1;
  int64_t first = std::max(near - reach, 1 - b.shape[d]), last = std::min(near + reach, a.shape[d] - 1);
  for (int64_t step = first; step <= last; step++)
    if (--budget < 0 || meets(a, b, dims.subspan(1), distance - step * stride, budget)) return true;
  return false;
}

}  // namespace

bool overlaps_itself(const TensorView& t) {
  if (!t.strides) return false;
  __int128 reach = 0;
  bool apart = true;  // each stride steps over all that lies behind it
  for (int d = t.ndim; d-- > 0;) {
    if (t.shape[d] == 0) return false;
    if (t.shape[d] == 1) continue;
    __int128 stride = std::abs(t.strides[d]);
    apart = apart && stride > reach;
    reach += (t.shape[d] - 1) * stride;
  }
  if (apart) return false;
  std::vector<Digit> digits;
  for (int d = 0; d < t.ndim; d++)
    if (t.shape[d] > 1) digits.push_back({std::abs(t.strides[d]), t.shape[d]});
  std::ranges::sort(digits, [](auto& a, auto& b) { return a.stride > b.stride; });
  int budget = 10000;
  return adds_up(digits, 0, false, budget);
}

bool share_memory(const TensorView& a, const TensorView& b) {
  Extent x = extent_of(a), y = extent_of(b);
  if (x.end <= y.begin || y.end <= x.begin) return false;
  bool same_form = a.ndim == b.ndim && a.bits == b.bits && a.ndim <= 8;
  for (int d = 0; same_form && d < a.ndim; d++) same_form = stride_of(a, d) == stride_of(b, d);
  int64_t bytes = int64_t(reinterpret_cast<uintptr_t>(b.data) - reinterpret_cast<uintptr_t>(a.data));
  int64_t element = a.bits * a.lanes / 8;
  if (!same_form || bytes % element != 0) return true;  // as far as can be told
  int budget = 10000;
  std::vector<int> dims(size_t(a.ndim), 0);
  std::iota(dims.begin(), dims.end(), 0);
  std::ranges::sort(dims,
                    [&](int p, int q) { return std::abs(stride_of(a, p)) > std::abs(stride_of(a, q)); });
  return meets(a, b, dims, bytes / element, budget);
}

}  // namespace tl
