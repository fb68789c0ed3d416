// In which order the warps of a launch run.  A schedule is chosen to expose faults, not to be likely: it
// delays one warp as long as it can, separates neighbours, begins at both ends, or lets the warps race one
// another to the barrier.  The same seed gives the same order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tl::sim {

// When a chunk of a copy is read, and when it is written: in operations of its block.
struct InFlight {
  int64_t read_at = 0, write_at = 0;
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed);
  // The blocks in the order in which they begin; how many run at once, unless some wait for others.
  void arrange(std::vector<int64_t>& blocks);
  int64_t residents();
  // Which of these goes on (they are named by number, and stand in that order), for how many operations.
  size_t pick(const std::vector<int64_t>& runnable);
  int64_t quantum();
  // Of a copy that begins now: at once, not before it is waited for, or somewhere between.
  InFlight flight(int64_t now);
  size_t choose(size_t n);  // one of n

 private:
  enum class Kind { in_order, outermost, priorities, racing } kind;
  enum class Landing { late, at_once, between } landing;
  bool last = false;  // the outermost ones: the last one and the first one in turn
  uint64_t state;
  std::vector<uint64_t> priority = {};  // by warp
  uint64_t random();
};

}  // namespace tl::sim
