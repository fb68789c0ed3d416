#include "pass/share_storage.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/mapping.h"

namespace tl {
namespace {

// So many elements of `of` make up one of `to`; 1 where that is as wide or narrower.
int64_t elements_in(DType to, DType of) { return std::max(1, to.bits / of.bits); }

// Do the elements that make up one of a wider type lie together: in order, in registers of one thread or in
// memory, from a multiple of its size?
bool holds_wider(const Layout& l, int64_t n) {
  std::vector<int64_t> rows = table(l);
  size_t outputs = l.ranges.size();
  int64_t copies = outputs == 2 ? l.extents.back() : 1, points = l.size() / copies;  // a fragment's replicas
  for (int64_t at = 0; at < points; at++)
    for (int64_t c = 0; c < copies; c++) {
      const int64_t* here = &rows[size_t(at * copies + c) * outputs];
      const int64_t* first = &rows[size_t(at / n * n * copies + c) * outputs];
      bool one_thread = outputs == 1 || here[0] == first[0];
      int64_t place = here[outputs - 1], begin = first[outputs - 1];
      if (!one_thread || place != begin + at % n || begin % n != 0) return false;
    }
  return true;
}

// At the line of the one that is a view.
void check_wider(const Layout& l, const Function& f, BufferId from, BufferId to) {
  int64_t n = elements_in(f[to].dtype, f[from].dtype);
  if (n == 1 || holds_wider(l, n)) return;
  Span line = f[f[to].alias_of ? to : from].span;
  std::string_view name = f[to].name, of = f[from].name;
  std::string type = to_string(f[to].dtype);
  if (f[to].scope == Scope::fragment)
    fail(line,
         "{} cannot view {} as {}: its layout in registers is {}, where the {} neighbours that make up one "
         "{} are not together; copy it to a shared buffer and view that",
         name, of, type, to_string(fragment_of(l)), n, type);
  fail(line,
       "{} cannot view {} as {}: the layout of {} in shared memory is {}, where the {} neighbours that make "
       "up one {} are not together, in order, from a multiple of {} elements; annotate a layout that keeps "
       "them together, or copy it to a tile without a layout and view that",
       name, of, type, of, to_string(l), n, type, n);
}

}  // namespace

bool fits_others(const Layout& l, const Function& f, BufferId buffer) {
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (BufferId b{int(i)}; f.storage(b) == f.storage(buffer))
      if (int64_t n = elements_in(f[b].dtype, f[buffer].dtype); n > 1 && !holds_wider(l, n)) return false;
  return true;
}

Layout reshaped(const Layout& l, const Function& f, BufferId from, BufferId to) {
  check_wider(l, f, from, to);
  std::vector<int64_t> shape = tile_shape(f[to]), old = tile_shape(f[from]);
  size_t others = l.extents.size() - old.size();  // a fragment's replica
  Layout row = row_major(shape);
  std::vector<Expr> vars = input_vars(shape.size() + others),
                    at(vars.begin(), vars.begin() + std::ptrdiff_t(shape.size()));
  Facts facts;
  for (size_t d = 0; d < shape.size(); d++) facts.bind(vars[d], Interval{0, shape[d] - 1});
  if (others) facts.bind(vars.back(), Interval{0, l.extents.back() - 1});
  // Of another type: so many of its elements in one of `from`, or so many of `from` in one of it.
  int64_t parts = elements_in(f[from].dtype, f[to].dtype), wholes = elements_in(f[to].dtype, f[from].dtype);
  Expr flat_of_to = map_index(row, at)[0];
  Expr flat = parts > 1 ? floordiv(flat_of_to, parts) : wholes > 1 ? flat_of_to * wholes : flat_of_to;
  std::vector<Expr> inputs(old.size());
  int64_t below = 1;
  for (size_t d = old.size(); d-- > 0; below *= old[d]) {
    Expr i = floordiv(flat, below);
    inputs[d] = simplify(d == 0 ? i : floormod(i, old[d]), facts);
  }
  if (others) inputs.push_back(vars.back());
  IndexMap map{.vars = vars, .extents = shape};
  if (others) map.extents.push_back(l.extents.back());
  std::vector<Expr> outputs = map_index(l, inputs);
  Expr& place = outputs.back();  // the register, or the offset in memory
  if (parts > 1) place = place * parts + floormod(flat_of_to, parts);
  if (wholes > 1) place = floordiv(place, wholes);
  for (auto& e : outputs) map.outputs.push_back(simplify(e, facts));
  return from_map(map);
}

Fragment reshaped_fragment(const Fragment& given, const Function& f, BufferId from, BufferId to) {
  Fragment made = fragment_of(reshaped(given.layout, f, from, to));
  if (std::string why = why_not_inverse(made); !why.empty())
    fail(f[f[to].alias_of ? to : from].span,
         "{} cannot be a view of {}: its layout in registers is {}, and in {}'s shape it cannot be derived "
         "which elements a thread holds, because {}; copy it to a shared buffer and reshape that",
         f[to].name, f[from].name, to_string(given), f[to].name, why);
  return made;
}

}  // namespace tl
