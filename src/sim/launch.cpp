#include "sim/launch.h"

#include "sim/products.h"

#include <algorithm>
#include <cstring>

#include "sim/barrier.h"
#include "target/limits.h"

namespace tl::sim {
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

}  // namespace

Grid Launch::grid_of_kernel() {
  Grid g{.kernel = code.kernel->name, .dims = code.kernel->grid.size()};
  for (size_t d = 0; d < g.dims; d++) g.extents[d] = std::max<int64_t>(0, host.integer(code.kernel->grid[d]));
  if (g.size())
    check_grid(*code.kernel, {g.extents[0], g.extents[1], g.extents[2]}, code.chip, code.max_grid);
  return g;
}

std::vector<Tensor> Launch::tensors_of_call() {
  std::vector<Tensor> all;
  for (auto& m : host.frame.buffers) all.push_back(m.data ? tensor_of(m) : Tensor());
  return all;
}

std::vector<MapView> Launch::maps_of_call() {
  std::vector<MapView> all;
  for (auto& m : host.f.maps) {
    MapView view{.map = &m};
    for (auto& e : shape_of(host.f, m)) view.shape.push_back(host.integer(e));
    for (auto& e : strides_of(host.f, m)) view.strides.push_back(host.integer(e));
    all.push_back(std::move(view));
  }
  return all;
}

std::vector<Extent> Launch::arguments_of_call() {
  std::vector<Extent> all;
  for (auto& [begin, end] : host.arguments) all.push_back({begin, end});
  return all;
}

