// Every order in which the warps of a small kernel can meet.  Unordered accesses to memory are a race in any
// schedule; so the order of warps matters only where they interact (atomic accesses, named barriers,
// mbarriers, copies that land). An order is tried by a run from the beginning that follows its choices; where
// a run reaches a state that another one has reached before, the rest is known.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

namespace tl::sim {

class Explorer {
 public:
  static constexpr int64_t most_warps = 4, most_orders = 10000;
  // Chooses one of so many continuations of a state; `state` is computed only for new choices.
  size_t choose(size_t ways, const std::function<std::string()>& state);
  bool abandoned() const { return known; }  // this run: what follows was seen in another one
  bool next();                              // to the next order; false: there is none

 private:
  struct Choice {
    size_t taken, ways;
  };
  std::vector<Choice> path = {};
  size_t depth = 0;  // choices of this run so far
  bool known = false;
  std::unordered_set<size_t> states = {};
};

}  // namespace tl::sim
