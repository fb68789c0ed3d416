// copy_cluster, push_cluster: a tile of shared memory goes to the same kind of place in another block of the
// cluster.  Both tiles lie row-major, so that it is one run of bytes.
//
//   push_cluster(S, D, bar) {dst_block=r}  ->  if tx == 0:
//                                                cp_async_bulk_cluster(address_of(D[0]), address_of(S[0]),
//                                                bytes, r,
//                                                                      address_of(bar[0]))
//   copy_cluster(S, D) {dst_block=r}       ->  for i in serial(…):    # up to 16 bytes a thread and turn, and
//   a fence
//                                                cluster_store_16(address_of(D[…]), address_of(S[…]), r)
#include <numeric>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "base/product.h"
#include "ops/mapping.h"
#include "ops/regions.h"
#include "ops/tma_boxes.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr int64_t piece = 16;  // bytes that move together, at most

bool pushes(const Tile& t) { return t.op->operands.size() == 3; }

void complete_copy_cluster(std::vector<Operand>& operands, const Function& f, Span span) {
  complete_pair("copy_cluster", std::get<Region>(operands[0]), std::get<Region>(operands[1]), f, span);
  if (operands.size() < 3) return;
  for (auto& range : std::get<Region>(operands[2]).ranges)
    if (!range.extent) range.extent = imm(1), range.point = true;
}

void check_run(const Tile& t, const Function& f, const Region& r) {
  const BufferInfo& info = f[r.buffer];
  if (info.scope != Scope::shared)
    fail(t.span,
         "copy_cluster: it goes from shared memory to shared memory of another block, but {} is not in it",
         info.name);
  std::vector<int64_t> shape = tile_shape(info), extents = region_shape(r, false);
  size_t first = 0;
  while (first < extents.size() && extents[first] == 1) first++;
  for (size_t d = first + 1; d < extents.size(); d++)
    if (extents[d] != shape[d])
      fail(t.span,
           "copy_cluster: {} is not one run of memory: behind its first dimension of more than one index it "
           "must "
           "be whole, but dimension {} has {} of {}",
           describe(f, r), d, extents[d], shape[d]);
  if (int64_t bits = product(extents) * info.dtype.bits; bits % 8)
    fail(t.span, "copy_cluster: {} has {} bits, but whole bytes are copied", describe(f, r), bits);
  if (int64_t bytes = product(extents) * info.dtype.bits / 8; pushes(t) && bytes % piece)
    fail(t.span,
         "copy_cluster: {} has {} bytes, but beside all threads multiples of {} are copied: leave "
         "remote_barrier out, and threads copy it",
         describe(f, r), bytes, piece);
}

void check_copy_cluster(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  check_constant(t, f, src);
  check_constant(t, f, dst);
  if (!same_extents(moving(t, f, src), moving(t, f, dst)))
    fail(t.span, "copy_cluster: the source is {} but the destination is {}; their shapes must be equal",
         describe(f, src), describe(f, dst));
  if (f[src.buffer].dtype != f[dst.buffer].dtype)
    fail(t.span, "copy_cluster: it moves bytes as they are, but {} is {} and {} is {}", f[src.buffer].name,
         to_string(f[src.buffer].dtype), f[dst.buffer].name, to_string(f[dst.buffer].dtype));
  check_run(t, f, src);
  check_run(t, f, dst);
  if (!t.attrs.find("dst_block"))
    fail(t.span, "copy_cluster: dst_block, the rank of the other block, is missing");
}

void eval_copy_cluster(const Tile& t, const Function&, const EvalContext&) {
  fail(t.span,
       "copy_cluster reaches another block of the cluster, but the reference runs one block after the other: "
       "run it on a GPU that has clusters ({}), or in the simulator of one",
       chips_with(*find_instr("cluster_store_16")));
}

LayoutDecisions infer_layout_copy_cluster(const Tile& t, const LayoutContext& ctx, Strictness) {
  LayoutDecisions out;
  for (size_t i : {0, 1}) {
    BufferId b = region_of(t, i).buffer;
    out.required[b] = {row_major(tile_shape(ctx.function[b]))};
  }
  return out;
}

