// The blocks of a grid, handed out to the threads of the machine.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

namespace tl {

struct GridJob {
  using Entry = void (*)(const uint64_t* slots, int64_t bx, int64_t by, int64_t bz, void* arena);
  Entry entry = nullptr;
  std::span<const uint64_t> slots = {};
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t arena_bytes = 0;                    // private memory of a block; not cleared
  std::atomic<uint32_t>* block_ns = nullptr;  // what a block took the last time; 0 if it never ran
};

// Runs every block once and returns when all have run.  One block, and as few as are done before a worker
// would be awake, run on the caller's thread; other calls from several threads follow one another.  A block
// may itself run grids: on its own thread.
//
// Where somebody listens to the caller (base/interrupt.h), blocks that take long, or may, run on workers
// alone, and the caller waits.  Is the call to end, no further block begins; workers that are still inside of
// one are left behind (Task::left_behind).
void run_grid(const GridJob& job);

// Called by generated code at each iteration of loops that may never end: true where the block is to return.
bool poll_block();

}  // namespace tl
