// Vector clocks: which accesses of other threads a thread may rely on.  A thread's life is cut into epochs; one ends
// whenever the thread tells others what it has done (a barrier, a release).  A thread knows, of every other one, up to
// which epoch: what was done there happens before what it does now.
//
//   After a barrier of the whole block all threads know the same, and share one object that says so.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tl::sim {

// Of one block, by thread: the last epoch that is known.  Behind the threads stand as many logical ones, for what they
// have begun and not waited for.
using Epochs = std::vector<uint32_t>;

struct Known {
  std::map<int32_t, std::shared_ptr<const Epochs>> blocks = {};  // nothing is known of a block that is not there
  const uint32_t* own = nullptr;                                 // of the block whose threads hold this
};
using KnownRef = std::shared_ptr<const Known>;

// Who did something, when.
struct Stamp {
  uint32_t epoch = 0;  // 0: nobody
  int32_t block = 0;
  uint16_t thread = 0;
  uint8_t how = 0;     // sim::Touch
  int32_t site = 0;    // in Code::sites
};

// Both together; either may be null, which is to know nothing.
KnownRef merge(const KnownRef& a, const KnownRef& b);

// The clocks of a block's threads.
class Clocks {
 public:
  Clocks(int32_t block, int64_t threads);
  Stamp now(int64_t thread, int32_t site) const {
    return {.epoch = epochs[size_t(thread)], .block = block, .thread = uint16_t(thread), .how = 0, .site = site};
  }
  // Did it happen before what the thread does now?
  int32_t number() const { return block; }
  bool ordered(const Stamp& s, int64_t thread) const {
    if (s.block != block) return knows_other(s, thread);
    if (s.thread == thread) return true;
    const Known* k = known[size_t(thread)].get();
    return k && k->own && k->own[s.thread] >= s.epoch;
  }
  // These have met: each knows what any of them knew and did.
  void meet(std::span<const int32_t> threads);
  KnownRef release(int64_t thread);  // what it knows and did, for someone to acquire
  void acquire(int64_t thread, const KnownRef& released);
  const KnownRef& knowledge(int64_t thread) const { return known[size_t(thread)]; }

 private:
  int32_t block;
  Epochs epochs;
  std::vector<KnownRef> known;

  bool knows_other(const Stamp& s, int64_t thread) const;
  KnownRef with_own(const KnownRef& k, std::span<const int32_t> threads) const;
};

}  // namespace tl::sim
