// Tensors of elements of 4 bits, which lie two to a byte along the last dimension.
#pragma once
#include "ir/kernel.h"

namespace tl {

// Their rows begin and end with a whole byte; an error at the tensor's line if they do not.
void check_packed(const BufferInfo& tensor);

}  // namespace tl
