#include "pass/share_storage.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/mapping.h"

namespace tl {
namespace {

// Elements that make up one of a wider type must be neighbours in one thread's registers.
void check_wider(const Fragment& given, const Function& f, BufferId from, BufferId to) {
  int64_t n = f[to].dtype.bits / f[from].dtype.bits;
  std::vector<int64_t> shape = tile_shape(f[from]), rows = table(given.layout);
  int64_t points = 1, copies = given.layout.extents.back();
  for (int64_t e : shape) points *= e;
  for (int64_t at = 0; at < points; at++)
    for (int64_t c = 0; c < copies; c++) {
      const int64_t* here = &rows[size_t((at * copies + c) * 2)];
      const int64_t* first = &rows[size_t((at / n * n * copies + c) * 2)];
      if (here[0] == first[0] && here[1] == first[1] + at % n && first[1] % n == 0) continue;
      fail(f[to].span,
           "{} cannot show {} as {}: it lies in the registers as {}, where the {} neighbours that make up one {} are not "
           "together; copy it to a shared buffer and look at that",
           f[to].name, f[from].name, to_string(f[to].dtype), to_string(given), n, to_string(f[to].dtype));
    }
}

}  // namespace

Layout reshaped(const Layout& l, const Function& f, BufferId from, BufferId to) {
  std::vector<int64_t> shape = tile_shape(f[to]), old = tile_shape(f[from]);
  size_t others = l.extents.size() - old.size();             // a fragment's replica
  Layout row = row_major(shape);
  std::vector<Expr> vars = input_vars(shape.size() + others), at(vars.begin(), vars.begin() + std::ptrdiff_t(shape.size()));
  Facts facts;
  for (size_t d = 0; d < shape.size(); d++) facts.bind(vars[d], Interval{0, shape[d] - 1});
  if (others) facts.bind(vars.back(), Interval{0, l.extents.back() - 1});
  // Of another type in registers: so many of its elements in one of `from`, or so many of `from` in one of it.
  bool in_registers = f[to].scope == Scope::fragment;
  int64_t parts = in_registers ? std::max(1, f[from].dtype.bits / f[to].dtype.bits) : 1;
  int64_t wholes = in_registers ? std::max(1, f[to].dtype.bits / f[from].dtype.bits) : 1;
  Expr flat_of_to = map_index(row, at)[0];
  Expr flat = parts > 1 ? floordiv(flat_of_to, parts) : wholes > 1 ? flat_of_to * wholes : flat_of_to;
  std::vector<Expr> inputs(old.size());
  int64_t below = 1;
  for (size_t d = old.size(); d-- > 0; below *= old[d]) {
    Expr i = floordiv(flat, below);
    inputs[d] = simplify(d == 0 ? i : floormod(i, old[d]), facts);
  }
  if (others) inputs.push_back(vars.back());
  IndexMap map{.vars = vars, .extents = shape, .outputs = {}};
  if (others) map.extents.push_back(l.extents.back());
  std::vector<Expr> outputs = map_index(l, inputs);
  if (parts > 1) outputs[1] = outputs[1] * parts + floormod(flat_of_to, parts);
  if (wholes > 1) outputs[1] = floordiv(outputs[1], wholes);
  for (auto& e : outputs) map.outputs.push_back(simplify(e, facts));
  return from_map(map);
}

Fragment reshaped_fragment(const Fragment& given, const Function& f, BufferId from, BufferId to) {
  if (f[to].dtype.bits > f[from].dtype.bits) check_wider(given, f, from, to);
  Fragment made = fragment_of(reshaped(given.layout, f, from, to));
  if (std::string why = why_not_inverse(made); !why.empty())
    fail(f[f[to].alias_of ? to : from].span,
         "{} cannot be another shape of {}: it lies in the registers as {}, and in {}'s shape what one thread holds "
         "cannot be read off, because {}; copy it to a shared buffer and reshape that", f[to].name, f[from].name,
         to_string(given), f[to].name, why);
  return made;
}

}  // namespace tl
