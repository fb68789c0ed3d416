// gemm by the products of warpgroups (wgmma, sm_90a): B in shared memory, A there or in registers as the
// instruction wants it, C in registers.  It is begun and waited for here, unless the program waits itself.
//
// The team's warpgroups form a grid over C (gemm_wgmma_plan.cpp). Each multiplies its rows of A with its
// columns of B, in tiles of 64 rows and as many columns as an instruction takes.  Tiles in shared memory lie
// in panels as wide as a swizzle pattern: what the instruction's descriptors can say, and what the copy
// engine writes.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/swizzle.h"
#include "ops/gemm_wgmma_plan.h"
#include "ops/mapping.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

constexpr std::string_view wgmma_record[] = {"warpgroups_m", "warpgroups_n"};
// ── the strategy ──────────────────────────────────────────────────────────────────────────────────────
bool runs_wgmma(std::string_view instruction, const Target& target) {
  return std::ranges::any_of(target.warpgroup, [&](auto& row) { return row.intrinsic.name == instruction; });
}

bool offers_wgmma(const Target& target) { return !target.warpgroup.empty(); }

std::string applies_wgmma(const Gemm& g, const LayoutContext& ctx) { return choose_wgmma(g, ctx).why_not; }

// The best plan; of several, that in the grid which the products of C have in common.
const WgmmaPlan& preferred(const Gemm& given, const WgmmaChoice& choice) {
  auto in_grid = [&](const WgmmaPlan& p) { return given.grid && p.grid() == *given.grid; };
  auto it = std::ranges::find_if(choice.plans, in_grid);
  return it == choice.plans.end() ? choice.plans[0] : *it;
}

LayoutDecisions infer_layout_wgmma(const Gemm& given, const LayoutContext& ctx, Strictness level) {
  WgmmaChoice choice = choose_wgmma(given, ctx);
  const Gemm& g = choice.g;
  const WgmmaPlan& p = preferred(given, choice);
  LayoutDecisions out{.record = record_of(p)};
  const Function& f = ctx.function;
  if (p.row->a_in_registers) {  // mostly computed from another product's sums, whose layout agrees
    Fragment wanted = wgmma_factors(g, p);
    if (!lies_as(g.a, f, ctx.known, wanted))
      out.relayout.insert(g.a.buffer);
    else if (level == Strictness::common)
      out.fragments.emplace(g.a.buffer, std::move(wanted));
  }
  if (level != Strictness::strict) return out;
  Fragment sums = wgmma_sums(g, p);
  if (given.lays_out && lies_as(g.c, f, ctx.known, sums)) out.fragments.emplace(g.c.buffer, std::move(sums));
  for (auto& t : operands_in_tiles(g, p))
    out.required[t.region.buffer] = layouts_of(t.region.buffer, g, p, ctx);
  return out;
}

// A tile as it lies: its pattern, and where its elements are.
struct PlacedTile {
  SharedMatrix memory;
  TileMode mode;
  int64_t rows, cols;  // of the buffer's last two dimensions
  int64_t width;       // of a panel, in elements

  // Of the element (mn, k) that an instruction's tile begins with, in elements of the buffer.
  Expr at(const Expr& mn, const Expr& k, const Facts& facts) const {
    Expr row = memory.starts[memory.dims[0]] + (mode.turned ? k : mn);
    Expr col = memory.starts[memory.dims[1]] + (mode.turned ? mn : k);
    Expr offset = floordiv(col, width) * (rows * width) + row * width + floormod(col, width);
    int64_t stride = rows * cols;
    for (size_t d = memory.dims[0]; d-- > 0; stride *= memory.layout.extents[d])
      offset = offset + memory.starts[d] * stride;
    return simplify(offset, facts);
  }
};

