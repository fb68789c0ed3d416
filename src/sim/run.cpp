// Blocks, warps and barriers.
#include "sim/run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>

#include "base/error.h"
#include "ir/callee.h"
#include "sim/gap.h"
#include "sim/machine.h"
#include "sim/monitor.h"
#include "sim/schedule.h"
#include "sim/tally.h"
#include "sim/undefined.h"
#include "sim/warp.h"

namespace tl {

struct Simulation {
  Function f;
  std::vector<sim::Code> kernels;
  int64_t global_unit = 16;
};

namespace sim {
namespace {

// The first byte of a block's memory lies as it does on the chip.
constexpr size_t shared_alignment = 1024;
// So often may every thread that still runs look at memory that nobody changes, before it counts as stuck.
constexpr int64_t most_idle_rounds = 2000;
constexpr int64_t most_residents = 64;  // blocks at once, where some wait for others

Tensor tensor_of(const Memory& m) {
  Tensor t{.data = m.data, .low = 0, .high = 1};
  for (size_t d = 0; d < m.shape.size(); d++) {
    if (m.shape[d] <= 0) return {.data = m.data, .low = 0, .high = 0};
    int64_t last = (m.shape[d] - 1) * m.strides[d];
    (last < 0 ? t.low : t.high) += last;
  }
  return t;
}

void execute(Warp& w, int64_t most) {
  const Operation* operations = w.code->operations.data();
  int64_t left = most;
  for (; w.state == Warp::State::running && !w.spins && left > 0; left--) {
    const Operation& o = operations[w.next++];
    Mask active = w.active;
    if (!w.undefined.empty()) check_index(w, o);
    o.run(w, o);
    if (!w.undefined.empty()) follow_undefined(w, o, active);
  }
  w.came = w.block->executed += most - left;
}

const Operation& stands_at(const Warp& w) { return w.code->operations[w.next - 1]; }
const CallSite& waits_at(const Warp& w) { return w.code->calls[size_t(stands_at(w).row)]; }

bool is_waiting(const Warp& w) { return w.state == Warp::State::waiting; }

// It goes on.
void leave_barrier(Warp& w) {
  if (Tally* t = w.block->tally; t && is_waiting(w))
    t->waited(waits_at(w).site, waits_at(w).callee->name, w.block->executed - w.came);
  w.state = Warp::State::running;
}

// Everyone has ended, or waits at the same barrier.
void check_barrier(const std::vector<Warp>& warps, const Warp& waiting) {
  for (auto& w : warps) {
    if (is_waiting(w) && w.next == waiting.next) continue;
    const CallSite& here = waits_at(waiting);
    std::string other = "has ended";
    Finding f{.kind = Finding::Kind::barrier, .span = here.span};
    if (is_waiting(w)) {
      f.other = waits_at(w).span;
      f.other_thread = w.first;
      other = fmt::format("waits at another one{}", f.other ? fmt::format(", on line {}", f.other.line) : "");
    }
    f.thread = waiting.first;
    f.text = fmt::format("{} in divergent flow: {} waits here, but {} {}; every thread of the block must reach the same "
                         "barrier: move it out of the condition",
                         here.callee->name, describe_thread(waiting, 0), describe_thread(w, 0), other);
    throw Fault(std::move(f));
  }
}

// Warps whose named barrier all have come to go on.
bool release_named(Block& block, std::vector<Warp>& warps) {
  bool released = false;
  for (auto& w : warps) {
    if (!is_waiting(w) || w.barrier < 0 || block.barriers[w.barrier].phase <= w.phase) continue;
    leave_named(w, block.barriers[w.barrier]);
    leave_barrier(w);
    w.barrier = -1;
    released = true;
  }
  return released;
}

// Nobody can go on, and someone waits at a named barrier: who waits where, and which barriers have been come to.
void check_named(const Block& block, const std::vector<Warp>& warps) {
  auto waits_named = [](auto& w) { return is_waiting(w) && w.barrier >= 0; };
  auto first = std::find_if(warps.begin(), warps.end(), waits_named);
  if (first == warps.end()) return;
  const NamedBarrier& b = block.barriers.at(first->barrier);
  Finding f{.kind = Finding::Kind::deadlock, .span = waits_at(*first).span};
  f.thread = first->first;
  f.text = fmt::format("{} waits at barrier {} for {} threads, but only {} come to it", describe_thread(*first, 0),
                       first->barrier, b.expected, b.arrived);
  std::set<size_t> told = {first->next};
  for (auto& w : warps) {
    if (!is_waiting(w) || !told.insert(w.next).second) continue;
    const Span& span = waits_at(w).span;
    f.text += fmt::format("; thread {} waits at {}{}", w.first,
                          w.barrier >= 0 ? fmt::format("barrier {}", w.barrier) : std::string(waits_at(w).callee->name),
                          span ? fmt::format(" on line {}", span.line) : "");
    if (f.other_thread >= 0) continue;
    f.other = span;
    f.other_thread = w.first;
  }
  if (told.size() == 1) f.text += ": the others have ended";
  for (auto& [id, other] : block.barriers)
    if (auto waits_there = [&](auto& w) { return waits_named(w) && w.barrier == id; };
        other.arrived > 0 && std::none_of(warps.begin(), warps.end(), waits_there))
      f.text += fmt::format("; {} of {} threads have come to barrier {}, where nobody waits", other.arrived,
                            other.expected, id);
  throw Fault(std::move(f));
}

// A block that is running: its memory, its warps.
struct Resident {
  Block block;
  std::unique_ptr<BlockWatch> watch = {};
  std::vector<Warp> warps = {};
};

struct Launch {
  const Code& code;
  Host& host;
  const SimulationOptions& options;
  Findings& findings;
  GlobalCells& cells;
  Grid grid = grid_of_kernel();
  std::vector<Tensor> tensors = tensors_of_call();
  std::vector<Extent> arguments = arguments_of_call();
  Monitor monitor = {code, grid, findings, cells, tensors, written()};
  Tally tally{code};
  Schedule schedule{options.seed};
  std::vector<int64_t> blocks = {};                  // still to begin, the next one last
  std::vector<std::unique_ptr<Resident>> residents = {}, idle = {};
  int64_t ended = 0, told = 0;

