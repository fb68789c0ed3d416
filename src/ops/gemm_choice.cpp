// Which strategy runs a gemm: the one that the statement asks for, or the first that can.
//
// Products that add to one accumulator are chosen for together.  Its sums lie as one family of instructions
// wants them, and go through shared memory at each product of another; so a product that warpgroups could
// take is taken by warps, as the others are, where that costs fewer clocks.  Of the grids of warpgroups that
// are possible, all products have the one that costs least in all.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/gemm_mma_plan.h"
#include "ops/gemm_wgmma_plan.h"
#include "ops/mapping.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr const GemmStrategy* strategies[] = {&gemm_wgmma, &gemm_mma, &gemm_simd, &gemm_fma};  // best first

// The strategy that attributes of the statement ask for; null where they ask for none.
const GemmStrategy* asked_strategy(const Gemm& g, const Target& target) {
  const GemmStrategy* found = nullptr;
  std::string_view by;
  auto ask = [&](std::string_view attr, const GemmStrategy* s) {
    if (found && found != s)
      fail(g.tile.span, "gemm: {} belongs to a gemm by {}, but {} to one by {}: leave one of them out", by,
           found->name, attr, s->name);
    found = s, by = attr;
  };
  std::string instruction = g.tile.attrs.get_string("instruction");
  if (g.in_flight) ask("in_flight", &gemm_wgmma);
  if (!instruction.empty()) ask("instruction", strategy_of(g, instruction, target));
  for (auto* s : strategies)
    for (std::string_view attr : s->record)
      if (g.tile.attrs.find(attr)) ask(attr, s);
  return found;
}

// As if it were alone.
GemmChoice choose_own(const Gemm& g, const LayoutContext& ctx) {
  GemmChoice c{.strategy = asked_strategy(g, ctx.target)};
  if (c.strategy) return c;
  for (auto* s : strategies) {
    if (s->offered && !s->offered(ctx.target)) continue;
    std::string reason = s->applies(g, ctx);
    if (reason.empty()) {
      c.strategy = s;
      return c;
    }
    c.why_not += (c.why_not.empty() ? "" : "; ") + std::string(s->name) + ": " + reason;
  }
  fail(g.tile.span, "gemm: {} cannot run this: {}", said(ctx.target), c.why_not);
}

// ── products of one accumulator ───────────────────────────────────────────────────────────────────────
// One of them, and what it costs to run it otherwise than best, in clocks of a multiprocessor.
struct Product {
  Gemm g;
  std::optional<Gemm> by_groups = {};  // as warpgroups multiply it
  GemmChoice own = {};
  std::vector<WgmmaPlan> plans = {};  // by warpgroups, if that is best
  // Of warpgroups, in which sums lie as one of its own plans has them, if mma.sync is best.
  std::set<std::array<int64_t, 2>> grids = {};
  bool by_warps = false;  // mma.sync can run it with C in place
  double turns = 1, slower = 0, exchange = 0;

  bool is(const GemmStrategy& s) const { return own.strategy == &s; }
  const WgmmaPlan* plan_in(const std::array<int64_t, 2>& grid) const {
    auto it = std::ranges::find(plans, grid, &WgmmaPlan::grid);
    return it == plans.end() ? nullptr : &*it;
  }
  // Rather by mma.sync than by way of shared memory?
  bool follows_warps() const { return by_warps && (is(gemm_mma) || slower <= exchange); }
};

// How C lies: as this strategy wants it, in this grid of warpgroups.
struct Owner {
  const GemmStrategy* by = nullptr;  // null: as none does
  std::optional<std::array<int64_t, 2>> grid = {};
};

bool is_in_place(const Product& p, const Owner& owner) {
  if (owner.by == &gemm_wgmma) return p.plan_in(*owner.grid) || p.grids.contains(*owner.grid);
  return owner.by == &gemm_mma ? p.follows_warps() : p.is(gemm_fma) && owner.by == &gemm_fma;
}

// Clocks beyond those of each product by what is best for it; then what plans of warpgroups prefer.
std::array<double, 4> cost_of(const std::vector<Product>& all, const Owner& owner) {
  std::array<double, 4> cost = {};
  for (auto& p : all) {
    bool in_place = is_in_place(p, owner);
    cost[0] += p.turns * (!in_place ? p.exchange : owner.by == &gemm_mma && !p.is(gemm_mma) ? p.slower : 0);
    if (owner.grid && p.plan_in(*owner.grid))
      for (size_t i = 0; i < 3; i++) cost[i + 1] += p.turns * double(p.plan_in(*owner.grid)->cost[i]);
  }
  return cost;
}

