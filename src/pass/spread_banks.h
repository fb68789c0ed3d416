// Layouts for shared tiles that only parallel loops touch and for which no operator asked: rows are placed so
// that the lanes of a warp find their elements in different banks.
#pragma once
#include "ops/mapping.h"

namespace tl {

// A parallel loop, or an operator that is sugar for one, and how its iterations are mapped.
struct MappedNest {
  Stmt stmt;
  const ParallelNest* nest;
  const Fragment* mapping;
  int64_t lanes;  // neighbouring iterations that happen at once
};

// Layouts for tiles that `known` has none for, where row-major would cost a warp more bank cycles.
std::map<BufferId, Layout> spread_over_banks(const Function& f, const Kernel& k, const Target& target,
                                             const std::vector<MappedNest>& nests,
                                             const LayoutDecisions& known);

}  // namespace tl
