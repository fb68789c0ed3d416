// In which order the blocks of a grid run, and which of them one resident block runs after another.
#pragma once
#include <optional>

#include "ops/op.h"

namespace tl {

// An order of a grid's blocks: `together` neighbours along `rows`, then the next of `columns` with them, and
// so on through all columns, before the next rows; and all that before the next of `outer`. Each is a list of
// the grid's dimensions, the fastest first.
struct BlockOrder {
  std::vector<size_t> rows = {}, columns = {}, outer = {};
  Expr together = {};  // absent: the order in which the chip numbers them

  explicit operator bool() const { return bool(together); }
};

// The numbers of the tiles that each block takes, one after another.
using TileLists = std::vector<std::vector<int64_t>>;

// The order in which so many blocks at the same time load the least in all: what most of them load, they then
// find in the L2 cache. None where their loads do not say it.
BlockOrder plan_block_order(const Function& f, const Kernel& k, const std::vector<Stmt>& loads,
                            int64_t resident);
// The kernel's grid gets at most so many blocks; its body runs once for each block that the program asks for.
// What the roles of a kernel do beside each other then goes on from one of them to the next.  Nothing changes
// where the grid is known to be no larger.  With lists, each block takes those tiles; else all take as many.
void walk_grid(Function& f, Kernel& k, int64_t resident, const BlockOrder& order,
               const std::optional<TileLists>& lists = {});
// The chip gives out the blocks of the grid in that order.
void reorder_grid(Function& f, Kernel& k, int64_t resident, const BlockOrder& order);

}  // namespace tl
