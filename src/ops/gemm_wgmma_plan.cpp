#include "ops/gemm_wgmma_plan.h"

#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/swizzle.h"
#include "ops/gemm_fragments.h"
#include "ops/mapping.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr int64_t warpgroup = WarpgroupInstr::threads, group_rows = WarpgroupInstr::m;

// ── registers ─────────────────────────────────────────────────────────────────────────────────────────────
// What a thread may use of its registers for C and A, and one instruction for its part of C: the device
// compiler refuses a wider one, and lets no product run beside another where all do not fit.  Where
// warpgroups hand registers to each other, an instruction still has to do with those of the launch.
struct Registers {
  int64_t all, instruction;
  int64_t launch, threads;  // what each of the block's threads has, and how many there are
};
Registers registers_for(const Gemm& g, const Kernel& k, const Target& target) {
  constexpr int64_t most = 255, spare = 28, most_of_product = 208;  // 28: measured, by NVRTC 13.0 and 13.5
  int64_t threads = thread_count(k), blocks = std::max<int64_t>(1, k.attrs.get_int("min_blocks_per_sm"));
  int64_t launch = std::min(most, target.multiprocessors.launch_registers(threads, blocks));
  bool moves = g.in_flight || contains(k.body, [](const Call& c) {
                 auto* row = async_row_of(*c.intrinsic);
                 return row && row->does == AsyncInstr::AsyncKind::more_registers;
               });
  return {.all = moves ? most_of_product : std::min(most_of_product, launch - spare),
          .instruction = launch - spare,
          .launch = launch,
          .threads = threads};
}

// ── C transposed ──────────────────────────────────────────────────────────────────────────────────────────
bool is_low(const Gemm& g) { return g.m % group_rows != 0 && g.m % 8 == 0 && g.n % group_rows == 0; }

// The product of B and A.
Gemm transposed(const Gemm& g) {
  Gemm t = g;
  std::swap(t.a, t.b);
  std::swap(t.a_type, t.b_type);
  std::swap(t.m, t.n);
  t.trans_a = !g.trans_b;
  t.trans_b = !g.trans_a;
  if (g.policy != "square") t.policy = g.policy == "full_row" ? "full_col" : "full_row";
  return t;
}

// Do only products touch the sums, and what stores them? Threads that look at rows of C find them spread over
// all warps where it is transposed, and as factors of another product they would have to move.
bool are_only_stored(const Gemm& g, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  auto are_sums = [&](BufferId b) { return f.storage(b) == f.storage(g.c.buffer); };
  bool only = true;
  visit_effects(ctx.kernel.body, [&](const Stmt& s, const Effect& e) {
    if (!are_sums(e.buffer) || s.as<Alloc>()) return;
    auto* t = s.as<Tile>();
    if (!t) {  // with memory, yes; with other fragments, no
      only &= std::ranges::all_of(effects_of(s).list, [&](auto& other) {
        return are_sums(other.buffer) || f[other.buffer].scope != Scope::fragment;
      });
    } else if (t->op->name == "gemm") {
      only &= !are_sums(region_of(*t, 0).buffer) && !are_sums(region_of(*t, 1).buffer);
    } else {
      bool fills = t->op->name == "fill" || t->op->name == "clear";
      bool stores = t->op->name == "copy" || t->op->name.starts_with("atomic");
      only &= fills || (stores && f[region_of(*t, t->op->name == "copy").buffer].scope != Scope::fragment);
    }
  });
  return only;
}

