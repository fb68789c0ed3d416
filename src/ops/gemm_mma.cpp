// gemm by warp-level matrix instructions (mma.sync): A and B in shared memory, loaded by ldmatrix where their
// rows are aligned for it, or already in registers as the instruction wants them; C in registers.
//
// The block's warps form a grid over C.  A warp computes m_tiles × n_tiles instruction tiles; for each step
// of the instruction's k it loads its rows of A and columns of B once and multiplies them all.  Grids need
// not divide the tiles: the last warps of a row or column then have fewer, and warps beyond the grid none.
//
// 8-bit floats that the chip does not multiply become f16 in the registers, and 4-bit integers 8-bit ones:
// both exactly. tf32 is rounded there, because the instruction would truncate.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "layout/swizzle.h"
#include "ops/copy_matrix.h"
#include "ops/gemm_mma_load.h"
#include "ops/gemm_mma_plan.h"
#include "ops/mapping.h"

namespace tl {
namespace {

constexpr std::string_view mma_record[] = {"tail", "warps_m", "warps_n"};

bool runs_mma(std::string_view instruction, const Target& target) {
  return std::ranges::any_of(target.matrix, [&](auto* row) { return row->intrinsic.name == instruction; });
}

std::string applies_mma(const Gemm& g, const LayoutContext& ctx) {
  return why_no_mma(g, ctx.target, ctx.team.count);
}

// An operand of so many elements as ldmatrix reads it, each of these warps all of it: eight rows of 16 bytes
// at once.
WarpAccess block_reads(const std::vector<int64_t>& shape, int bits, int64_t elements, int64_t warps) {
  size_t rank = shape.size();
  int64_t rows = std::min<int64_t>(8, shape[rank - 2]),
          chunk = std::min<int64_t>(128 / bits, shape[rank - 1]);
  WarpAccess access{.elements = chunk, .times = elements / (rows * chunk) * warps};
  for (int64_t r = 0; r < rows; r++) {
    std::vector<int64_t> index(rank, 0);
    index[rank - 2] = r;
    access.lanes.push_back(std::move(index));
  }
  return access;
}

// C and the tiles in shared memory lie as the instruction wants, strictly.  A fragment operand mostly follows
// the accumulator that it was computed from, which agrees with the instruction or, in another grid, goes
// through scratch; so it is asked for at `common`, after its producers.
LayoutDecisions infer_layout_mma(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  MmaPlan p = choose_plan(g, ctx);
  LayoutDecisions out{.record = record_of(p)};
  auto want = [&](const Region& r, Fragment wanted) {  // where another operator was first, lowering copes
    if (lies_as(r, ctx.function, ctx.known, wanted)) out.fragments.emplace(r.buffer, std::move(wanted));
  };
  if (level == Strictness::common) {
    if (is_fragment(g.a, ctx.function)) want(g.a, mma_a(g, p));
    if (is_fragment(g.b, ctx.function) && g.b.buffer != g.a.buffer) want(g.b, mma_b(g, p));
  }
  if (level != Strictness::strict) return out;
  if (g.lays_out) want(g.c, mma_accumulator(g, p));
  for (auto* r : {&g.a, &g.b}) {
    const BufferInfo& info = ctx.function[r->buffer];
    if (info.scope != Scope::shared) continue;
    std::vector<int64_t> shape = tile_shape(info);
    out.shared.emplace(r->buffer, layout_for_matrices(r->buffer, ctx));
    bool is_b = r == &g.b;
    out.reads[r->buffer].push_back(
        block_reads(shape, info.dtype.bits, (is_b ? g.n : g.m) * g.k, is_b ? p.rows : p.cols));
  }
  return out;
}

// ── lowering ──────────────────────────────────────────────────────────────────────────────────────────

// Where a warp finds its part of A or B: in shared memory, from which it loads each step, or in registers.
struct Operand {
  std::optional<WarpShare> memory = {};
  BufferId registers;
  int64_t tile_stride = 0, step_stride = 0;  // in the registers
};

struct MmaLowering {
  const Gemm& g;
  LowerContext& ctx;
  const MmaPlan& plan;
  Expr lane, warp_row, warp_col;
  Operand a, b;
  BufferId sums;
  Facts facts;

