#include "sim/schedule.h"

#include <algorithm>

namespace tl::sim {
namespace {

constexpr int64_t to_the_barrier = INT64_MAX;

}  // namespace

Schedule::Schedule(uint64_t seed)
    : kind(Kind(seed % 4)),
      landing(Landing(seed % 3)),
      state(seed * 0x9E3779B97F4A7C15u + 1) {}

uint64_t Schedule::random() {  // splitmix64
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void Schedule::arrange(std::vector<int64_t>& blocks) {
  if (kind == Kind::outermost) std::ranges::reverse(blocks);
  if (kind == Kind::in_order || kind == Kind::outermost) return;
  for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[random() % i]);
}

int64_t Schedule::residents() {
  return kind == Kind::in_order || kind == Kind::outermost ? 1 : 1 + int64_t(random() % 3);
}

size_t Schedule::pick(const std::vector<int64_t>& runnable) {
  switch (kind) {
    case Kind::in_order: {  // one of two, then the others: neighbours do not come together
      for (size_t i = 0; i < runnable.size(); i++)
        if (runnable[i] % 2 == 0) return i;
      return 0;
    }
    case Kind::outermost:
      return (last = !last) ? runnable.size() - 1 : 0;
    case Kind::racing:
      return random() % runnable.size();
    case Kind::priorities:
      break;
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
  if (kind == Kind::in_order || kind == Kind::outermost) return to_the_barrier;
  return kind == Kind::racing ? 1 + int64_t(random() % 64) : 1 + int64_t(random() % 2048);
}

InFlight Schedule::flight(int64_t now) {
  switch (landing) {
    case Landing::late:
      return {INT64_MAX, INT64_MAX};
    case Landing::at_once:
      return {INT64_MIN, INT64_MIN};
    case Landing::between:
      break;
  }
  auto later = [&] {
    return random() % 4 == 0 ? INT64_MAX : now + int64_t(random() % (uint64_t(1) << random() % 12));
  };
  int64_t read_at = later();
  return {read_at, std::max(read_at, later())};
}

size_t Schedule::choose(size_t n) {
  return n == 1 ? 0 : kind == Kind::outermost ? n - 1 : kind == Kind::in_order ? 0 : random() % n;
}

}  // namespace tl::sim
