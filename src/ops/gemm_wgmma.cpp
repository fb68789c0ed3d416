// gemm by the products of warpgroups (wgmma, sm_90a): B in shared memory, A there or in registers as the
// instruction wants it, C in registers.  It is begun and waited for here, unless the program waits itself.
//
// The team's warpgroups form a grid over C. Each multiplies its rows of A with its columns of B, in tiles of
// 64 rows and as many columns as an instruction takes.  Tiles in shared memory lie in panels as wide as a
// swizzle pattern: what the instruction's descriptors can say, and what the copy engine writes.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/swizzle.h"
#include "ops/gemm.h"
#include "ops/gemm_fragments.h"
#include "ops/mapping.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

constexpr std::string_view wgmma_record[] = {"warpgroups_m", "warpgroups_n"};
constexpr int64_t group = WarpgroupInstr::threads, group_rows = WarpgroupInstr::m;
constexpr int64_t most_registers = 208;  // of C and A, of the 255 that a thread can have

struct WgmmaPlan {
  const WarpgroupInstr* row = nullptr;
  int64_t rows = 1, cols = 1;               // of the grid: warpgroups along m and n
  int64_t m_tiles = 1, n_tiles = 1, n = 8;  // of one warpgroup; columns of an instruction
  int64_t steps(const Gemm& g) const { return g.k / row->k; }
  int64_t sums() const { return n / 2; }          // registers of a tile of C
  int64_t factors() const { return row->k / 2; }  // of A, if it is in registers
};

Fragment accumulators(const Gemm& g, const WgmmaPlan& p) {
  return repeated(accumulator_of(p.n), {g.m, g.n}, false,
                  {{1, p.n, p.n_tiles, p.sums()}, {0, group_rows, p.m_tiles, p.sums() * p.n_tiles}},
                  {{0, group_rows * p.m_tiles, p.rows, group}, {1, p.n * p.n_tiles, p.cols, group * p.rows}});
}
Fragment factors_of_a(const Gemm& g, const WgmmaPlan& p) {
  return repeated(
      a_fragment_of(*p.row), {g.m, g.k}, false,
      {{1, p.row->k, p.steps(g), p.factors()}, {0, group_rows, p.m_tiles, p.factors() * p.steps(g)}},
      {{0, group_rows * p.m_tiles, p.rows, group}}, p.cols, group * p.rows);
}

// ── which instruction, and how warpgroups share the work ──────────────────────────────────────────────
const WarpgroupInstr* row_for(const Gemm& g, const Target& target, bool a_in_registers) {
  std::string named = g.tile.attrs.get_string("instruction");
  for (auto& row : target.warpgroup)
    if (row.a_in_registers == a_in_registers && row.a_type == g.a_type && row.b_type == g.b_type &&
        row.c_type == g.c_type && (named.empty() || named == row.intrinsic.name))
      return &row;
  return nullptr;
}

// The fewest instructions for so many columns; 0 if none takes a part of them.
int64_t tiles_of(const WarpgroupInstr& row, int64_t n) {
  for (int64_t tiles = 1; tiles <= n / 8; tiles++)
    if (n % tiles == 0 && row.takes(n / tiles)) return tiles;
  return 0;
}

// All grids of all warpgroups that the statement's attributes leave, the best first: as few bytes as possible
// are read from shared memory.
std::vector<WgmmaPlan> plans_of(const Gemm& g, const WarpgroupInstr& row, int64_t threads) {
  std::vector<std::pair<std::array<int64_t, 3>, WgmmaPlan>> found;
  int64_t groups = threads / group;
  for (int64_t rows = 1; rows <= groups; rows++) {
    WgmmaPlan p{.row = &row, .rows = rows, .cols = groups / rows};
    if (groups % rows || !may_be(g, "warpgroups_m", p.rows) || !may_be(g, "warpgroups_n", p.cols)) continue;
    if (g.m % (group_rows * p.rows) || g.n % p.cols) continue;
    p.m_tiles = g.m / (group_rows * p.rows);
    p.n_tiles = tiles_of(row, g.n / p.cols);
    if (p.n_tiles == 0) continue;
    p.n = g.n / p.cols / p.n_tiles;
    int64_t sums = p.m_tiles * p.n_tiles * p.sums() * g.c_type.bits / 32;
    int64_t factors = row.a_in_registers ? p.m_tiles * p.steps(g) * p.factors() * g.a_type.bits / 32 : 0;
    if (sums + factors > most_registers) continue;
    bool by_rows = g.policy == "full_row" || (g.policy == "square" && row.a_in_registers);
    int64_t policy = by_rows ? -p.rows : g.policy == "full_col" ? -p.cols : 0;
    int64_t reads = p.m_tiles * p.n_tiles * ((row.a_in_registers ? 0 : group_rows) + p.n);
    found.push_back({{policy, reads, -p.rows}, p});
  }
  std::ranges::sort(found, {}, [](auto& x) { return x.first; });
  std::vector<WgmmaPlan> plans;
  for (auto& [cost, p] : found) plans.push_back(p);
  return plans;
}

