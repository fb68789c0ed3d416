// The order of blocks: every block of every grid exactly once, and in panels.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/op.h"
#include "pass/passes.h"

using namespace tl;

namespace {

using Spot = std::pair<int64_t, int64_t>;  // bx, by

// The block indices that the body sees, in the order in which the hardware counts.  With `dynamic` the grid's
// extents are known when the kernel is called only.
std::vector<Spot> order_of(int64_t gx, int64_t gy, int64_t size, bool by_col, bool dynamic) {
  std::string grid = dynamic ? "bx: M, by: N" : fmt::format("bx: {}, by: {}", gx, gy);
  std::string text = fmt::format(
      "func main(A: f32[M, N]):\n  kernel main grid({}) threads(32) {{use_swizzle={}{}}}:\n    A[bx, by] = "
      "0.0\n",
      grid, size, by_col ? ", use_swizzle_order=\"col\"" : "");
  Function f = rasterize(parse(text, "test", text_vocabulary()), *find_target("sm_80"));
  const Kernel& k = f.kernels[0];
  std::vector<std::pair<Expr, Expr>> lets;
  const Store* store = nullptr;
  visit(
      k.body, [&](const Let& n) { lets.emplace_back(n.var, n.value); }, [&](const Store& n) { store = &n; });
  REQUIRE(store);
  std::vector<Spot> out;
  for (int64_t y = 0; y < gy; y++)
    for (int64_t x = 0; x < gx; x++) {
      VarMap values{{k.grid_vars[0].get(), imm(x)}, {k.grid_vars[1].get(), imm(y)}};
      values.emplace(f[f.params[0].buffer].shape[0].get(), imm(gx));
      values.emplace(f[f.params[0].buffer].shape[1].get(), imm(gy));
      for (auto& [v, value] : lets) values[v.get()] = simplify(substitute(value, values));
      auto bx = as_int(simplify(substitute(store->index[0], values))),
           by = as_int(simplify(substitute(store->index[1], values)));
      REQUIRE(bx);
      REQUIRE(by);
      out.emplace_back(*bx, *by);
    }
  return out;
}

}  // namespace

TEST_CASE("rasterize: two panels by hand, the second one backwards") {
  CHECK(order_of(4, 2, 2, false, false) ==
        std::vector<Spot>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {2, 0}, {3, 0}});
  CHECK(order_of(2, 4, 2, true, false) ==
        std::vector<Spot>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {0, 2}, {0, 3}});
  CHECK(order_of(3, 2, 2, false, false) == std::vector<Spot>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 0}});
}

TEST_CASE("rasterize: every block once, in panels, each block next to the one before") {
  for (int64_t gx : {1, 2, 3, 5, 7, 12})
    for (int64_t gy : {1, 2, 4, 5, 9})
      for (int64_t size : {1, 2, 3, 4, 20})
        for (bool by_col : {false, true})
          for (bool dynamic : {false, true}) {
            CAPTURE(gx);
            CAPTURE(gy);
            CAPTURE(size);
            CAPTURE(by_col);
            CAPTURE(dynamic);
            auto order = order_of(gx, gy, size, by_col, dynamic);
            std::set<Spot> seen;
            bool inside = true, in_panels = true, rows_touch = true, moved = gx > 1 && gy > 1;
            for (size_t i = 0; i < order.size(); i++) {
              auto [x, y] = order[i];
              inside &= 0 <= x && x < gx && 0 <= y && y < gy;
              seen.insert(order[i]);
              int64_t along = by_col ? y : x, row = by_col ? x : y, high = by_col ? gx : gy;
              if (moved || dynamic) in_panels &= along / size == int64_t(i) / (size * high);
              if (i && (moved || dynamic))
                rows_touch &= std::abs(row - (by_col ? order[i - 1].first : order[i - 1].second)) <= 1;
            }
            CHECK(inside);
            CHECK(seen.size() == size_t(gx * gy));
            CHECK(in_panels);
            CHECK(rows_touch);
          }
}
