// Reducers: arrays of which every thread has a part of the value, added to by the iterations of parallel loops.
// reducer_init gives the value to one thread's part, the neutral element to the others'; finalize_reducer combines
// the parts, so that all threads have the whole.  With one thread, and in the reference, the part is the value.
#include <algorithm>

#include "base/error.h"
#include "ops/reduce.h"

namespace tl {
namespace {

void check_reducer(const Tile& t, const Function& f) {
  const Region& r = region_of(t, 0);
  const BufferInfo& info = f[r.buffer];
  if (info.reducer.empty())
    fail(t.span, "{}: {} is not a reducer: make it by T.alloc_reducer", t.op->name, describe(f, r));
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].extent || as_int(r.ranges[d].extent) != as_int(info.shape[d]))
      fail(t.span, "{}: a part of {} is given; a reducer begins and ends as a whole", t.op->name, info.name);
  if (find_fold(info.reducer) >= Fold::any)
    fail(t.span, "{}: {} has no operation `{}`", t.op->name, info.name, info.reducer);
}

Reduce reduce_of(const Tile& t, const Function& f) {
  const BufferInfo& info = f[region_of(t, 0).buffer];
  return {.tile = t,
          .src = region_of(t, 0),
          .dst = region_of(t, 0),
          .fold = find_fold(info.reducer),
          .absolute = false,
          .clear = true,
          .dim = 0,
          .shape = region_shape(region_of(t, 0)),
          .keeps_dim = true,
          .acc = info.dtype};
}

int64_t elements_of(const Reduce& r) {
  int64_t n = 1;
  for (int64_t e : r.shape) n *= e;
  return n;
}

void eval_init(const Tile& t, const Function& f, const EvalContext& ctx) {
  Array out = make_array(f[region_of(t, 0).buffer].dtype, region_shape(region_of(t, 0)));
  double v = ctx.value(std::get<Expr>(t.operands[1]));
  std::fill(out.floats.begin(), out.floats.end(), v);
  std::fill(out.ints.begin(), out.ints.end(), wrap_int(int64_t(v), out.dtype));
  ctx.write(region_of(t, 0), out);
}

void eval_finalize(const Tile&, const Function&, const EvalContext&) {}  // one part: the value

LayoutMap infer_layout_reducer(const Tile&, const LayoutContext&, Strictness) { return {}; }

Stmt lower_init(const Tile& t, LowerContext& ctx) {
  Reduce r = reduce_of(t, ctx.function);
  Expr value = cast(r.acc, std::get<Expr>(t.operands[1]), t.span), i = var("r");
  bool counts_once = r.fold != Fold::max && r.fold != Fold::min && r.fold != Fold::bit_and && r.fold != Fold::bit_or;
  if (ctx.threads > 1 && counts_once) value = select(eq(ctx.kernel.thread, imm(0)), value, identity(r), t.span);
  int64_t n = elements_of(r);
  return for_loop(i, n, n <= 64 ? Loop::unrolled : Loop::serial, store(r.dst.buffer, {i}, value, t.span), t.span);
}

Stmt lower_finalize(const Tile& t, LowerContext& ctx) {
  Reduce r = reduce_of(t, ctx.function);
  if (ctx.threads == 1) return block({}, t.span);
  return reduce_parts(r, ctx, elements_of(r));
}

}  // namespace

extern const TileOp reducer_init_op, finalize_reducer_op;
const TileOp reducer_init_op = {
    .info = {.name = "reducer_init",
             .doc = "A reducer has this value, to which parallel loops may contribute.",
             .operands = {{"reducer", Access::write}, {"value", Access::value}},
             .attrs = {}},
    .complete = nullptr,
    .check = check_reducer,
    .eval = eval_init,
    .infer_layout = infer_layout_reducer,
    .lower = lower_init,
};
const TileOp finalize_reducer_op = {
    .info = {.name = "finalize_reducer",
             .doc = "All contributions to a reducer are combined; afterwards every thread has its value.",
             .operands = {{"reducer", Access::update}},
             .attrs = {{"batch", OpInfo::Attr::Type::integer}}},
    .complete = nullptr,
    .check = check_reducer,
    .eval = eval_finalize,
    .infer_layout = infer_layout_reducer,
    .lower = lower_finalize,
};

}  // namespace tl
