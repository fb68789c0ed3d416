#include "pass/tile_lists.h"

#include <algorithm>
#include <map>
#include <queue>

#include "arith/simplify.h"
#include "base/product.h"
#include "ir/rewrite.h"
#include "pass/walk.h"

namespace tl {
namespace {

constexpr int64_t most_tiles = 8192;  // that the kernel's text lists
constexpr int64_t turns_beside = 1;   // that the beginning and the end of a tile take together, about

// The turns of all divided loops, in terms of the grid's variables; null: other values decide, too.
Expr count_turns(const Kernel& k, const RolePlan& plan) {
  Expr all = imm(0);
  walk(k.body, {.team = whole_block(k)}, [&](const Stmt& s, const WalkContext& at) {
    if (!all || !plan.find(s)) return true;
    Expr turns = max(cast(i64, s.as<For>()->extent), imm(0));
    for (auto* n : at.loops) turns = turns * max(cast(i64, n->extent), imm(0));
    for (auto& [condition, holds] : at.conditions)
      turns = holds ? select(condition, turns, imm(0)) : select(condition, imm(0), turns);
    for (size_t i = at.lets.size(); i-- > 0;)
      turns = substitute(turns, {{at.lets[i]->var.get(), at.lets[i]->value}});
    all = at.whiles.empty() ? all + turns : Expr();
    return false;
  });
  auto in_grid = [&](const Var& v) {
    return std::ranges::any_of(k.grid_vars, [&](auto& g) { return g.get() == &v; });
  };
  bool known = all && !contains(all, [&](const Var& v) { return !in_grid(v); }) &&
               !contains(all, [](const Load&) { return true; }) &&
               !contains(all, [](const Call& n) { return n.intrinsic->effect != Intrinsic::Effect::pure; });
  return known ? all : Expr();
}

// Where the tiles of an order stand in the grid, as place() of block_order.cpp says it in expressions.
struct GridWalk {
  std::vector<int64_t> extents = {};
  const BlockOrder& order;
  int64_t together = 1;

  int64_t count(const std::vector<size_t>& dimensions) const {
    int64_t n = 1;
    for (size_t d : dimensions) n *= extents[d];
    return n;
  }
  void spread(int64_t rest, const std::vector<size_t>& dimensions, std::vector<int64_t>& at) const {
    for (size_t d : dimensions) {
      at[d] = rest % extents[d];
      rest /= extents[d];
    }
  }
  std::vector<int64_t> tile(int64_t number) const {
    std::vector<int64_t> at(extents.size(), 0);
    if (!order) {
      for (size_t d = 0; d < extents.size(); number /= extents[d++]) at[d] = number % extents[d];
      return at;
    }
    int64_t rows = count(order.rows), columns = count(order.columns);
    spread(number / (rows * columns), order.outer, at);
    number %= rows * columns;
    int64_t first = number / (columns * together) * together;
    int64_t height = std::max<int64_t>(std::min(rows - first, together), 1),
            inside = number % (columns * together);
    spread(first + inside % height, order.rows, at);
    spread(inside / height, order.columns, at);
    return at;
  }
};

// What every tile takes, in turns.
struct TileCosts {
  const Kernel& k;
  Expr turns;
  std::vector<size_t> used = {};  // dimensions of the grid that decide
  std::map<std::vector<int64_t>, int64_t> known = {};

  std::optional<int64_t> of(const std::vector<int64_t>& tile) {
    std::vector<int64_t> key;
    for (size_t d : used) key.push_back(tile[d]);
    auto [it, is_new] = known.try_emplace(key, 0);
    if (!is_new) return it->second;
    VarMap values;
    for (size_t d : used) values.emplace(k.grid_vars[d].get(), imm(tile[d], k.grid_vars[d]->dtype));
    auto count = as_int(simplify(substitute(turns, values), {}));
    if (count) it->second = *count + turns_beside;
    return count ? std::optional(it->second) : std::nullopt;
  }
};

}  // namespace

std::optional<TileLists> plan_tile_lists(const Kernel& k, const RolePlan& plan, const BlockOrder& order,
                                         int64_t resident) {
  GridWalk grid{.order = order};
  for (auto& extent : k.grid) {
    auto known = as_int(extent);
    if (!known || *known < 1 || *known > most_tiles) return {};
    grid.extents.push_back(*known);
  }
  int64_t tiles = product(grid.extents);
  if (tiles > most_tiles || (order && !as_int(order.together))) return {};
  if (order) grid.together = *as_int(order.together);
  TileCosts costs{.k = k, .turns = count_turns(k, plan)};
  if (!costs.turns) return {};
  for (size_t d = 0; d < k.grid.size(); d++)
    if (contains(costs.turns, [&](const Var& v) { return &v == k.grid_vars[d].get(); }))
      costs.used.push_back(d);
  using Free = std::pair<int64_t, size_t>;  // when a block is, and which
  std::priority_queue<Free, std::vector<Free>, std::greater<>> next;
  TileLists lists(size_t(std::min(resident, tiles)));
  for (size_t i = 0; i < lists.size(); i++) next.emplace(0, i);
  for (int64_t number = 0; number < tiles; number++) {
    auto cost = costs.of(grid.tile(number));
    if (!cost) return {};
    auto [at, block] = next.top();
    next.pop();
    lists[block].push_back(number);
    next.emplace(at + *cost, block);
  }
  return lists;
}

}  // namespace tl
