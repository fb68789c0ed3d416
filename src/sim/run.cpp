// Blocks, warps and barriers.
#include "sim/run.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/callee.h"
#include "sim/machine.h"
#include "sim/warp.h"

namespace tl {

struct Simulation {
  Function f;
  std::vector<sim::Code> kernels;
};

namespace sim {
namespace {

// The first byte of a block's memory lies as it does on the chip.
constexpr size_t shared_alignment = 1024;

Tensor tensor_of(const Memory& m) {
  Tensor t{.data = m.data, .low = 0, .high = 1};
  for (size_t d = 0; d < m.shape.size(); d++) {
    if (m.shape[d] <= 0) return {.data = m.data, .low = 0, .high = 0};
    int64_t last = (m.shape[d] - 1) * m.strides[d];
    (last < 0 ? t.low : t.high) += last;
  }
  return t;
}

void execute(Warp& w) {
  const Operation* operations = w.code->operations.data();
  while (w.state == Warp::State::running) {
    const Operation& o = operations[w.next++];
    o.run(w, o);
  }
}

const CallSite& waits_at(const Warp& w) {
  const Operation& o = w.code->operations[w.next - 1];
  return w.code->calls[size_t(o.row)];
}

// Everyone has ended, or waits at the same barrier.
void check_barrier(const std::vector<Warp>& warps, const Warp& waiting) {
  for (auto& w : warps) {
    if (w.state == Warp::State::waiting && w.next == waiting.next) continue;
    const CallSite& here = waits_at(waiting);
    std::string other = "has ended";
    if (w.state == Warp::State::waiting) {
      Span span = waits_at(w).span;
      other = fmt::format("waits at another one{}", span ? fmt::format(", on line {}", span.line) : "");
    }
    fail(here.span,
         "{} in divergent flow: {} waits here, but {} {}; every thread of the block must reach the same "
         "barrier: move "
         "it out of the condition",
         here.callee->name, describe_thread(waiting, 0), describe_thread(w, 0), other);
  }
}

// Warps whose named barrier all have come to go on.
bool release_named(Block& block, std::vector<Warp>& warps) {
  bool released = false;
  for (auto& w : warps) {
    if (w.state != Warp::State::waiting || w.barrier < 0 || block.barriers[w.barrier].phase <= w.phase) continue;
    w.state = Warp::State::running;
    w.barrier = -1;
    released = true;
  }
  return released;
}

// Nobody can go on, and someone waits at a named barrier.
void check_named(const Block& block, const std::vector<Warp>& warps) {
  for (auto& w : warps) {
    if (w.state != Warp::State::waiting || w.barrier < 0) continue;
    const NamedBarrier& b = block.barriers.at(w.barrier);
    fail(waits_at(w).span, "{} waits at barrier {} for {} threads, but only {} come to it: the others have ended or wait "
         "elsewhere", describe_thread(w, 0), w.barrier, b.expected, b.arrived);
  }
}

// A block that is running: its memory, its warps.
struct Resident {
  Block block;
  std::vector<Warp> warps = {};
};

struct Launch {
  const Code& code;
  Host& host;

  std::unique_ptr<Resident> make() {
    auto r = std::make_unique<Resident>(Resident{.block = {.code = code}});
    Block& block = r->block;
    for (auto& m : host.frame.buffers) block.tensors.push_back(m.data ? tensor_of(m) : Tensor());
    for (auto& [begin, end] : host.arguments) block.arguments.push_back({begin, end});
    block.memory.resize(size_t(code.shared_bytes) + shared_alignment);
    void* begin = block.memory.data();
    size_t space = block.memory.size();
    block.shared =
        static_cast<std::byte*>(std::align(shared_alignment, size_t(code.shared_bytes), begin, space));
    int64_t threads = code.thread_count();
    for (int64_t first = 0; first < threads; first += lane_count) {
      Warp& w = r->warps.emplace_back();
      int64_t count = std::min<int64_t>(lane_count, threads - first);
      w.block = &block;
      w.code = &code;
      w.first = first;
      w.alive = count == lane_count ? ~Mask(0) : (Mask(1) << count) - 1;
      w.registers.resize(size_t(code.slots));
      w.lanes.resize(size_t(code.lane_bytes * lane_count));
      for (int lane = 0; lane < lane_count; lane++) w.slot(code.thread)[lane] = scalar(first + lane);
      for (auto& [v, slot] : code.inputs)
        if (auto it = host.compile.slots.find(v.get()); it != host.compile.slots.end())
          *w.slot(slot) = host.frame.vars[it->second];
    }
    return r;
  }