  Expr address(DType type, BufferId buffer, Expr index) {
    return call(address_of, {tl::load(type, buffer, {std::move(index)})});
  }

  // Tiles beyond C's edge: null where there are none.
  Expr m_inside(const Expr& i) {
    return plan.all_m(g) % plan.rows ? lt(warp_row * plan.m_tiles + i, imm(plan.all_m(g))) : Expr{};
  }
  Expr n_inside(const Expr& j) {
    return plan.all_n(g) % plan.cols ? lt(warp_col * plan.n_tiles + j, imm(plan.all_n(g))) : Expr{};
  }

  Stmt load(const Operand& o, const MatrixInstr& row, const Expr& k) {
    return o.memory ? load_share(row, *o.memory, k, lane, ctx, facts, g.tile.span) : block({});
  }

  Stmt multiply(const MatrixInstr& row, const Expr& step) {
    Expr i = facts.loop_var("mi", plan.m_tiles), j = facts.loop_var("ni", plan.n_tiles);
    auto part = [&](const Operand& o, DType type, const Expr& tile) {
      return address(type, o.registers, tile * o.tile_stride + step * o.step_stride);
    };
    Expr c = address(g.c_type, sums, (i * plan.n_tiles + j) * row.c.registers);
    Stmt mma = eval(call(row.intrinsic, {c, part(a, row.a_type, i), part(b, row.b_type, j)}), g.tile.span);
    mma = if_then(both(m_inside(i), n_inside(j)), mma, {}, g.tile.span);
    return for_loop(i, plan.m_tiles, Loop::unrolled,
                    for_loop(j, plan.n_tiles, Loop::unrolled, mma, g.tile.span), g.tile.span);
  }

  Stmt step(const MatrixInstr& row, const Expr& number) {
    Expr k = number * plan.row->k;
    return block({load(a, row, k), load(b, row, k), multiply(row, number)}, g.tile.span);
  }

