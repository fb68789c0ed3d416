// Whether two elements share an address: of one tensor, by its strides, or of two tensors.
#pragma once
#include "runtime/args.h"

namespace tl {

// Certain if true.  Where the strides are so odd that the search is long, false.
bool overlaps_itself(const TensorView& t);
// Where the two are laid out differently, or so oddly that the search is long, true if their ranges meet.
bool share_memory(const TensorView& a, const TensorView& b);

}  // namespace tl
