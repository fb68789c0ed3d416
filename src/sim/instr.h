// What instructions do: one row each, found by the row that the IR calls.  To add one: write a function of an
// Execution in instr.cpp and name it in the table there.
#pragma once
#include <array>
#include <span>

#include "sim/performance_counters.h"
#include "sim/race_detector.h"

namespace tl::sim {

struct MBarrier;

// A warp executes a call.  `lanes` take part; arguments are numbered as in the IR.
struct Execution {
  Warp& warp;
  const CallSite& site;
  LaneMask lanes = warp.active;

  template <class Row>
  const Row& row() const {
    return *static_cast<const Row*>(site.row);
  }
  Scalar value(size_t arg, int lane) const {
    const CallSite::Arg& a = site.args[arg];
    return warp.slot(a.slot)[a.uniform ? 0 : lane];
  }
  Scalar element(size_t arg, int lane, int e) const {  // of a vector
    return site.args[arg].uniform ? value(arg, lane)
                                  : warp.slot(site.args[arg].slot)[e * warp.lane_count() + lane];
  }
  void give(int lane, Scalar v, int e = 0) const { warp.slot(site.to)[e * warp.lane_count() + lane] = v; }
  // What a handle points to, for one lane, and the access is noted.
  std::byte* operand(size_t arg, int lane, int64_t bytes, int64_t alignment) const;
  // The same, for an access that is not as the row says.
  std::byte* operand(size_t arg, int lane, int64_t bytes, int64_t alignment, Touch touch,
                     Holes* holes = nullptr) const;
  // The same at an offset in bytes; null, and a finding, where that is outside.
  std::byte* reach(size_t arg, int lane, int64_t offset, int64_t bytes, int64_t alignment, Touch touch,
                   const Logical* begun = nullptr, Holes* holes = nullptr) const;
  // The same for all lanes.  `holes`: for callers that follow undefined values themselves.
  std::array<std::byte*, max_lanes> operands(size_t arg, int64_t bytes, int64_t alignment,
                                             Holes* holes = nullptr) const {
    return operands(arg, bytes, alignment, holes, site.args[arg].access);
  }
  std::array<std::byte*, max_lanes> operands(size_t arg, int64_t bytes, int64_t alignment, Holes* holes,
                                             char access) const;
  void touch_registers(const Place& p, int64_t offset, int64_t bytes, LaneMask those, bool writes,
                       Holes* holes) const;
  const Place& place(size_t arg) const { return warp.code->places[size_t(site.args[arg].place)]; }
  // A finding that ends the run, unless every thread of a full warp takes part: what `.aligned` and a shuffle
  // demand.
  void require_whole_warp() const;
  void report(int lane, Finding::Kind kind, std::string text) const;  // and go on
  void count(Counter::Kind kind, int64_t flops = 0) const;
};

struct InstrRow {
  Semantics run = nullptr;            // null: there is none
  const void* row = nullptr;          // in target/
  const AsyncInstr* async = nullptr;  // the same, where it is one
  const WarpgroupInstr* warpgroup = nullptr;
  std::vector<std::vector<int32_t>> positions = {};
};
InstrRow semantics_of(const Intrinsic& intrinsic);
void stop_here(const Execution& x);  // breakpoint.cpp
Semantics memory_semantics(
    const Intrinsic& intrinsic);  // foreign.cpp: of atomics, wide accesses, foreign code
Semantics async_semantics(AsyncInstr::AsyncKind does);    // async.cpp
Semantics barrier_semantics(AsyncInstr::AsyncKind does);  // mbarrier.cpp
MBarrier& barrier_of(const Execution& x, size_t arg, int lane,
                     Touch touch);  // a finding that ends the run if it is none
MBarrier& barrier_in(const Execution& x, const Block& of, size_t arg, int lane,
                     Touch touch);  // the same place in a block of the cluster

}  // namespace tl::sim
