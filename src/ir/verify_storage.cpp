// Buffers that share storage must agree where each byte of it is: the checks of `verify` for their layouts.
#include <algorithm>

#include "base/product.h"
#include "ir/build.h"
#include "ir/verify.h"

namespace tl {
namespace {

// A layout at the indices of one element; nothing of an expression that is no integer arithmetic.
struct Point {
  const IndexMap& map;
  std::vector<int64_t> index;

  std::optional<int64_t> value(const Expr& e) const {
    if (auto* n = e.as<IntImm>()) return n->value;
    if (e.as<Var>())
      for (size_t d = 0; d < map.vars.size(); d++)
        if (map.vars[d].same(e)) return index[d];
    if (auto* n = e.as<Cast>()) {
      auto a = value(n->a);
      return a && n->dtype.is_int() ? std::optional(wrap_int(*a, n->dtype)) : std::nullopt;
    }
    if (auto* n = e.as<Select>()) {
      auto c = value(n->cond);
      return c ? value(*c ? n->a : n->b) : std::nullopt;
    }
    auto* n = e.as<Binary>();
    if (!n || !n->a->dtype.is_int()) return std::nullopt;
    auto a = value(n->a), b = value(n->b);
    if (!a || !b || (is_division(n->op) && *b == 0)) return std::nullopt;
    return fold_int(n->op, *a, *b, n->a->dtype);
  }
  // Goes on to what follows in row-major order.
  void advance() {
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < map.extents[d]) return;
      index[d] = 0;
    }
  }
};

// The places of a buffer's elements in row-major order, as many numbers for each as the layout has outputs; a
// fragment's replicas after one another.
std::optional<std::vector<int64_t>> places_of(const BufferInfo& b) {
  const IndexMap& map = *b.layout;
  Point at{.map = map, .index = std::vector<int64_t>(map.vars.size(), 0)};
  int64_t points = product(map.extents);
  std::vector<int64_t> all;
  for (int64_t p = 0; p < points; p++, at.advance())
    for (auto& e : map.outputs) {
      auto v = at.value(e);
      if (!v) return std::nullopt;
      all.push_back(*v);
    }
  return all;
}

std::string element_text(const BufferInfo& b, int64_t at) {
  std::string text;
  for (size_t d = b.shape.size(); d-- > 0;) {
    int64_t extent = *as_int(b.shape[d]);
    text = fmt::format("{}{}{}", at % extent, text.empty() ? "" : ", ", text);
    at /= extent;
  }
  return fmt::format("{}[{}]", b.name, text);
}

// Two buffers whose bytes in row-major order are the same: the first of these that they put into two places.
std::optional<Violation> disagreement(const BufferInfo& a, const BufferInfo& b) {
  auto first = places_of(a), second = places_of(b);
  if (!first || !second) return std::nullopt;
  auto unit = std::min(a.dtype.bits, b.dtype.bits);
  int64_t outputs = int64_t(a.layout->outputs.size()), of_a = a.dtype.bits / unit, of_b = b.dtype.bits / unit;
  bool in_registers = a.scope == Scope::fragment;
  int64_t copies = in_registers ? a.layout->extents.back() : 1;
  std::string about = fmt::format("{} and {} share one storage, but their layouts disagree", a.name, b.name);
  if (in_registers && copies != b.layout->extents.back())
    return Violation{b.span, fmt::format("{}: {} has {} replicas, {} has {}; annotate one of them", about,
                                         a.name, copies, b.name, b.layout->extents.back())};
  int64_t units = int64_t(first->size()) / outputs / copies * of_a;
  for (int64_t u = 0; u < units; u++)
    for (int64_t c = 0; c < copies; c++) {
      const int64_t* x = &(*first)[size_t((u / of_a * copies + c) * outputs)];
      const int64_t* y = &(*second)[size_t((u / of_b * copies + c) * outputs)];
      int64_t bit_x = (x[outputs - 1] * of_a + u % of_a) * unit;
      int64_t bit_y = (y[outputs - 1] * of_b + u % of_b) * unit;
      if (bit_x == bit_y && (!in_registers || x[0] == y[0])) continue;
      auto place = [&](const int64_t* p, int64_t bit) {
        if (!in_registers) return fmt::format("byte {}", bit / 8);
        return fmt::format("byte {} of thread {}", bit / 8, p[0]);
      };
      return Violation{b.span, fmt::format("{}: {} begins at {}, and {}, which is the same byte, at {}; "
                                           "annotate one of the two, and the other follows",
                                           about, element_text(a, u / of_a), place(x, bit_x),
                                           element_text(b, u / of_b), place(y, bit_y))};
    }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> storage_fault(const Function& f) {
  std::map<BufferId, BufferId> one;  // of each storage that is seen under several names
  for (auto& b : f.buffers)
    if (b.alias_of) one.emplace(b.alias_of, BufferId{});
  for (size_t i = 0; i < f.buffers.size() && !one.empty(); i++) {
    BufferId id{int(i)};
    const BufferInfo& b = f[id];
    auto it = one.find(f.storage(id));
    if (it == one.end() || !b.layout) continue;
    if (b.scope == Scope::global)
      return Violation{b.span, fmt::format("the tensor {} has a layout, and shares its storage with a tensor "
                                           "of another shape or type; only tensors in row-major order do",
                                           b.name)};
    if (!it->second)
      it->second = id;
    else if (auto found = disagreement(f[it->second], b))
      return found;
  }
  return std::nullopt;
}

}  // namespace tl
