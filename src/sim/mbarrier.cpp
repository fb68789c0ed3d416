// Barriers in memory: who has come in a phase, and what has landed.
#include "base/error.h"
#include "sim/engine.h"
#include "sim/instr.h"

namespace tl::sim {

Finding phase_finding(const Warp& w) {
  Finding f{.kind = Finding::Kind::deadlock};
  (void)w;
  return f;
}

Semantics barrier_semantics(AsyncInstr::Does) { return nullptr; }

}  // namespace tl::sim
