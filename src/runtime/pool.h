// The blocks of a grid, handed out to the threads of the machine.
#pragma once
#include <array>
#include <cstdint>

namespace tl {

struct GridJob {
  using Entry = void (*)(const uint64_t* slots, int64_t bx, int64_t by, int64_t bz, void* arena);
  Entry entry = nullptr;
  const uint64_t* slots = nullptr;
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t arena_bytes = 0;  // private memory of a block; not cleared
};

// Runs every block once and returns when all have run.  Calls from several threads follow one another.
void run_grid(const GridJob& job);

}  // namespace tl