  Grid grid_of_kernel() {
    Grid g{.kernel = code.kernel->name, .dims = code.kernel->grid.size()};
    for (size_t d = 0; d < g.dims; d++) g.extents[d] = std::max<int64_t>(0, host.integer(code.kernel->grid[d]));
    return g;
  }
  std::vector<Tensor> tensors_of_call() {
    std::vector<Tensor> all;
    for (auto& m : host.frame.buffers) all.push_back(m.data ? tensor_of(m) : Tensor());
    return all;
  }
  std::vector<Extent> arguments_of_call() {
    std::vector<Extent> all;
    for (auto& [begin, end] : host.arguments) all.push_back({begin, end});
    return all;
  }
  std::vector<Extent> written() {
    std::vector<Extent> all = fresh();
    for (auto& p : code.places) {
      if (p.scope != Scope::global || !p.written) continue;
      if (p.made_at >= 0) {
        all.insert(all.end(), arguments.begin(), arguments.end());
        continue;
      }
      const Tensor& t = tensors[p.id];
      all.push_back({t.data + t.low * p.type.bytes(), t.data + t.high * p.type.bytes()});
    }
    return all;
  }
  std::vector<Extent> fresh() {
    std::vector<Extent> all;
    for (auto& [begin, end] : host.fresh) all.push_back({begin, end});
    return all;
  }

