// What waiting means to threads in step: barriers in memory, and parts of one program that take turns, each
// on a stack of its own, where one runs until it passes on, or ends.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <semaphore>
#include <thread>
#include <vector>

namespace tl::test {

struct MemoryBarrier {
  int64_t count, pending, bytes = 0, phase = 0;

  bool has_ended(int64_t parity) const { return phase % 2 != parity; }
  bool change(int64_t arrivals, int64_t expected) {  // are so many still to come?
    if (arrivals > pending) return false;
    pending -= arrivals;
    bytes += expected;
    if (pending || bytes) return true;
    phase++;
    pending = count;
    return true;
  }
};

class Strands {
 public:
  // Both, in turns; the first one that throws ends them all.
  void run(const std::function<void()>& first, const std::function<void()>& second) {
    Strand other, *own = current;
    ring.push_back(&other);
    std::thread thread([&] {
      other.turn.acquire();
      guarded(second);
      other.ended = true;
      pass_on_from(&other);
    });
    guarded(first);
    while (!other.ended) pass_on_from(own);
    thread.join();
    std::erase(ring, &other);
    if (failure) std::rethrow_exception(failure);
  }
  // Lets all others run until they have passed on, too.
  void pass_on() {
    pass_on_from(current);
    if (failure) throw Stopped();
  }

 private:
  struct Strand {
    std::binary_semaphore turn{0};
    bool ended = false;
  };
  struct Stopped {};  // by what another one has thrown
  Strand whole, *current = &whole;
  std::vector<Strand*> ring = {&whole};
  std::exception_ptr failure;

  void guarded(const std::function<void()>& work) try {
    if (!failure) work();
  } catch (const Stopped&) {
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  void pass_on_from(Strand* me) {
    size_t at = size_t(std::find(ring.begin(), ring.end(), me) - ring.begin());
    do at = (at + 1) % ring.size();
    while (ring[at]->ended);
    if (ring[at] == me) return;
    current = ring[at];
    current->turn.release();
    if (!me->ended) me->turn.acquire();
  }
};

}  // namespace tl::test
