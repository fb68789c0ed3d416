// fill and clear: every element of a tile becomes one value.  Sugar for a parallel store.
#include "ops/regions.h"

namespace tl {
namespace {

Expr value_of(const Tile& t, const Function& f) {
  DType type = f[region_of(t, 0).buffer].dtype;
  return t.operands.size() > 1 ? cast(type, std::get<Expr>(t.operands[1]), t.span) : zero(type);
}

void check_fill(const Tile& t, const Function& f) {
  check_constant(t, f, region_of(t, 0));
  value_of(t, f);  // a value that cannot be cast says so
}

void eval_fill(const Tile& t, const Function& f, const EvalContext& ctx) {
  const Region& dst = region_of(t, 0);
  Array out = make_array(f[dst.buffer].dtype, region_shape(dst));
  if (t.operands.size() > 1) fill(out, ctx.value(std::get<Expr>(t.operands[1])));
  ctx.write(dst, out);
}

ParallelNest nest_fill(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  ParallelNest nest = nest_over(t, region_shape(dst));
  nest.body = store(dst.buffer, in_buffer(dst, nest.vars), value_of(t, f), t.span);
  return nest;
}

}  // namespace

extern const TileOp fill_op, clear_op;
const TileOp fill_op = {
    .info = {.name = "fill",
             .doc = "Every element of dst becomes value, cast to dst's type.",
             .operands = {{"dst", Access::write}, {"value", Access::value}}},
    .check = check_fill,
    .eval = eval_fill,
    .nest = nest_fill,
};
const TileOp clear_op = {
    .info = {.name = "clear", .doc = "Every element of dst becomes 0.", .operands = {{"dst", Access::write}}},
    .check = check_fill,
    .eval = eval_fill,
    .nest = nest_fill,
};

}  // namespace tl
