//   kernel grid(bx: 64, by: 32):      kernel grid(block: 132):
//     body                              for t in serial((2048 - block + 131) // 132):
//                                  ->     let bx = (t*132 + block) % 64
//                                         let by = (t*132 + block) // 64 % 32
//                                         body
//
// Row after row of the grid; or, where rows share some loads and columns the others (a matrix product), so
// many rows together that a round of blocks loads the least; or, where the blocks of some dimensions load the
// same (queries of a head), all of these together. Blocks at the same time then find most of it in the L2
// cache.
#include "pass/block_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/product.h"
#include "ir/lookup.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "pass/walk.h"

namespace tl {

namespace {

// The variables that a statement depends on, through names around it as well.
std::set<const ExprNode*> variables_of(const Kernel& k, const Stmt& s) {
  std::set<const ExprNode*> found;
  auto take = [&](const Expr& e) { visit(e, [&](const Var& v) { found.insert(&v); }); };
  walk(k.body, {.team = whole_block(k)}, [&](const Stmt& inner, const WalkContext& at) {
    if (!inner.same(s)) return true;
    visit(inner, [&](const Var& v) { found.insert(&v); });
    for (size_t i = at.lets.size(); i-- > 0;)
      if (found.contains(at.lets[i]->var.get())) take(at.lets[i]->value);
    return false;
  });
  return found;
}

// The dimensions of the grid, that differ between blocks, on which a statement depends.
std::set<size_t> dimensions_of(const Kernel& k, const Stmt& s) {
  std::set<const ExprNode*> used = variables_of(k, s);
  std::set<size_t> found;
  for (size_t d = 0; d < k.grid.size(); d++)
    if (!is_int(k.grid[d], 1) && used.contains(k.grid_vars[d].get())) found.insert(d);
  return found;
}

struct GridLoad {
  std::set<size_t> dimensions;
  int64_t bytes;
};
std::vector<GridLoad> loads_of(const Function& f, const Kernel& k, const std::vector<Stmt>& loads) {
  std::vector<GridLoad> found;
  for (auto& s : loads) {
    const BufferInfo& tile = f[region_of(*s.as<Tile>(), 1).buffer];
    found.push_back({dimensions_of(k, s), product(tile_shape(tile)) * tile.dtype.bits / 8});
  }
  return found;
}

// How many rows so many blocks visit together, if a row's blocks share loads of so many bytes, and a column's
// of others. Only such that divide the blocks: a round of them then is a whole rectangle.
int64_t rows_of_a_round(int64_t resident, int64_t of_row, int64_t of_column) {
  int64_t best = 1;
  auto cost = [&](int64_t rows) { return rows * of_row + resident / rows * of_column; };
  for (int64_t rows = 1; rows <= resident; rows++)
    if (resident % rows == 0 && cost(rows) < cost(best)) best = rows;
  return best;
}

Expr count_of(const Kernel& k, const std::vector<size_t>& dimensions) {
  Expr count = imm(1);
  for (size_t d : dimensions) count = count * cast(i64, k.grid[d]);
  return count;
}

// Rows of the grid that all share a load, and columns that all share another.
void order_rectangles(const Kernel& k, const std::vector<GridLoad>& loads, int64_t resident,
                      BlockOrder& order) {
  std::set<size_t> outer(order.outer.begin(), order.outer.end()), row, column;
  int64_t of_row = 0, of_column = 0;  // bytes
  for (auto& load : loads) {
    std::set<size_t> own;
    std::ranges::set_difference(load.dimensions, outer, std::inserter(own, own.end()));
    if (own.empty()) continue;
    if (row.empty() || own == row) {
      row = own;
      of_row += load.bytes;
    } else if (column.empty() || own == column) {
      column = own;
      of_column += load.bytes;
    } else {
      return;
    }
  }
  auto ones = size_t(std::ranges::count_if(k.grid, [](auto& extent) { return is_int(extent, 1); }));
  if (column.empty() || row.size() + column.size() + outer.size() + ones != k.grid.size()) return;
  if (std::ranges::find_first_of(row, column) != row.end()) return;
  if (*row.begin() < *column.begin()) {  // the grid's first dimension counts columns
    std::swap(row, column);
    std::swap(of_row, of_column);
  }
  order.rows.assign(row.begin(), row.end());
  order.columns.assign(column.begin(), column.end());
  int64_t rows = rows_of_a_round(resident, of_row, of_column);
  if (rows > 1) order.together = imm(rows);
}

// Where the block `number` stands.
void place(const Kernel& k, const Expr& number, const BlockOrder& order, std::vector<Stmt>& out) {
  auto named = [&](const char* name, const Expr& value) {
    out.push_back(let(var(name), value, k.span));
    return out.back().as<Let>()->var;
  };
  auto spread = [&](Expr rest, const std::vector<size_t>& dimensions) {  // each in its range, to be seen
    for (size_t d : dimensions) {
      Expr extent = cast(i64, k.grid[d]);
      bool last = d == dimensions.back();
      out.push_back(let(k.grid_vars[d], last ? min(rest, extent - 1) : floormod(rest, extent), k.span));
      if (!last) rest = named("rest", floordiv(rest, extent));
    }
  };
  for (size_t d = 0; d < k.grid.size(); d++)
    if (is_int(k.grid[d], 1)) out.push_back(let(k.grid_vars[d], imm(0), k.span));
  Expr rows = count_of(k, order.rows), columns = count_of(k, order.columns), at = number;
  if (!order.outer.empty()) {
    spread(floordiv(number, rows * columns), order.outer);
    at = named("at", floormod(number, rows * columns));
  }
  Expr together = as_int(order.together) ? order.together : named("together", order.together);
  Expr first = named("first", floordiv(at, columns * together) * together);
  Expr height = named("height", max(min(rows - first, together), imm(1)));
  Expr inside = named("inside", floormod(at, columns * together));
  spread(first + floormod(inside, height), order.rows);
  spread(floordiv(inside, height), order.columns);
}

Expr count_blocks(const Kernel& k) {
  // None where an extent is not positive, as of the grid itself; that a block runs is no fact here.
  Expr count = imm(1);
  for (auto& extent : k.grid) count = count * max(cast(i64, extent), imm(0));
  return simplify(count, {});
}

bool is_at_most(const Expr& blocks, int64_t resident) {
  auto known = as_int(blocks);
  return known && *known <= resident;
}

std::string names_of(const Kernel& k, const std::vector<size_t>& dimensions) {
  std::vector<std::string> names;
  for (size_t d : dimensions) names.push_back(k.grid_vars[d].as<Var>()->hint);
  return fmt::format("{}", fmt::join(names, ", "));
}
std::string describe(const Kernel& k, const BlockOrder& order) {
  auto count = as_int(order.together);
  return fmt::format("{} along ({}) at each of ({}) in turn, so that blocks at the same time load the least",
                     count ? std::to_string(*count) : "as many as run at once", names_of(k, order.rows),
                     names_of(k, order.columns));
}

}  // namespace

BlockOrder plan_block_order(const Function& f, const Kernel& k, const std::vector<Stmt>& loads,
                            int64_t resident) {
  BlockOrder order;
  if (cluster_size(k) > 1) return order;
  std::vector<GridLoad> found = loads_of(f, k, loads);
  std::vector<size_t> some;  // on which some load depends
  for (size_t d = 0; d < k.grid.size(); d++) {
    auto depends = [&](const GridLoad& load) { return load.dimensions.contains(d); };
    if (is_int(k.grid[d], 1)) continue;
    if (std::ranges::all_of(found, depends))
      order.outer.push_back(d);
    else if (std::ranges::any_of(found, depends))
      some.push_back(d);
    else
      order.columns.push_back(d);
  }
  if (!some.empty()) {
    order.columns.clear();
    order_rectangles(k, found, resident, order);
  } else if (!order.outer.empty() && !order.columns.empty()) {  // blocks of one column load the same
    order.rows.swap(order.outer);
    Expr together = max(floordiv(imm(resident), max(count_of(k, order.columns), imm(1))), imm(1));
    order.together = simplify(together, facts_of(f, k));
  }
  return order;
}

void walk_grid(Function& f, Kernel& k, int64_t resident, const BlockOrder& order,
               const std::optional<TileLists>& lists) {
  Expr blocks = count_blocks(k);
  if (is_at_most(blocks, resident)) return;
  std::string said = order ? "; " + describe(k, order) : "";
  if (lists) said = "; each takes the tiles that the chip would give it, which differ in length" + said;
  Expr block_var = var("block"), turn = var("tile");
  std::vector<Stmt> body;
  Expr rest = turn * resident + block_var, turns = floordiv(blocks - block_var + (resident - 1), resident);
  std::vector<Stmt> around;
  if (lists) {  // one behind another in one table; two more say where a block's begins, and how long it is
    std::vector<int64_t> numbers, begins, lengths;
    for (auto& list : *lists) {
      begins.push_back(int64_t(numbers.size()));
      lengths.push_back(int64_t(list.size()));
      numbers.insert(numbers.end(), list.begin(), list.end());
    }
    Expr begin = var("begin"), number = var("number");
    around.push_back(let(begin, cast(i64, lookup_of(block_var, begins)), k.span));
    body.push_back(let(number, cast(i64, lookup_of(begin + turn, numbers)), k.span));
    rest = number;
    turns = cast(i64, lookup_of(block_var, lengths));
  }
  if (order) place(k, rest, order, body);
  for (size_t d = 0; d < k.grid.size() && !order; d++) {  // of the last one, too, so that its range is known
    body.push_back(let(k.grid_vars[d], floormod(rest, cast(i64, k.grid[d])), k.span));
    rest = floordiv(rest, cast(i64, k.grid[d]));
  }
  body.push_back(k.body);
  Attrs as_blocks{.entries = {{"as_blocks", int64_t(1)}}};
  around.push_back(for_loop(turn, imm(0), turns, Loop::serial, block(std::move(body), k.span), k.span,
                            std::move(as_blocks)));
  k.body = around.size() > 1 ? block(std::move(around), k.span) : around[0];
  k.grid_vars = {block_var};
  k.grid = {min(blocks, imm(resident))};
  f.notes.push_back(
      {"assign_roles", k.name,
       fmt::format("at most {} blocks walk through the grid, so that one tile's loads run while another's "
                   "sums are stored{}",
                   resident, said),
       k.span});
}

void reorder_grid(Function& f, Kernel& k, int64_t resident, const BlockOrder& order) {
  Expr blocks = count_blocks(k);
  constexpr int64_t most = std::numeric_limits<int32_t>::max();  // along the first dimension of a grid
  if (!order || is_at_most(blocks, resident) || (as_int(blocks) && !is_at_most(blocks, most))) return;
  std::string said = describe(k, order);
  Expr block_var = var("block");
  std::vector<Stmt> body;
  place(k, block_var, order, body);
  body.push_back(k.body);
  k.body = block(std::move(body), k.span);
  k.grid_vars = {block_var};
  k.grid = {blocks};
  f.notes.push_back({"assign_roles", k.name, "blocks visit the grid in another order: " + said, k.span});
}

}  // namespace tl
