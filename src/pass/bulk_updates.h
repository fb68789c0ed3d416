// Atomic updates of whole tiles by the tensor memory accelerator, where the program asks for it (use_tma).
#pragma once
#include "ops/op.h"

namespace tl {

// atomic_add_tile(T[…], V) {use_tma=1}  ->  tma_store(V, T[…]) {reduce="add"}, and a wait until V has been
// read. A value that is not in shared memory goes through a tile there.  What the accelerator cannot do stays
// as it is, and a note says why.
Stmt with_bulk_updates(Function& f, const Kernel& k, const Target& target);

}  // namespace tl
