// gemm by ordinary multiply-adds: for types that no matrix instruction takes, and shapes it does not fit.
//
// The threads form a grid over C; each owns a register tile of rows spaced by the grid's height and of short
// vectors of columns spaced by its width, so that neighbouring threads read neighbouring columns of B.  Tiles
// that do not divide are padded: padded registers compute on clamped operands and are never stored.
#include <algorithm>

#include "arith/prove.h"
#include "ops/gemm.h"
#include "ops/parallel.h"

namespace tl {
namespace {

struct ThreadGrid {
  int64_t rows, cols, vector;                // threads along m and n; consecutive columns of one thread
  int64_t m_steps, n_steps;                  // registers: m_steps × n_steps × vector
};

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The squarest register tile among the grids that use most threads.
ThreadGrid place_threads(const Gemm& g, int64_t threads) {
  int64_t vector = g.n % 4 == 0 ? 4 : g.n % 2 == 0 ? 2 : 1;
  std::optional<ThreadGrid> best;
  auto cost = [](const ThreadGrid& t) {
    int64_t work = t.m_steps * t.n_steps * t.vector;
    return std::tuple(work, t.m_steps + t.n_steps * t.vector);
  };
  for (int64_t cols = 1; cols <= std::min(threads, ceil_of(g.n, vector)); cols++) {
    ThreadGrid t{.rows = std::min(threads / cols, g.m), .cols = cols, .vector = vector, .m_steps = 0, .n_steps = 0};
    t.m_steps = ceil_of(g.m, t.rows);
    t.n_steps = ceil_of(g.n, vector * cols);
    if (!best || cost(t) < cost(*best)) best = t;
  }
  return *best;
}

bool is_whole(const Region& r, const Function& f) {
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!is_int(r.ranges[d].min, 0) || as_int(r.ranges[d].extent) != as_int(f[r.buffer].shape[d])) return false;
  return r.ranges.size() == 2;
}

std::string applies(const Gemm& g, const LayoutContext& ctx) {
  if (!ctx.target.has_threads()) return "this target has one thread per block";
  for (auto* r : {&g.a, &g.b})
    if (ctx.function[r->buffer].scope != Scope::shared) return ctx.function[r->buffer].name + " is not in shared memory";
  return is_whole(g.c, ctx.function) ? "" : "C is a slice of a fragment";
}

LayoutMap infer_layout(const Gemm& g, const LayoutContext& ctx, Strictness) {
  ThreadGrid t = place_threads(g, ctx.threads);
  std::vector<Term> terms = {
      {.output = 1, .stride = 1, .digit = {1, 1, t.vector}},
      {.output = 0, .stride = 1, .digit = {1, t.vector, t.cols}},
      {.output = 1, .stride = t.vector, .digit = {1, t.vector * t.cols, t.n_steps}},
      {.output = 0, .stride = t.cols, .digit = {0, 1, t.rows}},
      {.output = 1, .stride = t.vector * t.n_steps, .digit = {0, t.rows, t.m_steps}}};
  std::erase_if(terms, [](const Term& x) { return x.digit.radix == 1; });
  LayoutMap out;
  out.fragments.emplace(g.c.buffer, make_fragment({g.m, g.n}, 1, std::move(terms)));
  return out;
}

// One element of A or B, widened to C's type; indices that a padded register would form are clamped.
Expr operand(const Gemm& g, LowerContext& ctx, const Region& r, Expr x, Expr y, int64_t rows, int64_t cols, const Facts& facts) {
  auto clamp = [&](Expr e, int64_t extent) { return simplify(min(std::move(e), imm(extent - 1)), facts); };
  x = clamp(x, rows);
  y = clamp(y, cols);
  std::vector<Expr> index;
  size_t points = r.ranges.size() - 2;
  for (size_t d = 0; d < r.ranges.size(); d++)
    index.push_back(d < points ? r.ranges[d].min : r.ranges[d].min + (d == points ? x : y));
  Expr at = physical_index(ctx.layouts, ctx.function, r.buffer, index, facts);
  return cast(g.c_type, load(ctx.function, r.buffer, {at}, g.tile.span));
}

Stmt lower(const Gemm& g, LowerContext& ctx) {
  ThreadGrid t = place_threads(g, ctx.threads);
  Facts facts = facts_of(ctx.function, ctx.kernel);
  auto bound = [&](const char* name, int64_t extent) {
    Expr v = var(name);
    facts.bind(v, Interval{0, extent - 1});
    return v;
  };
  auto registers = [&](std::string name, int64_t n) {
    return ctx.scratch({.name = name, .dtype = g.c_type, .shape = {imm(n)}, .strides = {}, .scope = Scope::local,
                        .span = g.tile.span, .layout = {}, .elements = n});
  };
  Span at = g.tile.span;
  Expr tx = ctx.kernel.thread, col = floormod(tx, t.cols), row = floordiv(tx, t.cols);
  if (t.rows * t.cols < ctx.threads) row = min(row, imm(t.rows - 1));   // idle threads compute along
  BufferId a = registers("A_regs", t.m_steps), b = registers("B_regs", t.n_steps * t.vector);
  Expr k = bound("kk", g.k), i = bound("mi", t.m_steps), j = bound("nj", t.n_steps), v = bound("v", t.vector);
  Expr m = i * t.rows + row, n = (j * t.cols + col) * t.vector + v;
  Expr a_value = g.trans_a ? operand(g, ctx, g.a, k, m, g.k, g.m, facts) : operand(g, ctx, g.a, m, k, g.m, g.k, facts);
  Expr b_value = g.trans_b ? operand(g, ctx, g.b, n, k, g.n, g.k, facts) : operand(g, ctx, g.b, k, n, g.k, g.n, facts);
  Stmt load_a = for_loop(i, t.m_steps, Loop::unrolled, store(a, {i}, a_value, at), at);
  Stmt load_b = for_loop(j, t.n_steps, Loop::unrolled, for_loop(v, t.vector, Loop::vectorized,
                                                               store(b, {j * t.vector + v}, b_value, at), at), at);
  Expr i2 = bound("mi", t.m_steps), n2 = bound("ni", t.n_steps * t.vector);
  Expr c = i2 * (t.n_steps * t.vector) + n2;
  Expr product = binary(BinaryOp::mul, load(g.c_type, a, {i2}), load(g.c_type, b, {n2}), at);
  Stmt add = store(g.c.buffer, {c}, binary(BinaryOp::add, load(g.c_type, g.c.buffer, {c}), product, at), at);
  Stmt multiply = for_loop(i2, t.m_steps, Loop::unrolled, for_loop(n2, t.n_steps * t.vector, Loop::unrolled, add, at), at);
  Stmt s = for_loop(k, g.k, Loop::serial, block({load_a, load_b, multiply}, at), at);
  if (!g.clear) return s;
  Expr r = var("r");
  int64_t all = t.m_steps * t.n_steps * t.vector;
  return block({for_loop(r, all, Loop::unrolled, store(g.c.buffer, {r}, zero(g.c_type), at), at), s}, at);
}

}  // namespace

const GemmStrategy gemm_fma = {.name = "fma", .applies = applies, .infer_layout = infer_layout, .lower = lower};

}  // namespace tl
