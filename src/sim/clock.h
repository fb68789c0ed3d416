// Vector clocks: which accesses of other threads happen before what a thread does now. A thread's execution
// is divided into epochs; one ends whenever the thread synchronises with others (a barrier, a release). For
// every other thread, a thread knows the last epoch whose accesses happen before its own.
//
// After a barrier of the whole block all threads know the same, and share one object.
//
// Asynchronous operations belong to logical threads, which are forked where the operation begins and joined
// where it is waited for: see Timeline.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tl::sim {

// Of one block, by slot: the last epoch that is known. Slots are numbered by Timeline and thread; after them
// come the block's mbarriers, each a logical thread of all copies that signal it when they have landed, and
// its warps as far as they begin products of warpgroups.
using Epochs = std::vector<uint32_t>;
enum class Timeline : uint8_t {
  itself,
  copies,  // cp.async: an epoch is a group
  bulk_reads,
  bulk_writes,  // of bulk copies: what they have read, and what they have written
  fenced,
  fenced_copies,  // what of `itself` and `copies` its fences have shown to the asynchronous proxy
  fenced_tensors  // what of `itself` in global memory
};
inline constexpr int timeline_count = 7;

struct Known {
  std::map<int32_t, std::shared_ptr<const Epochs>> blocks =
      {};                         // nothing is known of a block that is not there
  const uint32_t* own = nullptr;  // of the block whose threads hold this
};
using KnownRef = std::shared_ptr<const Known>;

// Which thread made an access, and when.
struct Stamp {
  uint32_t epoch = 0;  // 0: nobody
  int32_t block = 0;
  uint16_t thread = 0;  // a slot
  uint8_t how = 0;      // sim::Touch
  int32_t site = 0;     // in Code::sites
};

// What either of them knows; null knows nothing.
KnownRef merge(const KnownRef& a, const KnownRef& b);

// The clocks of a block's threads.
class Clocks {
 public:
  // `product_warps`: that may begin products of warpgroups; each is a logical thread of its own.
  Clocks(int32_t block, int64_t threads, int timelines, int64_t barriers, int64_t product_warps = 0);
  Stamp now(int64_t thread, int32_t site) const {
    return {
        .epoch = epochs[size_t(thread)], .block = block, .thread = uint16_t(thread), .how = 0, .site = site};
  }
  int32_t number() const { return block; }
  // Does it happen before what the thread does now?
  bool ordered(const Stamp& s, int64_t thread) const {
    if (s.block != block) return covers(known[size_t(thread)], s);
    if (s.thread == thread) return true;
    bool is_own = s.thread >= threads &&
                  (owner(s.thread) == thread || warp_of_products(s.thread) == thread / product_threads);
    if (is_own && joined[s.thread] >= s.epoch) return true;
    const Known* k = known[size_t(thread)].get();
    return k && k->own && k->own[s.thread] >= s.epoch;
  }
  // Does k contain it?
  bool covers(const KnownRef& k, const Stamp& s) const {
    if (!k) return false;
    auto it = k->blocks.find(s.block);
    return it != k->blocks.end() && (*it->second)[s.thread] >= s.epoch;
  }
  // Does the thread know all of `told`, except what threads [first, end) of its block have done?
  bool knows(int64_t thread, const KnownRef& released, int64_t first, int64_t end) const;
  // These have synchronised: each knows what any of them knew and did.
  void meet(std::span<const int32_t> threads);
  KnownRef release(int64_t thread);  // what it knows and did, for someone to acquire
  KnownRef release(std::span<const int32_t> threads);
  bool is_known(const Stamp& s) const;  // by any of its threads
  void acquire(int64_t thread, const KnownRef& released);
  void acquire(std::span<const int32_t> threads, const KnownRef& released);

  int32_t slot(Timeline timeline, int64_t thread) const {
    return int32_t(int64_t(timeline) * threads + thread);
  }
  int32_t slot_of_barrier(int64_t number) const { return int32_t(timelines * threads + number); }
  // The products of a warp; -1: it is no slot of these.
  int32_t slot_of_products(int64_t warp) const { return int32_t(first_product + warp); }
  int64_t warp_of_products(int32_t slot) const { return slot >= first_product ? slot - first_product : -1; }
  void join_products(int64_t warp, uint32_t epoch) {
    uint32_t& last = joined[size_t(slot_of_products(warp))];
    last = std::max(last, epoch);
  }
  int64_t owner(int32_t slot) const {
    return slot < timelines * threads ? slot % threads : -1;
  }  // -1: a barrier's
  bool is_on(int32_t slot, Timeline timeline) const {
    return slot < timelines * threads && slot / threads == int64_t(timeline);
  }
  // The thread has waited for what it began: all up to that epoch is before what it does now.
  void join(int64_t thread, Timeline timeline, uint32_t epoch) {
    uint32_t& last = joined[size_t(slot(timeline, thread))];
    last = std::max(last, epoch);
  }
  bool has_joined(int32_t slot, uint32_t epoch) const { return joined[size_t(slot)] >= epoch; }
  void fence(int64_t thread, bool everywhere);                           // or of shared memory alone
  void append_state(std::string& state) const;                           // who knows what
  KnownRef with(const KnownRef& k, int32_t slot, uint32_t epoch) const;  // k, and that

 private:
  static constexpr int64_t product_threads = 32;  // of a warp that has such instructions
  int32_t block;
  int64_t threads;
  int timelines;
  int64_t first_product;  // slot
  Epochs epochs;          // of the threads now
  Epochs joined;          // by slot: what its owner has waited for
  std::vector<KnownRef> known;

  KnownRef with_own(const KnownRef& k, std::span<const int32_t> threads) const;
};

}  // namespace tl::sim