// ── tiles in shared memory ────────────────────────────────────────────────────────────────────────────
// An operand as a tile: along its rows lies k, or (turned) m or n.
struct TileOperand {
  const Region& region;
  bool turned;
  int64_t part;  // of m or n: where instructions begin
};
TileOperand a_tile(const Gemm& g, const WgmmaPlan&) { return {g.a, g.trans_a, group_rows}; }
TileOperand b_tile(const Gemm& g, const WgmmaPlan& p) {
  return {g.b, !g.trans_b, p.n_tiles * p.cols == 1 ? 0 : p.n};
}

bool divides(int64_t divisor, const Expr& e, const Facts& facts) {
  return divisor <= 1 || can_prove(eq(floormod(e, divisor), imm(0)), facts);
}

// The widths of patterns under which the operand can be read, best first; 0: without one.
std::vector<int64_t> patterns_of(const TileOperand& t, int bits, const std::vector<int64_t>& shape,
                                 int64_t depth, const Facts& facts) {
  auto dims = matrix_dims(t.region);
  const Expr &first_row = t.region.ranges[dims[0]].min, &first_col = t.region.ranges[dims[1]].min;
  int64_t row_bytes = shape.back() * bits / 8;
  std::vector<int64_t> widths;
  for (int64_t width : {128, 64, 32, 16}) {
    int64_t elements = width * 8 / bits;
    bool is_swizzled = width > 16;
    if (row_bytes % width || (!is_swizzled && row_bytes % 32 == 0))
      continue;  // panels of 16 bytes are for these
    if (t.turned &&
        (t.part % elements || !divides(elements, first_col, facts) || !divides(8, first_row, facts)))
      continue;
    // A step of k is half of a pattern of 64 bytes, and two panels without one.
    int64_t step = depth;
    if (!t.turned && (!divides(step, first_col, facts) || !divides(8, first_row, facts))) continue;
    if (!t.turned && is_swizzled && width < depth * bits / 8) continue;
    widths.push_back(is_swizzled ? width : 0);
  }
  return widths;
}

std::vector<Layout> layouts_of(const TileOperand& t, const BufferInfo& info, int64_t depth,
                               const Facts& facts) {
  std::vector<Layout> all;
  std::vector<int64_t> shape = tile_shape(info);
  for (int64_t width : patterns_of(t, info.dtype.bits, shape, depth, facts))
    all.push_back(swizzled_panels(shape, info.dtype.bits, width));
  return all;
}

std::string why_no_tile(const TileOperand& t, const WgmmaPlan& p, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  const BufferInfo& info = f[t.region.buffer];
  auto said = [&](std::string_view why) { return fmt::format("{} {}", info.name, why); };
  if (info.scope != Scope::shared) return said("is not in shared memory");
  if (t.turned && !p.row->may_turn)
    return said(fmt::format("has k along its columns, but elements of {} bits are multiplied along rows of k",
                            info.dtype.bits));
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (BufferId b{int(i)}; b != t.region.buffer && f.storage(b) == f.storage(t.region.buffer))
      return said("shares its memory with another view");
  auto dims = matrix_dims(t.region);
  std::vector<int64_t> shape = tile_shape(info);
  if (dims[0] + 2 != shape.size() || dims[1] + 1 != shape.size())
    return said("does not have its rows and columns as its last two dimensions");
  if (shape[dims[0]] % 8) return said(fmt::format("has {} rows, which is no multiple of 8", shape[dims[0]]));
  std::vector<Layout> any = layouts_of(t, info, p.row->k, facts_of(f, ctx.kernel));
  if (any.empty())
    return said(fmt::format("has rows of {} bytes, or begins where no pattern of 128, 64 or 32 bytes does",
                            shape.back() * info.dtype.bits / 8));
  if (!info.layout) return "";
  Layout given = from_map(*info.layout);
  bool fits = std::ranges::any_of(any, [&](const Layout& l) { return equal(l, given); });
  return fits ? "" : said("has a layout of the program's, which no descriptor describes");
}

