// gemm by warp-level matrix instructions (mma.sync): A and B in shared memory, loaded by ldmatrix where their
// rows are aligned for it, or already in registers as the instruction wants them; C in registers.
//
// The block's warps form a grid over C.  A warp computes m_tiles × n_tiles instruction tiles; for each step
// of the instruction's k it loads its rows of A and columns of B once and multiplies them all.  Grids need
// not divide the tiles: the last warps of a row or column then have fewer, and warps beyond the grid none.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "layout/banks.h"
#include "ops/gemm.h"
#include "ops/parallel.h"

namespace tl {
namespace {

struct Plan {
  const MatrixInstr* row = nullptr;
  const MatrixInstr* tail = nullptr;  // for the rest of k, where row does not divide it; may be null
  int64_t rows = 1, cols = 1;         // of the grid: warps along m and n
  int64_t m_tiles = 1, n_tiles = 1;   // of one warp, at most
  int warp = 32;

  int64_t all_m(const Gemm& g) const { return g.m / row->m; }
  int64_t all_n(const Gemm& g) const { return g.n / row->n; }
  int64_t steps(const Gemm& g) const { return (g.k + row->k - 1) / row->k; }
};

// A fragment made of the instruction's own: repeated over a warp's tiles and the steps of k (registers), over
// the warps that hold different parts (threads), replicated over those that hold the same.
struct Repeat {
  int input;                       // the dimension of the buffer
  int64_t divisor, radix, stride;  // of the digit, and its stride in threads or registers
};

// Neighbouring digits of one input that are also neighbours in the output are one digit.
void merge(std::vector<Term>& terms) {
  for (size_t i = 0; i < terms.size(); i++)
    for (size_t j = 0; j < terms.size(); j++) {
      Term &low = terms[i], &high = terms[j];
      if (i == j || low.output != high.output || low.digit.input != high.digit.input) continue;
      if (high.digit.divisor != low.digit.divisor * low.digit.radix ||
          high.stride != low.stride * low.digit.radix)
        continue;
      low.digit.radix *= high.digit.radix;
      terms.erase(terms.begin() + int64_t(j));
      return merge(terms);
    }
}

Fragment repeated(const OperandFragment& tile, std::vector<int64_t> shape, bool transposed,
                  const std::vector<Repeat>& registers, const std::vector<Repeat>& threads,
                  int64_t replicas = 1, int64_t replica_stride = 0) {
  std::vector<Term> terms;
  auto input = [&](int d) { return transposed ? 1 - d : d; };
  for (auto& d : tile.digits) {
    bool lane = d.from == FragmentDigit::From::lane;
    terms.push_back(
        {.output = lane ? 0 : 1,
         .stride = d.divisor,
         .digit = {.input = input(d.row ? 0 : 1), .divisor = d.row ? d.row : d.col, .radix = d.radix}});
  }
  for (auto& r : registers)
    terms.push_back({.output = 1, .stride = r.stride, .digit = {input(r.input), r.divisor, r.radix}});
  for (auto& t : threads)
    terms.push_back({.output = 0, .stride = t.stride, .digit = {input(t.input), t.divisor, t.radix}});
  if (replicas > 1) terms.push_back({.output = 0, .stride = replica_stride, .digit = {2, 1, replicas}});
  merge(terms);
  if (transposed) std::swap(shape[0], shape[1]);
  for (auto& t : terms)
    if (size_t in = size_t(t.digit.input); in < shape.size())
      t.digit.radix = std::min(t.digit.radix, (shape[in] + t.digit.divisor - 1) / t.digit.divisor);
  return make_fragment(std::move(shape), replicas, std::move(terms));
}

Fragment a_fragment(const Gemm& g, const Plan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.a.registers;
  return repeated(i.a, {g.m, g.k}, g.trans_a, {{1, i.k, p.steps(g), r}, {0, i.m, p.m_tiles, r * g.k / i.k}},
                  {{0, i.m * p.m_tiles, p.rows, p.warp}}, p.cols, p.warp * p.rows);
}

Fragment b_fragment(const Gemm& g, const Plan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.b.registers;
  return repeated(i.b, {g.k, g.n}, g.trans_b, {{0, i.k, p.steps(g), r}, {1, i.n, p.n_tiles, r * g.k / i.k}},
                  {{1, i.n * p.n_tiles, p.cols, p.warp * p.rows}}, p.rows, p.warp);
}

Fragment accumulator(const Gemm& g, const Plan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.c.registers;
  return repeated(i.c, {g.m, g.n}, false, {{1, i.n, p.n_tiles, r}, {0, i.m, p.m_tiles, r * p.n_tiles}},
                  {{0, i.m * p.m_tiles, p.rows, p.warp}, {1, i.n * p.n_tiles, p.cols, p.warp * p.rows}});
}

// ── choosing ──────────────────────────────────────────────────────────────────────────────────────────

// The best row for these types, and for a rest of k a shorter one, whose registers are the first of the
// longer one's.  Without the types no row; where the extents fit none, a row that says so in `fits`.
struct Rows {
  const MatrixInstr* row = nullptr;
  const MatrixInstr* tail = nullptr;
  bool fits = false;
};

Rows rows_for(const Gemm& g, const Target& target) {
  Rows out{.row = target.matrix_for(g.a_type, g.b_type, g.c_type)};
  if (!out.row) return out;
  int64_t rest = g.k % out.row->k;
  for (auto* r : target.matrix)
    if (r->a_type == g.a_type && r->b_type == g.b_type && r->c_type == g.c_type && r->m == out.row->m &&
        r->n == out.row->n && r->k == rest)
      out.tail = r;
  out.fits = g.m % out.row->m == 0 && g.n % out.row->n == 0 && (rest == 0 || out.tail);
  if (out.tail && g.k < out.row->k) out = {.row = out.tail, .tail = nullptr, .fits = out.fits};
  return out;
}

bool is_fragment(const Region& r, const Function& f) { return f[r.buffer].scope == Scope::fragment; }

// Does the fragment, as far as it is known, lie as this wants it?  What is not known will.
bool lies(const Region& r, const Function& f, const LayoutMap& known, const Fragment& wanted) {
  auto it = known.fragments.find(r.buffer);
  return is_whole(r, f) && (it == known.fragments.end() || same_fragment(it->second, wanted));
}

// How many fragments of the gemm would not lie where this plan wants them.
int64_t moved_by(const Gemm& g, const Plan& p, const Function& f, const LayoutMap& known) {
  int64_t moved = !lies(g.c, f, known, accumulator(g, p));
  if (is_fragment(g.a, f)) moved += !lies(g.a, f, known, a_fragment(g, p));
  if (is_fragment(g.b, f)) moved += !lies(g.b, f, known, b_fragment(g, p));
  return moved;
}

// What to prefer, smallest first: the policy, the work of the busiest warp, what a warp loads per step of k
// (odd n tiles load by halves), fewer warps.  Square shares the loads best; whole rows keep an A in registers
// free of copies, and a row's statistics within one warp.
using Cost = std::array<int64_t, 4>;

Cost cost_of(const Gemm& g, const Plan& p, const Function& f) {
  bool rows = g.policy == "full_row" || (g.policy == "square" && is_fragment(g.a, f));
  int64_t policy = rows ? -p.rows : g.policy == "full_col" ? -p.cols : 0;
  int64_t m = p.m_tiles * p.row->m, n = p.n_tiles * p.row->n;
  return {policy, p.m_tiles * p.n_tiles, m + n + (p.n_tiles % 2 ? m + n : 0), p.rows * p.cols};
}

// The best grid of at most that many warps, none of whose rows or columns is empty: one under which most
// fragments already lie right, of those the one of least cost.
std::optional<Plan> make_plan(const Gemm& g, const Function& f, const Target& target, int64_t threads,
                              const LayoutMap& known) {
  Rows instr = rows_for(g, target);
  if (!instr.fits) return std::nullopt;
  int64_t warps = threads / target.warp;
  std::vector<std::pair<Cost, Plan>> plans;
  for (int64_t rows = 1; rows <= warps; rows++)
    for (int64_t cols = 1; cols <= warps / rows; cols++) {
      Plan p{.row = instr.row, .tail = instr.tail, .rows = rows, .cols = cols, .warp = target.warp};
      p.m_tiles = (p.all_m(g) + rows - 1) / rows;
      p.n_tiles = (p.all_n(g) + cols - 1) / cols;
      if ((rows - 1) * p.m_tiles < p.all_m(g) && (cols - 1) * p.n_tiles < p.all_n(g))
        plans.emplace_back(cost_of(g, p, f), p);
    }
  std::stable_sort(plans.begin(), plans.end(), [](auto& a, auto& b) { return a.first < b.first; });
  int64_t must = !is_whole(g.c, f) + (is_fragment(g.a, f) && !is_whole(g.a, f)) +
                 (is_fragment(g.b, f) && !is_whole(g.b, f));
  const Plan* best = nullptr;
  int64_t least = 0;
  for (auto& [cost, p] : plans) {
    int64_t moved = moved_by(g, p, f, known);
    if (!best || moved < least) std::tie(best, least) = std::tuple(&p, moved);
    if (least == must) break;
  }
  return *best;
}

std::string applies(const Gemm& g, const LayoutContext& ctx) {
  auto [row, tail, fits] = rows_for(g, ctx.target);
  if (!row)
    return fmt::format("{} has no instruction for {} × {} -> {}", ctx.target.name, to_string(g.a_type),
                       to_string(g.b_type), to_string(g.c_type));
  if (ctx.threads < ctx.target.warp) return fmt::format("{} threads are less than a warp", ctx.threads);
  if (!fits)
    return fmt::format("{}×{}×{} is not made of {}×{}×{} tiles", g.m, g.n, g.k, row->m, row->n, row->k);
  return "";
}

// C and the tiles in shared memory lie as the instruction wants, strictly.  A fragment operand mostly follows
// the accumulator that it was computed from, which agrees with the instruction or, in another grid, goes
// through scratch; so it is asked for at `common`, after its producers.
LayoutMap infer_layout(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  Plan p = *make_plan(g, ctx.function, ctx.target, ctx.threads, ctx.known);
  LayoutMap out;
  auto want = [&](const Region& r, Fragment wanted) {  // where another operator was first, lowering copes
    if (lies(r, ctx.function, ctx.known, wanted)) out.fragments.emplace(r.buffer, std::move(wanted));
  };
  if (level == Strictness::common) {
    if (is_fragment(g.a, ctx.function)) want(g.a, a_fragment(g, p));
    if (is_fragment(g.b, ctx.function) && g.b.buffer != g.a.buffer) want(g.b, b_fragment(g, p));
  }
  if (level != Strictness::strict) return out;
  want(g.c, accumulator(g, p));
  for (auto* r : {&g.a, &g.b}) {
    const BufferInfo& info = ctx.function[r->buffer];
    if (info.scope != Scope::shared || ctx.known.shared.contains(r->buffer)) continue;
    std::vector<int64_t> shape;
    for (auto& e : info.shape) shape.push_back(*as_int(e));
    Layout layout = rows_of_chunks(shape, info.dtype.bits);
    if (layout.ranges[0] > room_for(r->buffer, ctx.function, ctx.target, ctx.known))
      layout = swizzled(shape, info.dtype.bits);
    out.shared.emplace(r->buffer, std::move(layout));
  }
  return out;
}

// ── lowering ──────────────────────────────────────────────────────────────────────────────────────────

// Where a warp finds its part of A or B: in shared memory, from which it loads each step, or in registers.
struct Operand {
  std::optional<SharedMatrix> memory;
  BufferId registers;
  int64_t tile_stride = 0, step_stride = 0;  // in the registers
  bool ldmatrix = false;
};

struct Lowering {
  const Gemm& g;
  LowerContext& ctx;
  const Plan& plan;
  Expr lane, warp_row, warp_col;
  Operand a, b;
  BufferId sums;
  Facts facts;

