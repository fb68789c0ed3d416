// Whether a tensor's strides put two of its elements in one place.
#pragma once
#include "runtime/args.h"

namespace tl {

// Certain if true.  Where the strides are so odd that the search is long, false.
bool overlaps_itself(const TensorView& t);

}  // namespace tl
