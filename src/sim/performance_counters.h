// Counts what a kernel's accesses cost, as the hardware would: see counters.h.
#pragma once
#include "sim/machine.h"
#include "sim/report.h"

namespace tl::sim {

class PerformanceCounters {
 public:
  explicit PerformanceCounters(const Code& code) : code(code) {}
  int warp() const { return code.warp; }
  // One access of a warp, of `bytes` by each lane; a negative address: the lane takes no part.
  void access(const Place& p, const std::vector<int64_t>& addresses, int64_t bytes, int32_t site,
              Counter::Kind kind, std::string_view what);
  // A bounds guard kept a warp from accessing so many elements.
  void dropped(const Place& p, int32_t site, Counter::Kind kind, std::string_view what, int64_t elements);
  void instruction(int32_t site, Counter::Kind kind, std::string_view what, int64_t flops = 0);
  // A warp left a barrier, so many operations of its block after it had arrived.
  void waited(int32_t site, std::string_view barrier, int64_t operations);
  std::vector<Counter> rows() const;

  // The addresses of one access, gathered lane by lane; nothing where counting is off.
  class Addresses {
   public:
    explicit Addresses(PerformanceCounters* counters) : counters(counters) {
      if (counters) at.assign(size_t(counters->warp()), -1);
    }
    void set(int lane, const std::byte* address) {
      if (counters && address) at[size_t(lane)] = int64_t(reinterpret_cast<uintptr_t>(address));
    }
    // `what`: of an instruction; a load or a store is named by its kind.
    void count(const Warp& w, const Place& p, int64_t bytes, int32_t site, Counter::Kind kind,
               std::string_view what = {});

   private:
    PerformanceCounters* counters;
    std::vector<int64_t> at = {};
  };

 private:
  struct Key {
    int32_t site, place;
    std::string_view what;
    auto operator<=>(const Key&) const = default;
  };
  const Code& code;
  std::map<Key, Counter> counted = {};
};

}  // namespace tl::sim