Stmt lower_copy_cluster(const Tile& t, LowerContext& ctx) {
  const Function& f = ctx.function;
  Facts facts = facts_of(f, ctx.kernel);
  const BufferInfo& info = f[region_of(t, 0).buffer];
  int64_t bytes = product(region_shape(region_of(t, 0), false)) * info.dtype.bits / 8;
  auto begin = [&](size_t operand) {
    const Region& r = region_of(t, operand);
    std::vector<Expr> index;
    for (auto& range : r.ranges) index.push_back(range.min);
    return physical_index(ctx.layouts, f, r.buffer, index, facts);
  };
  auto at = [&](size_t operand, const Expr& offset) {
    BufferId b = region_of(t, operand).buffer;
    return address(load(f[b].dtype, b, {simplify(begin(operand) + offset, facts)}, t.span));
  };
  auto fits = [&](size_t operand, int64_t size) {
    return is_multiple(begin(operand), size * 8 / info.dtype.bits, facts);
  };
  int64_t size = piece;
  while (!pushes(t) && size * 8 > info.dtype.bits && (bytes % size || !fits(0, size) || !fits(1, size)))
    size /= 2;
  for (size_t operand : {0, 1})
    if (!fits(operand, size))
      fail(t.span, "copy_cluster: {} begins at no known multiple of {} bytes",
           describe(f, region_of(t, operand)), size);
  std::string name = pushes(t) ? "cp_async_bulk_cluster" : fmt::format("cluster_store_{}", size);
  const Intrinsic& row = *find_instr(name);
  if (!ctx.target.has_threads() || ctx.target.lacks(row))
    fail(t.span, "copy_cluster: {} has no clusters of blocks ({} have)", said(ctx.target), chips_with(row));
  int64_t unit = size * 8 / info.dtype.bits;
  auto& attr = *t.attrs.find("dst_block");
  Expr rank = std::holds_alternative<int64_t>(attr) ? imm(std::get<int64_t>(attr), i32)
                                                    : cast(i32, std::get<Expr>(attr));
  if (pushes(t)) {
    Expr word = address(load(u64, region_of(t, 2).buffer, {begin(2)}, t.span));
    Stmt push = eval(call(row, {at(1, imm(0)), at(0, imm(0)), imm(bytes, i32), rank, word}, t.span), t.span);
    return if_then(eq(ctx.thread, imm(0)), push, {}, t.span);
  }
  int64_t pieces = bytes / size, threads = ctx.team.count, turns = (pieces + threads - 1) / threads;
  Expr turn = facts.loop_var("i", turns), number = turn * threads + ctx.thread;
  Stmt one = eval(call(row, {at(1, number * unit), at(0, number * unit), rank}, t.span), t.span);
  if (turns * threads > pieces) one = if_then(lt(number, imm(pieces)), one, {}, t.span);
  // Of all memory: what was written is in another block's.
  Stmt fence = eval(call(*find_instr("fence_proxy_async"), {}, t.span), t.span);
  return block({for_loop(turn, turns, Loop::serial, one, t.span), fence}, t.span);
}

}  // namespace

extern const TileOp copy_cluster_op, push_cluster_op;
const TileOp copy_cluster_op = {
    .info =
        {.name = "copy_cluster",
         .doc =
             "Copies a shared tile to shared memory of the block of the rank `dst_block` in the cluster, by "
             "threads.",
         .operands = {{"src", Access::read}, {"dst", Access::write}},
         .attrs = {{"dst_block", OpInfo::Attr::Type::index}}},
    .complete = complete_copy_cluster,
    .check = check_copy_cluster,
    .eval = eval_copy_cluster,
    .infer_layout = infer_layout_copy_cluster,
    .lower = lower_copy_cluster,
};
const TileOp push_cluster_op = {
    .info = {.name = "push_cluster",
             .doc =
                 "Begins to copy a shared tile to shared memory of the block of the rank `dst_block` in the "
                 "cluster; the other block's `barrier` counts its bytes.",
             .operands = {{"src", Access::read}, {"dst", Access::write}, {"barrier", Access::update}},
             .attrs = {{"dst_block", OpInfo::Attr::Type::index}},
             .published = "copy_cluster"},
    .complete = complete_copy_cluster,
    .check = check_copy_cluster,
    .eval = eval_copy_cluster,
    .infer_layout = infer_layout_copy_cluster,
    .lower = lower_copy_cluster,
    .by_one = true,
};

}  // namespace tl