// "" or why not by this plan.
std::string why_no_plan(const Gemm& g, const WgmmaPlan& p, const LayoutContext& ctx) {
  if (!p.row->a_in_registers)
    if (std::string why = why_no_tile(a_tile(g, p), p, ctx); !why.empty()) return why;
  return why_no_tile(b_tile(g, p), p, ctx);
}

// A gemm rounds tf32 to nearest, the instruction cuts off bits: it is right where only rounded elements are
// stored.
std::string why_unrounded(BufferId tile, const LayoutContext& ctx) {
  std::string why;
  visit_effects(ctx.kernel.body, [&](const Stmt& s, const Effect& e) {
    if (e.buffer != tile || e.access == Access::read) return;
    auto* t = s.as<Tile>();
    auto* value = s.as<Store>() ? s.as<Store>()->value.as<Cast>() : nullptr;
    bool casts = t && t->op->name == "copy" && ctx.function[region_of(*t, 0).buffer].dtype != tf32;
    bool fills = t && (t->op->name == "fill" || t->op->name == "clear");
    if (casts || fills || (value && value->a->dtype != tf32)) return;
    why = fmt::format(
        "{} gets elements of tf32 as they are (line {}), which wgmma would cut off instead of rounding: copy "
        "them from float32",
        ctx.function[tile].name, s->span.line);
  });
  return why;
}

struct Chosen {
  std::optional<WgmmaPlan> plan = {};
  std::string why_not = {};
};

Chosen choose_wgmma(const Gemm& g, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  bool a_in_registers = is_fragment(g.a, f);
  const WarpgroupInstr* row = row_for(g, ctx.target, a_in_registers);
  if (!row && ctx.target.warpgroup.empty()) return {{}, fmt::format("{} has no wgmma", ctx.target.name)};
  if (!row)
    return {{},
            fmt::format("no instruction for {} × {} -> {}", to_string(g.a_type), to_string(g.b_type),
                        to_string(g.c_type))};
  if (g.a_type == tf32 && !g.in_flight)
    for (auto* operand : {&g.a, &g.b})
      if (std::string why = why_unrounded(operand->buffer, ctx); !why.empty()) return {{}, why};
  if (ctx.team.first % group || ctx.team.count % group || ctx.team.count == 0)
    return {{},
            fmt::format("the threads [{}, {}) are no whole warpgroups of {}", ctx.team.first,
                        ctx.team.first + ctx.team.count, group)};
  if (a_in_registers && (g.trans_a || !is_whole_matrix(g.a, f)))
    return {{}, "A in registers is transposed, or a part of a fragment"};
  if (!is_whole_matrix(g.c, f)) return {{}, "C is a part of a fragment"};
  if (g.k % row->k) return {{}, fmt::format("k={} is no multiple of {}", g.k, row->k)};
  std::string why;
  for (auto& p : plans_of(g, *row, ctx.team.count)) {
    std::string not_this = why_no_plan(g, p, ctx);
    if (not_this.empty()) return {p, ""};
    if (why.empty()) why = not_this;
  }
  if (!why.empty()) return {{}, why};
  return {{},
          fmt::format("{}×{} is not divided by {} warpgroups into tiles of 64 rows and a legal number of "
                      "columns within {} registers a thread",
                      g.m, g.n, ctx.team.count / group, most_registers)};
}

// ── the strategy ──────────────────────────────────────────────────────────────────────────────────────
bool runs_wgmma(std::string_view instruction, const Target& target) {
  return std::ranges::any_of(target.warpgroup, [&](auto& row) { return row.intrinsic.name == instruction; });
}

bool offers_wgmma(const Target& target) { return !target.warpgroup.empty(); }

std::string applies_wgmma(const Gemm& g, const LayoutContext& ctx) { return choose_wgmma(g, ctx).why_not; }

