// transpose: dst = src with its last two dimensions exchanged.  A parallel nest in which neighbouring threads
// read along the rows of src; where the layout of dst in shared memory is still undecided, its rows are laid
// out so that the columns that a warp writes fall into different banks.

#include "base/error.h"
#include "ops/regions.h"
#include "ops/warp_accesses.h"

namespace tl {
namespace {

void check_transpose(const Tile& t, const Function& f) {
  for (size_t i : {0, 1})
    for (auto& range : region_of(t, i).ranges)
      if (!range.extent || !as_int(range.extent))
        fail(t.span, "transpose: {} needs constant extents: give a slice or the whole buffer",
             f[region_of(t, i).buffer].name);
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  std::vector<int64_t> from = region_shape(src), to = region_shape(dst);
  if (from.size() < 2)
    fail(t.span, "transpose: src is {}; it needs two dimensions that can be exchanged", describe(f, src));
  std::swap(from[from.size() - 1], from[from.size() - 2]);
  if (from != to)
    fail(t.span,
         "transpose: src is {} but dst is {}; dst must have src's shape with the last two dimensions "
         "exchanged",
         describe(f, src), describe(f, dst));
  DType a = f[src.buffer].dtype, b = f[dst.buffer].dtype;
  if (a.is_handle() || b.is_handle())
    fail(t.span, "transpose: there is no cast from {} to {}", to_string(a), to_string(b));
}

void eval_transpose(const Tile& t, const Function&, const EvalContext& ctx) {
  Array in = ctx.read(region_of(t, 0));
  Array out = make_array(in.dtype, region_shape(region_of(t, 1)));  // cast where it is written
  int64_t columns = in.shape.back(), rows = in.shape[in.shape.size() - 2], plane = rows * columns;
  for (int64_t i = 0; i < in.size(); i++) {
    size_t to = size_t(i / plane * plane + i % columns * rows + i % plane / columns), from = size_t(i);
    if (out.dtype.is_float())
      out.floats[to] = in.floats[from];
    else
      out.ints[to] = in.ints[from];
  }
  ctx.write(region_of(t, 1), out);
}

ParallelNest nest_transpose(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  ParallelNest nest = nest_over(t, region_shape(src));
  std::vector<Expr> turned = nest.vars;
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  Expr value = cast(f[dst.buffer].dtype, load(f, src.buffer, in_buffer(src, nest.vars), t.span), t.span);
  nest.body = store(dst.buffer, in_buffer(dst, turned), value, t.span);
  return nest;
}

LayoutDecisions infer_layout_transpose(const Tile& t, const LayoutContext& ctx, Strictness level) {
  ParallelNest nest = nest_transpose(t, ctx.function);
  BufferId dst = region_of(t, 1).buffer;
  const BufferInfo& info = ctx.function[dst];
  bool apart = ctx.target.has_threads() && level == Strictness::free && info.scope == Scope::shared &&
               ctx.function[region_of(t, 0).buffer].scope != Scope::fragment && !ctx.known.loop;
  LayoutDecisions out;
  if (apart) {  // single elements: either side is read or written across its rows
    out.loop = plan_free(nest, ctx, 1);
    out.lanes = 1;
  } else {
    out = infer_parallel(nest, ctx, level);
  }
  bool whole = region_shape(region_of(t, 1), false) == tile_shape(info);
  if (!out.loop || !apart || !whole || ctx.known.shared.contains(dst)) return out;
  std::vector<Expr> turned = nest.body.as<Store>()->index;
  auto writes = warp_accesses(nest, *out.loop, turned, 1, ctx.target.warp);
  if (!writes) return out;
  std::vector<int64_t> shape = tile_shape(info);
  for (auto& access : *writes) access.stores = true;
  out.shared.emplace(dst, fewest_bank_cycles(bank_family(shape, info.dtype.bits), *writes, info.dtype.bits,
                                             may_pad(ctx.kernel) ? 2 * product(shape) : product(shape),
                                             ctx.target.shared_banks));
  return out;
}

Stmt lower_transpose(const Tile& t, LowerContext& ctx) {
  return lower_parallel(nest_transpose(t, ctx.function), ctx);
}

}  // namespace

extern const TileOp transpose_op;
const TileOp transpose_op = {
    .info = {.name = "transpose",
             .doc = "dst = src with its last two dimensions exchanged, cast if their types differ.",
             .operands = {{"src", Access::read}, {"dst", Access::write}}},
    .check = check_transpose,
    .eval = eval_transpose,
    .infer_layout = infer_layout_transpose,
    .lower = lower_transpose,
    .takes_shared = true,
};

}  // namespace tl