  std::unique_ptr<Resident> make() {
    auto r = std::make_unique<Resident>(Resident{.block = {.code = code}});
    Block& block = r->block;
    block.tensors = tensors;
    block.arguments = arguments;
    block.monitor = &monitor;
    block.tally = options.count ? &tally : nullptr;
    block.stop = options.stop ? &options.stop : nullptr;
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

  void begin(int64_t number) {
    if (idle.empty()) idle.push_back(make());
    residents.push_back(std::move(idle.back()));
    idle.pop_back();
    Resident& r = *residents.back();
    Block& block = r.block;
    block.number = number;
    block.where = grid.name(number);
    block.barriers.clear();
    block.executed = 0;
    poison_shared(block);
    r.watch = options.watch ? monitor.watch(int32_t(number)) : nullptr;
    block.watch = r.watch.get();
    auto index = grid.index(number);
    for (auto& w : r.warps) {
      w.state = Warp::State::running;
      w.next = 0;
      w.active = w.alive;
      w.out = w.returned = 0;
      w.barrier = w.seen_version = -1;
      w.idle_trips = 0;
      w.spins = false;
      w.masks.clear();
      w.jumping.clear();
      w.undefined.clear();
      w.forgotten.clear();
      w.filled.assign(options.watch ? size_t(code.lane_bytes / code.register_unit + 1) : 0, 0);
      for (size_t d = 0; d < grid.dims; d++) *w.slot(code.inputs[d].second) = scalar(index[d]);
    }
  }

  // No warp of it runs: it has ended (false), or all go on, or wait for the whole grid.
  bool resolve(Resident& r) {
    auto waiting = std::find_if(r.warps.begin(), r.warps.end(), is_waiting);
    if (waiting == r.warps.end()) return false;
    try {
      check_named(r.block, r.warps);
      check_barrier(r.warps, *waiting);
    } catch (Fault& e) {
      complete(e.finding, r.warps[size_t(e.finding.thread) / lane_count]);
      throw;
    }
    if (waits_at(*waiting).callee == &sync_grid) return true;
    finish_barrier(r.warps);
    if (r.watch) {
      std::vector<int32_t> threads;
      for (auto& w : r.warps) for_lanes(w.alive & ~w.returned, [&](int lane) { threads.push_back(int32_t(w.first + lane)); });
      r.watch->clocks.meet(threads);
    }
    resume(r);
    return true;
  }
  static void resume(Resident& r) {
    for (auto& w : r.warps) leave_barrier(w);
  }

  // Every block that runs waits for the grid.
  void resolve_grid() {
    const Warp& waiting = residents[0]->warps[0];
    if (ended > 0)
      stop(Finding::Kind::barrier, waits_at(waiting).span, "sync_grid: {} waits here, but another block has ended; every "
           "block must reach it", residents[0]->block.where);
    KnownRef all;
    auto each = [&](auto f) {
      for (auto& r : residents)
        for (auto& w : r->warps) for_lanes(w.alive & ~w.returned, [&](int lane) { f(*r, w.first + lane); });
    };
    if (options.watch) {
      each([&](Resident& r, int64_t thread) { all = merge(all, r.watch->clocks.release(thread)); });
      each([&](Resident& r, int64_t thread) { r.watch->clocks.acquire(thread, all); });
    }
    for (auto& r : residents) resume(*r);
  }

  // Nobody runs but those that wait in loops for others.  When they stand as they once stood in the same memory, they
  // wait for ever; a loop that counts its trips never stands the same, and is given most_idle_rounds.
  struct Idle {
    int64_t version = -1;  // of memory, in all the rounds
    std::unordered_set<size_t> states = {};
  };
  void wake(Idle& idle) {
    if (idle.version != monitor.memory_version) idle = {.version = monitor.memory_version};
    const Warp* stuck = nullptr;
    std::string state;
    for (auto& r : residents)
      for (auto& w : r->warps)
        if (w.state == Warp::State::running) stuck = &w, w.spins = false, w.idle_trips = 0, append_state(state, w);
    bool is_new = idle.states.insert(std::hash<std::string>{}(state)).second;
    if (is_new && int64_t(idle.states.size()) <= most_idle_rounds) return;
    Finding f{.kind = Finding::Kind::livelock, .span = code.sites[size_t(stands_at(*stuck).site)].span};
    complete(f, *stuck);
    f.text = fmt::format("{} waits in this loop for memory to change, but nobody else can go on and change it",
                         describe_thread(*stuck, int(f.thread - stuck->first)));
    throw Fault(std::move(f));
  }

  static void append_state(std::string& state, const Warp& w) {
    auto append = [&](const auto& values) {
      state.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
    };
    append(std::to_array({int64_t(w.next), int64_t(w.active), int64_t(w.out)}));
    append(w.registers);
    append(w.lanes);
  }

  bool together() const {
    return std::any_of(code.calls.begin(), code.calls.end(), [](auto& site) { return site.callee == &sync_grid; });
  }
  // Foreign code writes behind its pointers as far as it likes.
  bool writes_unseen() const {
    return std::any_of(code.calls.begin(), code.calls.end(), [](auto& site) { return is_foreign(*site.callee); });
  }

  void run() {
    blocks = options.blocks;
    int64_t all = grid.size(), count = options.sample ? std::min(options.sample, all) : all;
    if (blocks.empty())
      for (int64_t i = 0; i < count; i++) blocks.push_back(count > 1 ? i * (all - 1) / (count - 1) : 0);
    std::erase_if(blocks, [&](int64_t b) { return b < 0 || b >= grid.size(); });
    schedule.arrange(blocks);
    std::reverse(blocks.begin(), blocks.end());
    int64_t wanted = together() ? int64_t(blocks.size()) : schedule.residents();
    int64_t begun = int64_t(blocks.size());
    Idle idle;
    std::vector<int64_t> runnable;
    std::vector<Warp*> warps;
    while (true) {
      while (int64_t(residents.size()) < wanted && !blocks.empty()) {
        begin(blocks.back());
        blocks.pop_back();
      }
      if (residents.empty()) return;
      bool spinning = false;
      runnable.clear();
      warps.clear();
      for (auto& r : residents) {
        for (size_t i = 0; i < r->warps.size(); i++) {
          Warp& w = r->warps[i];
          if (w.state != Warp::State::running) continue;
          spinning |= w.spins;
          if (w.spins) continue;
          runnable.push_back(r->block.number * int64_t(r->warps.size()) + int64_t(i));
          warps.push_back(&w);
        }
      }
      if (warps.empty()) {
        if (settle()) continue;
        if (!spinning) resolve_grid();
        else if (!blocks.empty() && wanted < most_residents) wanted++;
        else wake(idle);
        continue;
      }
      step(*warps[schedule.pick(runnable)]);
      if (options.progress && ended > told) options.progress(told = ended, begun);
    }
  }

  // Where a warp was stopped.
  void complete(Finding& f, const Warp& w) const {
    f.block = w.block->where;
    if (f.thread < 0) f.thread = w.first + (w.active ? __builtin_ctz(w.active) : 0);
    f.statement = monitor.statement(stands_at(w).site);
  }

  void step(Warp& w) {
    try {
      execute(w, schedule.quantum());
    } catch (Fault& e) {
      complete(e.finding, w);
      throw;
    } catch (const CompileError& e) {
      Finding f{.kind = Finding::Kind::fault, .text = e.text, .span = e.span};
      complete(f, w);
      throw Fault(std::move(f));
    }
    if (!w.block->barriers.empty())
      for (auto& r : residents)
        if (&r->block == w.block) release_named(r->block, r->warps);
  }

  // Blocks none of whose warps runs: they end, or pass their barrier.  Did any?
  bool settle() {
    bool any = false;
    for (size_t i = 0; i < residents.size();) {
      Resident& r = *residents[i];
      bool runs = std::any_of(r.warps.begin(), r.warps.end(), [](auto& w) { return w.state == Warp::State::running; });
      if (runs) {
        i++;
        continue;
      }
      if (resolve(r)) {
        any |= r.warps[0].state == Warp::State::running;
        i++;
        continue;
      }
      any = true;
      ended++;
      idle.push_back(std::move(residents[i]));
      residents.erase(residents.begin() + int64_t(i));
    }
    return any;
  }

  // What stops the run is the last finding of all.
  bool run_guarded() {
    try {
      run();
    } catch (const Fault& e) {
      if (!options.watch) throw;
      findings.add(e.finding, {int64_t(e.finding.kind), -1, int64_t(findings.list.size()), code.number});
      return false;
    }
    return true;
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
  for (auto& code : s->kernels) s->global_unit = std::min(s->global_unit, code.global_unit);
  return s;
}

namespace {

SimulationReport run_once(const Simulation& s, std::span<const HostArg> args, const SimulationOptions& options) {
  Host host(s.f);
  host.bind(args);
  for (BufferId id : s.f.workspaces) host.begin(id);
  SimulationReport report{.seed = options.seed};
  sim::Findings findings;
  sim::GlobalCells cells;
  bool everything = options.watch;
  for (auto& code : s.kernels) {
    sim::Launch launch{.code = code, .host = host, .options = options, .findings = findings, .cells = cells};
    cells.begin(s.global_unit, launch.fresh());
    bool whole = launch.run_guarded();
    report.blocks += launch.ended;
    everything &= launch.ended == launch.grid.size() && !launch.writes_unseen();
    for (Counter& c : launch.tally.rows()) report.counters.rows.push_back(std::move(c));
    if (!whole) break;
  }
  report.findings = std::move(findings.list);
  if (everything && report.findings.empty()) report.gaps = sim::gaps_of(host, args, cells);
  return report;
}

// The arguments' memory, to begin again with.
struct Snapshot {
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> saved;
  explicit Snapshot(std::span<const HostArg> args) {
    for (auto& a : args)
      if (a.memory.first) saved.emplace_back(a.memory.first, std::vector<std::byte>(a.memory.first, a.memory.second));
  }
  void restore() const {
    for (auto& [at, bytes] : saved) std::copy(bytes.begin(), bytes.end(), at);
  }
};

}  // namespace

SimulationReport simulate(const Simulation& s, std::span<const HostArg> args, const SimulationOptions& options) {
  std::optional<Snapshot> before;
  if (options.schedules > 1) before.emplace(args);
  SimulationReport report;
  for (int64_t i = 0; i < std::max<int64_t>(1, options.schedules); i++) {
    if (i > 0) before->restore();
    SimulationOptions one = options;
    one.seed = options.seed + uint64_t(i);
    report = run_once(s, args, one);
    report.schedules = i + 1;
    if (!report.findings.empty()) break;
  }
  return report;
}

SimulationReport run_simulation(const Simulation& s, std::span<const HostArg> args, const SimulationOptions& options) {
  SimulationReport report = simulate(s, args, options);
  if (!report.findings.empty()) throw SimulationError(std::move(report));
  return report;
}

}  // namespace tl
