// clamp: every element of a tile is brought into [low, high].  Sugar for a parallel loop.
#include <cmath>

#include "base/error.h"
#include "ops/parallel.h"

namespace tl {
namespace {

void check(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  for (size_t d = 0; d < dst.ranges.size(); d++)
    if (!dst.ranges[d].extent || !as_int(dst.ranges[d].extent))
      fail(t.span, "clamp: the extent of dimension {} of {} must be a constant; give a slice or the whole buffer", d,
           f[dst.buffer].name);
  DType type = f[dst.buffer].dtype;
  if (!type.is_float() && !type.is_int()) fail(t.span, "clamp: {} does not hold numbers", describe(f, dst));
}

void eval(const Tile& t, const Function&, const EvalContext& ctx) {
  Array a = ctx.read(region_of(t, 0));
  double low = ctx.value(std::get<Expr>(t.operands[1])), high = ctx.value(std::get<Expr>(t.operands[2]));
  for (auto& x : a.floats) x = std::fmin(std::fmax(x, low), high);
  for (auto& x : a.ints)
    x = fold_int(BinaryOp::min, fold_int(BinaryOp::max, x, int64_t(low), a.dtype), int64_t(high), a.dtype);
  ctx.write(region_of(t, 0), a);
}

ParallelNest nest_of(const Tile& t, const Function& f) {
  const Region& dst = region_of(t, 0);
  DType type = f[dst.buffer].dtype;
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
  Expr low = cast(type, std::get<Expr>(t.operands[1]), t.span), high = cast(type, std::get<Expr>(t.operands[2]), t.span);
  Expr x = binary(BinaryOp::max, load(f, dst.buffer, at, t.span), low, t.span);
  nest.body = store(dst.buffer, at, binary(BinaryOp::min, x, high, t.span), t.span);
  return nest;
}

}  // namespace

extern const TileOp clamp_op;
const TileOp clamp_op = {
    .info = {.name = "clamp",
             .doc = "Every element of dst becomes min(max(it, low), high).",
             .operands = {{"dst", Access::update}, {"low", Access::value}, {"high", Access::value}},
             .attrs = {}},
    .complete = nullptr,
    .check = check,
    .eval = eval,
    .nest = nest_of,
};

}  // namespace tl