PlacedTile place_tile(const Gemm& g, LowerContext& ctx, const TileOperand& t) {
  SharedMatrix m = shared_matrix(ctx, t.region);
  const BufferInfo& info = ctx.function[t.region.buffer];
  std::vector<int64_t> shape = tile_shape(info);
  int bits = info.dtype.bits;
  for (int64_t width : {128, 64, 32, 0}) {
    if (width && shape.back() * bits / 8 % width) continue;
    if (!equal(swizzled_panels(shape, bits, width), m.layout)) continue;
    int64_t row_bytes = width ? width : 16, panel = shape[m.dims[0]] * row_bytes, eights = 8 * row_bytes;
    TileMode mode{.swizzle = width, .leading = panel, .stride = eights, .turned = t.turned};
    if (t.turned && !width) std::swap(mode.leading, mode.stride);
    if (!t.turned && width) mode.leading = 16;  // not looked at
    ctx.align(t.region.buffer, std::max<int64_t>(128, 8 * width));
    return {std::move(m), mode, shape[m.dims[0]], shape[m.dims[1]], row_bytes * 8 / bits};
  }
  fail(g.tile.span, "{}: {} has the layout {}, which the descriptors of wgmma cannot express",
       said_gemm(g.tile), info.name, to_string(m.layout));
}

// Names for what the threads of a warp agree on. Taken from the warp's first thread, so that the device
// compiler sees it: else it computes each descriptor in registers of every thread, and moves it from there
// for each instruction (measured: 0.3 to 0.7 % of a large product, 9 % of one of 1024³;
// bench/results/2026-11-28-uniform.md).
struct UniformNames {
  LowerContext& ctx;
  Span span;
  Facts& facts;
  std::vector<Stmt> made = {};

  Expr named(const char* name, const Expr& value, Interval range) {
    Expr mine = cast(i32, value);
    for (auto& s : made)
      if (equal(s.as<Let>()->value.as<Call>()->args[0], mine)) return cast(i64, s.as<Let>()->var);
    Expr same = var(name, i32);
    made.push_back(let(same, call(*find_intrinsic("shfl"), {mine, imm(0, i32)}), span));
    facts.bind(same, range);
    return cast(i64, same);
  }
  // The number of the slot that the tile lies in.
  PlacedTile with_slot(PlacedTile t) {
    for (size_t d = 0; d < t.memory.dims[0]; d++) {
      Expr& start = t.memory.starts[d];
      if (!as_int(simplify(start, facts))) start = named("slot", start, {0, t.memory.layout.extents[d] - 1});
    }
    return t;
  }
};

struct WgmmaLowering {
  const Gemm& g;
  LowerContext& ctx;
  const WgmmaPlan& p;
  BufferId sums, factors;  // registers
  Expr clears;             // the condition under which the registers begin with this product; null: always
  std::optional<PlacedTile> a = {}, b = {};
  Expr group_row, group_col;
  Facts facts;

  Stmt run_row(std::string_view name, std::vector<Expr> args) const {
    return eval(call(*find_instr(name), std::move(args)), g.tile.span);
  }
  static Expr address_at(DType type, BufferId buffer, Expr index) {
    return call(address_of, {tl::load(type, buffer, {std::move(index)})});
  }
  static void add_mode(std::vector<Expr>& args, const TileMode& m) {
    for (int64_t number : {m.swizzle, m.leading, m.stride, int64_t(m.turned)})
      args.push_back(imm(number, i32));
  }

  Stmt multiply(const Expr& i, const Expr& j, const Expr& step) {
    Expr row = (group_row * p.m_tiles + i) * WarpgroupInstr::m, col = (group_col * p.n_tiles + j) * p.n,
         k = step * p.row->k;
    Expr c = address_at(g.c_type, sums, (i * p.n_tiles + j) * p.sums());
    Expr from = p.row->a_in_registers ? address_at(g.a_type, factors, (i * p.steps(g) + step) * p.factors())
                                      : address_at(g.a_type, a->memory.buffer, a->at(row, k, facts));
    Expr first = both(clears, eq(step, imm(0)));
    std::vector<Expr> args{c, from, address_at(g.b_type, b->memory.buffer, b->at(col, k, facts)),
                           imm(p.n, i32), first};
    if (a) add_mode(args, a->mode);
    add_mode(args, b->mode);
    return eval(call(p.row->intrinsic, std::move(args)), g.tile.span);
  }

