//   kernel grid(bx: 64, by: 32):      kernel grid(block: 132):
//     body                              for t in serial((2048 - block + 131) // 132):
//                                  ->     let bx = (t*132 + block) % 64
//                                         let by = (t*132 + block) // 64 % 32
//                                         body
//
// Row after row of the grid, or, where rows share some loads and columns the others, so many rows together
// that a round of blocks loads the least: blocks at the same time then find most of it in the L2 cache.
#include "pass/resident_blocks.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/product.h"
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

// Where the tile `number` stands, so many rows of tiles together.
void place_in_rows(const Kernel& k, const Expr& number, int64_t together, std::vector<Stmt>& out) {
  Expr columns = cast(i64, k.grid[0]), rows = cast(i64, k.grid[1]);
  auto named = [&](const char* name, const Expr& value) {
    out.push_back(let(var(name), value, k.span));
    return out.back().as<Let>()->var;
  };
  Expr first = named("first", floordiv(number, columns * together) * together);
  Expr height = named("height", max(min(rows - first, imm(together)), imm(1)));
  Expr inside = named("inside", floormod(number, columns * together));
  out.push_back(let(k.grid_vars[1], min(first + floormod(inside, height), rows - 1), k.span));
  out.push_back(let(k.grid_vars[0], min(floordiv(inside, height), columns - 1), k.span));
}

}  // namespace

int64_t rows_together(const Function& f, const Kernel& k, const std::vector<Stmt>& loads, int64_t resident) {
  if (k.grid.size() != 2) return 1;
  int64_t of_row = 0, of_column = 0;  // bytes
  for (auto& s : loads) {
    std::set<const ExprNode*> used = variables_of(k, s);
    bool by_column = used.contains(k.grid_vars[0].get()), by_row = used.contains(k.grid_vars[1].get());
    const BufferInfo& tile = f[region_of(*s.as<Tile>(), 1).buffer];
    int64_t bytes = product(tile_shape(tile)) * tile.dtype.bits / 8;
    if (by_row && !by_column) of_row += bytes;
    if (by_column && !by_row) of_column += bytes;
  }
  if (of_row == 0 || of_column == 0) return 1;
  return std::max<int64_t>(1, std::llround(std::sqrt(double(resident) * double(of_column) / double(of_row))));
}

void walk_grid(Function& f, Kernel& k, int64_t resident, int64_t together) {
  Expr blocks = imm(1);
  for (auto& extent : k.grid) blocks = blocks * cast(i64, extent);
  blocks = simplify(blocks, facts_of(f, k));
  if (auto known = as_int(blocks); known && *known <= resident) return;
  Expr block_var = var("block"), turn = var("tile");
  std::vector<Stmt> body;
  Expr rest = turn * resident + block_var;
  if (together > 1) place_in_rows(k, rest, together, body);
  for (size_t d = 0; d < k.grid.size() && together == 1;
       d++) {  // of the last one, too, so that its range is known
    body.push_back(let(k.grid_vars[d], floormod(rest, cast(i64, k.grid[d])), k.span));
    rest = floordiv(rest, cast(i64, k.grid[d]));
  }
  body.push_back(k.body);
  Expr turns = floordiv(blocks - block_var + (resident - 1), resident);
  k.body = for_loop(turn, imm(0), turns, Loop::serial, block(std::move(body), k.span), k.span);
  k.grid_vars = {block_var};
  k.grid = {min(blocks, imm(resident))};
  f.notes.push_back(
      {"assign_roles", k.name,
       fmt::format("at most {} blocks walk through the grid, so that one tile's loads run while another's "
                   "sums are stored{}",
                   resident,
                   together > 1 ? fmt::format("; {} rows of it together, for the L2 cache", together) : ""),
       k.span});
}

}  // namespace tl
