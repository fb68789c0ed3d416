// Two elements lie in one place if their indices differ and the strides times the differences add up to 0.
// Searched for dimension by dimension, largest stride first; what the later ones can make up limits the
// choice, so that ordinary strides leave one choice each.
#include "runtime/overlap.h"

#include <algorithm>
#include <cstdlib>
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
  std::sort(digits.begin(), digits.end(), [](auto& a, auto& b) { return a.stride > b.stride; });
  int budget = 10000;
  return adds_up(digits, 0, false, budget);
}

}  // namespace tl
