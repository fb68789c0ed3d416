// Blocks, warps and barriers.
#include "sim/run.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/interrupt.h"
#include "ir/intrinsic.h"
#include "sim/barrier.h"
#include "sim/cluster.h"
#include "sim/instr.h"
#include "sim/launch.h"
#include "sim/livelock.h"
#include "sim/mbarrier_report.h"
#include "sim/products.h"
#include "sim/steps.h"
#include "sim/undefined.h"
#include "sim/unwritten_outputs.h"
#include "sim/warp.h"
#include "sim/wrapped.h"

namespace tl {

struct Simulation {
  Function f;
  std::vector<sim::Code> kernels = {};
  int64_t global_unit = 16;
};

namespace sim {
namespace {

// How often every running thread may read unchanged memory before it counts as stuck.
constexpr int64_t most_idle_rounds = 2000;
// So many operations may follow an access outside of its buffer: what it read is no value of the program's,
// and a loop that asks for it may never end.
constexpr int64_t most_astray = int64_t(1) << 20;
constexpr int64_t piece = int64_t(1) << 16;  // operations of a warp between two looks at that

// Some operations; to_meeting: up to the next one where warps meet, but at least one.
template <bool to_meeting = false>
void execute(Warp& w, int64_t most) {
  const Operation* operations = w.code->operations.data();
  const bool& holds_wrapped = w.block->holds_wrapped;
  int64_t left = most;
  for (; w.state == Warp::State::running && !w.spins && left > 0; left--) {
    if (to_meeting && left < most && operations[w.next].meets) break;
    const Operation& o = operations[w.next++];
    LaneMask active = w.active;
    w.executing = most - left;
    if (!w.undefined.empty()) check_index(w, o);
    if (!w.wrapped.empty()) check_wrapped(w, o);
    o.run(w, o);
    if (!w.undefined.empty()) follow_undefined(w, o, active);
    if (o.wraps || !w.wrapped.empty() || holds_wrapped) follow_wrapped(w, o, active);
  }
  w.came = w.block->executed += most - left;
}

}  // namespace

void Launch::execute_quantum(Warp& w) {
  int64_t left = explorer ? piece : schedule.quantum();
  while (left > 0 && w.state == Warp::State::running && !w.spins && !is_pointless()) {
    int64_t before = w.block->executed, most = std::min(left, piece);
    explorer ? execute<true>(w, most) : execute(w, most);
    left -= most;
    heed(w, w.block->executed - before);
    if (findings.astray) astray += w.block->executed - before;
  }
}

void Launch::step(Warp& w) {
  try {
    execute_quantum(w);
  } catch (Fault& e) {
    complete(e.finding, w);
    throw;
  } catch (const CompileError& e) {
    Finding f{.kind = Finding::Kind::fault, .text = e.text, .span = e.span};
    complete(f, w);
    throw Fault(std::move(f));
  }
  if (w.block->engine) w.block->engine->advance();
  if (!w.block->barriers.empty())
    for (auto& r : residents)
      if (&r->block == w.block) release_named(r->block, r->warps);
  if (Cluster* cluster = w.block->cluster.get())
    release_cluster(*cluster, [&](auto& f) { each_warp(*cluster, f); });
}

bool Launch::together() const {
  return std::ranges::any_of(code.calls, [](auto& site) { return site.intrinsic == &sync_grid; });
}

void Launch::choose_blocks() {
  blocks = options.blocks;
  int64_t all = grid.size(), count = options.sample ? std::min(options.sample, all) : all;
  if (blocks.empty())
    for (int64_t i = 0; i < count; i++) blocks.push_back(count > 1 ? i * (all - 1) / (count - 1) : 0);
  std::erase_if(blocks, [&](int64_t b) { return b < 0 || b >= grid.size(); });
  if (code.cluster_size() > 1) {
    for (int64_t& b : blocks) b = first_of_cluster(b);
    std::ranges::sort(blocks);
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  }
  if (together() && grid.size() > code.most_residents)
    fail(code.kernel->span,
         "kernel '{}': its blocks wait for one another (T.sync_grid), so all {} of them must run at once, "
         "but {} holds {} of {} threads and {} bytes of shared memory; make the grid smaller and let each "
         "block loop",
         code.kernel->name, grid.size(), code.chip, code.most_residents, code.thread_count(),
         code.shared_bytes);
  schedule.arrange(blocks);
  std::ranges::reverse(blocks);
}

void Launch::find_ready(Ready& ready) {
  ready.spinning = false;
  ready.numbers.clear();
  ready.warps.clear();
  for (auto& r : residents)
    for (size_t i = 0; i < r->warps.size(); i++) {
      Warp& w = r->warps[i];
      if (w.state != Warp::State::running) continue;
      if (explorer && w.seen_version != race_detector.memory_version) w.spins = false, w.idle_trips = 0;
      ready.spinning |= w.spins;
      if (w.spins) continue;
      ready.numbers.push_back(r->block.number * int64_t(r->warps.size()) + int64_t(i));
      ready.warps.push_back(&w);
    }
}

int64_t Launch::unblock(const Ready& ready, int64_t wanted) {
  if (settle()) return wanted;
  if (!ready.spinning) {
    check_clusters();
    resolve_grid();
  } else if (explorer && explore(ready.warps))
    return wanted;
  else if (!explorer && land_next())
    wake();
  else if (!blocks.empty() && wanted < code.most_residents)
    return wanted + 1;
  else
    wake();
  return wanted;
}

void Launch::run() {
  choose_blocks();
  int64_t wanted =
      together() || explorer ? int64_t(blocks.size()) * code.cluster_size() : schedule.residents();
  now_at(nullptr);
  if (attention.task) attention.task->all = int64_t(blocks.size()) * code.cluster_size();
  Ready ready;
  while (!is_pointless() && (!explorer || !explorer->abandoned())) {
    while (int64_t(residents.size()) < wanted && !blocks.empty()) {
      begin_with_cluster(blocks.back());
      blocks.pop_back();
    }
    if (residents.empty()) return;
    find_ready(ready);
    if (ready.warps.empty()) {
      wanted = unblock(ready, wanted);
      continue;
    }
    if (explorer)
      explore(ready.warps);
    else
      step(*ready.warps[schedule.pick(ready.numbers)]);
    if (attention.task) attention.task->done = ended;
  }
}

bool Launch::is_pointless() const { return astray > most_astray; }

bool Launch::settle() {
  bool any = false;
  for (size_t i = 0; i < residents.size();) {
    Resident& r = *residents[i];
    if (r.block.ended) {
      i++;
      continue;
    }
    bool runs = std::ranges::any_of(r.warps, [](auto& w) { return w.state == Warp::State::running; });
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
    if (r.engine) finish(r);
    r.block.ended = true;
    auto cluster = r.block.cluster;
    if (cluster && !has_ended(*cluster)) {
      release_cluster(*cluster, [&](auto& f) { each_warp(*cluster, f); });
      continue;
    }
    if (cluster) check_outlived(*cluster);
    for (auto& done : residents)
      if (done->block.ended && (!done->block.cluster || has_ended(*done->block.cluster)))
        idle.push_back(std::move(done));
    std::erase(residents, nullptr);
    i = 0;
  }
  return any;
}

void Launch::check_clusters() {
  for (auto& r : residents)
    for (Warp& w : r->warps) {
      if (!w.waits_for_cluster) continue;
      const Cluster& cluster = *w.block->cluster;
      Finding f = cluster_finding(w, cluster, [&](auto& g) { each_warp(cluster, g); });
      complete(f, w);
      throw Fault(std::move(f));
    }
}

bool Launch::resolve(Resident& r) {
  auto waiting = std::ranges::find_if(r.warps, is_waiting);
  if (waiting == r.warps.end()) return false;
  if (std::ranges::any_of(r.warps, [](auto& w) { return w.waits_for_cluster; })) return true;
  try {
    check_named(r.block, r.warps);
    check_barrier(r.warps, *waiting);
  } catch (Fault& e) {
    complete(e.finding, r.warps[size_t(e.finding.thread) / code.warp]);
    throw;
  }
  if (waits_at(*waiting).intrinsic == &sync_grid) return true;
  finish_barrier(r.warps);
  if (r.watch) {
    std::vector<int32_t> threads;
    for (auto& w : r.warps)
      for_lanes(w.alive & ~w.returned, [&](int lane) { threads.push_back(int32_t(w.first + lane)); });
    r.watch->clocks.meet(threads);
  }
  resume(r);
  return true;
}

void Launch::resume(Resident& r) {
  for (auto& w : r.warps) leave_barrier(w);
}

void Launch::resolve_grid() {
  const Warp& waiting = residents[0]->warps[0];
  if (ended > 0)
    stop(Finding::Kind::barrier, waits_at(waiting).span,
         "sync_grid: {} waits here, but another block has ended; every block must reach it",
         residents[0]->block.where);
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

void Launch::wake() {
  bool is_first = rounds.version !=
                  race_detector.memory_version;  // as after each copy that lands: too often to look closely
  if (is_first) rounds = {.version = race_detector.memory_version};
  std::vector<const Warp*> waiting;
  std::string state;
  for (auto& r : residents)
    for (auto& w : r->warps)
      if (w.state == Warp::State::running) {
        waiting.push_back(&w);
        w.spins = false;
        w.idle_trips = 0;
        if (!is_first) append_state(state, w);
      }
  if (is_first) return;
  bool is_new = rounds.states.insert(std::hash<std::string>{}(state)).second;
  bool computes = std::ranges::any_of(waiting, [](auto* w) { return w->awaited < 0 && !reads_memory(*w); });
  if (is_new && int64_t(rounds.states.size()) <= (computes ? most_computing_rounds : most_idle_rounds))
    return;
  const Warp* stuck = *std::ranges::max_element(waiting, {}, [](auto* w) { return told_of_phase(*w); });
  if (stuck->awaited >= 0) {
    for (auto& r : residents)
      for (auto& w : r->warps)
        if (is_waiting(w)) waiting.push_back(&w);
    Finding f = phase_finding(*stuck, waiting);
    complete(f, *stuck);
    throw Fault(std::move(f));
  }
  Finding f{.kind = Finding::Kind::livelock, .span = code.sites[size_t(stands_at(*stuck).site)].span};
  complete(f, *stuck);
  f.text = describe_livelock(*stuck, int(f.thread - stuck->first), !is_new, int64_t(residents.size()),
                             blocks.size());
  throw Fault(std::move(f));
}

bool Launch::land_next() {
  return std::ranges::any_of(residents, [](auto& r) { return r->engine && r->engine->land_next(); });
}

void Launch::finish(Resident& r) {
  for (auto [loads, thread, site, barrier] : r.engine->unawaited()) {
    if (!options.watch) break;
    Warp& w = r.warps[size_t(thread / code.warp)];
    Finding f{
        .kind = Finding::Kind::race,
        .text = fmt::format(
            "{} has begun a bulk {} that may still {} shared memory when the block has ended "
            "and its memory is free; {}",
            describe_thread(w, int(thread % code.warp)), loads ? "load" : "store", loads ? "write" : "read",
            loads ? cure_of_unawaited(r.block, barrier) : "wait for it before that (T.tma_store_wait(0))")};
    race_detector.report(w, int(thread % code.warp), std::move(f), site);
  }
  if (options.watch) check_crowds(r.block);
  if (options.watch) check_products(race_detector, r.warps);
  r.engine->finish();
}

bool Launch::run_guarded() {
  try {
    run();
  } catch (const Fault& e) {
    if (!options.watch) throw;
    findings.add(e.finding, {int64_t(e.finding.kind), -1, int64_t(findings.list.size()), code.number});
    return false;
  }
  return !is_pointless();
}

}  // namespace sim

std::shared_ptr<const Simulation> prepare_simulation(const Function& machine, const Target& target) {
  auto s = std::make_shared<Simulation>(Simulation{.f = machine});
  for (auto& k : s->f.kernels) s->kernels.push_back(sim::translate(s->f, k, target));
  for (auto& code : s->kernels) s->global_unit = std::min(s->global_unit, code.global_unit);
  return s;
}

namespace {

// Foreign code writes behind a pointer without an extent as far as it likes.
bool writes_unseen(const sim::Code& code) {
  return std::ranges::any_of(code.calls, [&](auto& site) {
    return is_foreign(*site.intrinsic) && std::ranges::any_of(site.args, [&](auto& a) {
             return a.place >= 0 && a.access != 'r' && a.count < 0 &&
                    code.places[size_t(a.place)].scope == Scope::global;
           });
  });
}

SimulationReport run_once(const Simulation& s, std::span<const HostArg> args,
                          const SimulationOptions& options, const Deadline& deadline,
                          sim::Explorer* explorer = nullptr) {
  Host host(s.f);
  host.bind(args);
  for (BufferId id : s.f.workspaces) host.begin(id);
  SimulationReport report{.seed = options.seed};
  sim::Findings findings;
  sim::GlobalShadow cells;
  bool everything = options.watch;
  for (auto& code : s.kernels) {
    sim::Launch launch{.code = code,
                       .host = host,
                       .options = options,
                       .findings = findings,
                       .cells = cells,
                       .deadline = deadline};
    launch.explorer = explorer;
    if (explorer) launch.check_small();
    cells.begin(s.global_unit, launch.fresh());
    bool whole = launch.run_guarded();
    report.blocks += launch.ended;
    everything &= launch.ended == launch.grid.size() && !writes_unseen(code);
    for (Counter& c : launch.counters.rows()) report.counters.rows.push_back(std::move(c));
    if (!whole || (explorer && explorer->abandoned())) break;
  }
  report.findings = std::move(findings.list);
  if (everything && report.findings.empty())
    report.unwritten_outputs = sim::unwritten_outputs_of(host, args, cells);
  return report;
}

// The arguments' memory, to begin again with.
struct Snapshot {
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> saved;
  explicit Snapshot(std::span<const HostArg> args) {
    for (auto& a : args)
      if (a.memory.first)
        saved.emplace_back(a.memory.first, std::vector<std::byte>(a.memory.first, a.memory.second));
  }
  void restore() const {
    for (auto& [at, bytes] : saved) std::copy(bytes.begin(), bytes.end(), at);
  }
};

// Every order; then the run of the seed, whose outputs and counters stay.
SimulationReport simulate_all(const Simulation& s, std::span<const HostArg> args,
                              const SimulationOptions& options) {
  Snapshot before(args);
  sim::Explorer explorer;
  int64_t orders = 0;
  Deadline deadline(options.limits.seconds);
  do {
    if (orders == sim::Explorer::most_orders)
      fail(s.kernels[0].kernel->span,
           "all schedules: the warps of {} meet in more than {} orders; try a number of schedules, or a "
           "smaller case",
           s.kernels[0].kernel->name, orders);
    if (orders++ > 0) before.restore();
    SimulationReport report = run_once(s, args, options, deadline, &explorer);
    report.schedules = orders;
    if (!report.findings.empty()) return report;
  } while (explorer.next());
  before.restore();
  SimulationReport report = run_once(s, args, options, deadline);
  report.schedules = orders;
  return report;
}

}  // namespace

SimulationReport simulate(const Simulation& s, std::span<const HostArg> args,
                          const SimulationOptions& options) {
  if (options.schedules == all_schedules) return simulate_all(s, args, options);
  std::optional<Snapshot> before;
  if (options.schedules > 1) before.emplace(args);
  SimulationReport report;
  Deadline deadline(options.limits.seconds);
  for (int64_t i = 0; i < std::max<int64_t>(1, options.schedules); i++) {
    if (i > 0) before->restore();
    SimulationOptions one = options;
    one.seed = options.seed + uint64_t(i);
    report = run_once(s, args, one, deadline);
    report.schedules = i + 1;
    if (!report.findings.empty()) break;
  }
  return report;
}

SimulationReport run_simulation(const Simulation& s, std::span<const HostArg> args,
                                const SimulationOptions& options) {
  SimulationReport report = simulate(s, args, options);
  if (!report.findings.empty()) throw SimulationError(std::move(report));
  return report;
}

}  // namespace tl
