#include "ops/gemm_mma_plan.h"

#include <algorithm>

#include "base/error.h"
#include "ops/gemm_fragments.h"
#include "target/check.h"
#include "target/said.h"

namespace tl {

Fragment mma_a(const Gemm& g, const MmaPlan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.a.registers;
  return repeated(i.a, {g.m, g.k}, g.trans_a, {{1, i.k, p.steps(g), r}, {0, i.m, p.m_tiles, r * g.k / i.k}},
                  {{0, i.m * p.m_tiles, p.rows, p.warp}}, p.cols, p.warp * p.rows);
}

Fragment mma_b(const Gemm& g, const MmaPlan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.b.registers;
  return repeated(i.b, {g.k, g.n}, g.trans_b, {{0, i.k, p.steps(g), r}, {1, i.n, p.n_tiles, r * g.k / i.k}},
                  {{1, i.n * p.n_tiles, p.cols, p.warp * p.rows}}, p.rows, p.warp);
}

Fragment mma_accumulator(const Gemm& g, const MmaPlan& p) {
  const MatrixInstr& i = *p.row;
  int64_t r = i.c.registers;
  return repeated(i.c, {g.m, g.n}, false, {{1, i.n, p.n_tiles, r}, {0, i.m, p.m_tiles, r * p.n_tiles}},
                  {{0, i.m * p.m_tiles, p.rows, p.warp}, {1, i.n * p.n_tiles, p.cols, p.warp * p.rows}});
}

// ── choosing ──────────────────────────────────────────────────────────────────────────────────────────
namespace {

// The best row for these types whose tiles make up the gemm, and for a rest of k a shorter one, whose
// registers are the first of the longer one's.  Without the types no row; where the extents fit none, a row
// that says so in `fits`.
struct MatrixRows {
  const MatrixInstr* row = nullptr;
  const MatrixInstr* tail = nullptr;
  bool fits = false;
};

bool begins_with(const OperandFragment& whole, const OperandFragment& part, int warp) {
  if (part.registers > whole.registers) return false;
  for (int lane = 0; lane < warp; lane++)
    for (int reg = 0; reg < part.registers; reg++)
      if (element_of(whole, lane, reg) != element_of(part, lane, reg)) return false;
  return true;
}

// What the operands are multiplied as: themselves, or a type that holds all their values.
DType wider(DType t) {
  if (t == e4m3 || t == e5m2 || t == e2m1) return f16;
  return t == i4 ? i8 : t == u4 ? u8 : t;
}
struct Types {
  DType a, b, c;
};
bool same_types(const MatrixInstr& row, const Types& t) {
  return row.a_type == t.a && row.b_type == t.b && row.c_type == t.c;
}

// Is an instruction the one that this attribute of the statement names, if it names any?
bool may_be(const Gemm& g, std::string_view attr, const MatrixInstr& row) {
  std::string named = g.tile.attrs.get_string(attr);
  return named.empty() || named == row.intrinsic.name;
}

MatrixRows rows_from(const Gemm& g, const Target& target, const MatrixInstr& row) {
  Types types{row.a_type, row.b_type, row.c_type};
  MatrixRows out{.row = &row};
  int64_t rest = g.k % row.k;
  for (auto* r : target.matrix)
    if (rest && !out.tail && may_be(g, "tail", *r) && same_types(*r, types) && r->m == row.m &&
        r->n == row.n && r->k == rest && begins_with(row.a, r->a, target.warp) &&
        begins_with(row.b, r->b, target.warp) && begins_with(row.c, r->c, target.warp))
      out.tail = r;
  out.fits = g.m % row.m == 0 && g.n % row.n == 0 && (rest == 0 || out.tail);
  if (out.tail && g.k < row.k)
    out = {.row = out.tail, .fits = out.fits && may_be(g, "instruction", *out.tail)};
  return out;
}

MatrixRows rows_for(const Gemm& g, const Target& target) {
  MatrixRows best;
  for (const Types& types :
       {Types{g.a_type, g.b_type, g.c_type}, Types{wider(g.a_type), wider(g.b_type), g.c_type}})
    for (auto* row : target.matrix)
      if (!best.fits && same_types(*row, types) && may_be(g, "instruction", *row))
        if (MatrixRows made = rows_from(g, target, *row); made.fits || !best.row) best = made;
  return best;
}

// How many fragments of the gemm would not lie where this plan wants them.
int64_t moved_by(const Gemm& g, const MmaPlan& p, const Function& f, const LayoutDecisions& known) {
  int64_t moved = !lies_as(g.c, f, known, mma_accumulator(g, p));
  if (is_fragment(g.a, f)) moved += !lies_as(g.a, f, known, mma_a(g, p));
  if (is_fragment(g.b, f)) moved += !lies_as(g.b, f, known, mma_b(g, p));
  return moved;
}

// What to prefer, smallest first: the policy, the work of the busiest warp, what a warp loads per step of k
// (odd n tiles load by halves), fewer warps.  Square shares the loads best; whole rows keep an A in registers
// free of copies, and a row's statistics within one warp; whole columns a B, which then no warp computes
// again.
using Cost = std::array<int64_t, 4>;

Cost cost_of(const Gemm& g, const MmaPlan& p, const Function& f) {
  bool rows = g.policy == "full_row" || (g.policy == "square" && is_fragment(g.a, f));
  bool cols = g.policy == "full_col" || (g.policy == "square" && is_fragment(g.b, f));
  int64_t policy = rows ? -p.rows : cols ? -p.cols : 0;
  int64_t m = p.m_tiles * p.row->m, n = p.n_tiles * p.row->n;
  return {policy, p.m_tiles * p.n_tiles, m + n + (p.n_tiles % 2 ? m + n : 0), p.rows * p.cols};
}

// Under a grid: nothing but what it says itself may be missing.
MmaPlan plan_of(const Gemm& g, const MatrixRows& instr, int warp, int64_t rows, int64_t cols) {
  MmaPlan p{.row = instr.row, .tail = instr.tail, .rows = rows, .cols = cols, .warp = warp};
  p.m_tiles = ceil_of(p.all_m(g), rows);
  p.n_tiles = ceil_of(p.all_n(g), cols);
  return p;
}

// "" or what is wrong with a grid: more warps than there are, or some without a part of C.
std::string why_no_warps(const Gemm& g, const MatrixRows& instr, int64_t rows, int64_t cols, int64_t warps) {
  auto said = [&](const std::string& what) {
    return fmt::format("a grid of warps_m={} by warps_n={} warps {}", rows, cols, what);
  };
  if (rows < 1 || cols < 1) return said("has none");
  if (rows > warps || cols > warps / rows) return said(fmt::format("has more than this block's {}", warps));
  MmaPlan p = plan_of(g, instr, 1, rows, cols);
  if ((rows - 1) * p.m_tiles < p.all_m(g) && (cols - 1) * p.n_tiles < p.all_n(g)) return "";
  return said(fmt::format("leaves some without a part of the {}×{} tiles of {}×{} that C is made of",
                          p.all_m(g), p.all_n(g), p.row->m, p.row->n));
}

// All grids without an empty row or column that the statement's attributes leave, the best first.
struct Candidate {
  Cost cost = {};
  MmaPlan plan = {};
};

std::vector<Candidate> candidates_of(const Gemm& g, const LayoutContext& ctx) {
  MatrixRows instr = rows_for(g, ctx.target);
  int64_t warps = ctx.team.count / ctx.target.warp;
  std::vector<Candidate> all;
  for (int64_t rows = 1; rows <= warps; rows++)
    for (int64_t cols = 1; cols <= warps / rows; cols++) {
      if (!may_be(g, "warps_m", rows) || !may_be(g, "warps_n", cols)) continue;
      if (!why_no_warps(g, instr, rows, cols, warps).empty()) continue;
      MmaPlan p = plan_of(g, instr, ctx.target.warp, rows, cols);
      all.push_back({cost_of(g, p, ctx.function), p});
    }
  std::ranges::sort(all, [](auto& a, auto& b) {
    return std::tuple(a.cost, a.plan.rows, a.plan.cols) < std::tuple(b.cost, b.plan.rows, b.plan.cols);
  });
  return all;
}

std::vector<Candidate> plans_of(const Gemm& g, const LayoutContext& ctx) {
  std::vector<Candidate> plans = candidates_of(g, ctx);
  const Attrs& attrs = g.tile.attrs;
  if (plans.empty())
    fail(g.tile.span, "gemm: {}",
         why_no_warps(g, rows_for(g, ctx.target), attrs.get_int("warps_m", 1), attrs.get_int("warps_n", 1),
                      ctx.team.count / ctx.target.warp));
  return plans;
}

// Of the plans under which most fragments already lie right, the one of least cost.
const Candidate& least_moved(const std::vector<Candidate>& plans, const Gemm& g, const LayoutContext& ctx) {
  const Function& f = ctx.function;
  int64_t must = !is_whole_matrix(g.c, f) + (is_fragment(g.a, f) && !is_whole_matrix(g.a, f)) +
                 (is_fragment(g.b, f) && !is_whole_matrix(g.b, f));
  const Candidate* best = nullptr;
  int64_t least = 0;
  for (auto& x : plans) {
    int64_t moved = moved_by(g, x.plan, f, ctx.known);
    if (!best || moved < least) std::tie(best, least) = std::tuple(&x, moved);
    if (least == must) break;
  }
  return *best;
}

// ── products of one accumulator ───────────────────────────────────────────────────────────────────────
// One of them, with the grids that it may have, and how often it runs.
struct Sharer {
  Gemm g;
  std::vector<Candidate> plans = {};
  int64_t turns = 1;

