// How much memory a buffer takes, by its extents alone.
#pragma once
#include <optional>
#include <string>

#include "ir/kernel.h"

namespace tl {

// Of the elements in row-major order; 0 where an extent is known only when the kernel is called.
int64_t bytes_of_extents(const BufferInfo& b);
// Why no machine holds the buffer: its bits, or those of its constant extents, are more than 64 bits count.
// "" of all others.
std::string why_uncountable(const BufferInfo& b);

}  // namespace tl
