// Tiles of different lengths: every tile exactly once, and no block has much more to do than another.
#include "pass/tile_lists.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "arith/simplify.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

using TilePlace = std::array<int64_t, 3>;  // bx, by, bz

struct LongTiles {
  TilePlace grid = {};
  std::string trips = {};  // of the loop that loads
  std::string load = {};   // the place of A from which it does
  int64_t resident = 0;
};

struct ListedWalk {
  std::optional<TileLists> lists = {};
  std::map<int64_t, std::vector<TilePlace>> tiles = {};  // of each block, as the kernel's text gives them
};

int64_t value_of(const Expr& e, const VarMap& values) {
  auto n = as_int(simplify(substitute(e, values)));
  REQUIRE(n);
  return *n;
}

void read_lists(const Kernel& k, ListedWalk& walk) {
  std::vector<std::pair<Expr, Expr>> lets;
  const Store* store = nullptr;
  visit(
      k.body, [&](const Let& n) { lets.emplace_back(n.var, n.value); }, [&](const Store& n) { store = &n; });
  const For* turns = nullptr;
  visit(k.body, [&](const For& n) {
    if (n.var.as<Var>()->hint == "tile") turns = &n;
  });
  REQUIRE(turns);
  for (int64_t block = 0; block < value_of(k.grid[0], {}); block++) {
    VarMap values{{k.grid_vars[0].get(), imm(block)}};
    int64_t count = value_of(turns->extent, values);
    for (int64_t turn = 0; turn < count; turn++) {
      values[turns->var.get()] = imm(turn);
      for (auto& [v, value] : lets) values[v.get()] = imm(value_of(value, values));
      TilePlace at;
      for (size_t d = 0; d < 3; d++) at[d] = value_of(store->index[d], values);
      walk.tiles[block].push_back(at);
    }
  }
}

ListedWalk walk_of(const LongTiles& c) {
  std::string text = fmt::format(
      "func main(A: f16[99, 99, 99, 64], B: f16[99, 99, 99], n: i32[99]):\n"
      "  kernel main grid(bx: {}, by: {}, bz: {}) threads(32):\n"
      "    S = shared f16[64]\n"
      "    last = by + 1\n"
      "    for k in serial({}):\n"
      "      copy(A[{}, 0 : +64], S)\n"
      "    B[bx, by, bz] = 0.0\n",
      c.grid[0], c.grid[1], c.grid[2], c.trips, c.load);
  Function f = parse(text, "test", text_vocabulary());
  Kernel& k = f.kernels[0];
  RolePlan plan;
  std::vector<Stmt> loads;
  visit(
      k.body, [&](const For& n) { plan.loops.push_back({.loop = Stmt(&n)}); },
      [&](const Tile& n) { loads.push_back(Stmt(&n)); });
  BlockOrder order = plan_block_order(f, k, loads, c.resident);
  ListedWalk walk{.lists = plan_tile_lists(k, plan, order, c.resident)};
  if (!walk.lists) return walk;
  walk_grid(f, k, c.resident, order, walk.lists);
  read_lists(k, walk);
  return walk;
}

// The lists are those of blocks of which the first that is free takes the next tile, the tiles in their
// order.
void check_lists(const LongTiles& c, auto trips) {
  CAPTURE(c.trips);
  CAPTURE(c.load);
  CAPTURE(c.resident);
  ListedWalk walk = walk_of(c);
  REQUIRE(walk.lists);
  const TileLists& lists = *walk.lists;
  std::map<int64_t, TilePlace> tiles;  // by number
  std::set<TilePlace> seen;
  for (size_t block = 0; block < lists.size(); block++) {
    REQUIRE_EQ(lists[block].size(), walk.tiles[int64_t(block)].size());
    for (size_t i = 0; i < lists[block].size(); i++) {
      tiles.emplace(lists[block][i], walk.tiles[int64_t(block)][i]);
      seen.insert(walk.tiles[int64_t(block)][i]);
    }
  }
  int64_t count = c.grid[0] * c.grid[1] * c.grid[2];
  CHECK_EQ(int64_t(tiles.size()), count);
  CHECK_EQ(int64_t(seen.size()), count);
  TileLists wanted(size_t(std::min(c.resident, count)));
  std::vector<int64_t> busy(wanted.size(), 0);
  for (auto& [number, at] : tiles) {
    auto first = size_t(std::ranges::min_element(busy) - busy.begin());
    wanted[first].push_back(number);
    busy[first] += trips(at) + 1;
  }
  CHECK(lists == wanted);
}

}  // namespace

TEST_CASE("tile lists: every tile once, and each goes to the block that is free first") {
  for (int64_t resident : {4, 7, 12, 100})
    for (std::string load : {"bx, 0, bz", "bx, by, bz", "0, by, 0", "bx, by, 0", "0, 0, bz"}) {
      LongTiles c{.grid = {6, 17, 2}, .load = load, .resident = resident};
      c.trips = "by";
      check_lists(c, [](const TilePlace& at) { return at[1]; });
      c.trips = "17 - last";
      check_lists(c, [](const TilePlace& at) { return 16 - at[1]; });
      c.trips = "min(bx * 3 + last, 11)";
      check_lists(c, [](const TilePlace& at) { return std::min<int64_t>(at[0] * 3 + at[1] + 1, 11); });
      c.trips = "by - 9";
      check_lists(c, [](const TilePlace& at) { return std::max<int64_t>(at[1] - 9, 0); });
    }
}

TEST_CASE("tile lists: none where only the call knows how long a tile takes, or there are too many") {
  CHECK(!walk_of({.grid = {6, 17, 2}, .trips = "cast<i64>(n[by])", .load = "bx, 0, 0", .resident = 7}).lists);
  CHECK(!walk_of({.grid = {600, 17, 2}, .trips = "by", .load = "bx, 0, 0", .resident = 7}).lists);
}
