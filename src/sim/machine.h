// The machine that executes Function@machine without a GPU.  A kernel is translated once (translate.cpp) into
// flat code: operations on registers of 32 or 64 lanes, one per thread of a warp, and jumps.  A warp is a
// position in that code, its registers and the mask of the threads that take part; so it can stop anywhere
// and go on later, as barriers and any order of warps require.
#pragma once
#include <map>
#include <memory>
#include <set>

#include "ir/intrinsic.h"
#include "ir/kernel.h"
#include "sim/counters.h"
#include "sim/evaluate.h"
#include "sim/lane_mask.h"
#include "sim/limits.h"
#include "sim/stop.h"
#include "target/target.h"

namespace tl::sim {

struct Warp;
struct Operation;
using Run = void (*)(Warp&, const Operation&);

// One step of a warp.  Registers are runs of slots: one slot where all threads agree (a block index, a loop
// variable), else one per lane for each element of a vector.  The other members depend on `run`.
struct Operation {
  Run run = nullptr;
  int32_t to = -1, a = -1, b = -1, c = -1;  // first slots of the result and the operands; -1: none
  int32_t count = 1;                        // slots of the result
  int32_t jump = 0;                         // control: how far, from the operation itself
  int32_t row = -1;                         // a buffer, or a call: an index into the kernel's tables
  int32_t site = 0;                         // an index into Code::sites
  DType type = {};
  BinaryOp op = BinaryOp::add;
  // Its effect on undefined values: see undefined.h.
  enum class Effect : uint8_t { none, compute, load, store, branch, arms, call } effect = Effect::none;
  // How its result depends on its operands, for indices: see wrapped.h.  `arithmetic`: by `op`.
  enum class Follow : uint8_t {
    none,
    arithmetic,
    negate,
    convert,
    address,
    splat,
    repeat,
    ramp,
    select,
    compare,
    logic
  };
  Follow follow = Follow::none;
  bool wraps = false;          // it may leave its type, and become an index
  bool uniform_index = false;  // of a load or a store: all lanes have the same
  bool meets = false;          // what it does depends on what other warps have done: see explore.h
  bool quiet = false;          // a load for a check alone, which is no access of the program
  bool defines = false;        // its result counts as defined, whatever it is made of
  Scalar value = {};
  bool operator==(const Operation& o) const {
    return run == o.run && a == o.a && b == o.b && c == o.c && count == o.count && row == o.row &&
           type == o.type && op == o.op && follow == o.follow && value.i == o.value.i;
  }
};

// Where a buffer is.
struct Place {
  std::string name;
  Scope scope = Scope::global;
  DType type;
  int64_t elements = 0;  // shared, fragment, local: how many; an index lies in [0, elements)
  int64_t address = 0;   // shared: in the block's memory; fragment and local: in a lane's registers
  size_t id = 0;         // of the buffer in its function
  int32_t made_at = -1;  // global, made from an address: the slots with the address, one for each lane
  int32_t number = 0;    // in Code::places
  int32_t storage = 0;   // the place that shares its memory on purpose, or itself
  bool written = false;  // by the kernel
};

// An access whose indices are not proven to be in range: see translate_claim.cpp.
struct ClaimSite {
  struct Dim {
    int32_t first, last, extent;  // slots, one per lane: the index of the first element and of the last
  };
  std::string name;
  bool is_tile = false;
  int32_t place = -1;
  int64_t elements = 1;  // that it takes at once
  Counter::Kind kind = Counter::Kind::load;
  std::string_view what = {};
  int32_t where = -1;  // slots of a condition of the program
  std::vector<Dim> dims = {};
};

// A call with an effect: an instruction, a barrier, a shuffle.  What it does is a row of instr.cpp.
struct Execution;
using Semantics = void (*)(const Execution&);
struct CallSite {
  struct Arg {
    int32_t slot = -1;  // of the value; of a handle: its offset in bytes within `place`
    bool uniform = false;
    int place = -1;         // of a handle, the buffer
    std::string text = {};  // of a StringImm
    DType type = {};
    char access = '-';   // through a handle: 'r', 'w', 'x'
    int32_t count = -1;  // the slot of how many elements are touched there; -1: nothing says it
    bool count_uniform = false;
  };
  Semantics run = nullptr;
  const void* row = nullptr;                         // the instruction's row in target/, where it has one
  bool is_async = false;                             // an AsyncInstr
  std::vector<std::vector<int32_t>> positions = {};  // of a matrix instruction's elements: see instr.cpp
  const Intrinsic* intrinsic = nullptr;
  std::vector<Arg> args = {};
  int32_t to = -1;  // its result, a slot per lane for each element
  Span span;
  int32_t site = 0;                          // in Code::sites
  DType type = {};                           // of the result
  MemoryOrder order = MemoryOrder::relaxed;  // of an atomic access
  Team team = {};                            // whose it is; without threads: the block's
};

// Where an operation comes from.
struct Site {
  Span span;
  Stmt stmt;
};

// A kernel, translated.
struct Code {
  const Function* function = nullptr;
  const Kernel* kernel = nullptr;
  int64_t number = 0;  // of the kernel in its function
  std::vector<Operation> operations;
  std::vector<Site> sites;
  std::vector<Place> places;
  std::vector<CallSite> calls;
  std::vector<ClaimSite> claims;
  std::vector<std::pair<Expr, int32_t>> inputs;  // parameters, extents, block indices: one slot each
  int32_t thread = -1;                           // the slots of the thread's number in the block
  int32_t slots = 0;
  int64_t threads[3] = {1, 1, 1};
  int64_t launch_registers = 0;              // of a thread, of which a block's warps may hand over some
  int64_t cluster[3] = {1, 1, 1};            // blocks
  int warp = lane_group;                     // threads of a warp
  int64_t lane_bytes = 0, shared_bytes = 0;  // registers that one thread indexes; the block's memory
  int vector_bytes = 16;                     // the widest access of one thread
  SharedBanks banks = {};
  // The narrowest access to each kind of memory, in bytes: its unit of watching.
  int64_t shared_unit = 16, global_unit = 16, register_unit = 16;

