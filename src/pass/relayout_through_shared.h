// Conflicting layouts of one fragment: a statement that needs elements on other threads than hold them gets
// them through a shared tile, by copies beside the statement.
#pragma once
#include "pass/passes.h"
#include "pass/thread_local_accesses.h"

namespace tl {

// The statement (a parallel nest, a tile operator, or one that loads or stores elements) with these fragments
// taken from and brought back to shared memory, and the copies around it.  Adds the tiles to f, and a note
// for each.  `thread`: the block's; the statement runs on `team`.
std::vector<Stmt> relayout_through_shared(Function& f, const Expr& thread, const Team& team,
                                          const ThreadLocalAccesses& own, const Stmt& stmt,
                                          const std::set<BufferId>& fragments, const std::string& subject);

}  // namespace tl
