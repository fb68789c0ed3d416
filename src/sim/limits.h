// What ends a run that would not end by itself, for both executors: so many iterations of one `while` loop,
// so many seconds of one call.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/interrupt.h"

namespace tl {

struct RunLimits {
  int64_t iterations = INT64_MAX;
  double seconds = 0;  // 0: no limit

  // As the environment says; CompileError where it says no number.
  static RunLimits of_environment(int64_t most_iterations);
  std::string too_many(int64_t run) const;  // "it has run … iterations; …"
  std::string too_long() const;
};

// The end of a call's time.  Asked often: looks at the clock now and then.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(double seconds) : is_set(seconds > 0) {
    if (is_set) end += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  bool has_passed() const { return is_set && Clock::now() > end; }

 private:
  bool is_set;
  Clock::time_point end = Clock::now();
};

// What ends the loops of an executor that would not end.
struct LoopGuard {
  RunLimits limits;
  Deadline deadline{limits.seconds};
  int unheeded = 0;  // iterations since it looked at the clock

  // `where` is the block that runs.
  void begin_iteration(const std::string& where, Span span) {
    poll();
    if (++unheeded < 1024) return;
    unheeded = 0;
    if (deadline.has_passed()) fail(span, "{} is here: {}", where, limits.too_long());
  }
  void begin_trip(int64_t number, const std::string& where, Span span) {
    begin_iteration(where, span);
    if (number == limits.iterations)
      fail(span, "{} does not leave this loop: {}", where, limits.too_many(number));
  }
};

}  // namespace tl