  Expr loop_var(const char* name, int64_t extent) {
    Expr v = var(name);
    facts.bind(v, Interval{0, extent - 1});
    return v;
  }

  Expr address(DType type, BufferId buffer, Expr index) {
    return call(address_of, {load(type, buffer, {std::move(index)})});
  }
  Expr element(const SharedMatrix& m, const Expr& x, const Expr& y) {
    return address(m.type, m.buffer, m.at(x, y, facts));
  }

  // Tiles beyond C's edge: null where there are none.
  Expr m_inside(const Expr& i) {
    return plan.all_m(g) % plan.rows ? lt(warp_row * plan.m_tiles + i, imm(plan.all_m(g))) : Expr{};
  }
  Expr n_inside(const Expr& j) {
    return plan.all_n(g) % plan.cols ? lt(warp_col * plan.n_tiles + j, imm(plan.all_n(g))) : Expr{};
  }

  Stmt ldmatrix(int blocks, bool transposed, Expr to, Expr from) {
    std::string name = fmt::format("ldmatrix_x{}{}", blocks, transposed ? "_trans" : "");
    const CopyInstr* copy = ctx.target.copy_named(name);
    internal_check(copy, name);
    return eval(call(copy->callee, {std::move(to), std::move(from)}), g.tile.span);
  }

