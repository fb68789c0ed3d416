// What may be assumed of the addresses of a kernel's tensors.
#pragma once
#include <algorithm>

#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

// The bytes that every tensor's address is divisible by: a whole vector of the target, unless the kernel's
// attribute `alignment` says less.  An address is always divisible by the size of the tensor's element.
inline int64_t tensor_alignment(const Kernel& k, const Target& target) {
  return k.attrs.get_int("alignment", target.vector_bytes);
}

// May one access take so many elements of the buffer side by side?
inline bool is_one_access(const Kernel& k, const Target& target, const BufferInfo& b, int64_t elements) {
  return b.scope != Scope::global ||
         bytes_of(elements, b.dtype) <= std::max<int64_t>(1, tensor_alignment(k, target));
}

}  // namespace tl
