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

// May an access take several elements of the buffer at once, so many of them in all?
inline bool takes_several(const Kernel& k, const Target& target, const BufferInfo& b, int64_t elements) {
  int64_t bytes = std::min<int64_t>(bytes_of(elements, b.dtype), target.vector_bytes);
  return b.scope != Scope::global || bytes <= std::max<int64_t>(1, tensor_alignment(k, target));
}

}  // namespace tl