LayoutDecisions infer_layout_wgmma(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  WgmmaPlan p = *choose_wgmma(g, ctx).plan;
  LayoutDecisions out{.record = {.entries = {{"instruction", std::string(p.row->intrinsic.name)},
                                             {"warpgroups_m", p.rows},
                                             {"warpgroups_n", p.cols}}}};
  const Function& f = ctx.function;
  if (p.row->a_in_registers) {  // mostly computed from another product's sums, whose layout agrees
    Fragment wanted = factors_of_a(g, p);
    if (!lies_as(g.a, f, ctx.known, wanted))
      out.relayout.insert(g.a.buffer);
    else if (level == Strictness::common)
      out.fragments.emplace(g.a.buffer, std::move(wanted));
  }
  if (level != Strictness::strict) return out;
  Fragment sums = accumulators(g, p);
  if (lies_as(g.c, f, ctx.known, sums)) out.fragments.emplace(g.c.buffer, std::move(sums));
  Facts facts = facts_of(f, ctx.kernel);
  auto require = [&](const TileOperand& t) {
    out.required[t.region.buffer] = layouts_of(t, f[t.region.buffer], p.row->k, facts);
  };
  if (!p.row->a_in_registers) require(a_tile(g, p));
  if (g.b.buffer != g.a.buffer || p.row->a_in_registers) require(b_tile(g, p));
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
  fail(g.tile.span, "gemm: {} lies as {}, which the descriptors of wgmma cannot say", info.name,
       to_string(m.layout));
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
    Expr row = (group_row * p.m_tiles + i) * group_rows, col = (group_col * p.n_tiles + j) * p.n,
         k = step * p.row->k;
    Expr c = address_at(g.c_type, sums, (i * p.n_tiles + j) * p.sums());
    Expr from = p.row->a_in_registers ? address_at(g.a_type, factors, (i * p.steps(g) + step) * p.factors())
                                      : address_at(g.a_type, a->memory.buffer, a->at(row, k, facts));
    Expr first = g.clear || g.clear_if ? both(g.clear_if, eq(step, imm(0))) : imm(0, boolean);
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

WgmmaPlan recorded_wgmma(const Gemm& g, const Target& target, int64_t threads) {
  int64_t rows = recorded(g, "warpgroups_m"), cols = recorded(g, "warpgroups_n");
  std::string named = g.tile.attrs.get_string("instruction");
  for (auto& row : target.warpgroup) {
    if (row.intrinsic.name != named) continue;
    std::vector<WgmmaPlan> plans = plans_of(g, row, threads);
    if (!plans.empty()) return plans[0];
  }
  fail(g.tile.span, "gemm: {} does not divide {}×{}×{} among a grid of {} by {} warpgroups", named, g.m, g.n,
       g.k, rows, cols);
}

std::string describe_wgmma(const Gemm& g, const LowerContext& ctx) {
  WgmmaPlan p = recorded_wgmma(g, ctx.target, ctx.team.count);
  return fmt::format("{} by {} warpgroup{} in a {}×{} grid, {}×{} tiles of 64×{}×{} each; {}",
                     p.row->intrinsic.name, p.rows * p.cols, p.rows * p.cols == 1 ? "" : "s", p.rows, p.cols,
                     p.m_tiles, p.n_tiles, p.n, p.row->k,
                     g.in_flight ? "the program waits for it" : "waited for at once");
}

Stmt lower_wgmma(const Gemm& g, LowerContext& ctx) {
  WgmmaPlan p = recorded_wgmma(g, ctx.target, ctx.team.count);
  std::vector<Stmt> stmts;
  Fragment sums = accumulators(g, p);
  const Function& f = ctx.function;
  bool direct = lies_as(g.c, f, ctx.layouts, sums);
  if (g.in_flight && !direct)
    fail(g.tile.span,
         "gemm: {} has another layout than wgmma's sums, given by another operator, so it cannot be left in "
         "flight: "
         "use a fragment of its own for the sums",
         f[g.c.buffer].name);
  Facts facts = facts_of(f, ctx.kernel);
  UniformNames names{.ctx = ctx, .span = g.tile.span, .facts = facts};
  Expr number = imm(0);
  if (p.rows * p.cols > 1)
    number = names.named("warpgroup", floordiv(ctx.thread, group), {0, p.rows * p.cols - 1});
  WgmmaLowering l{.g = g,
                  .ctx = ctx,
                  .p = p,
                  .sums = direct ? g.c.buffer : local_registers(g, ctx, "C_regs", g.c_type, sums.registers),
                  .factors = g.a.buffer,
                  .group_row = p.rows == 1 ? imm(0) : floormod(number, p.rows),
                  .group_col = p.cols == 1 ? imm(0) : floordiv(number, p.rows),
                  .facts = facts};
  if (!p.row->a_in_registers) l.a = names.with_slot(place_tile(g, ctx, a_tile(g, p)));
  l.b = names.with_slot(place_tile(g, ctx, b_tile(g, p)));
  l.facts = facts;
  stmts.insert(stmts.end(), names.made.begin(), names.made.end());
  if (!direct && !g.clear) {
    Expr r = var("r");
    stmts.push_back(for_loop(r, sums.registers, Loop::unrolled,
                             store(l.sums, {r}, zero(g.c_type), g.tile.span), g.tile.span));
  }
  stmts.push_back(l.run());
  if (!direct) stmts.push_back(store_via_scratch(g, ctx, l.sums, sums, "another operator laid it out"));
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
