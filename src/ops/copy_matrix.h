// A copy from shared memory to a fragment whose elements lie as ldmatrix delivers them.
#pragma once
#include "ops/parallel.h"

namespace tl {

// How a shared tile wants to lie that is read by ldmatrix, and filled in chunks of 16 bytes.
Layout layout_for_matrices(BufferId tile, const LayoutContext& ctx);
// The shared tile of such a copy, where the layout of its fragment is known.
std::optional<BufferId> read_by_ldmatrix(const ParallelNest& nest, const LayoutContext& ctx);
// The loads; nullopt where the nest is no such copy, or the chip has no such instruction.
std::optional<Stmt> copy_by_ldmatrix(const ParallelNest& nest, LowerContext& ctx);

}  // namespace tl
