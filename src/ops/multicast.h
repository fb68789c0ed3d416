// One tile for several blocks of a cluster: what these must agree on.
#pragma once
#include "ir/kernel.h"
#include "ops/op.h"

namespace tl {

// Of a tma_load with a cluster_mask: its blocks name one tile, one place and one issuer.  An error where a
// block is sure to name others; what only data tell is not known here.
void check_multicast(const Tile& t, const Function& f, const Kernel& k);

}  // namespace tl