  // Element by element: each register's row and column read off the instruction's digits.
  Stmt load_plain(const Operand& o, const OperandFragment& f, bool transposed, const Expr& x, const Expr& y,
                  const Expr& to) {
    Expr r = loop_var("r", f.registers), i = x, j = y;
    for (auto& d : f.digits) {
      Expr v = floormod(floordiv(d.from == FragmentDigit::From::lane ? lane : r, d.divisor), d.radix);
      i = i + v * d.row;
      j = j + v * d.col;
    }
    Expr at = transposed ? o.memory->at(j, i, facts) : o.memory->at(i, j, facts);
    Stmt s =
        store(o.registers, {to + r}, load(o.memory->type, o.memory->buffer, {at}, g.tile.span), g.tile.span);
    return for_loop(r, f.registers, Loop::unrolled, s, g.tile.span);
  }

  // A's 16×16 block: four 8×8 matrices in the order (rows, k), (rows+8, k), (rows, k+8), (rows+8, k+8); of a
  // row with k = 8 the first two.
  Stmt load_a(const MatrixInstr& row, const Expr& k) {
    if (!a.memory) return block({});
    Expr i = loop_var("mi", plan.m_tiles), k_half = row.k == 8 ? imm(0) : floordiv(lane, 16) * 8;
    Expr m = warp_row * (plan.m_tiles * row.m) + i * row.m, to = i * a.tile_stride;
    Stmt s;
    if (!a.ldmatrix)
      s = load_plain(a, row.a, g.trans_a, m, k, to);
    else
      s = ldmatrix(int(row.k / 4), g.trans_a, address(g.a_type, a.registers, to),
                   g.trans_a ? element(*a.memory, k + floormod(lane, 8) + k_half,
                                       m + floormod(floordiv(lane, 8), 2) * 8)
                             : element(*a.memory, m + floormod(lane, 16), k + k_half));
    return for_loop(i, plan.m_tiles, Loop::unrolled, if_then(m_inside(i), s, {}, g.tile.span), g.tile.span);
  }

