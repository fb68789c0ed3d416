// target="reference": a Function at level tile, executed on the host as it is written.  Tile operators run
// their row's `eval`, parallel loops run as loops, blocks one after another: the oracle of every test.
#pragma once
#include "sim/host.h"

namespace tl {

struct ReferenceOptions {
  bool reverse_blocks = false;  // the last block of the grid runs first
};

// One argument per parameter.  What is wrong with the program itself (an index out of bounds, a division by
// zero, thread-level code) is a CompileError at its line.
void run_reference(const Function& f, std::span<const HostArg> args, const ReferenceOptions& options = {});

}  // namespace tl
