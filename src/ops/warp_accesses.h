// The accesses that warps make together, from a parallel nest and the mapping of its iterations, or from a
// copy: what banks.h counts.
#pragma once
#include "layout/banks.h"
#include "ops/mapping.h"

namespace tl {

// Through one access of the nest, of which `lanes` neighbouring iterations happen at once where its elements
// lie side by side.  Of many, the first 64.  Nothing where an index is no sum of the nest's variables, times
// numbers.
std::optional<std::vector<WarpAccess>> warp_accesses(const ParallelNest& nest, const Fragment& mapping,
                                                     const std::vector<Expr>& index, int64_t lanes,
                                                     int64_t warp);

// What a copy that fills a tile writes: neighbouring threads neighbouring vectors, row after row.
WarpAccess copy_writes(const std::vector<int64_t>& shape, int bits, const Target& target);

}  // namespace tl
