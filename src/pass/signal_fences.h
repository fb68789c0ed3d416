// Fences of the asynchronous proxy where teams signal each other by the program's own barriers.
//
// What a team's threads have written and another team's product or copy of boxes then touches lies behind an
// arrival of the first and a wait of the second.  The second's proxy sees it only behind a fence of the
// threads that wrote: it stands in front of their arrival, unless the program has one there.
#pragma once
#include <set>

#include "pass/block_accesses.h"

namespace tl {

struct SignalFences {
  std::set<const StmtNode*> before = {};  // statements with a fence in front
  std::vector<Note> notes = {};
};
SignalFences fences_of_signals(const Function& f, const Kernel& k, int warp);

}  // namespace tl
