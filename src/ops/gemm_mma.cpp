// gemm by warp-level matrix instructions (mma.sync): A and B in shared memory, loaded by ldmatrix; C in registers.
//
// The block's warps form a grid over C.  A warp computes m_tiles × n_tiles instruction tiles; for each step of
// the instruction's k it loads its rows of A and columns of B once and multiplies them all.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/gemm.h"
#include "ops/parallel.h"

namespace tl {
namespace {

struct WarpGrid {
  int64_t rows, cols;                      // warps along m and n
};

// All ways to place the warps such that each gets whole instruction tiles; the best by the policy: square shares
// the operand traffic best, the others give a warp whole rows or columns of C.
std::optional<WarpGrid> place_warps(const Gemm& g, const MatrixInstr& row, int64_t warps) {
  std::optional<WarpGrid> best;
  auto cost = [&](const WarpGrid& w) {
    int64_t m = g.m / w.rows, n = g.n / w.cols;
    if (g.policy == "full_row") return w.cols;
    if (g.policy == "full_col") return w.rows;
    return m + n + (n % 16 ? m + n : 0);   // per warp and k: rows and columns loaded; odd n tiles load by halves
  };
  for (int64_t rows = 1; rows <= warps; rows++) {
    if (warps % rows) continue;
    WarpGrid w{.rows = rows, .cols = warps / rows};
    if (g.m % (w.rows * row.m) || g.n % (w.cols * row.n)) continue;
    if (!best || cost(w) < cost(*best)) best = w;
  }
  return best;
}

const MatrixInstr* row_for(const Gemm& g, const Target& target) { return target.matrix_for(g.a_type, g.b_type, g.c_type); }

bool is_whole(const Region& r, const Function& f) {
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!is_int(r.ranges[d].min, 0) || as_int(r.ranges[d].extent) != as_int(f[r.buffer].shape[d])) return false;
  return r.ranges.size() == 2;
}

std::string applies(const Gemm& g, const LayoutContext& ctx) {
  const MatrixInstr* row = row_for(g, ctx.target);
  if (!row)
    return fmt::format("{} has no instruction for {} × {} -> {}", ctx.target.name, to_string(g.a_type),
                       to_string(g.b_type), to_string(g.c_type));
  for (auto* r : {&g.a, &g.b})
    if (ctx.function[r->buffer].scope != Scope::shared) return ctx.function[r->buffer].name + " is not in shared memory";
  if (!is_whole(g.c, ctx.function)) return "C is a slice of a fragment";
  if (ctx.threads % ctx.target.warp) return fmt::format("{} threads are not whole warps", ctx.threads);
  if (g.k % row->k) return fmt::format("k = {} is not a multiple of {}", g.k, row->k);
  if (!place_warps(g, *row, ctx.threads / ctx.target.warp))
    return fmt::format("{}×{} does not split into {}×{} tiles for {} warps", g.m, g.n, row->m, row->n,
                       ctx.threads / ctx.target.warp);
  return "";
}

// C's fragment: the instruction's own, repeated over a warp's tiles (registers) and over the warps (threads).
Fragment accumulator(const Gemm& g, const MatrixInstr& row, const WarpGrid& w, int warp) {
  int64_t m_tiles = g.m / w.rows / row.m, n_tiles = g.n / w.cols / row.n;
  std::vector<Term> terms;
  for (auto& d : row.c.digits) {
    bool lane = d.from == FragmentDigit::From::lane;
    terms.push_back({.output = lane ? 0 : 1, .stride = d.divisor,
                     .digit = {.input = d.row ? 0 : 1, .divisor = d.row ? d.row : d.col, .radix = d.radix}});
  }
  int64_t r = row.c.registers;
  terms.push_back({.output = 1, .stride = r, .digit = {1, row.n, n_tiles}});
  terms.push_back({.output = 1, .stride = r * n_tiles, .digit = {0, row.m, m_tiles}});
  terms.push_back({.output = 0, .stride = warp, .digit = {0, row.m * m_tiles, w.rows}});
  terms.push_back({.output = 0, .stride = warp * w.rows, .digit = {1, row.n * n_tiles, w.cols}});
  return make_fragment({g.m, g.n}, 1, std::move(terms));
}

LayoutMap infer_layout(const Gemm& g, const LayoutContext& ctx, Strictness) {
  const MatrixInstr& row = *row_for(g, ctx.target);
  LayoutMap out;
  out.fragments.emplace(g.c.buffer, accumulator(g, row, *place_warps(g, row, ctx.threads / ctx.target.warp), ctx.target.warp));
  for (auto* r : {&g.a, &g.b}) {
    const BufferInfo& info = ctx.function[r->buffer];
    std::vector<int64_t> shape;
    for (auto& e : info.shape) shape.push_back(*as_int(e));
    out.shared.emplace(r->buffer, swizzled(shape, info.dtype.bits));
  }
  return out;
}

// ── lowering ──────────────────────────────────────────────────────────────────────────────────────────

struct Lowering {
  const Gemm& g;
  LowerContext& ctx;
  const MatrixInstr& row;
  WarpGrid warps;
  int64_t m_tiles, n_tiles;
  Expr lane, warp_row, warp_col;
  BufferId a_regs, b_regs;
  Facts facts;

  Expr loop_var(const char* name, int64_t extent) {
    Expr v = var(name);
    facts.bind(v, Interval{0, extent - 1});
    return v;
  }

  Expr address(DType type, BufferId buffer, Expr index) { return call(address_of, {load(type, buffer, {std::move(index)})}); }