  Stmt run() {
    Expr step = facts.loop_var("kk", p.steps(g)), i = facts.loop_var("mi", p.m_tiles),
         j = facts.loop_var("ni", p.n_tiles);
    Stmt s = multiply(i, j, step);
    s = for_loop(j, p.n_tiles, Loop::unrolled, s, g.tile.span);
    s = for_loop(i, p.m_tiles, Loop::unrolled, s, g.tile.span);
    s = for_loop(step, p.steps(g), Loop::unrolled, s, g.tile.span);
    std::vector<Stmt> stmts{run_row("wgmma_fence", {}), s, run_row("wgmma_commit_group", {})};
    if (!g.in_flight) stmts.push_back(run_row("wgmma_wait_group", {imm(0, i32)}));
    return block(std::move(stmts), g.tile.span);
  }
};

std::string describe_wgmma(const Gemm& given, const LowerContext& ctx) {
  WgmmaPlan p = recorded_wgmma(given, ctx).plan;
  return fmt::format("{}{} by {} warpgroup{} in a {}×{} grid, {}×{} tiles of 64×{}×{} each; {}",
                     p.row->intrinsic.name, p.transposed ? ", C transposed," : "", p.rows * p.cols,
                     p.rows * p.cols == 1 ? "" : "s", p.rows, p.cols, p.m_tiles, p.n_tiles, p.n, p.row->k,
                     given.in_flight ? "the program waits for it" : "waited for at once");
}

Stmt lower_wgmma(const Gemm& given, LowerContext& ctx) {
  RecordedWgmma recorded = recorded_wgmma(given, ctx);
  const Gemm& g = recorded.g;
  const WgmmaPlan& p = recorded.plan;
  std::vector<Stmt> stmts;
  Fragment sums = wgmma_sums(g, p);
  const Function& f = ctx.function;
  bool direct = lies_as(g.c, f, ctx.layouts, sums);
  if (g.in_flight && !direct)
    fail(g.tile.span,
         "wgmma_gemm: {} has another layout than wgmma's sums, given by another operator, so it cannot be "
         "left "
         "in flight: use a fragment of its own for the sums",
         f[g.c.buffer].name);
  Facts facts = facts_of(f, ctx.kernel);
  UniformNames names{.ctx = ctx, .span = g.tile.span, .facts = facts};
  Expr number = imm(0);
  if (p.rows * p.cols > 1)
    number =
        names.named("warpgroup", floordiv(ctx.thread, WarpgroupInstr::threads), {0, p.rows * p.cols - 1});
  WgmmaLowering l{.g = g,
                  .ctx = ctx,
                  .p = p,
                  .sums = direct ? g.c.buffer : local_registers(g, ctx, "C_regs", g.c_type, sums.registers),
                  .factors = g.a.buffer,
                  .clears = !direct || g.clear ? Expr{}
                            : g.clear_if       ? g.clear_if
                                               : imm(0, boolean),
                  .group_row = p.rows == 1 ? imm(0) : floormod(number, p.rows),
                  .group_col = p.cols == 1 ? imm(0) : floordiv(number, p.rows),
                  .facts = facts};
  if (!p.row->a_in_registers) l.a = names.with_slot(place_tile(g, ctx, a_tile(g)));
  l.b = names.with_slot(place_tile(g, ctx, b_tile(g, p)));
  l.facts = facts;
  stmts.insert(stmts.end(), names.made.begin(), names.made.end());
  if (!direct && g.clear_if) stmts.push_back(if_then(g.clear_if, cleared(given, ctx), {}, g.tile.span));
  stmts.push_back(l.run());
  if (!direct) stmts.push_back(store_via_scratch(given, ctx, l.sums, sums, "another operator laid it out"));
  return block(std::move(stmts), g.tile.span);
}

}  // namespace

const GemmStrategy gemm_wgmma = {.name = "wgmma",
                                 .record = wgmma_record,
                                 .runs = runs_wgmma,
                                 .offered = offers_wgmma,
                                 .applies = applies_wgmma,
                                 .infer_layout = infer_layout_wgmma,
                                 .lower = lower_wgmma,
                                 .describe = describe_wgmma,
                                 .clears_if = true};

}  // namespace tl