  const Candidate* that_sums_as(const Fragment& sums) const {
    auto it =
        std::ranges::find_if(plans, [&](auto& x) { return same_fragment(mma_accumulator(g, x.plan), sums); });
    return it == plans.end() ? nullptr : &*it;
  }
};

// Those that warps can run on C where it lies; none if there is but one.
std::vector<Sharer> sharers_of(const Gemm& g, const LayoutContext& ctx) {
  std::vector<Sharer> all;
  auto products = products_of(ctx.kernel.body, g.c.buffer);
  if (products.size() < 2) return all;
  for (auto& [t, turns] : products) {
    Sharer x{.g = read_gemm(*t, ctx.function), .turns = int64_t(turns)};
    if (x.g.in_flight || !is_whole_matrix(x.g.c, ctx.function) || !gemm_mma.applies(x.g, ctx).empty())
      continue;
    x.plans = candidates_of(x.g, ctx);
    if (!x.plans.empty()) all.push_back(std::move(x));
  }
  return all;
}

// What all products cost where C lies so: fragments to move first, then as each of them alone counts.
std::array<int64_t, 5> cost_of(const std::vector<Sharer>& all, const Fragment& sums,
                               const LayoutContext& ctx) {
  std::array<int64_t, 5> out = {};
  for (auto& x : all) {
    const Candidate* found = x.that_sums_as(sums);
    const Candidate& runs = found ? *found : x.plans.front();
    int64_t steps = runs.plan.steps(x.g);
    auto& [policy, tiles, loads, warps] = runs.cost;
    out[0] += x.turns * (moved_by(x.g, runs.plan, ctx.function, ctx.known) + !found);
    out[1] += x.turns * policy;
    out[2] += x.turns * steps * tiles;
    out[3] += x.turns * steps * loads;
    out[4] += x.turns * warps;
  }
  return out;
}

// How C lies best for the products that add to it; null where there is but one.
std::optional<Fragment> common_sums(const Gemm& g, const LayoutContext& ctx) {
  std::vector<Sharer> all = sharers_of(g, ctx);
  std::optional<Fragment> best;
  std::array<int64_t, 5> least = {};
  std::vector<Fragment> seen;
  for (auto& x : all)
    for (auto& candidate : x.plans) {
      Fragment sums = mma_accumulator(x.g, candidate.plan);
      if (std::ranges::any_of(seen, [&](auto& s) { return same_fragment(s, sums); })) continue;
      seen.push_back(sums);
      std::array<int64_t, 5> cost = cost_of(all, sums, ctx);
      if (!best || cost < least) std::tie(best, least) = std::tuple(std::move(sums), cost);
    }
  return best;
}

}  // namespace

// A product that lays C out does so for all that add to it; one that finds it laid out follows.
MmaPlan choose_plan(const Gemm& g, const LayoutContext& ctx) {
  std::vector<Candidate> plans = plans_of(g, ctx);
  bool is_free =
      g.lays_out && is_whole_matrix(g.c, ctx.function) && !ctx.known.fragments.contains(g.c.buffer);
  if (plans.size() > 1 && is_free)
    if (auto sums = common_sums(g, ctx)) {
      Sharer own{.g = g, .plans = plans};
      if (const Candidate* found = own.that_sums_as(*sums)) return found->plan;
    }
  return least_moved(plans, g, ctx).plan;
}

bool may_sum_as(const Gemm& g, const LayoutContext& ctx, const Fragment& fragment) {
  return std::ranges::any_of(plans_of(g, ctx),
                             [&](auto& x) { return same_fragment(mma_accumulator(g, x.plan), fragment); });
}

Attrs record_of(const MmaPlan& p) {
  Attrs out{.entries = {{"instruction", std::string(p.row->intrinsic.name)},
                        {"warps_m", p.rows},
                        {"warps_n", p.cols}}};
  if (p.tail) out.entries["tail"] = std::string(p.tail->intrinsic.name);
  return out;
}

MmaPlan recorded_plan(const Gemm& g, const Target& target, int64_t threads) {
  int64_t rows = recorded(g, "warps_m"), cols = recorded(g, "warps_n");
  if (std::string why = why_no_mma(g, target, threads); !why.empty()) fail(g.tile.span, "gemm: {}", why);
  MatrixRows instr = rows_for(g, target);
  if (instr.tail && !g.tile.attrs.find("tail")) fail_unrecorded(g, "tail");
  std::string why = why_no_warps(g, instr, rows, cols, threads / target.warp);
  if (!why.empty()) fail(g.tile.span, "gemm: {}", why);
  return plan_of(g, instr, target.warp, rows, cols);
}

std::string why_no_mma(const Gemm& g, const Target& target, int64_t threads) {
  auto [row, tail, fits] = rows_for(g, target);
  std::string named = g.tile.attrs.get_string("instruction"),
              types =
                  fmt::format("{} × {} -> {}", to_string(g.a_type), to_string(g.b_type), to_string(g.c_type));
  if (!row && !named.empty()) return fmt::format("{} does not multiply {}", named, types);
  if (!row) return fmt::format("{} has no instruction for {}", said(target), types);
  if (threads < target.warp) return fmt::format("{} threads are less than a warp", threads);
  if (!fits)
    return fmt::format("{}×{}×{} is not made of {}×{}×{} tiles", g.m, g.n, g.k, row->m, row->n, row->k);
  if (!tail && g.tile.attrs.find("tail"))
    return fmt::format("{} covers all of k={}, so there is no rest for a tail instruction",
                       row->intrinsic.name, g.k);
  return "";
}

}  // namespace tl
