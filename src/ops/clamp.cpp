// clamp: every element of a tile is brought into [low, high].  Sugar for a parallel loop.
#include "base/error.h"
#include "ops/regions.h"

namespace tl {
namespace {

void check_clamp(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  check_constant(t, f, dst);
  DType type = f[dst.buffer].dtype;
  if (!type.is_float() && !type.is_int()) fail(t.span, "clamp: {} does not hold numbers", describe(f, dst));
}

void eval_clamp(const Tile& t, const Function&, const EvalContext& ctx) {
  Array given = ctx.read(region_of(t, 0));
  DType type = arithmetic_type(given.dtype);
  auto bound = [&](size_t i) {
    return as_type(as_type(ctx.value(std::get<Expr>(t.operands[i])), given.dtype), type);
  };
  Array a = as_type(given, type), low = bound(1), high = bound(2);
  for (auto& x : a.floats) x = min_number(max_number(x, low.floats[0]), high.floats[0]);
  for (auto& x : a.ints)
    x = fold_int(BinaryOp::min, fold_int(BinaryOp::max, x, low.ints[0], a.dtype), high.ints[0], a.dtype);
  ctx.write(region_of(t, 0), a);
}

ParallelNest nest_clamp(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  DType type = f[dst.buffer].dtype;
  ParallelNest nest = nest_over(t, region_shape(dst));
  std::vector<Expr> at = in_buffer(dst, nest.vars);
  DType wide = arithmetic_type(type);
  auto bound = [&](size_t i) {
    return cast(wide, cast(type, std::get<Expr>(t.operands[i]), t.span), t.span);
  };
  Expr x = binary(BinaryOp::max, cast(wide, load(f, dst.buffer, at, t.span), t.span), bound(1), t.span);
  nest.body = store(dst.buffer, at, cast(type, binary(BinaryOp::min, x, bound(2), t.span), t.span), t.span);
  return nest;
}

}  // namespace

extern const TileOp clamp_op;
const TileOp clamp_op = {
    .info = {.name = "clamp",
             .doc = "Every element of dst becomes min(max(it, low), high).",
             .operands = {{"dst", Access::update}, {"low", Access::value}, {"high", Access::value}}},
    .check = check_clamp,
    .eval = eval_clamp,
    .nest = nest_clamp,
};

}  // namespace tl