  // B's 16×8 tiles, two at a time where their number is even: (k, n), (k+8, n), (k, n+8), (k+8, n+8); of a
  // row with k = 8 one at a time.
  Stmt load_b(const MatrixInstr& row, const Expr& k) {
    if (!b.memory) return block({});
    bool whole = plan.all_n(g) % 2 == 0 || plan.all_n(g) % plan.cols == 0;
    int64_t at_once = b.ldmatrix && row.k == 16 && plan.n_tiles % 2 == 0 && whole ? 2 : 1;
    Expr j = loop_var("nj", plan.n_tiles / at_once);
    Expr n = warp_col * (plan.n_tiles * row.n) + j * (row.n * at_once), to = j * (b.tile_stride * at_once);
    Expr second = at_once == 2 ? floordiv(lane, 16) * 8 : imm(0);
    Expr k_half = row.k == 8 ? imm(0) : floormod(floordiv(lane, 8), 2) * 8;
    Stmt s;
    if (!b.ldmatrix)
      s = load_plain(b, row.b, g.trans_b, k, n, to);
    else
      s = ldmatrix(int(row.k / 8 * at_once), !g.trans_b, address(g.b_type, b.registers, to),
                   g.trans_b ? element(*b.memory, n + floormod(lane, 8) + second, k + k_half)
                             : element(*b.memory, k + floormod(lane, row.k), n + second));
    return for_loop(j, plan.n_tiles / at_once, Loop::unrolled,
                    if_then(n_inside(j * at_once), s, {}, g.tile.span), g.tile.span);
  }