  int64_t loops = 1;          // `while` loops that change memory; 0 stands for all others
  int timelines = 1;          // of logical threads that its instructions need: see clock.h
  int64_t barriers = 0;       // mbarriers that it may make
  bool has_products = false;  // of warpgroups
  bool has_cluster = false;   // instructions that reach other blocks, or meet them

  std::set<int64_t> parallel_lines = {};  // whose statements stand in parallel loops

  std::string_view chip = {};
  std::array<int64_t, 3> max_grid = {};
  int64_t most_residents = 0;  // blocks that the chip holds at once

  // Of a value with so many slots, one per lane for each element.
  int32_t elements_of(int32_t slots) const {
    return warp == lane_group ? slots / lane_group : slots / max_lanes;
  }
  int64_t thread_count() const { return threads[0] * threads[1] * threads[2]; }
  int64_t cluster_size() const { return cluster[0] * cluster[1] * cluster[2]; }
};
Code translate(const Function& f, const Kernel& k, const Target& target);

// A tensor, as the caller gave it: reachable elements lie at offsets [low, high).
struct Tensor {
  std::byte* data = nullptr;
  int64_t low = 0, high = 0;
};

// A tensor map of the call, with numbers for its shape.
struct MapView {
  const TensorMap* map = nullptr;
  std::vector<int64_t> shape = {}, strides = {};  // in elements
};

class Engine;
class RaceDetector;
struct BlockWatch;
class PerformanceCounters;
struct Known;

// A named barrier of a block.
struct NamedBarrier {
  // When and where a warp arrived last, and the clock of all that arrived in that phase; null while it lasts.
  struct Arrival {
    int64_t phase = -1;
    int32_t site = 0;
    std::shared_ptr<const Known> released = {};
  };
  int64_t arrived = 0, expected = 0;  // threads
  int64_t first = -1;                 // the first one that came, and where
  int32_t site = 0;
  int64_t phase = 0;  // how often all have come
  // Clocks of those that have arrived: since the last phase, and in it.
  std::shared_ptr<const Known> joined = {}, released = {};
  std::map<int64_t, Arrival> arrivals = {};  // by the first thread of the warp
};

// A value that has wrapped, directly or by its operands.
struct Wrap {
  const Operation* origin = nullptr;  // that left its type
  int64_t made = 0, kept = 0;         // what it would have given, and what it gave
  int64_t exact = 0;                  // the unwrapped value now
};

// Memory that the caller gave: what an address may point into.
struct Extent {
  std::byte *begin, *end;
};

struct Block;
// Blocks that run at the same time and reach each other's shared memory.
struct Cluster {
  std::vector<Block*> blocks = {};  // by rank
  // Their barrier: how often all have come; what those knew that have come in this phase, and in the last
  // one.
  int64_t phase = 0;
  std::shared_ptr<const Known> joined = {}, released = {};
};

struct Block {
  const Code& code;
  int64_t number = 0;                     // in the grid
  std::shared_ptr<Cluster> cluster = {};  // null: the block is alone
  bool ended = false;                     // while others of its cluster run
  std::vector<Extent> arguments = {};
  std::vector<Tensor> tensors = {};  // by buffer id
  std::vector<MapView> maps = {};    // by their places in the function
  std::vector<std::byte> memory = {};
  std::byte* shared = nullptr;                    // the block's memory, within `memory`
  std::string where = {};                         // "block (1, 0) of main"
  std::map<int64_t, NamedBarrier> barriers = {};  // those that someone has come to
  RaceDetector* race_detector = nullptr;
  BlockWatch* watch = nullptr;              // null where accesses are not watched
  PerformanceCounters* counters = nullptr;  // null where nothing is counted
  Engine* engine = nullptr;                 // null where no instruction goes on beside its thread
  int64_t executed = 0;                     // operations of its warps so far
  int64_t patience = 64;  // how often a loop may find memory unchanged before it counts as one that waits
  std::map<int64_t, Wrap> wrapped = {};                        // by byte of shared memory
  bool holds_wrapped = false;                                  // some memory of the block does
  std::map<const Operation*, std::vector<bool>> reached = {};  // by what wraps: see wrapped.h
  const StopHandler* stop = nullptr;                           // null where breakpoints are ignored
  const RunLimits* limits = nullptr;
};

// The state of a `narrow`: the threads before it, and those that passed.
struct Saved {
  LaneMask before, taken;
};

// A loop that some threads may leave, or continue, before the others.
struct Jumping {
  LaneMask entry, running;  // the threads that came to it; that are in this iteration
  LaneMask broken = 0, continued = 0;
};

// The origin of an undefined value.
struct Origin {
  int32_t place = -1;   // what was read; -1: registers of another lane, in a shuffle
  int64_t index = 0;    // of the element; that lane
  int32_t site = 0;     // of the read
  int64_t thread = -1;  // that read it; -1: the one that has come to use it
  int32_t stale = -1;   // the place that occupied this memory before
  DType cast = {};      // not read: it was cast to this type, and does not fit
  double value = 0;
};
// The bytes of an access that these lanes have found unwritten.
struct Hole {
  LaneMask lanes;
  int64_t at, bytes;
  Origin origin;
};
using Holes = std::vector<Hole>;
// The lanes of a register that hold such values.
struct Wrapped {
  int32_t slot;  // the first of one per lane, or the one where all agree
  LaneMask lanes = 0;
  std::array<Wrap, max_lanes> values = {};  // of these lanes
};
// The lanes whose last access to a place, at that site, had an index outside of its dimension, which is found
// already.
struct Strayed {
  LaneMask lanes = 0;
  int32_t site = -1, place = -1;
};
struct Undefined {
  int32_t slot;  // the first of one per lane
  LaneMask lanes = 0;
  std::array<Origin, max_lanes> origins = {};  // of these lanes
};

struct Products;
struct Warp {
  enum class State : uint8_t { running, waiting, ended };
  Block* block = nullptr;
  const Code* code = nullptr;
  State state = State::running;
  int64_t first = 0;               // its first thread
  size_t next = 0;                 // the operation to run
  LaneMask alive = 0, active = 0;  // threads that exist; that take part now
  LaneMask out = 0;                // those that took a jump and wait at its end, or have returned
  LaneMask returned = 0;
  int64_t barrier = -1;  // the named barrier that it waits at, and for the end of which phase
  int64_t phase = 0;
  int64_t came = 0;            // at its barrier: what the block had executed then
  int64_t executing = 0;       // operations of its own that the block has not counted yet
  int64_t cluster_phase = -1;  // of the cluster's barrier, in which it has arrived and not yet waited
  bool waits_for_cluster = false;
  int64_t awaited = -1;  // the mbarrier whose phase it has found under way, where, and by which lane
  int32_t awaits_at = 0;
  int awaiting = 0;
  bool awaits_by_state = false;  // not by its parity
  int64_t seen_version = -1;     // of memory, by a loop that waits; and how often it found it unchanged
  int64_t idle_trips = 0;
  bool spins = false;
  std::vector<int64_t> trips = {};  // of such loops, since they were entered
  std::vector<Jumping> jumping = {};
  std::vector<Saved> masks = {};
  std::vector<Scalar> registers = {};
  std::vector<std::byte> lanes = {};  // fragments and local buffers, lane by lane
  std::vector<LaneMask> filled = {};  // by unit of those: the lanes that have written it
  std::vector<Undefined> undefined = {};
  Strayed strayed = {};
  std::vector<Wrapped> wrapped = {};
  std::array<std::map<int64_t, Wrap>, max_lanes> wrapped_memory = {};  // by byte of each lane's registers
  std::map<std::pair<int64_t, int>, Origin> forgotten =
      {};                                   // by unit and lane: the undefined value that was written
  std::shared_ptr<Products> products = {};  // of warpgroups; null where the kernel has none

