// Asynchronous operations of a block: copies that its threads have begun, chunk by chunk, and the barriers in
// memory (mbarriers) that count arrivals and landed bytes. A chunk is read and written at any moment between
// its begin and its wait, as the schedule decides. Any other access to that memory in between is a race,
// whatever the moment; the race detector finds it from the beginning on, by logical threads (clock.h).
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/intrinsic.h"
#include "sim/clock.h"
#include "sim/schedule.h"

namespace tl::sim {

struct Block;
struct Warp;

// At most 16 bytes of a copy: to[0, bytes), of which the first `given` come from `from` and the rest is 0.
struct Chunk {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint8_t bytes = 0, given = 0;  // no bytes: it signals that earlier copies have landed
  bool was_read = false, landed = false;
  InFlight flight = {};
  std::array<std::byte, 16> held = {};
};

// What a reduction leaves in an element: of what is there, and what comes.
struct Combination {
  Intrinsic::Atomic op = Intrinsic::Atomic::none;  // none: what comes
  DType type = {};
};

// An asynchronous operation that one thread began by one instruction.
struct AsyncCopy {
  int64_t thread = 0;
  uint32_t epoch = 0;    // of its timeline, or of the barrier's slot
  int64_t barrier = -1;  // that is signalled
  KnownRef knows = {};   // its thread's clock when it began
  std::vector<Chunk> chunks = {};
  Combination combination = {};
  size_t left = 0;  // that have not landed
};

// What a thread waits for by groups, on one timeline.
struct Groups {
  uint32_t epoch = 1;                    // of what it begins now
  std::vector<uint32_t> committed = {};  // the epoch of each group
  std::vector<AsyncCopy> begun = {};
  uint32_t last = 0, waited = 0;  // epochs: of what was begun last, and what has been read for sure
  int32_t site = 0;               // of that
};

struct MBarrier {
  int64_t count = 0, pending = 0;  // arrivals of a phase; those still to come
  int64_t bytes = 0;               // still to land; below 0: more have landed than were expected
  int64_t phase = 0;               // how many have ended
  int64_t number = 0;              // of its slot
  int64_t life = 0;                // which of all initialisations made it, from 1
  uint32_t copies = 0;             // that ever signalled it
  int64_t initialiser = -1;        // the thread, until its fence
  int64_t seen = 0;                // phases that some thread has seen end
  // The last bulk load that signals it: in which phase it was begun, by which thread of which block, where.
  struct Load {
    int64_t phase = -1, thread = -1, block = -1;
    int32_t site = 0;
  } load = {};
  bool had_load = false;  // one was begun in the last phase that ended
  struct Arrival {
    int32_t site = 0;
    int64_t block = 0, thread = 0;  // of the cluster; in it
    auto operator<=>(const Arrival&) const = default;
  };
  using Arrivals = std::vector<Arrival>;
  Arrivals came = {};                       // in this phase
  Arrivals ended_with = {};                 // in the last
  std::vector<Arrivals> first_phases = {};  // in the first two of all
  Arrivals rushed = {};                     // twice in a phase, in the first such phase
  std::set<int64_t> arrivers = {};          // all threads that have ever arrived, numbered through the grid
  // A warp of which one arrival has ended a phase, where, and the first lane that came in the next.
  Warp* crowded_by = nullptr;
  int32_t crowded_at = 0;
  int crowding = 0;
  KnownRef ended_by = {};               // what those knew that began the copies
  KnownRef joined = {}, released = {};  // clocks of all that arrived; of the last phase
  // The last phase that a warp has seen end, where, and in which epochs of its threads (0: not this one).
  struct Seen {
    Warp* warp = nullptr;
    int64_t phase = 0;
    int32_t site = 0;
    bool by_state = false;         // not by its parity
    bool again = false;            // it had seen that phase before
    std::vector<bool> lanes = {};  // that have asked there
    std::vector<uint32_t> epochs = {};
  };
  std::map<int64_t, Seen> seen_by = {};  // by the warp's first thread
};

class Engine {
 public:
  Engine(Block& block, Schedule& schedule) : block(block), schedule(schedule) {}

  Groups& groups(Timeline timeline, int64_t thread) { return grouped[{timeline, thread}]; }
  InFlight flight() const;
  void begin(std::vector<AsyncCopy>& list, AsyncCopy b);
  void begin_telling(AsyncCopy b) { begin(telling, std::move(b)); }
  // The thread waits until at most n of its groups are under way: the last epoch that has landed; 0: none.
  // With only_reads their writes may be under way still.
  uint32_t wait(Timeline timeline, int64_t thread, size_t n, bool only_reads = false);
  void end_phase(int64_t barrier);  // if all have come
  void advance();                   // to now: what is due lands
  bool land_next();                 // no thread can go on: one piece lands
  void finish();                    // the block has ended
  // Bulk copies that no thread has waited for, which may outlive the block, and who began them.
  struct Unawaited {
    bool loads;
    int64_t thread;
    int32_t site;
    int64_t barrier = -1;  // that a load signals
  };
  std::vector<Unawaited> unawaited() const;
  size_t tellings() const { return telling.size(); }  // what barriers still wait for
  void land_telling(size_t which);
  void append_state(std::string& state) const;

  std::map<int64_t, MBarrier> barriers = {};  // by their offsets in shared memory
  int64_t lives = 0;                          // how many have been initialised

 private:
  Block& block;
  Schedule& schedule;
  int64_t due = INT64_MAX;
  std::vector<AsyncCopy> telling = {};  // barriers
  std::map<std::pair<Timeline, int64_t>, Groups> grouped = {};

  void land(AsyncCopy& b, int64_t now);
  void land(std::vector<AsyncCopy>& list, int64_t now);
  void write(AsyncCopy& b, Chunk& p);
  void tell(AsyncCopy& b, const Chunk& p);
};

}  // namespace tl::sim