  Stmt run() {
    Expr k = facts.loop_var("kk", g.k / plan.row->k);
    Stmt s = for_loop(k, g.k / plan.row->k, Loop::unrolled, step(*plan.row, k), g.tile.span);
    return plan.tail ? block({s, step(*plan.tail, imm(g.k / plan.row->k))}, g.tile.span) : s;
  }
};

// A fragment that lies right, as what is multiplied.
BufferId factors(const Gemm& g, LowerContext& ctx, bool is_b, BufferId fragment, DType factor,
                 int64_t registers, std::vector<Stmt>& before) {
  DType type = ctx.function[fragment].dtype;
  if (type == factor && type != tf32) return fragment;
  BufferId local = local_registers(g, ctx, is_b ? "B_regs" : "A_regs", factor, registers);
  Expr r = var("r");
  Expr value = as_operand(factor, tl::load(type, fragment, {r}), g.tile.span);
  before.push_back(
      for_loop(r, registers, Loop::unrolled, store(local, {r}, value, g.tile.span), g.tile.span));
  return local;
}

// A or B made ready: where the fragment lies as wanted, nothing is to be done.
Operand mma_operand(const Gemm& g, LowerContext& ctx, const MmaPlan& p, bool is_b, const Expr& part,
                    std::vector<Stmt>& before) {
  const Region& r = is_b ? g.b : g.a;
  Fragment wanted = is_b ? mma_b(g, p) : mma_a(g, p);
  int64_t registers = is_b ? p.row->b.registers : p.row->a.registers, tiles = is_b ? p.n_tiles : p.m_tiles;
  DType type = ctx.function[r.buffer].dtype, factor = is_b ? p.row->b_type : p.row->a_type;
  if (is_fragment(r, ctx.function) && lies_as(r, ctx.function, ctx.layouts, wanted))
    return {.registers = factors(g, ctx, is_b, r.buffer, factor, wanted.registers, before),
            .tile_stride = registers * g.k / p.row->k,
            .step_stride = registers};
  BufferId local = local_registers(g, ctx, is_b ? "B_regs" : "A_regs", factor, tiles * registers);
  WarpShare s{.is_b = is_b,
              .transposed = is_b ? g.trans_b : g.trans_a,
              .registers = local,
              .factor = factor,
              .tile_stride = registers,
              .tiles = tiles,
              .all_tiles = is_b ? p.all_n(g) : p.all_m(g),
              .parts = is_b ? p.cols : p.rows,
              .part = part};
  if (is_fragment(r, ctx.function)) {
    auto dims = matrix_dims(r);
    std::string why = is_whole_matrix(r, ctx.function)
                          ? fmt::format("its layout is {}, but the instruction needs {}",
                                        to_string(ctx.layouts.fragments.at(r.buffer)), to_string(wanted))
                          : "the operand is a part of a fragment";
    std::vector<int64_t> shape{*as_int(r.ranges[dims[0]].extent), *as_int(r.ranges[dims[1]].extent)};
    s.memory = to_scratch(g, ctx, r, conflict_free(shape, type.bits, may_pad(ctx.kernel)), why, before);
  } else {
    s.memory = shared_matrix(ctx, r);
  }
  std::string why = why_not_ldmatrix(*p.row, s, r, ctx, facts_of(ctx.function, ctx.kernel));
  if (!why.empty())
    ctx.note(
        "gemm",
        fmt::format("{} is loaded element by element, not by ldmatrix: {}", ctx.function[r.buffer].name, why),
        g.tile.span, true);
  return {.memory = std::move(s), .registers = local, .tile_stride = registers};
}

Stmt zeroed(const Gemm& g, BufferId registers, int64_t n) {
  Expr r = var("r");
  return for_loop(r, n, Loop::unrolled, store(registers, {r}, zero(g.c_type), g.tile.span), g.tile.span);
}

std::string describe_mma(const Gemm& g, const LowerContext& ctx) {
  MmaPlan p = recorded_plan(g, ctx.target, ctx.team.count);
  std::string text = fmt::format("{} by {} warp{} in a {}×{} grid, {}×{} tiles of {}×{}×{} each",
                                 p.row->intrinsic.name, p.rows * p.cols, p.rows * p.cols == 1 ? "" : "s",
                                 p.rows, p.cols, p.m_tiles, p.n_tiles, p.row->m, p.row->n, p.row->k);
  if (p.row->a_type != g.a_type || p.row->b_type != g.b_type)
    text += fmt::format("; {} × {} as {} × {}, which holds their values", to_string(g.a_type),
                        to_string(g.b_type), to_string(p.row->a_type), to_string(p.row->b_type));
  if (p.row->a_type == tf32) text += "; operands are rounded to tf32 as they are loaded";
  if (p.tail) text += fmt::format(", the rest of k by {}", p.tail->intrinsic.name);
  if (p.all_m(g) % p.rows || p.all_n(g) % p.cols) text += ", fewer at the edge";
  int64_t idle = ctx.team.count / p.warp - p.rows * p.cols;
  if (idle > 0) text += fmt::format("; {} warp{} idle", idle, idle == 1 ? " is" : "s are");
  return text;
}

Stmt lower_mma(const Gemm& g, LowerContext& ctx) {
  MmaPlan p = recorded_plan(g, ctx.target, ctx.team.count);
  const MatrixInstr& row = *p.row;
  int64_t all = p.m_tiles * p.n_tiles * row.c.registers;
  Expr warp = floordiv(ctx.thread, p.warp);
  std::vector<Stmt> stmts;
  Fragment sums = mma_accumulator(g, p);
  bool direct = lies_as(g.c, ctx.function, ctx.layouts, sums);
  Expr warp_row = p.rows == 1 ? imm(0) : floormod(warp, p.rows);
  Expr warp_col = p.cols == 1 ? imm(0) : floordiv(warp, p.rows);
  MmaLowering l{.g = g,
                .ctx = ctx,
                .plan = p,
                .lane = floormod(ctx.thread, p.warp),
                .warp_row = warp_row,
                .warp_col = warp_col,
                .a = mma_operand(g, ctx, p, false, warp_row, stmts),
                .b = mma_operand(g, ctx, p, true, warp_col, stmts),
                .sums = direct ? g.c.buffer : local_registers(g, ctx, "C_regs", g.c_type, all),
                .facts = facts_of(ctx.function, ctx.kernel)};
  if (g.clear || !direct) stmts.push_back(zeroed(g, l.sums, all));
  bool idle = p.rows * p.cols * p.warp < ctx.team.count;
  stmts.push_back(
      if_then(idle ? lt(ctx.thread, imm(p.rows * p.cols * p.warp)) : Expr{}, l.run(), {}, g.tile.span));
  if (!direct)
    stmts.push_back(store_via_scratch(
        g, ctx, l.sums, sums,
        is_whole_matrix(g.c, ctx.function) ? "another operator laid it out" : "C is a part of a fragment"));
  return block(std::move(stmts), g.tile.span);
}

}  // namespace

std::optional<Steps> steps_of_mma(const Tile& t, const LayoutContext& ctx) {
  Gemm g = read_gemm(t, ctx.function);
  for (auto* r : {&g.a, &g.b})
    if (ctx.function[r->buffer].scope != Scope::shared && !is_whole_matrix(*r, ctx.function))
      return std::nullopt;
  if (g.clear_if || t.attrs.find("instruction") || !applies_mma(g, ctx).empty()) return std::nullopt;
  MmaPlan p = choose_plan(g, ctx);
  bool as_they_are = p.row->a_type == g.a_type && p.row->b_type == g.b_type && g.a_type != tf32;
  bool by_rows = g.a_type.bits == 16 || (g.a_type.bits == 8 && !g.trans_a && g.trans_b);
  bool even = p.all_m(g) % p.rows == 0 && p.all_n(g) % p.cols == 0 &&
              p.rows * p.cols * p.warp == ctx.team.count && !p.tail;
  if (!as_they_are || !by_rows || !even) return std::nullopt;
  int64_t per_step =
      p.m_tiles * p.row->a.registers * g.a_type.bits + p.n_tiles * p.row->b.registers * g.b_type.bits;
  int64_t sums = p.m_tiles * p.n_tiles * p.row->c.registers * g.c_type.bits;
  Attrs first = t.attrs, record = record_of(p);
  for (auto& [name, value] : record.entries) first.entries.insert_or_assign(name, value);
  Attrs later = first;
  later.entries.erase("clear_accum");
  int64_t depth = p.row->k;
  auto part = [g, depth](size_t operand, int64_t step) {
    Region r = operand == 0 ? g.a : g.b;
    bool k_first = operand == 0 ? g.trans_a : !g.trans_b;
    Range& along = r.ranges[matrix_dims(r)[k_first ? 0 : 1]];
    along = {.min = along.min + step * depth, .extent = imm(depth)};
    return r;
  };
  return Steps{.count = g.k / depth,
               .operands = {0, 1},
               .part = part,
               .attrs = [first, later](int64_t step) { return step ? later : first; },
               .registers = (sums + 2 * per_step) / 32};
}

const GemmStrategy gemm_mma = {.name = "mma.sync",
                               .record = mma_record,
                               .runs = runs_mma,
                               .offered = nullptr,
                               .applies = applies_mma,
                               .infer_layout = infer_layout_mma,
                               .lower = lower_mma,
                               .describe = describe_mma,
                               .clears_if = false};

}  // namespace tl
