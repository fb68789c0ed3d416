// The order of blocks that share loads: every block of every grid exactly once, and those that share
// together.
#include "pass/block_order.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "arith/simplify.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/op.h"

using namespace tl;

namespace {

using Indices = std::array<int64_t, 3>;  // bx, by, bz

struct Case {
  Indices grid = {};
  std::vector<std::string> loads = {};  // places of A from which tiles are loaded
  int64_t resident = 0;
  bool dynamic = false, walks = false;
};

Function program_of(const Case& c) {
  auto extent = [&](size_t d, const char* name) { return c.dynamic ? name : std::to_string(c.grid[d]); };
  std::string text = fmt::format(
      "func main(A: f16[9, 99, 9, 64], B: f16[9, 99, 9], x: i32, y: i32, z: i32):\n"
      "  kernel main grid(bx: {}, by: {}, bz: {}) threads(32):\n"
      "    S = shared f16[64]\n",
      extent(0, "cast<i64>(x)"), extent(1, "cast<i64>(y)"), extent(2, "cast<i64>(z)"));
  for (auto& load : c.loads) text += fmt::format("    copy(A[{}, 0 : +64], S)\n", load);
  return parse(text + "    B[bx, by, bz] = 0.0\n", "test", text_vocabulary());
}

BlockOrder plan(const Function& f, int64_t resident) {
  std::vector<Stmt> loads;
  visit(f.kernels[0].body, [&](const Tile& n) { loads.push_back(Stmt(&n)); });
  return plan_block_order(f, f.kernels[0], loads, resident);
}

// The block indices that the body sees, in the order in which they begin if each takes as long.
std::vector<Indices> blocks_of(const Case& c) {
  Function f = program_of(c);
  Kernel& k = f.kernels[0];
  BlockOrder order = plan(f, c.resident);
  if (c.walks)
    walk_grid(f, k, c.resident, order);
  else
    reorder_grid(f, k, c.resident, order);
  std::vector<std::pair<Expr, Expr>> lets;
  const Store* store = nullptr;
  const For* turns = nullptr;
  visit(
      k.body, [&](const Let& n) { lets.emplace_back(n.var, n.value); }, [&](const Store& n) { store = &n; },
      [&](const For& n) { turns = &n; });
  REQUIRE(store);
  VarMap extents;
  for (size_t d = 0; d < 3; d++) extents.emplace(f.params[2 + d].var.get(), imm(c.grid[d], i32));
  auto known = [&](const Expr& e, const VarMap& values) {
    auto n = as_int(simplify(substitute(e, values)));
    REQUIRE(n);
    return *n;
  };
  if (k.grid.size() == 3) return {};
  int64_t blocks = known(k.grid[0], extents), most = 1;
  if (turns) most = (c.grid[0] * c.grid[1] * c.grid[2] + c.resident - 1) / c.resident;
  std::vector<Indices> out;
  for (int64_t turn = 0; turn < most; turn++)
    for (int64_t block = 0; block < blocks; block++) {
      VarMap values = extents;
      values.emplace(k.grid_vars[0].get(), imm(block));
      if (turns) {
        if (turn >= known(turns->extent, values)) continue;
        values.emplace(turns->var.get(), imm(turn));
      }
      for (auto& [v, value] : lets) values[v.get()] = imm(known(value, values));
      Indices place;
      for (size_t d = 0; d < 3; d++) place[d] = known(store->index[d], values);
      out.push_back(place);
    }
  return out;
}

bool is_every_block_once(const Indices& grid, const std::vector<Indices>& order) {
  std::set<Indices> seen(order.begin(), order.end());
  bool inside = std::ranges::all_of(seen, [&](const Indices& s) {
    return s[0] >= 0 && s[1] >= 0 && s[2] >= 0 && s[0] < grid[0] && s[1] < grid[1] && s[2] < grid[2];
  });
  return inside && seen.size() == order.size() && int64_t(seen.size()) == grid[0] * grid[1] * grid[2];
}

}  // namespace

TEST_CASE("block order: by hand") {
  // Two tiles of one size: of 4 blocks, 2 rows by 2 columns share the most.
  CHECK(blocks_of({.grid = {3, 2, 1}, .loads = {"0, by, 0", "bx, 0, 0"}, .resident = 4}) ==
        std::vector<Indices>{{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {2, 1, 0}});
  // The blocks of one bx load the same, all by: of 4 blocks, two bx.
  CHECK(blocks_of({.grid = {3, 2, 1}, .loads = {"bx, 0, 0"}, .resident = 4}) ==
        std::vector<Indices>{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {2, 0, 0}, {2, 1, 0}});
}

TEST_CASE("block order: no block where an extent is not positive, however many are not") {
  Case c{.grid = {-2, -3, 1}, .loads = {"bx, 0, 0"}, .resident = 2, .dynamic = true};
  CHECK(blocks_of(c).empty());
  c.walks = true;
  CHECK(blocks_of(c).empty());
}

TEST_CASE("block order: none where loads do not say one") {
  auto has_order = [](std::vector<std::string> loads) {
    return bool(plan(program_of({.grid = {5, 7, 3}, .loads = std::move(loads)}), 12));
  };
  CHECK(has_order({"bx, 0, 0"}));
  CHECK(has_order({"bx, 0, bz", "0, by, bz"}));
  CHECK_FALSE(has_order({"0, 0, 0"}));               // all share
  CHECK_FALSE(has_order({"bx, by, bz"}));            // none do
  CHECK_FALSE(has_order({"bx, 0, 0", "0, by, 0"}));  // and bz is in no load
  CHECK_FALSE(has_order({"bx, by, 0", "0, by, bz", "bx, 0, bz"}));
}

TEST_CASE("block order: a round of blocks is a whole rectangle that loads the least") {
  auto rows = [](int64_t resident, const char* more) {
    Case c{.grid = {64, 64, 1}, .loads = {"0, by, 0", "bx, 0, 0", more}};
    return as_int(plan(program_of(c), resident).together);
  };
  CHECK(rows(132, "bx, 1, 0") == 12);  // twice as many bytes of a column: 12 rows, 11 columns
  CHECK(rows(132, "0, by, 1") == 6);
}

TEST_CASE("block order: every block once, and what blocks share is loaded together") {
  std::vector<std::vector<std::string>> kinds = {{"0, by, bz", "bx, 0, bz"}, {"bx, 0, bz"}, {"0, by, 0"}};
  for (Indices grid :
       {Indices{5, 7, 3}, Indices{1, 9, 4}, Indices{8, 1, 5}, Indices{12, 4, 1}, Indices{3, 31, 2}})
    for (auto& loads : kinds)
      for (int64_t resident : {2, 6, 12})
        for (bool dynamic : {false, true})
          for (bool walks : {false, true}) {
            CAPTURE(fmt::format("{} x {} x {}, {} at once", grid[0], grid[1], grid[2], resident));
            CAPTURE(loads[0]);
            CAPTURE(dynamic);
            std::vector<Indices> order = blocks_of(
                {.grid = grid, .loads = loads, .resident = resident, .dynamic = dynamic, .walks = walks});
            if (order.empty()) continue;  // the grid stays
            CHECK(is_every_block_once(grid, order));
          }
}
