// target="reference": a Function at level tile, executed on the host as it is written.  Tile operators run
// their row's `eval`, parallel loops run as loops, blocks one after another: the oracle of every test.
#pragma once
#include <span>

#include "ir/kernel.h"

namespace tl {

struct ReferenceArg {
  void* data = nullptr;             // a tensor's first element, or a scalar's value in its own type
  std::vector<int64_t> shape = {};  // of a tensor; may be left out where no extent is known only at run time
  std::vector<int64_t> strides = {};  // in elements; the same where no stride is
};
struct ReferenceOptions {
  bool reverse_blocks = false;  // the last block of the grid runs first
};

// One argument per parameter.  What is wrong with the program itself (an index out of bounds, a division by
// zero, thread-level code) is a CompileError at its line.
void run_reference(const Function& f, std::span<const ReferenceArg> args,
                   const ReferenceOptions& options = {});

}  // namespace tl
