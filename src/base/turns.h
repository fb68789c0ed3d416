// Functions that run in turns, one at a time, each on a stack of its own: where one has to wait for another,
// the next one that can goes on.  Always in the same order.
#pragma once
#include <functional>
#include <memory>
#include <vector>

namespace tl {

class Turns {
 public:
  // `switched(to)` is called before another one of the functions goes on.
  explicit Turns(std::function<void(size_t to)> switched);
  ~Turns();
  Turns(const Turns&) = delete;

  // Runs all of them to their end, beginning with the first; rethrows what the first one to fail has thrown.
  void run(const std::vector<std::function<void()>>& functions);
  // Called by the one that runs: the others go on until `ready` holds. False: it does not, and none of them
  // can.
  bool wait(const std::function<bool()>& ready);
  size_t current() const;  // the number of the one that runs

 private:
  struct State;
  std::unique_ptr<State> state;
};

}  // namespace tl
