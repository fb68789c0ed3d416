// Watches what a running kernel does to memory.  Every unit of shared memory, and of the tensors that the
// kernel writes, has a cell that records the last write and the reads since; two conflicting accesses that
// nothing orders are a race, whichever of them came first in this run.  Registers have a bit for each lane:
// written or not.
//
// A unit is as wide as the narrowest access of the kernel to that kind of memory.
#pragma once
#include <set>
#include <unordered_map>

#include "sim/clock.h"
#include "sim/machine.h"
#include "sim/report.h"

namespace tl::sim {

enum class Touch : uint8_t { read, write, atomic_read, atomic_update };

// The logical threads that carry out an asynchronous operation.
struct Logical {
  int32_t slot = 0;
  uint32_t epoch = 0;
  bool by_proxy =
      false;           // the asynchronous one, which sees what threads have written only after their fences
  int32_t block = -1;  // whose it is; -1: of the block of the thread that begins it
};

struct ShadowCell {
  Stamp write = {}, read = {};  // the last write; one access since that was none
  uint32_t more = 0;            // further such accesses: an index into the pool; 0: none
  int32_t place = -1;           // the buffer that was written
  bool written = false;
};

// Lists of stamps that most cells do not need.
class StampPool {
 public:
  std::vector<Stamp>& at(uint32_t& list);  // makes one
  void release(uint32_t& list);
  const std::vector<Stamp>& read(uint32_t list) const { return lists[list]; }

 private:
  std::vector<std::vector<Stamp>> lists = std::vector<std::vector<Stamp>>(1);
  std::vector<uint32_t> free = {};
};

// What the race detector keeps for a block.
struct BlockWatch {
  Clocks clocks;
  std::vector<ShadowCell> shared;
  StampPool pool = {};
  std::map<int64_t, Origin> forgotten = {};  // by unit of shared memory: what undefined value was written
  // What other blocks of the cluster have done in this one's memory, by block and slot: the last time.
  std::map<std::pair<int32_t, uint16_t>, Stamp> from_outside = {};
  int32_t asked_without_order =
      -1;  // the site of its last relaxed atomic access to a tensor that gave a value
};

// What was found, each place once.
class Findings {
 public:
  std::vector<Finding> list = {};
  bool astray = false;  // an access was outside of its buffer
  void add(Finding f, std::array<int64_t, 4> where);
  bool again(const std::array<int64_t, 4>& where);  // then it is counted
  void withdraw(
      const std::array<int64_t, 4>& where);  // whatever its other site: it had another cause, and is dropped
  static constexpr size_t most = 32;         // further places are not listed

 private:
  std::map<std::array<int64_t, 4>, size_t> known = {};  // by kind, site, other site, place
  std::set<std::array<int64_t, 3>> withdrawn = {};      // by kind, site, place
  size_t place_between_blocks(const Finding& f) const;
};

// The cells of all tensors that a function writes, whatever kernel does: units of global memory, in pages
// made when first touched.
class GlobalShadow {
 public:
  // A kernel begins: everything before it is complete.
  void begin(int64_t unit, std::vector<Extent> fresh);
  ShadowCell& at(uintptr_t number);
  bool written(uintptr_t number) const;
  int64_t unit = 16;

 private:
  static constexpr uintptr_t page_size = 256;
  using Page = std::array<ShadowCell, page_size>;
  std::vector<Extent> fresh = {};  // unwritten before the call
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages = {};
  std::pair<uintptr_t, Page*> last = {~uintptr_t(0), nullptr};
  bool is_fresh(uintptr_t number) const;
};

// The blocks of a launch, by number.
struct Grid {
  std::string kernel;
  size_t dims = 0;
  int64_t extents[3] = {1, 1, 1};

  int64_t size() const { return extents[0] * extents[1] * extents[2]; }
  std::array<int64_t, 3> index(int64_t number) const {
    return {number % extents[0], number / extents[0] % extents[1], number / extents[0] / extents[1]};
  }
  std::string name(int64_t number) const;  // "block (1, 0) of main"
};

// Of one launch of a kernel.
class RaceDetector {
 public:
  // `written`: what the kernel may write.  A tensor that lies apart from all of it is not watched.
  RaceDetector(const Code& code, Grid grid, Findings& findings, GlobalShadow& cells,
               const std::vector<Tensor>& tensors, const std::vector<Extent>& written);

