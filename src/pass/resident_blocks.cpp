//   kernel grid(bx: 64, by: 32):      kernel grid(block: 132):
//     body                              for t in serial((2048 - block + 131) // 132):
//                                  ->     let bx = (t*132 + block) % 64
//                                         let by = (t*132 + block) // 64 % 32
//                                         body
#include "pass/resident_blocks.h"

#include "arith/prove.h"
#include "arith/simplify.h"
#include "ir/rewrite.h"

namespace tl {

void walk_grid(Function& f, Kernel& k, int64_t resident) {
  Expr blocks = imm(1);
  for (auto& extent : k.grid) blocks = blocks * cast(i64, extent);
  blocks = simplify(blocks, facts_of(f, k));
  if (auto known = as_int(blocks); known && *known <= resident) return;
  Expr block_var = var("block"), turn = var("tile");
  std::vector<Stmt> body;
  Expr rest = turn * resident + block_var;
  for (size_t d = 0; d < k.grid.size(); d++) {  // of the last one, too, so that its range is known
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
                   "sums are stored",
                   resident),
       k.span});
}

}  // namespace tl
