// The tile's own layout says how large boxes are: a box is stored row by row without gaps, so that it is as
// wide as a panel, and has more than two dimensions only where the tile is one panel wide.
#include "ops/tma_boxes.h"

#include <numeric>

#include "arith/prove.h"
#include "base/product.h"
#include "ir/text.h"
#include "layout/swizzle.h"

namespace tl {
namespace {

constexpr int64_t most_in_box = 256;  // elements, along each dimension
constexpr int64_t piece = 16;         // bytes; what is moved at least, and stays together

Expr at_most_i32(const Range& r) {
  return le(cast(i64, r.min), imm(INT32_MAX - as_int(r.extent).value_or(1) + 1));
}

// More than tensors have elements along a dimension: blocks and loops, which count in 64 bits from the
// beginning, go no further than these do, but what a call or memory says is anything.
bool may_be_large(const Expr& e) {
  return contains(
      e, [](const Load& n) { return n.dtype.bits >= 32; }, [](const Cast& n) { return n.a->dtype.is_int(); });
}

}  // namespace

bool is_multiple(const Expr& e, int64_t of, const Facts& facts) {
  Modular m = modular_of(e, facts);
  return m.modulus % of == 0 && floor_mod(m.remainder, of) == 0;
}

Expr begins_inside(const Region& tensor, const Facts& facts) {
  Expr inside;
  for (auto& range : tensor.ranges) {
    Expr here = le(zero(range.min->dtype), range.min), most = at_most_i32(range);
    bool certain = can_prove(here, facts);
    if (!certain) inside = both(inside, here);
    if ((!certain || may_be_large(range.min)) && !can_prove(most, facts)) inside = both(inside, most);
  }
  return inside ? simplify(inside, facts) : inside;
}

Stmt where_inside(const Expr& inside, const Stmt& by_boxes, const Stmt& by_threads) {
  // A place is the same for all threads, wherever it was read from.
  return if_then(call(block_uniform, {inside}, by_boxes->span), by_boxes, by_threads, by_boxes->span);
}

std::vector<BoxLayout> box_layouts(const std::vector<int64_t>& shape, int bits) {
  std::vector<BoxLayout> found;
  int64_t columns = shape.back(), bytes = columns * bits / 8;
  bool patterned = false;
  for (int64_t swizzle : {128, 64, 32}) {
    if (shape.size() < 2 || bytes % swizzle) continue;
    patterned = true;
    // The pattern repeats after eight rows: panels and slots begin where it does.
    bool one_panel = bytes == swizzle && product(shape) == columns * shape[shape.size() - 2];
    if (shape[shape.size() - 2] % 8 && !one_panel) continue;
    found.push_back({swizzled_panels(shape, bits, swizzle), swizzle, swizzle * 8 / bits});
  }
  if (shape.size() > 1 && !patterned && bytes % piece == 0 && bytes > piece)
    found.push_back({swizzled_panels(shape, bits, 0), 0, piece * 8 / bits});
  found.push_back({row_major(shape), 0, columns});
  return found;
}

int64_t BoxPlan::stride(size_t d) const {
  if (d == last()) return rows() * lies.width;
  if (d + 1 == last()) return lies.width;
  int64_t s = rows() * columns();
  for (size_t inner = d + 1; inner + 1 < last(); inner++) s *= shape[inner];
  return s;
}

// May boxes begin where the region does in a dimension (of the last one: panel by panel), and so many indices
// further?
bool BoxPlan::may_begin(size_t d, int64_t step) const {
  int64_t bytes = stride(d) * element_bytes, needed = lies.alignment();
  int64_t unit = d == last() ? lies.width : 1;
  auto fits = [&](int64_t index) { return index * bytes % needed == 0; };
  Modular begin = modular_of(tile.ranges[d].min, facts);
  bool first = begin.modulus == 0 ? fits(begin.remainder / unit)
                                  : fits(begin.modulus / unit) && fits(begin.remainder / unit);
  return first && fits(step);
}

// Into how large equal parts an extent is divided.
std::optional<int64_t> BoxPlan::part(size_t d, int64_t extent) const {
  if (extent <= most_in_box && may_begin(d, 0)) return extent;
  for (int64_t n = most_in_box; n > 0; n--)
    if (extent % n == 0 && may_begin(d, n)) return n;
  return std::nullopt;
}

bool BoxPlan::plan_row(Boxes& out, std::string& why) const {
  auto [d, extent] = dims.back();
  if (d != last()) {
    why = "the elements of a row of it do not lie together in the tile";
    return false;
  }
  bool in_panels = lies.width < columns();
  const Expr& begin = tile.ranges[d].min;
  int64_t width = lies.width;
  if (in_panels && (!is_multiple(begin, width, facts) || extent % width)) {
    why = fmt::format("its columns are not whole panels of {} elements", width);
    return false;
  }
  if (!in_panels) {  // one box beside the other, in rows of the tile
    bool whole = extent == columns() && extent <= most_in_box;
    int64_t unit = lies.alignment() / std::gcd(lies.alignment(), element_bytes);
    for (width = std::min(extent, most_in_box); width > 0; width--)
      if (extent % width == 0 && (width == extent || width % unit == 0)) break;
    if (width == 0 || width * element_bytes % piece || (!whole && !is_multiple(begin, unit, facts))) {
      why = fmt::format("its rows do not divide into boxes that begin at multiples of {} bytes",
                        lies.alignment());
      return false;
    }
  } else if (!may_begin(d, extent > width ? 1 : 0)) {
    why = fmt::format("its panels, of {} rows, do not begin at multiples of {} bytes", rows(),
                      lies.alignment());
    return false;
  }
  out.extents.back() = width;
  out.counts.back() = extent / width;
  return true;
}

bool BoxPlan::plan_others(Boxes& out, std::string& why) const {
  // The box has no gaps so far, and goes on with this dimension.
  bool dense = out.extents.back() == lies.width;
  size_t next = last();
  for (size_t i = dims.size() - 1; i-- > 0;) {
    auto [d, extent] = dims[i];
    for (; dense && next > d + 1; next--) dense = shape[next - 1] == 1;
    dense &= d + 1 == last() || lies.width == columns();  // else other panels lie between
    std::optional<int64_t> n = 1;
    if (dense) n = part(d, extent);
    if (!n || !may_begin(d, extent > *n ? *n : 0)) {
      why = fmt::format("what begins at {} of dimension {} lies at no multiple of {} bytes",
                        print(tile.ranges[d].min), d, lies.alignment());
      return false;
    }
    out.extents[i] = *n;
    out.counts[i] = extent / *n;
    dense &= *n == shape[d];
    next = d;
  }
  return true;
}

std::optional<Boxes> BoxPlan::boxes(std::string& why) const {
  Boxes out{std::vector<int64_t>(dims.size(), 1), std::vector<int64_t>(dims.size(), 1)};
  if (!plan_row(out, why) || !plan_others(out, why)) return std::nullopt;
  for (size_t d = 0; d < last(); d++)  // points
    if (!may_begin(d, 0)) {
      why = fmt::format("index {} of dimension {} lies at no multiple of {} bytes", print(tile.ranges[d].min),
                        d, lies.alignment());
      return std::nullopt;
    }
  return out;
}

Expr BoxPlan::offset(const Boxes& boxes, const std::vector<Expr>& numbers) const {
  bool in_panels = lies.width < columns();
  Expr at = imm(0);
  for (size_t d = 0; d < shape.size(); d++) {
    Expr index = tile.ranges[d].min;
    int64_t step = stride(d);
    if (d == last()) {
      step = in_panels ? step : 1;
      if (in_panels) index = floordiv(index, lies.width);
    }
    for (size_t i = 0; i < dims.size(); i++)
      if (dims[i].first == d) index = index + numbers[i] * (d == last() && in_panels ? 1 : boxes.extents[i]);
    at = at + index * step;
  }
  return simplify(at, facts);
}

}  // namespace tl