  std::unique_ptr<BlockWatch> watch(int32_t block) const;
  // `bytes` bytes at `at` by one lane, or by what it begins. `same`: the stored value is there already. A
  // read of unwritten memory is a finding, unless the reader takes it in `holes`, to follow the value.
  void access(Warp& w, const Place& p, int lane, const std::byte* at, int64_t bytes, Touch touch,
              int32_t site, bool same = false, const Logical* begun = nullptr, Holes* holes = nullptr);
  // Of `lanes`, at the same offset in their registers.
  void registers(Warp& w, const Place& p, int64_t offset, int64_t bytes, LaneMask lanes, bool writes,
                 int32_t site);
  // The bytes of these that are unwritten, lane by lane.
  Holes unwritten_registers(Warp& w, const Place& p, int64_t offset, int64_t bytes, LaneMask lanes,
                            int32_t site);
  // A lane has written an undefined value there.
  void forget_registers(Warp& w, const Place& p, int64_t offset, int64_t bytes, int lane,
                        const Origin& origin);
  void forget_shared(Warp& w, const Place& p, int64_t offset, int64_t bytes, const Origin& origin);
  void undefined(Warp& w, int lane, const Origin& origin, int32_t site, const char* how);
  void begin_registers(Warp& w, const Place& p, LaneMask lanes);  // they hold nothing yet
  bool is_watched(const Place& p) const { return p.scope == Scope::shared || watched[size_t(p.number)]; }
  // Of one loop: fewer in a program that is known to be wrong.
  int64_t most_iterations(const RunLimits& limits) const {
    return findings.list.empty() ? limits.iterations : limits.iterations / 10 + 1;
  }
  void report(Warp& w, int lane, Finding f, int32_t site, int32_t other_site = -1, int64_t place = -1);
  // Has it been reported there? Then it is only counted, without a text: a wrong loop repeats it a million
  // times.
  bool again(Finding::Kind kind, int32_t site, int64_t place) {
    return findings.again(key(kind, site, -1, place));
  }
  // An atomic access of that order, after it was carried out.
  void synchronise(Warp& w, int lane, const std::byte* at, MemoryOrder order, bool reads, bool writes);
  void forgive(Extent memory);                // foreign code may have written it: no findings there
  int64_t memory_version = 0;                 // counts what was written
  std::string statement(int32_t site) const;  // its first line

 private:
  const Code& code;
  Grid grid;
  Findings& findings;
  GlobalShadow& cells;
  std::vector<bool> watched = {};  // by place
  StampPool pool = {};
  std::vector<Extent> forgiven = {};
  std::unordered_map<const std::byte*, KnownRef> released = {};  // by address of the atomic
  bool tells = false;                                            // some atomic access had an order

  void touch_shadow(ShadowCell& c, StampPool& lists, Warp& w, const Place& p, int lane, const Stamp& me,
                    Touch touch, bool same, const std::byte* at, bool by_proxy);
  void race(Warp& w, const Place& p, int lane, const Stamp& me, const Stamp& other, const char* did,
            Touch touch, const std::byte* at);
  // Advice: cures.cpp.  `me`: the access that comes now, of the warp or of what it begins.
  std::string cure_of(Warp& w, const Place& p, int lane, const Stamp& other, const Stamp& me) const;
  std::string cure_of_blocks(const Warp& w, const Place& p, const Stamp& other, const Stamp& me) const;
  std::string cure_of_unwritten(const Place& p) const;
  std::string cure_of_statement(const Place& p, int32_t site, bool one_reads) const;
  std::string cure_by_count(int64_t one, int64_t other) const;
  std::string cure_by_barrier(const Warp& w, const Stamp& other, const Stamp& me) const;
  std::string cure_of_teams(const Warp& w, const Stamp& other, const Stamp& me) const;
  std::string cure_of_load(const Warp& w, const Stamp& load, const Stamp& me) const;
  std::string cure_of_early_read(const Warp& w, int64_t reader, const Stamp& load) const;
  std::string cure_of_product(const Warp& w, const Stamp& product, const Stamp& me) const;
  std::string cure_of_group(const Warp& w, int lane, const Stamp& copy) const;
  std::array<int64_t, 4> key(Finding::Kind kind, int32_t site, int32_t other_site, int64_t place,
                             bool between_blocks = false) const {
    constexpr int64_t kinds = 50;
    return {int64_t(kind) + kinds * (2 * code.number + between_blocks), site, other_site, place};
  }
  std::string name_of(const Warp& w, const Stamp& s) const;  // "thread 5", "a copy that thread 5 has begun"
  void misfit(Warp& w, int lane, const Origin& origin, int32_t site, const char* how);
  void check_fence(Warp& w, const Place& p, int lane, const Stamp& me, const Stamp& write, Touch touch,
                   const std::byte* at);
  // Of a read: a hole, or a finding, if this unit is unwritten.
  void check_written(Warp& w, const Place& p, int lane, const ShadowCell& c, const std::byte* unit,
                     const std::byte* at, const Stamp& me, Holes* holes);
};

}  // namespace tl::sim
