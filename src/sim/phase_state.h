// The state of a phase of a barrier in memory, as an arrival gives it in both executors: of which
// initialisation the barrier is, and which phase.  On the chip it is another number, which programs only hand
// back.
#pragma once
#include <cstdint>

namespace tl {

struct PhaseState {
  int64_t life = 0, phase = 0;  // lives count from 1

  // The mark keeps it from passing for a parity.
  static constexpr int64_t life_unit = int64_t(1) << 32, mark = int64_t(1) << 30;
  int64_t packed() const { return life * life_unit + mark + phase; }
  static PhaseState of(int64_t packed) {
    int64_t low = packed % life_unit;
    return low < mark ? PhaseState() : PhaseState{packed / life_unit, low - mark};
  }
};

}  // namespace tl