  int lane_count() const { return code->warp; }
  LaneMask whole() const { return all_lanes(code->warp); }  // as a mask: with threads that do not exist
  Scalar* slot(int32_t i) { return registers.data() + i; }
  std::byte* lane_memory(int lane) { return lanes.data() + int64_t(lane) * code->lane_bytes; }
};

// The lanes in which a condition holds.
inline LaneMask lanes_where(Warp& w, int32_t slot) {
  const Scalar* cond = w.slot(slot);
  return lanes_that(w.lane_count(), [&](int lane) { return cond[lane].i != 0; });
}

// The address of `bytes` bytes at `offset` (in bytes) of a buffer, for one lane.  It is a finding unless they
// lie within it, at an address divisible by `alignment`; outside, it is the address of a dummy.
struct Located {
  std::byte* at;
  bool inside;
};
Located locate(Warp& w, const Place& place, int lane, int64_t offset, int64_t bytes, int64_t alignment,
               int32_t site);
int64_t elements_left(Warp& w, const Place& place, int lane,
                      int64_t offset);                 // from there to the buffer's end
std::string describe_thread(const Warp& w, int lane);  // "thread 5 of block (1, 0) of main"
// Poison, so that unwritten memory shows in the result: floats are NaN, all else bytes 0xCD.
void poison(std::byte* data, int64_t bytes, DType type);

}  // namespace tl::sim