  void poison_shared(Block& block) {
    std::memset(block.memory.data(), 0xCD, block.memory.size());
    for (auto& p : code.places)
      if (p.scope == Scope::shared) poison(block.shared + p.address, p.elements * p.type.bytes(), p.type);
  }

  void begin(Resident& r, const int64_t (&index)[3]) {
    size_t dims = code.kernel->grid.size();
    Block& block = r.block;
    block.where = "block (";
    for (size_t d = 0; d < dims; d++) block.where += fmt::format("{}{}", d ? ", " : "", index[d]);
    block.where += ") of " + code.kernel->name;
    block.barriers.clear();
    poison_shared(block);
    for (auto& w : r.warps) {
      w.state = Warp::State::running;
      w.next = 0;
      w.active = w.alive;
      w.out = w.returned = 0;
      w.barrier = -1;
      w.masks.clear();
      w.jumping.clear();
      for (size_t d = 0; d < dims; d++) *w.slot(code.inputs[d].second) = scalar(index[d]);
    }
  }

  // Runs a block to its end, or (true) to a barrier of the grid.
  bool advance(Resident& r) {
    while (true) {
      for (auto& w : r.warps) execute(w);
      if (release_named(r.block, r.warps)) continue;
      auto waiting =
          std::find_if(r.warps.begin(), r.warps.end(), [](auto& w) { return w.state == Warp::State::waiting; });
      if (waiting == r.warps.end()) return false;
      check_named(r.block, r.warps);
      check_barrier(r.warps, *waiting);
      if (waits_at(*waiting).callee == &sync_grid) return true;
      finish_barrier(r.warps);
      resume(r);
    }
  }
  static void resume(Resident& r) {
    for (auto& w : r.warps) w.state = Warp::State::running;
  }

  template <class F>
  void for_blocks(F f) {
    int64_t extents[3] = {1, 1, 1}, at[3];
    for (size_t d = 0; d < code.kernel->grid.size(); d++) extents[d] = host.integer(code.kernel->grid[d]);
    for (at[2] = 0; at[2] < extents[2]; at[2]++)
      for (at[1] = 0; at[1] < extents[1]; at[1]++)
        for (at[0] = 0; at[0] < extents[0]; at[0]++) f(at);
  }

  // All blocks at once: from one barrier of the grid to the next.
  void run_together() {
    std::vector<std::unique_ptr<Resident>> all;
    for_blocks([&](const int64_t (&at)[3]) {
      all.push_back(make());
      begin(*all.back(), at);
    });
    while (true) {
      const Resident *waits = nullptr, *ended = nullptr;
      for (auto& r : all) (advance(*r) ? waits : ended) = r.get();
      if (!waits) return;
      if (ended)
        fail(waits_at(waits->warps[0]).span, "sync_grid: {} waits here, but {} has ended; every block must reach it",
             waits->block.where, ended->block.where);
      for (auto& r : all) resume(*r);
    }
  }

  void run() {
    bool together =
        std::any_of(code.calls.begin(), code.calls.end(), [](auto& site) { return site.callee == &sync_grid; });
    if (together) return run_together();
    std::unique_ptr<Resident> r = make();
    for_blocks([&](const int64_t (&at)[3]) {
      begin(*r, at);
      advance(*r);
    });
  }
};

}  // namespace

std::string describe_thread(const Warp& w, int lane) {
  return fmt::format("thread {} of {}", w.first + lane, w.block->where);
}

}  // namespace sim

std::shared_ptr<const Simulation> prepare_simulation(const Function& machine, const Target& target) {
  auto s = std::make_shared<Simulation>(Simulation{.f = machine, .kernels = {}});
  for (auto& k : s->f.kernels) s->kernels.push_back(sim::translate(s->f, k, target));
  return s;
}

void run_simulation(const Simulation& s, std::span<const HostArg> args) {
  Host host(s.f);
  host.bind(args);
  for (BufferId id : s.f.workspaces) host.begin(id);
  for (auto& code : s.kernels) sim::Launch{.code = code, .host = host}.run();
}

}  // namespace tl
