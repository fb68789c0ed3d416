// A fragment leaves for a tensor in parts: each is written to one of two tiles in shared memory, from where
// the tensor memory accelerator stores it beside the threads.
#pragma once
#include "ops/op.h"

namespace tl {

struct StoreParts {
  Stmt copy;       // of the program
  BufferId stage;  // shared [2, rows, width]
  int64_t width = 0, parts = 0;
};
// Nullopt where the accelerator cannot store it, or two parts do not fit into so many bytes.
std::optional<StoreParts> plan_parts(Function& f, const Kernel& k, const Target& target, const Stmt& copy,
                                     int64_t free_bytes);
// What takes the copy's place.  Behind all of them a wait of the threads that began them is due.
Stmt store_in_parts(Function& f, const Kernel& k, const Target& target, const StoreParts& plan);

}  // namespace tl