// "" or why a tile of C that is too low is not transposed.
std::string why_not_transposed(const Gemm& g, const LayoutContext& ctx) {
  for (auto* r : {&g.a, &g.b})
    if (is_fragment(*r, ctx.function)) return ctx.function[r->buffer].name + " is in registers";
  if (!g.keeps_rows.empty()) return std::string(g.keeps_rows);
  if (g.in_flight || are_only_stored(g, ctx)) return "";
  return fmt::format("more is done with {} than storing it", ctx.function[g.c.buffer].name);
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

// The fewest instructions for so many columns, each of at most `most`; 0 if none takes a part of them.
int64_t tiles_of(const WarpgroupInstr& row, int64_t n, int64_t most) {
  for (int64_t tiles = 1; tiles <= n / 8; tiles++)
    if (n % tiles == 0 && n / tiles <= most && row.takes(n / tiles)) return tiles;
  return 0;
}

bool is_recorded(const Gemm& g, const WgmmaPlan& p) {
  return may_be(g, "warpgroups_m", p.grid()[0]) && may_be(g, "warpgroups_n", p.grid()[1]);
}

// All grids of all warpgroups that the statement's attributes leave, the best first: as few bytes as possible
// are read from shared memory.
std::vector<WgmmaPlan> plans_of(const Gemm& g, const WarpgroupInstr& row, int64_t threads,
                                const Registers& registers, bool is_transposed) {
  std::vector<WgmmaPlan> plans;
  int64_t groups = threads / warpgroup;
  for (int64_t rows = 1; rows <= groups; rows++) {
    WgmmaPlan p{.row = &row, .transposed = is_transposed, .rows = rows, .cols = groups / rows};
    if (groups % rows || !is_recorded(g, p)) continue;
    if (g.m % (group_rows * p.rows) || g.n % p.cols) continue;
    p.m_tiles = g.m / (group_rows * p.rows);
    p.n_tiles = tiles_of(row, g.n / p.cols, registers.instruction * 2 * 32 / g.c_type.bits);
    if (p.n_tiles == 0) continue;
    p.n = g.n / p.cols / p.n_tiles;
    int64_t sums = p.m_tiles * p.n_tiles * p.sums() * g.c_type.bits / 32;
    int64_t factors = row.a_in_registers ? p.m_tiles * p.steps(g) * p.factors() * g.a_type.bits / 32 : 0;
    if (sums + factors > registers.all) continue;
    bool by_rows = g.policy == "full_row" || (g.policy == "square" && row.a_in_registers);
    int64_t policy = by_rows ? -p.rows : g.policy == "full_col" ? -p.cols : 0;
    int64_t reads = p.m_tiles * p.n_tiles * ((row.a_in_registers ? 0 : group_rows) + p.n);
    p.cost = {policy, reads, -p.rows};
    plans.push_back(p);
  }
  std::ranges::sort(plans, {}, &WgmmaPlan::cost);
  return plans;
}

// ── tiles in shared memory ────────────────────────────────────────────────────────────────────────────
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

// Of one operand.
std::vector<Layout> layouts_of(const TileOperand& t, int64_t depth, const LayoutContext& ctx) {
  const BufferInfo& info = ctx.function[t.region.buffer];
  std::vector<Layout> all;
  std::vector<int64_t> shape = tile_shape(info);
  for (int64_t width : patterns_of(t, info.dtype.bits, shape, depth, facts_of(ctx.function, ctx.kernel)))
    all.push_back(swizzled_panels(shape, info.dtype.bits, width));
  return all;
}
bool is_among(const std::vector<Layout>& layouts, const Layout& layout) {
  return std::ranges::any_of(layouts, [&](const Layout& l) { return equal(l, layout); });
}

// Why no pattern serves an operand: its rows, the parts that each warpgroup has of them, or where it begins.
std::string why_no_pattern(const TileOperand& t, int bits, int64_t depth, const LayoutContext& ctx) {
  std::vector<int64_t> shape = tile_shape(ctx.function[t.region.buffer]);
  int64_t row_bytes = shape.back() * bits / 8;
  if (row_bytes % 16) return fmt::format("has rows of {} bytes, which is no multiple of 16", row_bytes);
  Region from_origin = t.region;
  for (Range& r : from_origin.ranges) r.min = imm(0);
  std::vector<int64_t> widths = patterns_of({from_origin, t.turned, t.part}, bits, shape, depth, {});
  if (widths.empty())
    return fmt::format(
        "is read in parts of {} columns, and no pattern of 128, 64, 32 or 16 bytes divides its rows "
        "of {} bytes so",
        t.part, row_bytes);
  int64_t columns = t.turned ? std::max<int64_t>(widths.back(), 16) * 8 / bits : depth;
  return fmt::format(
      "begins where no pattern of {} bytes does (its first row must be a multiple of 8, its first column one "
      "of {})",
      std::max<int64_t>(widths.back(), 16), columns);
}

std::string why_no_tile(const TileOperand& t, const Gemm& g, const WgmmaPlan& p, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  const BufferInfo& info = f[t.region.buffer];
  auto said = [&](std::string_view why) { return fmt::format("{} {}", info.name, why); };
  if (info.scope != Scope::shared) return said("is not in shared memory (T.alloc_shared)");
  if (t.turned && !p.row->may_turn)
    return said(fmt::format(
        "has k along its columns, but elements of {} bits are multiplied along rows of k (store it as {})",
        info.dtype.bits,
        &t.region == &(p.transposed ? g.b : g.a) ? "(M, K), without transpose_A"
                                                 : "(N, K), with transpose_B=True"));
  for (size_t i = 0; i < f.buffers.size(); i++)
    if (BufferId b{int(i)}; b != t.region.buffer && f.storage(b) == f.storage(t.region.buffer))
      return said("shares its memory with another view");
  auto dims = matrix_dims(t.region);
  std::vector<int64_t> shape = tile_shape(info);
  if (dims[0] + 2 != shape.size() || dims[1] + 1 != shape.size())
    return said("does not have its rows and columns as its last two dimensions");
  if (shape[dims[0]] % 8) return said(fmt::format("has {} rows, which is no multiple of 8", shape[dims[0]]));
  if (layouts_of(t, p.row->k, ctx).empty()) return said(why_no_pattern(t, info.dtype.bits, p.row->k, ctx));
  std::vector<Layout> any = layouts_of(t.region.buffer, g, p, ctx);
  if (any.empty()) return said("is both operands, which no one pattern of 128, 64 or 32 bytes serves");
  if (!info.layout || is_among(any, from_map(*info.layout))) return "";
  return said("has a layout of the program's, which no descriptor describes");
}

// "" or why not by this plan.
std::string why_no_plan(const Gemm& g, const WgmmaPlan& p, const LayoutContext& ctx) {
  for (auto& t : operands_in_tiles(g, p))
    if (std::string why = why_no_tile(t, g, p, ctx); !why.empty()) return why;
  return "";
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

// "" or why no plan at all can do it.
std::string why_no_warpgroups(const Gemm& g, const WarpgroupInstr* row, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  if (!row && ctx.target.warpgroup.empty())
    return fmt::format("{} has no wgmma, only {} has", said(ctx.target),
                       chips_with(*find_instr("wgmma_wait_group")));
  if (!row)
    return fmt::format("wgmma does not multiply {} × {} -> {}", to_string(g.a_type), to_string(g.b_type),
                       to_string(g.c_type));
  if (g.a_type == tf32 && !g.in_flight)
    for (auto* operand : {&g.a, &g.b})
      if (std::string why = why_unrounded(operand->buffer, ctx); !why.empty()) return why;
  if (ctx.team.first % warpgroup || ctx.team.count % warpgroup || ctx.team.count == 0)
    return fmt::format("the threads [{}, {}) are not whole warpgroups of {}", ctx.team.first,
                       ctx.team.first + ctx.team.count, warpgroup);
  if (is_fragment(g.a, f) && (g.trans_a || !is_whole_matrix(g.a, f)))
    return "A in registers is transposed, or a part of a fragment";
  if (!is_whole_matrix(g.c, f)) return "C is a part of a fragment";
  if (g.k % row->k) return fmt::format("k={} is not a multiple of {}", g.k, row->k);
  return "";
}

}  // namespace

Fragment wgmma_sums(const Gemm& g, const WgmmaPlan& p) {
  return repeated(
      accumulator_of(p.n), {g.m, g.n}, p.transposed,
      {{1, p.n, p.n_tiles, p.sums()}, {0, group_rows, p.m_tiles, p.sums() * p.n_tiles}},
      {{0, group_rows * p.m_tiles, p.rows, warpgroup}, {1, p.n * p.n_tiles, p.cols, warpgroup * p.rows}});
}
Fragment wgmma_factors(const Gemm& g, const WgmmaPlan& p) {
  return repeated(
      a_fragment_of(*p.row), {g.m, g.k}, false,
      {{1, p.row->k, p.steps(g), p.factors()}, {0, group_rows, p.m_tiles, p.factors() * p.steps(g)}},
      {{0, group_rows * p.m_tiles, p.rows, warpgroup}}, p.cols, warpgroup * p.rows);
}

TileOperand a_tile(const Gemm& g) { return {g.a, g.trans_a, group_rows}; }
TileOperand b_tile(const Gemm& g, const WgmmaPlan& p) {
  return {g.b, !g.trans_b, p.n_tiles * p.cols == 1 ? 0 : p.n};
}
std::vector<TileOperand> operands_in_tiles(const Gemm& g, const WgmmaPlan& p) {
  if (p.row->a_in_registers) return {b_tile(g, p)};
  return {a_tile(g), b_tile(g, p)};
}

std::vector<Layout> layouts_of(BufferId buffer, const Gemm& g, const WgmmaPlan& p, const LayoutContext& ctx) {
  std::optional<std::vector<Layout>> common;
  for (auto& t : operands_in_tiles(g, p)) {
    if (t.region.buffer != buffer) continue;
    std::vector<Layout> own = layouts_of(t, p.row->k, ctx);
    if (common)
      std::erase_if(*common, [&](const Layout& l) { return !is_among(own, l); });
    else
      common = std::move(own);
  }
  return common.value_or(std::vector<Layout>());
}

WgmmaChoice choose_wgmma(const Gemm& given, const LayoutContext& ctx) {
  std::string not_transposed = is_low(given) ? why_not_transposed(given, ctx) : "";
  bool is_transposed = is_low(given) && not_transposed.empty();
  WgmmaChoice c{.g = is_transposed ? transposed(given) : given};
  const WarpgroupInstr* row = row_for(c.g, ctx.target, is_fragment(c.g.a, ctx.function));
  c.why_not = why_no_warpgroups(c.g, row, ctx);
  if (!c.why_not.empty()) return c;
  Registers registers = registers_for(given, ctx.kernel, ctx.target);
  for (auto& p : plans_of(c.g, *row, ctx.team.count, registers, is_transposed)) {
    std::string not_this = why_no_plan(c.g, p, ctx);
    if (not_this.empty())
      c.plans.push_back(p);
    else if (c.why_not.empty())
      c.why_not = not_this;
  }
  if (!c.plans.empty()) c.why_not = "";
  if (!c.plans.empty() || !c.why_not.empty()) return c;
  c.why_not = fmt::format(
      "{}×{} is not divided by {} warpgroup{} into tiles of 64 rows and a legal number of columns within {} "
      "registers a thread",
      given.m, given.n, ctx.team.count / warpgroup, ctx.team.count == warpgroup ? "" : "s", registers.all);
  if (registers.launch < 255)
    c.why_not += fmt::format(" ({} threads of a block have {} each)", registers.threads, registers.launch);
  if (!not_transposed.empty()) c.why_not += ", and not computed transposed, as " + not_transposed;
  return c;
}

Attrs record_of(const WgmmaPlan& p) {
  return {.entries = {{"instruction", std::string(p.row->intrinsic.name)},
                      {"warpgroups_m", p.grid()[0]},
                      {"warpgroups_n", p.grid()[1]}}};
}

RecordedWgmma recorded_wgmma(const Gemm& given, const LowerContext& ctx) {
  int64_t rows = recorded(given, "warpgroups_m"), cols = recorded(given, "warpgroups_n");
  std::string named = given.tile.attrs.get_string("instruction");
  bool is_transposed = is_low(given);
  Gemm g = is_transposed ? transposed(given) : given;
  Registers registers = registers_for(given, ctx.kernel, ctx.target);
  for (auto& row : ctx.target.warpgroup) {
    if (row.intrinsic.name != named) continue;
    std::vector<WgmmaPlan> plans = plans_of(g, row, ctx.team.count, registers, is_transposed);
    if (!plans.empty()) return {std::move(g), plans[0]};
  }
  fail(given.tile.span, "gemm: {} does not divide {}×{}×{} among a grid of {} by {} warpgroups", named,
       given.m, given.n, given.k, rows, cols);
}

}  // namespace tl