std::vector<Extent> Launch::written() {
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

std::vector<Extent> Launch::fresh() {
  std::vector<Extent> all;
  for (auto& [begin, end] : host.fresh) all.push_back({begin, end});
  return all;
}

std::unique_ptr<Resident> Launch::make() {
  auto r = std::make_unique<Resident>(Resident{.block = {.code = code}});
  Block& block = r->block;
  block.tensors = tensors;
  block.maps = maps;
  block.arguments = arguments;
  block.race_detector = &race_detector;
  block.counters = options.count ? &counters : nullptr;
  block.limits = &options.limits;
  block.stop = options.stop ? &options.stop : nullptr;
  block.patience = explorer ? 0 : block.patience;
  block.memory.resize(size_t(code.shared_bytes) + shared_alignment);
  void* begin = block.memory.data();
  size_t space = block.memory.size();
  block.shared =
      static_cast<std::byte*>(std::align(shared_alignment, size_t(code.shared_bytes), begin, space));
  int64_t threads = code.thread_count();
  for (int64_t first = 0; first < threads; first += code.warp) {
    Warp& w = r->warps.emplace_back();
    int64_t count = std::min<int64_t>(code.warp, threads - first);
    w.block = &block;
    w.code = &code;
    w.first = first;
    w.alive = all_lanes(int(count));
    w.trips.resize(size_t(code.loops));
    w.registers.resize(size_t(code.slots));
    w.lanes.resize(size_t(code.lane_bytes * code.warp));
    for (int lane = 0; lane < code.warp; lane++) w.slot(code.thread)[lane] = scalar(first + lane);
    for (auto& [v, slot] : code.inputs)
      if (auto it = host.compile.slots.find(v.get()); it != host.compile.slots.end())
        *w.slot(slot) = host.frame.vars[it->second];
  }
  return r;
}

void Launch::poison_shared(Block& block) {
  std::memset(block.memory.data(), 0xCD, block.memory.size());
  for (auto& p : code.places)
    if (p.scope == Scope::shared) poison(block.shared + p.address, p.elements * p.type.bytes(), p.type);
}

void Launch::begin(int64_t number) {
  if (idle.empty()) idle.push_back(make());
  residents.push_back(std::move(idle.back()));
  idle.pop_back();
  Resident& r = *residents.back();
  Block& block = r.block;
  block.number = number;
  block.cluster = nullptr;
  block.ended = false;
  block.where = grid.name(number);
  block.barriers.clear();
  block.executed = 0;
  poison_shared(block);
  r.watch = options.watch ? race_detector.watch(int32_t(number)) : nullptr;
  block.watch = r.watch.get();
  if (code.timelines > 1) r.engine = std::make_unique<Engine>(block, schedule);
  block.engine = r.engine.get();
  auto index = grid.index(number);
  for (auto& w : r.warps) {
    w.state = Warp::State::running;
    w.next = 0;
    w.active = w.alive;
    w.out = w.returned = 0;
    w.barrier = w.awaited = w.seen_version = w.cluster_phase = -1;
    w.waits_for_cluster = false;
    w.idle_trips = 0;
    w.spins = false;
    w.masks.clear();
    w.jumping.clear();
    w.undefined.clear();
    w.wrapped.clear();
    if (block.holds_wrapped) w.wrapped_memory = {};
    w.strayed = {};
    w.forgotten.clear();
    auto units = size_t(code.lane_bytes / code.register_unit + 1);
    w.filled.assign(options.watch ? units : 0, 0);
    w.products = code.has_products ? std::make_shared<Products>() : nullptr;
    if (w.products) w.products->touched.assign(units, false);
    for (size_t d = 0; d < grid.dims; d++) *w.slot(code.inputs[d].second) = scalar(index[d]);
  }
  block.wrapped.clear();
  block.holds_wrapped = false;
}

int64_t Launch::first_of_cluster(int64_t number) const {
  auto index = grid.index(number);
  int64_t first = 0, below = 1;
  for (size_t d = 0; d < 3; d++) {
    first += index[d] / code.cluster[d] * code.cluster[d] * below;
    below *= grid.extents[d];
  }
  return first;
}

void Launch::begin_with_cluster(int64_t number) {
  if (code.cluster_size() == 1 && !code.has_cluster) return begin(number);
  auto cluster = std::make_shared<Cluster>();
  for (int64_t rank = 0; rank < code.cluster_size(); rank++) {
    int64_t x = rank % code.cluster[0], y = rank / code.cluster[0] % code.cluster[1],
            z = rank / code.cluster[0] / code.cluster[1];
    begin(number + x + grid.extents[0] * (y + grid.extents[1] * z));
    cluster->blocks.push_back(&residents.back()->block);
  }
  for (Block* b : cluster->blocks) b->cluster = cluster;
}

void Launch::each_warp(const Cluster& cluster, const std::function<void(Warp&)>& f) {
  for (auto& r : residents)
    if (r->block.cluster.get() == &cluster)
      for (Warp& w : r->warps) f(w);
}

bool Launch::has_ended(const Cluster& cluster) const {
  return std::ranges::all_of(cluster.blocks, [](const Block* b) { return b->ended; });
}

void Launch::check_outlived(const Cluster& cluster) {
  if (!options.watch) return;
  auto resident = [&](int64_t number) {
    return std::ranges::find_if(residents, [&](auto& r) { return r->block.number == number; });
  };
  for (const Block* b : cluster.blocks)
    for (auto& [who, last] : b->watch->from_outside) {
      if (b->watch->clocks.is_known(last)) continue;
      bool by_thread = last.thread < code.thread_count();
      Warp& w = (*resident(last.block))->warps[by_thread ? size_t(last.thread / code.warp) : 0];
      std::string who_reaches = by_thread ? describe_thread(w, int(last.thread % code.warp)) : "a bulk copy";
      Finding f{
          .kind = Finding::Kind::race,
          .text = fmt::format(
              "{} reaches the shared memory of {}, which may have ended by then, and its memory with it: "
              "nothing makes that block wait for this; end with T.cluster_sync()",
              who_reaches, b->where)};
      race_detector.report(w, by_thread ? int(last.thread % code.warp) : 0, std::move(f), last.site);
    }
}

// After so many operations of a warp.
void Launch::heed(const Warp& w, int64_t executed) {
  constexpr int64_t each = int64_t(1) << 14;
  unheeded += executed;
  if (unheeded < each) return;
  unheeded = 0;
  look();
  if (deadline.has_passed())
    stop(Finding::Kind::timeout, code.sites[size_t(stands_at(w).site)].span, "{} is here: {}",
         describe_thread(w, w.active ? first_lane(w.active) : 0), options.limits.too_long());
}

void Launch::complete(Finding& f, const Warp& w) const {
  f.block = w.block->where;
  if (f.thread < 0) f.thread = w.first + (w.active ? first_lane(w.active) : 0);
  f.statement = race_detector.statement(stands_at(w).site);
}

std::string describe_thread(const Warp& w, int lane) {
  return fmt::format("thread {} of {}", w.first + lane, w.block->where);
}

}  // namespace tl::sim
