// Operations of all threads of a warp or a block together: one row each, by the name of the intrinsic.
#pragma once
#include "sim/instr.h"

namespace tl::sim {

struct ThreadRow {
  std::string_view name;
  Semantics run;
};
std::span<const ThreadRow> warp_rows();

// All warps wait at the same barrier of the whole block: the values that it gives, if it gives any.
void finish_barrier(std::vector<Warp>& warps);
// A warp continues after a named barrier: it acquires what the threads that arrived know.
void leave_named(Warp& w, const NamedBarrier& b);

}  // namespace tl::sim