Owner cheapest_owner(const std::vector<Product>& all) {
  std::vector<Owner> owners;
  for (auto& p : all)
    for (auto& plan : p.plans) owners.push_back({&gemm_wgmma, plan.grid()});
  for (auto* s : {&gemm_mma, &gemm_fma}) owners.push_back({s});
  Owner best;
  std::array<double, 4> least = {};
  for (auto& owner : owners) {
    if (std::ranges::none_of(all, [&](auto& p) { return is_in_place(p, owner); })) continue;
    std::array<double, 4> cost = cost_of(all, owner);
    if (!best.by || cost < least) std::tie(best, least) = std::tuple(owner, cost);
  }
  return best;
}

// Measured: what mma.sync reaches of the rate of warpgroups (bench/results/2026-11-23-pipelines.md).
constexpr double rate_of_warps = 0.62;
constexpr double never = 1e9;  // where no tile for sums fits beside the others

Product product_of(const Gemm& g, double turns, const LayoutContext& ctx) {
  const Target& target = ctx.target;
  Product p{.g = g, .own = choose_own(g, ctx), .turns = turns};
  int64_t rate = tensor_rate(target, g.a_type);
  double clocks = rate ? 2.0 * double(g.m * g.n * g.k) / double(rate) : 0;
  p.slower = clocks * (1 / rate_of_warps - 1);
  double words = double(g.m * g.n) * g.c_type.bits / 32;
  p.exchange = 2 * words / target.shared_banks.count;  // written, and read
  if (ctx.kernel.attrs.find("sums_stay")) p.exchange *= never;
  if (!is_whole_matrix(g.c, ctx.function)) return p;
  const BufferInfo& sums = ctx.function[g.c.buffer];
  std::optional<Fragment> given;
  if (sums.layout) given = fragment_from_map(*sums.layout);
  if (p.is(gemm_wgmma)) {
    WgmmaChoice choice = choose_wgmma(g, ctx);
    p.by_groups.emplace(choice.g);
    for (auto& plan : choice.plans)
      if (!given || same_fragment(*given, wgmma_sums(choice.g, plan))) p.plans.push_back(plan);
  }
  bool asked = asked_strategy(g, target) != nullptr;
  if (p.is(gemm_mma) || (p.is(gemm_wgmma) && !asked && gemm_mma.applies(g, ctx).empty()))
    p.by_warps = !given || may_sum_as(g, ctx, *given);
  return p;
}

// Where each warpgroup has 64 rows of C, its sums lie as those of mma.sync by warps of 16 rows.
void find_common_grids(std::vector<Product>& all, const LayoutContext& ctx) {
  for (auto& other : all)
    for (auto& plan : other.plans)
      for (auto& p : all) {
        if (!p.is(gemm_mma) || !p.by_warps || p.grids.contains(plan.grid()) || plan.m_tiles > 1) continue;
        if (may_sum_as(p.g, ctx, wgmma_sums(*other.by_groups, plan))) p.grids.insert(plan.grid());
      }
}

// Why a product that warpgroups could take is not theirs.
std::string why_with_warps(const Gemm& g, const std::vector<Product>& all, const Function& f) {
  const BufferInfo& sums = f[g.c.buffer];
  if (sums.layout)
    return fmt::format("{} has a layout of the program's, which is not that of its sums", sums.name);
  auto other = std::ranges::find_if(all, [](auto& p) { return !p.is(gemm_wgmma); });
  if (other == all.end())
    return fmt::format("no grid of warpgroups is possible for all products that add to {}", sums.name);
  const std::string& why = other->own.why_not;
  return fmt::format("the product on line {} adds to {} as well, and is not by wgmma{}",
                     other->g.tile.span.line, sums.name, why.empty() ? "" : " (" + why + ")");
}

