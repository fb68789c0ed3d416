// fill and clear: every element of a tile becomes one value.  Sugar for a parallel store.
#include "base/error.h"
#include "ops/parallel.h"

namespace tl {
namespace {

Expr value_of(const Tile& t, const Function& f) {
  DType type = f[region_of(t, 0).buffer].dtype;
  return t.operands.size() > 1 ? cast(type, std::get<Expr>(t.operands[1]), t.span) : zero(type);
}

void check(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  for (size_t d = 0; d < dst.ranges.size(); d++)
    if (!dst.ranges[d].extent || !as_int(dst.ranges[d].extent))
      fail(t.span, "{}: the extent of dimension {} of {} must be a constant; give a slice or the whole buffer",
           t.op->name, d, f[dst.buffer].name);
  value_of(t, f);                                 // a value that cannot be cast says so
}

void eval(const Tile& t, const Function& f, const EvalContext& ctx) {
  const Region& dst = region_of(t, 0);
  Array out = make_array(f[dst.buffer].dtype, region_shape(dst));
  double v = t.operands.size() > 1 ? ctx.value(std::get<Expr>(t.operands[1])) : 0;
  for (auto& x : out.floats) x = v;
  for (auto& x : out.ints) x = wrap_int(int64_t(v), out.dtype);
  ctx.write(dst, out);
}

ParallelNest nest_of(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  static const char* names[] = {"i", "j", "k", "l"};
  ParallelNest nest{.vars = {}, .extents = {}, .body = {}, .attrs = t.attrs, .span = t.span};
  std::vector<Expr> at;
  for (auto& range : dst.ranges) {
    at.push_back(range.min);
    if (range.point) continue;
    nest.vars.push_back(var(names[nest.vars.size() % 4]));
    nest.extents.push_back(*as_int(range.extent));
    at.back() = at.back() + nest.vars.back();
  }
  if (nest.vars.empty()) {
    nest.vars.push_back(var("i"));
    nest.extents.push_back(1);
  }
  nest.body = store(dst.buffer, at, value_of(t, f), t.span);
  return nest;
}

}  // namespace

extern const TileOp fill_op, clear_op;
const TileOp fill_op = {
    .info = {.name = "fill",
             .doc = "Every element of dst becomes value, cast to dst's type.",
             .operands = {{"dst", Access::write}, {"value", Access::value}},
             .attrs = {}},
    .complete = nullptr,
    .check = check,
    .eval = eval,
    .nest = nest_of,
};
const TileOp clear_op = {
    .info = {.name = "clear", .doc = "Every element of dst becomes 0.", .operands = {{"dst", Access::write}}, .attrs = {}},
    .complete = nullptr,
    .check = check,
    .eval = eval,
    .nest = nest_of,
};

}  // namespace tl
