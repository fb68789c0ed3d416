// What a run cost, counted as the hardware would: one row for each line of the user's and kind of access.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"

namespace tl {

struct Counter {
  enum class Kind : uint8_t {
    load,
    store,
    matrix,
    ldmatrix,
    stmatrix,
    shuffle,
    vote,
    atomic,
    barrier,
    copy
  } kind = Kind::load;
  Span span = {};
  std::string what = {};  // "shared load", "ldmatrix_x4", "barrier"
  std::string buffer = {};
  std::string level = {};  // of memory: "shared", "global"; empty for what touches none
  int64_t executed = 0;    // by warps
  int64_t bytes = 0;       // of all lanes
  int64_t requests = 0;    // bank cycles of shared memory, sectors of 32 bytes of global memory
  int64_t least = 0;       // that any placement of as much data needs
  int64_t flops = 0;       // of matrix instructions
  int64_t dropped = 0;  // elements outside of their tensor, which its bounds guard kept from being accessed
  int64_t waited =
      0;  // of barriers: operations that the block executed while a warp stood there, summed over warps
};

std::string_view name_of(Counter::Kind kind);

struct Counters {
  std::vector<Counter> rows = {};
};

}  // namespace tl