// C of several products, or with a layout of the program's.
void choose_with_others(const Gemm& g, const LayoutContext& ctx,
                        const std::vector<std::pair<const Tile*, double>>& products, GemmChoice& choice) {
  std::vector<Product> all;
  for (auto& [t, turns] : products) all.push_back(product_of(read_gemm(*t, ctx.function), turns, ctx));
  all.push_back(product_of(g, 0, ctx));
  find_common_grids(all, ctx);
  Owner owner = cheapest_owner(all);
  const Product& own = all.back();
  choice.grid = owner.grid;
  choice.lies = owner.by && is_whole_matrix(g.c, ctx.function) && is_in_place(own, owner);
  choice.lays_out = choice.lies && (owner.by == own.own.strategy || owner.by == &gemm_mma);
  if (owner.by == &gemm_mma && own.is(gemm_wgmma) && choice.lies) {
    choice.strategy = &gemm_mma;
    choice.with_others = why_with_warps(g, all, ctx.function);
    choice.why_not = "wgmma: " + choice.with_others;
  }
}

}  // namespace

std::vector<std::pair<const Tile*, double>> products_of(const Stmt& body, BufferId sums) {
  constexpr int64_t several = 8;
  std::vector<std::pair<const Tile*, double>> all;
  auto each = [&](const Stmt& s, auto visitor) {
    visit(s, [&](const Tile& t) {
      if (t.op->name == "gemm" && region_of(t, 2).buffer == sums) visitor(&t);
    });
  };
  each(body, [&](const Tile* t) { all.emplace_back(t, 1); });
  visit(body, [&](const For& n) {
    double extent = double(as_int(n.extent).value_or(several));
    each(n.body, [&](const Tile* t) {
      std::ranges::find(all, t, [](auto& x) { return x.first; })->second *= extent;
    });
  });
  return all;
}

const GemmStrategy* strategy_of(const Gemm& g, std::string_view instruction, const Target& target) {
  for (auto* s : strategies)
    if (s->runs(instruction, target)) return s;
  std::string has;
  auto list = [&](auto& rows) {
    for (auto* row : rows)
      if (row->a_type == g.a_type && row->b_type == g.b_type && row->c_type == g.c_type)
        has += fmt::format("{}, ", row->intrinsic.name);
  };
  for (auto& row : target.warpgroup)
    if (row.a_type == g.a_type && row.b_type == g.b_type && row.c_type == g.c_type)
      has += fmt::format("{}, ", row.intrinsic.name);
  list(target.matrix);
  list(target.dots);
  fail(g.tile.span, "gemm: {} has no instruction `{}`; it has {}fma", said(target), instruction, has);
}

GemmChoice choose_strategy(const Gemm& g, const LayoutContext& ctx) {
  GemmChoice choice = choose_own(g, ctx);
  if (asked_strategy(g, ctx.target))
    if (std::string why = choice.strategy->applies(g, ctx); !why.empty())
      fail(g.tile.span, "{}: {}{}", said_gemm(g.tile), why,
           g.in_flight ? ": T.gemm computes this by an instruction that fits, and waits for it" : "");
  if (!ctx.target.has_threads()) return choice;
  choice.lies = choice.lays_out = is_whole_matrix(g.c, ctx.function);
  auto products = products_of(ctx.kernel.body, g.c.buffer);
  std::string named = g.tile.attrs.get_string("instruction");
  bool are_same = std::ranges::all_of(
      products, [&](auto& x) { return x.first->attrs.get_string("instruction") == named; });
  bool are_steps = choice.strategy == &gemm_mma && !named.empty() && are_same;
  if ((products.size() > 1 && !are_steps) || ctx.function[g.c.buffer].layout)
    choose_with_others(g, ctx, products, choice);
  return choice;
}

std::string why_not_by_warpgroups(const Gemm& g, const LayoutContext& ctx) {
  std::string why = gemm_wgmma.applies(g, ctx);
  return why.empty() ? choose_strategy(g, ctx).with_others : why;
}

int64_t tensor_rate(const Target& target, DType type) {
  if (type.bits == 16) return target.rates.f16;
  if (type.bits == 32) return target.rates.tf32;
  return type.is_int() ? target.rates.int8 : target.rates.fp8;
}

bool is_repeated(const Gemm& g, const Kernel& kernel) {
  auto products = products_of(kernel.body, g.c.buffer);
  auto it = std::ranges::find(products, &g.tile, [](auto& x) { return x.first; });
  return it == products.end() || it->second > 1;
}

}  // namespace tl
