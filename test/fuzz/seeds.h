// The seeds that a random test takes: some fixed ones, which are the same in every run; some fresh ones,
// whose first is drawn anew in each run and printed; and more of these for as long as TL_FUZZ_SECONDS says.
//
//   TL_FULL=1                 all fixed seeds, and each kept failure on all targets; else a third of them
//   TL_FUZZ_SECONDS=600       how long tl_fuzz runs in all; each test takes its share of it
//   TL_FUZZ_SEED=123          the seeds from 123 on instead of the fixed and the fresh ones: this replays a
//   run TL_FUZZ_PROGRAMS=1        how many of them at least
#pragma once
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace tl::fuzz {

inline int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}
inline double seconds_asked() { return double(setting("TL_FUZZ_SECONDS", 0)); }
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One for all tests of a run, so that one variable replays it.
inline int64_t first_fresh_seed() {
  static const int64_t first =
      setting("TL_FUZZ_SEED", 1'000'000 + int64_t(std::random_device{}() % 1'000'000'000u));
  return first;
}

struct Seeds {
  int64_t fixed = 0, fresh = 0;  // how many at least
  double share = 0;              // of TL_FUZZ_SECONDS
};

inline bool is_full() { return std::getenv("TL_FULL") != nullptr; }
inline int64_t part_of(int64_t all) { return is_full() ? all : (all + 2) / 3; }

// Of few seeds nothing can be asked but that each is right.
inline bool is_replay() { return std::getenv("TL_FUZZ_SEED") != nullptr; }

// Calls f with one seed after the other, until it returns false.
template <class F>
void each_seed(const Seeds& seeds, F f) {
  double end = now() + seconds_asked() * seeds.share;
  if (!is_replay())
    for (int64_t seed = 1; seed <= part_of(seeds.fixed); seed++)
      if (!f(uint64_t(seed))) return;
  int64_t first = first_fresh_seed(), least = setting("TL_FUZZ_PROGRAMS", seeds.fresh);
  MESSAGE("fresh seeds from " << first << " (TL_FUZZ_SEED=" << first << " takes them again)");
  for (int64_t seed = first; seed < first + least || now() < end; seed++)
    if (!f(uint64_t(seed))) return;
}

}  // namespace tl::fuzz
