#include "sim/schedule.h"

#include <algorithm>

namespace tl::sim {
namespace {

constexpr int64_t to_the_barrier = INT64_MAX;

}  // namespace

Schedule::Schedule(uint64_t seed) : kind(Kind(seed % 4)), state(seed * 0x9E3779B97F4A7C15u + 1) {}

uint64_t Schedule::random() {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void Schedule::arrange(std::vector<int64_t>& blocks) {
  if (kind == Kind::reverse) std::reverse(blocks.begin(), blocks.end());
  if (kind == Kind::in_order || kind == Kind::reverse) return;
  for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[random() % i]);
}

int64_t Schedule::residents() {
  return kind == Kind::in_order || kind == Kind::reverse ? 1 : 1 + int64_t(random() % 3);
}

size_t Schedule::pick(const std::vector<int64_t>& runnable) {
  switch (kind) {
    case Kind::in_order: return 0;
    case Kind::reverse: return runnable.size() - 1;
    case Kind::racing: return random() % runnable.size();
    case Kind::priorities: break;
  }
  // The most urgent one, until, now and then, it becomes the least urgent.
  size_t best = 0;
  for (size_t i = 0; i < runnable.size(); i++) {
    auto warp = size_t(runnable[i]);
    while (priority.size() <= warp) priority.push_back(random() | 1);
    if (priority[warp] > priority[size_t(runnable[best])]) best = i;
  }
  if (random() % 8 == 0) priority[size_t(runnable[best])] = random() >> 32;
  return best;
}

int64_t Schedule::quantum() {
  if (kind == Kind::in_order || kind == Kind::reverse) return to_the_barrier;
  return kind == Kind::racing ? 1 + int64_t(random() % 64) : 1 + int64_t(random() % 2048);
}

}  // namespace tl::sim
