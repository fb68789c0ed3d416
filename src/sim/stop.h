// What a breakpoint shows: where a warp stands, its registers, its block's memory and barriers.  Copies
// nothing; valid while the function that is called with it runs.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tl {

struct Stop {
  struct Array {
    std::string_view name;
    Scope scope;
    DType type;
    int64_t elements = 0;
    const std::byte* data = nullptr;
    int64_t lane_bytes = 0;  // registers: from one lane's to the next one's; 0 for shared memory
  };
  struct Barrier {
    int64_t number = 0, arrived = 0, expected = 0, phase = 0;  // see NamedBarrier
  };
  Span span = {};
  std::string_view where = {};    // "block (1, 0) of main"
  int64_t block = 0, thread = 0;  // the block's number in the grid; the warp's first thread
  int warp = 0;                   // lanes of it
  uint64_t active = 0;            // those that execute it
  std::function<std::vector<Array>()> arrays = {};
  std::function<std::vector<Barrier>()> barriers = {};
};
using StopHandler = std::function<void(const Stop&)>;

}  // namespace tl
