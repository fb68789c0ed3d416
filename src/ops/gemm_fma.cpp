// gemm by ordinary multiply-adds: for types that no matrix instruction takes, and shapes it does not fit.
//
// The threads form a grid over C; each owns a register tile of rows spaced by the grid's height and of short
// vectors of columns spaced by its width, so that neighbouring threads read neighbouring columns of B.  Tiles
// that do not divide are padded: padded registers compute on clamped operands and are never stored.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/gemm.h"
#include "ops/warp_accesses.h"

namespace tl {
namespace {

struct ThreadGrid {
  int64_t rows, cols, vector;  // threads along m and n; consecutive columns of one thread
  int64_t m_steps, n_steps;    // registers: m_steps × n_steps × vector
};

ThreadGrid grid_of(const Gemm& g, int64_t rows, int64_t cols, int64_t vector) {
  return {.rows = rows,
          .cols = cols,
          .vector = vector,
          .m_steps = ceil_of(g.m, rows),
          .n_steps = ceil_of(g.n, vector * cols)};
}

// "" or what is wrong with a grid.
std::string why_no_threads(const Gemm& g, int64_t rows, int64_t cols, int64_t vector, int64_t threads) {
  if (vector < 1 || g.n % vector) return fmt::format("vector={} does not divide n={}", vector, g.n);
  auto said = [&](const std::string& what) {
    return fmt::format("a grid of threads_m={} by threads_n={} threads {}", rows, cols, what);
  };
  if (rows < 1 || cols < 1) return said("has none");
  if (rows > threads || cols > threads / rows)
    return said(fmt::format("has more than this block's {}", threads));
  if (rows > g.m || cols > ceil_of(g.n, vector))
    return said(fmt::format("leaves some without a part of C, which is {}×{} vectors of {}", g.m,
                            g.n / vector, vector));
  return "";
}

// The squarest register tile among the grids that use most threads, of those that the statement's attributes
// leave.
ThreadGrid place_threads(const Gemm& g, int64_t threads) {
  const Attrs& attrs = g.tile.attrs;
  int64_t vector = attrs.get_int("vector", g.n % 4 == 0 ? 4 : g.n % 2 == 0 ? 2 : 1);
  std::string why =
      why_no_threads(g, attrs.get_int("threads_m", 1), attrs.get_int("threads_n", 1), vector, threads);
  if (!why.empty()) fail(g.tile.span, "gemm: {}", why);
  std::optional<ThreadGrid> best;
  auto cost = [](const ThreadGrid& t) {
    int64_t work = t.m_steps * t.n_steps * t.vector;
    return std::tuple(work, t.m_steps + t.n_steps * t.vector);
  };
  for (int64_t cols = 1; cols <= std::min(threads, ceil_of(g.n, vector)); cols++) {
    int64_t rows = attrs.get_int("threads_m", std::min(threads / cols, g.m));
    if (!may_be(g, "threads_n", cols) || rows > threads / cols) continue;
    ThreadGrid t = grid_of(g, rows, cols, vector);
    if (!best || cost(t) < cost(*best)) best = t;
  }
  return *best;
}

// The grid that stands on the statement.
ThreadGrid recorded_grid(const Gemm& g, int64_t threads) {
  int64_t rows = recorded(g, "threads_m"), cols = recorded(g, "threads_n"), vector = recorded(g, "vector");
  std::string why = why_no_threads(g, rows, cols, vector, threads);
  if (!why.empty()) fail(g.tile.span, "gemm: {}", why);
  return grid_of(g, rows, cols, vector);
}

constexpr std::string_view fma_record[] = {"threads_m", "threads_n", "vector"};

bool runs_fma(std::string_view instruction, const Target& target) {
  return target.has_threads() && instruction == "fma";
}

std::string applies_fma(const Gemm&, const LayoutContext& ctx) {
  return ctx.target.has_threads() ? "" : "this target has one thread per block";
}

Fragment fma_accumulator(const Gemm& g, const ThreadGrid& t) {
  std::vector<Term> terms = {{.output = 1, .stride = 1, .digit = {1, 1, t.vector}},
                             {.output = 0, .stride = 1, .digit = {1, t.vector, t.cols}},
                             {.output = 1, .stride = t.vector, .digit = {1, t.vector * t.cols, t.n_steps}},
                             {.output = 0, .stride = t.cols, .digit = {0, 1, t.rows}},
                             {.output = 1, .stride = t.vector * t.n_steps, .digit = {0, t.rows, t.m_steps}}};
  std::erase_if(terms, [](const Term& x) { return x.digit.radix == 1; });
  return make_fragment({g.m, g.n}, 1, std::move(terms));
}

// ── where A and B lie ─────────────────────────────────────────────────────────────────────────────────

// One of the reads of warp 0 and of the last: each lane's row of A at one k, or its columns of B.
std::vector<WarpAccess> fma_reads(const Gemm& g, const ThreadGrid& t, bool is_a, int64_t threads, int warp,
                                  size_t rank) {
  std::vector<WarpAccess> out;
  bool transposed = is_a ? g.trans_a : g.trans_b;
  int64_t n = is_a || transposed ? 1 : t.vector, warps = std::max<int64_t>(1, threads / warp);
  int64_t times = g.k * warps * (is_a ? t.m_steps : t.n_steps * t.vector / n);
  for (int64_t w : {int64_t(0), warps - 1})
    for (int64_t k : {int64_t(0), g.k / 2}) {
      WarpAccess access{.elements = n, .times = std::max<int64_t>(1, times / 4)};
      for (int64_t tx = w * warp; tx < std::min<int64_t>(threads, (w + 1) * warp); tx++) {
        int64_t row = std::min(tx / t.cols, t.rows - 1), col = tx % t.cols * t.vector;
        std::vector<int64_t> index(rank, 0);
        index[rank - (transposed == is_a ? 1 : 2)] = std::min(is_a ? row : col, (is_a ? g.m : g.n) - n);
        index[rank - (transposed == is_a ? 2 : 1)] = k;
        access.lanes.push_back(std::move(index));
      }
      out.push_back(std::move(access));
    }
  return out;
}

// The layout with the fewest bank cycles for these reads and the copy's writes.
Layout layout_for(std::vector<WarpAccess> accesses, int bits, const std::vector<int64_t>& shape,
                  const Target& target, int64_t most) {
  accesses.push_back(copy_writes(shape, bits, target));
  return fewest_bank_cycles(bank_family(shape, bits), accesses, bits, most, target.shared_banks);
}

LayoutDecisions infer_layout_fma(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  ThreadGrid t = place_threads(g, ctx.team.count);
  LayoutDecisions out{.record = {.entries = {{"instruction", "fma"},
                                             {"threads_m", t.rows},
                                             {"threads_n", t.cols},
                                             {"vector", t.vector}}}};
  if (level != Strictness::strict) return out;
  Fragment wanted = fma_accumulator(g, t);
  if (g.lays_out && lies_as(g.c, ctx.function, ctx.known, wanted))
    out.fragments.emplace(g.c.buffer, std::move(wanted));
  for (auto* r : {&g.a, &g.b}) {
    const BufferInfo& info = ctx.function[r->buffer];
    size_t rank = info.shape.size();
    if (info.scope != Scope::shared || matrix_dims(*r)[0] + 2 != rank) continue;
    auto reads = fma_reads(g, t, r == &g.a, ctx.team.count, ctx.target.warp, rank);
    auto& all = out.reads[r->buffer];  // A may be B
    all.insert(all.end(), reads.begin(), reads.end());
  }
  for (auto& [b, reads] : out.reads) {
    const BufferInfo& info = ctx.function[b];
    int64_t most = room_for(b, ctx.function, ctx.kernel, ctx.target, ctx.known);
    out.shared.emplace(b, layout_for(reads, info.dtype.bits, tile_shape(info), ctx.target, most));
  }
  return out;
}

// A or B where every thread can read it.
SharedMatrix fma_factor(const Gemm& g, const ThreadGrid& t, LowerContext& ctx, bool is_a,
                        std::vector<Stmt>& before) {
  const Region& r = is_a ? g.a : g.b;
  if (ctx.function[r.buffer].scope == Scope::shared) return shared_matrix(ctx, r);
  auto dims = matrix_dims(r);
  std::vector<int64_t> shape{*as_int(r.ranges[dims[0]].extent), *as_int(r.ranges[dims[1]].extent)};
  auto reads = fma_reads(g, t, is_a, ctx.team.count, ctx.target.warp, shape.size());
  int64_t most = may_pad(ctx.kernel) ? ctx.target.shared_bytes : product(shape);
  Layout layout = layout_for(reads, ctx.function[r.buffer].dtype.bits, shape, ctx.target, most);
  return to_scratch(g, ctx, r, std::move(layout), "multiply-adds read their operands from shared memory",
                    before);
}

// One element of A or B, widened to C's type; indices that a padded register would form are clamped.
Expr operand(const Gemm& g, const SharedMatrix& m, Expr x, Expr y, int64_t rows, int64_t cols,
             const Facts& facts) {
  auto clamp = [&](Expr e, int64_t extent) { return simplify(min(std::move(e), imm(extent - 1)), facts); };
  Expr at = m.at(clamp(std::move(x), rows), clamp(std::move(y), cols), facts);
  return as_operand(g.c_type, load(m.type, m.buffer, {at}, g.tile.span), g.tile.span);
}

Stmt lower_fma(const Gemm& g, LowerContext& ctx) {
  ThreadGrid t = recorded_grid(g, ctx.team.count);
  Span at = g.tile.span;
  std::vector<Stmt> stmts;
  Fragment wanted = fma_accumulator(g, t);
  bool direct = lies_as(g.c, ctx.function, ctx.layouts, wanted);
  SharedMatrix a_tile = fma_factor(g, t, ctx, true, stmts), b_tile = fma_factor(g, t, ctx, false, stmts);
  int64_t all = t.m_steps * t.n_steps * t.vector;
  BufferId sums = direct ? g.c.buffer : local_registers(g, ctx, "C_regs", g.c_type, all);
  BufferId a = local_registers(g, ctx, "A_regs", g.c_type, t.m_steps);
  BufferId b = local_registers(g, ctx, "B_regs", g.c_type, t.n_steps * t.vector);
  Facts facts = facts_of(ctx.function, ctx.kernel);
  Expr tx = ctx.thread, col = floormod(tx, t.cols), row = floordiv(tx, t.cols);
  Expr k = facts.loop_var("kk", g.k), i = facts.loop_var("mi", t.m_steps),
       j = facts.loop_var("nj", t.n_steps), v = facts.loop_var("v", t.vector);
  Expr m = i * t.rows + row, n = (j * t.cols + col) * t.vector + v;
  Expr a_value =
      g.trans_a ? operand(g, a_tile, k, m, g.k, g.m, facts) : operand(g, a_tile, m, k, g.m, g.k, facts);
  Expr b_value =
      g.trans_b ? operand(g, b_tile, n, k, g.n, g.k, facts) : operand(g, b_tile, k, n, g.k, g.n, facts);
  Stmt load_a = for_loop(i, t.m_steps, Loop::unrolled, store(a, {i}, a_value, at), at);
  Stmt load_b =
      for_loop(j, t.n_steps, Loop::unrolled,
               for_loop(v, t.vector, Loop::vectorized, store(b, {j * t.vector + v}, b_value, at), at), at);
  Expr i2 = facts.loop_var("mi", t.m_steps), n2 = facts.loop_var("ni", t.n_steps * t.vector);
  Expr c = i2 * (t.n_steps * t.vector) + n2;
  Expr product = binary(BinaryOp::mul, load(g.c_type, a, {i2}), load(g.c_type, b, {n2}), at);
  Stmt add = store(sums, {c}, binary(BinaryOp::add, load(g.c_type, sums, {c}), product, at), at);
  // A tile that does not divide: the last steps are not every thread's.
  Expr in_n = lt((floordiv(n2, t.vector) * t.cols + col) * t.vector + floormod(n2, t.vector), imm(g.n));
  if (t.n_steps * t.cols * t.vector > g.n) add = if_then(in_n, add, {}, at);
  Stmt row_of_sums = for_loop(n2, t.n_steps * t.vector, Loop::unrolled, add, at);
  if (t.m_steps * t.rows > g.m) row_of_sums = if_then(lt(i2 * t.rows + row, imm(g.m)), row_of_sums, {}, at);
  Stmt multiply = for_loop(i2, t.m_steps, Loop::unrolled, row_of_sums, at);
  if (g.clear || !direct) {
    Expr r = var("r");
    stmts.push_back(for_loop(r, all, Loop::unrolled, store(sums, {r}, zero(g.c_type), at), at));
  }
  Stmt sum = for_loop(k, g.k, Loop::serial, block({load_a, load_b, multiply}, at), at);
  bool idle = t.rows * t.cols < ctx.team.count;  // threads without a part of C
  stmts.push_back(idle ? if_then(lt(tx, imm(t.rows * t.cols)), sum, {}, at) : sum);
  if (!direct)
    stmts.push_back(store_via_scratch(
        g, ctx, sums, wanted,
        is_whole_matrix(g.c, ctx.function) ? "another operator laid it out" : "C is a part of a fragment"));
  return block(std::move(stmts), at);
}

std::string describe_fma(const Gemm& g, const LowerContext& ctx) {
  ThreadGrid t = recorded_grid(g, ctx.team.count);
  std::string text = fmt::format("a {}×{} grid of threads, {}×{} elements each, by {} neighbours", t.rows,
                                 t.cols, t.m_steps, t.n_steps * t.vector, t.vector);
  if (t.rows * t.m_steps > g.m || t.cols * t.n_steps * t.vector > g.n) text += ", fewer at the edge";
  int64_t idle = ctx.team.count - t.rows * t.cols;
  if (idle > 0) text += fmt::format("; {} thread{} idle", idle, idle == 1 ? " is" : "s are");
  return text;
}

}  // namespace

const GemmStrategy gemm_fma = {.name = "fma",
                               .record = fma_record,
                               .runs = runs_fma,
                               .offered = nullptr,
                               .applies = applies_fma,
                               .infer_layout = infer_layout_fma,
                               .lower = lower_fma,
                               .describe = describe_fma,
                               .clears_if = false};

}  // namespace tl
