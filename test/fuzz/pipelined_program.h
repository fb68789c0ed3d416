// Random tile programs around pipelined loops: what an iteration fills, how, and under which conditions; what
// it uses; where the loop stands, and how often it runs.  Values stay small integers.
#pragma once
#include <set>

#include "fuzz/tile_program.h"

namespace tl::fuzz {

struct PipelinedProgram {
  Program program = {};
  std::set<std::string> features = {};
};
struct PipelinedOptions {
  bool own_copies = false;  // begun by the program itself: of level thread, which the reference does not run
  int64_t warp = 32;        // teams are of whole warps
};

// What a seed gives; the same on every machine.
PipelinedProgram pipelined_program(uint64_t seed, const PipelinedOptions& options = {});

}  // namespace tl::fuzz
