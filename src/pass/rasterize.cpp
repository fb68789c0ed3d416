// rasterize: T.use_swizzle.  Blocks that run at the same time share rows of A and columns of B in the L2
// cache; in the hardware's order, row after row of a wide grid, they share one row of A and need every column
// of B.  Here they visit the grid in panels of panel_size columns ("row": row after row of a panel) or rows
// ("col": column after column), every other panel backwards, so that a panel begins where the last one
// ended.  At tile level, so that every target and every later pass sees ordinary expressions.
//
//   kernel grid(bx: 8, by: 8) {use_swizzle=4}:    kernel grid(x: 8, y: 8):
//     …                                             let bx = …(x + y*8)…
//                                                   let by = …
#include "arith/prove.h"
#include "base/error.h"
#include "pass/passes.h"

namespace tl {
namespace {

struct BlockPlace {
  Expr along, across;  // panels stand side by side along one dimension and run across the other
};

// Where block number `id` of an along × across grid stands.  Full panels are `size` wide, the last may be
// narrower. `bind` gives a value a name where it is worth one.
template <class Bind>
BlockPlace place_of(const Expr& id, const Expr& along, const Expr& across, int64_t size, Bind bind) {
  Expr panel = bind("panel", floordiv(id, across * size)), first = panel * size;
  Expr width = bind("width", min(imm(size), along - first)), rest = bind("rest", id - first * across);
  Expr row = bind("row", floordiv(rest, width));
  Expr back = eq(floormod(panel, 2), imm(1));
  return {.along = min(first + floormod(rest, width), along - 1),
          .across = max(min(select(back, across - 1 - row, row), across - 1), imm(0))};
}

bool is_one(const Expr& e) { return is_int(e, 1); }

}  // namespace

Function rasterize(Function f, const Target&) {
  for (Kernel& k : f.kernels) {
    int64_t size = k.attrs.get_int("use_swizzle");
    bool by_col = k.attrs.get_string("use_swizzle_order", "row") == "col";
    k.attrs.entries.erase("use_swizzle");
    k.attrs.entries.erase("use_swizzle_order");
    if (size == 0) continue;
    if (cluster_size(k) > 1)
      fail(k.span,
           "T.use_swizzle gives each block another place in the grid, but the blocks of a cluster "
           "(cluster_dims) stay neighbours: compute the order of tiles from the block index instead");
    auto note = [&](std::string text, bool refusal) {
      f.notes.push_back({"rasterize", k.name, std::move(text), k.span, refusal});
    };
    if (k.grid.size() < 2 || is_one(k.grid[0]) || is_one(k.grid[1])) {
      note("use_swizzle changes nothing: the grid has one dimension", true);
      continue;
    }
    Expr x = var("x"), y = var("y");
    std::vector<Stmt> stmts;
    bool constant = as_int(k.grid[0]) && as_int(k.grid[1]);
    auto bind = [&](const char* name, Expr value) {
      if (constant) return value;
      stmts.push_back(let(var(name), value, k.span));
      return stmts.back().as<Let>()->var;
    };
    Expr id = y * k.grid[0] + x, along = bind("wide", k.grid[by_col]), across = bind("high", k.grid[!by_col]);
    BlockPlace at = place_of(id, along, across, size, bind);
    Facts facts;
    for (auto& [v, extent] : {std::pair(x, k.grid[0]), std::pair(y, k.grid[1])})
      if (auto n = as_int(extent)) facts.bind(v, Interval{0, std::max<int64_t>(0, *n - 1)});
    stmts.push_back(let(k.grid_vars[0], simplify(by_col ? at.across : at.along, facts), k.span));
    stmts.push_back(let(k.grid_vars[1], simplify(by_col ? at.along : at.across, facts), k.span));
    stmts.push_back(k.body);
    k.body = block(std::move(stmts), k.span);
    k.grid_vars[0] = x;
    k.grid_vars[1] = y;
    note(fmt::format("blocks visit the grid in panels of {} {}", size, by_col ? "rows" : "columns"), false);
  }
  return f;
}

}  // namespace tl
