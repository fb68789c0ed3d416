// A fragment leaves for a tensor in parts: each is written to one of two tiles in shared memory, from where
// the tensor memory accelerator stores it beside the threads. Where a block stores nothing else, and all of
// it fits, it leaves at once: so all threads wait for each other once only.
#pragma once
#include "ops/op.h"

namespace tl {

struct StoreParts {
  Stmt copy;       // of the program
  BufferId stage;  // shared [slots, rows, width]
  int64_t width = 0, parts = 0, slots = 2;
  bool again = false;  // perhaps to the same place: then what was begun before must have got there
};
// Nullopt where the accelerator cannot store it, or two parts do not fit into so many bytes; `once`: a block
// comes to the copy once.
std::optional<StoreParts> plan_parts(Function& f, const Kernel& k, const Target& target, const Stmt& copy,
                                     int64_t free_bytes, bool once);
// What takes the copy's place.  Behind all of them a wait of the threads that began them is due.
Stmt store_in_parts(Function& f, const Kernel& k, const Target& target, const StoreParts& plan);

}  // namespace tl