  Stmt multiply(const MatrixInstr& row, const Expr& step) {
    Expr i = loop_var("mi", plan.m_tiles), j = loop_var("ni", plan.n_tiles);
    auto part = [&](const Operand& o, DType type, const Expr& tile) {
      return address(type, o.registers, tile * o.tile_stride + step * o.step_stride);
    };
    Expr c = address(g.c_type, sums, (i * plan.n_tiles + j) * row.c.registers);
    Stmt mma = eval(call(row.callee, {c, part(a, g.a_type, i), part(b, g.b_type, j)}), g.tile.span);
    mma = if_then(both(m_inside(i), n_inside(j)), mma, {}, g.tile.span);
    return for_loop(i, plan.m_tiles, Loop::unrolled,
                    for_loop(j, plan.n_tiles, Loop::unrolled, mma, g.tile.span), g.tile.span);
  }

  Stmt step(const MatrixInstr& row, const Expr& number) {
    Expr k = number * plan.row->k;
    return block({load_a(row, k), load_b(row, k), multiply(row, number)}, g.tile.span);
  }

  Stmt run() {
    Expr k = loop_var("kk", g.k / plan.row->k);
    Stmt s = for_loop(k, g.k / plan.row->k, Loop::unrolled, step(*plan.row, k), g.tile.span);
    return plan.tail ? block({s, step(*plan.tail, imm(g.k / plan.row->k))}, g.tile.span) : s;
  }
};

// May ldmatrix read it?  Every 8 elements from a multiple of 8 must lie together, at a multiple of 8.
bool has_aligned_rows(const SharedMatrix& m, const Facts& facts) {
  int last = int(m.layout.extents.size()) - 1;
  if (!m.layout.terms || m.dims[1] != size_t(last)) return false;
  bool chunks = false;
  for (auto& t : *m.layout.terms) {
    bool inner = t.digit.input == last && t.digit.divisor == 1;
    if (inner && t.stride == 1 && t.xors.empty()) {
      chunks = t.digit.radix % 8 == 0 || t.digit.radix == m.layout.extents[size_t(last)];
    } else if (t.stride % 8 || (t.digit.input == last && t.digit.divisor % 8)) {
      return false;
    }
    for (auto& x : t.xors)
      if (x.input == last && x.divisor % 8) return false;
  }
  Modular start = modular_of(m.starts[size_t(last)], facts);
  return chunks && start.modulus % 8 == 0 && floor_mod(start.remainder, 8) == 0;
}

std::string why_not_aligned(const SharedMatrix& m, const Region& r, const LowerContext& ctx) {
  if (m.type.bits != 16) return fmt::format("its elements have {} bits", m.type.bits);
  Layout wanted = rows_of_chunks(m.layout.extents, m.type.bits);
  int64_t room = room_for(r.buffer, ctx.function, ctx.target, ctx.layouts);
  if (wanted.ranges[0] > room && equal(m.layout, row_major(m.layout.extents)))
    return fmt::format("rows padded to 16 bytes would take {} elements, and the block has room for {}",
                       wanted.ranges[0], room);
  return "it does not begin at a multiple of 16 bytes in every row";
}

// A or B made ready: where the fragment lies as wanted, nothing is to be done.
Operand prepare(const Gemm& g, LowerContext& ctx, const Region& r, const Fragment& wanted, int64_t tiles,
                int64_t registers, int64_t step_k, const char* name, std::vector<Stmt>& before) {
  if (is_fragment(r, ctx.function) && lies(r, ctx.function, ctx.layouts, wanted))
    return {.memory = {},
            .registers = r.buffer,
            .tile_stride = registers * g.k / step_k,
            .step_stride = registers};
  DType type = ctx.function[r.buffer].dtype;
  Operand o{.memory = {},
            .registers = local_registers(g, ctx, name, type, tiles * registers),
            .tile_stride = registers};
  if (is_fragment(r, ctx.function)) {
    auto dims = matrix_dims(r);
    std::string why = is_whole(r, ctx.function)
                          ? fmt::format("it lies as {}, but the instruction wants {}",
                                        to_string(ctx.layouts.fragments.at(r.buffer)), to_string(wanted))
                          : "the operand is a part of a fragment";
    std::vector<int64_t> shape{*as_int(r.ranges[dims[0]].extent), *as_int(r.ranges[dims[1]].extent)};
    o.memory = to_scratch(g, ctx, r, rows_of_chunks(shape, type.bits), why, before);
  } else {
    o.memory = shared_matrix(ctx, r);
  }
  o.ldmatrix = type.bits == 16 && has_aligned_rows(*o.memory, facts_of(ctx.function, ctx.kernel));
  if (!o.ldmatrix)
    ctx.note("gemm",
             fmt::format("{} is loaded element by element, not by ldmatrix: {}", ctx.function[r.buffer].name,
                         why_not_aligned(*o.memory, r, ctx)),
             g.tile.span, true);
  return o;
}

Stmt zeroed(const Gemm& g, BufferId registers, int64_t n) {
  Expr r = var("r");
  return for_loop(r, n, Loop::unrolled, store(registers, {r}, zero(g.c_type), g.tile.span), g.tile.span);
}

std::string described(const Gemm& g, const Plan& p, int64_t threads) {
  std::string text = fmt::format("mma.sync: {} by {} warp{} in a {}×{} grid, {}×{} tiles of {}×{}×{} each",
                                 p.row->callee.name, p.rows * p.cols, p.rows * p.cols == 1 ? "" : "s", p.rows,
                                 p.cols, p.m_tiles, p.n_tiles, p.row->m, p.row->n, p.row->k);
  if (p.tail) text += fmt::format(", the rest of k by {}", p.tail->callee.name);
  if (p.all_m(g) % p.rows || p.all_n(g) % p.cols) text += ", fewer at the edge";
  int64_t idle = threads / p.warp - p.rows * p.cols;
  if (idle > 0) text += fmt::format("; {} warp{} idle", idle, idle == 1 ? " is" : "s are");
  return text;
}

Stmt lower(const Gemm& g, LowerContext& ctx) {
  Plan p = *make_plan(g, ctx.function, ctx.target, ctx.threads, ctx.layouts);
  const MatrixInstr& row = *p.row;
  int64_t all = p.m_tiles * p.n_tiles * row.c.registers;
  Expr warp = floordiv(ctx.kernel.thread, p.warp);
  ctx.note("gemm", described(g, p, ctx.threads), g.tile.span);
  std::vector<Stmt> stmts;
  Fragment sums = accumulator(g, p);
  bool direct = lies(g.c, ctx.function, ctx.layouts, sums);
  Lowering l{.g = g,
             .ctx = ctx,
             .plan = p,
             .lane = floormod(ctx.kernel.thread, p.warp),
             .warp_row = p.rows == 1 ? imm(0) : floormod(warp, p.rows),
             .warp_col = p.cols == 1 ? imm(0) : floordiv(warp, p.rows),
             .a = prepare(g, ctx, g.a, a_fragment(g, p), p.m_tiles, row.a.registers, row.k, "A_regs", stmts),
             .b = prepare(g, ctx, g.b, b_fragment(g, p), p.n_tiles, row.b.registers, row.k, "B_regs", stmts),
             .sums = direct ? g.c.buffer : local_registers(g, ctx, "C_regs", g.c_type, all),
             .facts = facts_of(ctx.function, ctx.kernel)};
  if (g.clear || !direct) stmts.push_back(zeroed(g, l.sums, all));
  bool idle = p.rows * p.cols * p.warp < ctx.threads;
  stmts.push_back(if_then(idle ? lt(ctx.kernel.thread, imm(p.rows * p.cols * p.warp)) : Expr{}, l.run(), {},
                          g.tile.span));
  if (!direct)
    stmts.push_back(from_scratch(
        g, ctx, l.sums, sums,
        is_whole(g.c, ctx.function) ? "another operator laid it out" : "C is a part of a fragment"));
  return block(std::move(stmts), g.tile.span);
}

}  // namespace

const GemmStrategy gemm_mma = {
    .name = "mma.sync", .applies = applies, .infer_layout = infer_layout, .lower = lower};

}  // namespace tl