  // The address of element (x, y) of an operand's matrix, in shared memory.
  Expr shared_address(const Region& r, const Expr& x, const Expr& y) {
    std::vector<Expr> index;
    size_t points = r.ranges.size() - 2;
    for (size_t d = 0; d < r.ranges.size(); d++)
      index.push_back(d < points ? r.ranges[d].min : r.ranges[d].min + (d == points ? x : y));
    return address(ctx.function[r.buffer].dtype, r.buffer, physical_index(ctx.layouts, ctx.function, r.buffer, index, facts));
  }

  Stmt ldmatrix(int blocks, bool transposed, Expr to, Expr from) {
    std::string name = fmt::format("ldmatrix_x{}{}", blocks, transposed ? "_trans" : "");
    const CopyInstr* copy = ctx.target.copy_named(name);
    internal_check(copy, name);
    return eval(call(copy->callee, {std::move(to), std::move(from)}), g.tile.span);
  }

  // A's 16×16 blocks: four 8×8 matrices in the order (rows, k), (rows+8, k), (rows, k+8), (rows+8, k+8).
  Stmt load_a(const Expr& k_step) {
    Expr i = loop_var("mi", m_tiles);
    Expr m = warp_row * (m_tiles * row.m) + i * row.m, k = k_step * row.k;
    Expr to = address(g.a_type, a_regs, i * row.a.registers);
    Expr from = g.trans_a ? shared_address(g.a, k + floormod(lane, 8) + floordiv(lane, 16) * 8,
                                           m + floormod(floordiv(lane, 8), 2) * 8)
                          : shared_address(g.a, m + floormod(lane, 16), k + floordiv(lane, 16) * 8);
    return for_loop(i, m_tiles, Loop::unrolled, ldmatrix(4, g.trans_a, to, from), g.tile.span);
  }

  // B's 16×8 tiles, two at a time where their number is even: (k, n), (k+8, n), (k, n+8), (k+8, n+8).
  Stmt load_b(const Expr& k_step) {
    int64_t at_once = n_tiles % 2 ? 1 : 2;
    Expr j = loop_var("nj", n_tiles / at_once);
    Expr n = warp_col * (n_tiles * row.n) + j * (row.n * at_once), k = k_step * row.k;
    Expr second = at_once == 2 ? floordiv(lane, 16) * 8 : imm(0);
    Expr k_half = floormod(floordiv(lane, 8), 2) * 8;
    Expr to = address(g.b_type, b_regs, j * (row.b.registers * at_once));
    Expr from = g.trans_b ? shared_address(g.b, n + floormod(lane, 8) + second, k + k_half)
                          : shared_address(g.b, k + floormod(lane, 16), n + second);
    return for_loop(j, n_tiles / at_once, Loop::unrolled, ldmatrix(int(2 * at_once), !g.trans_b, to, from), g.tile.span);
  }

  Stmt multiply() {
    Expr i = loop_var("mi", m_tiles), j = loop_var("ni", n_tiles);
    Expr c = address(g.c_type, g.c.buffer, (i * n_tiles + j) * row.c.registers);
    Stmt mma = eval(call(row.callee, {c, address(g.a_type, a_regs, i * row.a.registers),
                                      address(g.b_type, b_regs, j * row.b.registers)}), g.tile.span);
    return for_loop(i, m_tiles, Loop::unrolled, for_loop(j, n_tiles, Loop::unrolled, mma, g.tile.span), g.tile.span);
  }
};

Stmt lower(const Gemm& g, LowerContext& ctx) {
  const MatrixInstr& row = *row_for(g, ctx.target);
  WarpGrid w = *place_warps(g, row, ctx.threads / ctx.target.warp);
  int64_t m_tiles = g.m / w.rows / row.m, n_tiles = g.n / w.cols / row.n;
  auto registers = [&](std::string name, DType type, int64_t n) {
    return ctx.scratch({.name = name, .dtype = type, .shape = {imm(n)}, .strides = {}, .scope = Scope::local,
                        .span = g.tile.span, .layout = {}, .elements = n});
  };
  Expr warp = floordiv(ctx.kernel.thread, ctx.target.warp);
  Lowering l{.g = g, .ctx = ctx, .row = row, .warps = w, .m_tiles = m_tiles, .n_tiles = n_tiles,
             .lane = floormod(ctx.kernel.thread, ctx.target.warp),
             .warp_row = w.rows == 1 ? imm(0) : floormod(warp, w.rows),
             .warp_col = w.cols == 1 ? imm(0) : floordiv(warp, w.rows),
             .a_regs = registers("A_regs", g.a_type, m_tiles * row.a.registers),
             .b_regs = registers("B_regs", g.b_type, n_tiles * row.b.registers),
             .facts = facts_of(ctx.function, ctx.kernel)};
  ctx.note("gemm", fmt::format("mma.sync: {} by {} warps in a {}×{} grid, {}×{} tiles of {}×{}×{} each", row.callee.name,
                               w.rows * w.cols, w.rows, w.cols, m_tiles, n_tiles, row.m, row.n, row.k), g.tile.span);
  Expr k = l.loop_var("kk", g.k / row.k);
  Stmt body = block({l.load_a(k), l.load_b(k), l.multiply()}, g.tile.span);
  Stmt s = for_loop(k, g.k / row.k, Loop::unrolled, body, g.tile.span);
  if (!g.clear) return s;
  Expr r = var("r");
  Stmt clear = store(g.c.buffer, {r}, zero(g.c_type), g.tile.span);
  return block({for_loop(r, m_tiles * n_tiles * row.c.registers, Loop::unrolled, clear, g.tile.span), s}, g.tile.span);
}

}  // namespace

const GemmStrategy gemm_mma = {.name = "mma.sync", .applies = applies, .infer_layout = infer_layout, .lower = lower};

}  // namespace tl
