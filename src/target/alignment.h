// What may be assumed of the addresses of a kernel's tensors.
#pragma once
#include "ir/kernel.h"
#include "target/target.h"

namespace tl {

// The bytes that every tensor's address is divisible by: a whole vector of the target, unless the kernel's
// attribute `alignment` says less.  An address is always divisible by the size of the tensor's element.
inline int64_t tensor_alignment(const Kernel& k, const Target& target) {
  return k.attrs.get_int("alignment", target.vector_bytes);
}

}  // namespace tl
