// What depends on the width of a warp becomes a number.
#pragma once
#include "target/target.h"

namespace tl {

// All lanes of a warp, as shuffles, votes and sync_warp take them: 32 bits, or 64 where warps are wider.
Expr whole_warp(int warp);

// warp_size() and all_lanes() become constants, masks get their type, warp_reduce_add(x) and its like become
// butterflies of shuffles.  Votes as u64 are those as u32 where that is enough; as u32 they are refused where
// it is not.
Stmt with_warp_width(const Stmt& body, const Target& target);

}  // namespace tl
