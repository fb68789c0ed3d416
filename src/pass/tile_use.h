// How a statement at tile level uses one tile: whether it reads what was there before, and whether it leaves
// nothing of that.  The question behind every tile that gets several slots.
#pragma once
#include "ops/parallel.h"

namespace tl {

struct TileUse {
  bool touched = false;
  bool reads_earlier = false;  // an element that it has not written before, on some way through it
  bool overwrites = false;     // every element, on every way through it
  // This statement, then `next`.
  void then(const TileUse& next) {
    touched |= next.touched;
    reads_earlier |= !overwrites && next.reads_earlier;
    overwrites |= next.overwrites;
  }
};

// The loop nest that a statement is or is sugar for; nullopt where it is none.
std::optional<ParallelNest> nest_of(const Stmt& s, const Function& f);

TileUse use_of(const Function& f, const Stmt& s, BufferId tile);
// Of all that may run after `part`, a statement somewhere in `body`.
TileUse use_after(const Function& f, const Stmt& body, const StmtNode* part, BufferId tile);

}  // namespace tl
