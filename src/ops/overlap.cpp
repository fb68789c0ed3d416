// Regions of one buffer are compared dimension by dimension, those of its other shapes and types bit by bit.
#include "ops/overlap.h"

#include "arith/prove.h"
#include "base/error.h"
#include "ir/text.h"

namespace tl {
namespace {

// Both in one buffer.
Meeting boxes_meeting(const Region& a, const Region& b, const Facts& facts) {
  bool same = true, known = true;
  for (size_t d = 0; d < a.ranges.size(); d++) {
    const Range &x = a.ranges[d], &y = b.ranges[d];
    auto behind = as_int(simplify(y.min - x.min, facts)), n = as_int(x.extent), m = as_int(y.extent);
    same &= behind == 0 && n == m;
    if (behind && n && m) {
      if (*behind >= *n || *behind + *m <= 0) return Meeting::apart;
      continue;
    }
    if (can_prove(le(x.min + x.extent, y.min), facts) || can_prove(le(y.min + y.extent, x.min), facts))
      return Meeting::apart;
    known = false;
  }
  return !known ? Meeting::unknown : same ? Meeting::same : Meeting::meets;
}

// The first bit of each element of a region, behind that of the region's first element, in row-major order;
// and where that one is.  False where a shape is known only when the kernel runs.
struct Bits {
  Expr first = imm(0);
  std::vector<int64_t> offsets = {0};
};
bool find_bits(const Function& f, const Region& r, Bits& bits) {
  const BufferInfo& info = f[r.buffer];
  int64_t stride = info.dtype.bits;
  std::vector<int64_t> strides(r.ranges.size());
  for (size_t d = r.ranges.size(); d-- > 0;) {
    auto extent = as_int(info.shape[d]);
    strides[d] = stride;
    if (d > 0 && !extent) return false;
    stride *= extent.value_or(1);
  }
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = as_int(r.ranges[d].extent);
    if (!extent) return false;
    bits.first = bits.first + r.ranges[d].min * strides[d];
    std::vector<int64_t> next;
    for (int64_t o : bits.offsets)
      for (int64_t i = 0; i < *extent; i++) next.push_back(o + i * strides[d]);
    bits.offsets = std::move(next);
  }
  return true;
}

// In two shapes or types of one storage.
Meeting bits_meeting(const Function& f, const Region& a, const Region& b, const Facts& facts) {
  Bits x, y;
  if (!find_bits(f, a, x) || !find_bits(f, b, y)) return Meeting::unknown;
  auto behind = as_int(simplify(y.first - x.first, facts));
  if (!behind) return Meeting::unknown;
  for (int64_t& o : y.offsets) o += *behind;
  int64_t wide_x = f[a.buffer].dtype.bits, wide_y = f[b.buffer].dtype.bits;
  if (wide_x == wide_y && f[a.buffer].dtype == f[b.buffer].dtype && x.offsets == y.offsets)
    return Meeting::same;
  for (size_t i = 0, j = 0; i < x.offsets.size() && j < y.offsets.size();) {  // both ascend
    if (x.offsets[i] + wide_x <= y.offsets[j])
      i++;
    else if (y.offsets[j] + wide_y <= x.offsets[i])
      j++;
    else
      return Meeting::meets;
  }
  return Meeting::apart;
}

std::string text_of_region(const Function& f, const Region& r) {
  std::string s;
  for (auto& range : r.ranges) {
    s += (s.empty() ? "" : ", ") + print(range.min, &f);
    if (!range.point) s += ":" + print(simplify(range.min + range.extent), &f);
  }
  return f[r.buffer].name + "[" + s + "]";
}

}  // namespace

Meeting meeting_of(const Function& f, const Region& a, const Region& b, const Facts& facts) {
  if (f.storage(a.buffer) != f.storage(b.buffer)) return Meeting::apart;
  return a.buffer == b.buffer ? boxes_meeting(a, b, facts) : bits_meeting(f, a, b, facts);
}

void for_each_exchange(const Tile& t, const std::function<void(size_t, size_t)>& visit) {
  if (t.body) return;  // what it becomes is looked at
  auto access = [&](size_t i) { return t.op->operands[i].access; };
  for (size_t i = 0; i < t.operands.size(); i++)
    for (size_t j = 0; j < t.operands.size(); j++)
      if (access(i) == Access::read && (access(j) == Access::write || access(j) == Access::update))
        visit(i, j);
}

void check_overlap(const Tile& t, const Function& f) {
  for_each_exchange(t, [&](size_t i, size_t j) {
    const Region &read = region_of(t, i), &written = region_of(t, j);
    Meeting m = meeting_of(f, read, written);
    if (m == Meeting::meets || (m == Meeting::same && !row_of(t).in_place))
      fail(t.span,
           "{}: {} is {} and {} is {}, which have elements in common: they would be overwritten while others "
           "are still to be read; use another buffer, or copy one of them to another first",
           t.op->name, t.op->operands[i].name, text_of_region(f, read), t.op->operands[j].name,
           text_of_region(f, written));
  });
}

}  // namespace tl
