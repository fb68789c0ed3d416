#include "sim/explore.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "sim/launch.h"

namespace tl::sim {

size_t Explorer::choose(size_t ways, const std::function<std::string()>& state) {
  if (depth < path.size()) return ways == 1 ? 0 : path[depth++].taken;
  known = !states.insert(std::hash<std::string>{}(state())).second;
  if (known || ways == 1) return 0;
  path.push_back({0, ways});
  depth++;
  return 0;
}

bool Explorer::next() {
  while (!path.empty() && path.back().taken + 1 == path.back().ways) path.pop_back();
  depth = 0;
  known = false;
  if (path.empty()) return false;
  path.back().taken++;
  return true;
}

void append_state(std::string& state, const Warp& w) {
  auto append = [&](const auto& values) {
    state.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  append(std::to_array({int64_t(w.next), int64_t(w.active), int64_t(w.out)}));
  append(w.registers);
  append(w.lanes);
  append(w.masks);
}

bool Launch::explore(const std::vector<Warp*>& warps) {
  for (Warp* w : warps)
    if (!code.operations[w->next].meets) return step(*w), true;
  size_t landings = 0;
  for (auto& r : residents) landings += r->engine ? r->engine->tellings() : 0;
  if (warps.size() + landings == 0) return false;
  bool looks_again =
      rounds.version == race_detector.memory_version;  // a loop whose memory is unchanged: see wake
  size_t way = looks_again ? 0 : explorer->choose(warps.size() + landings, [&] { return state(); });
  if (explorer->abandoned()) return true;
  if (way < warps.size()) return step(*warps[way]), true;
  way -= warps.size();
  for (auto& r : residents) {
    size_t here = r->engine ? r->engine->tellings() : 0;
    if (way < here) return r->engine->land_telling(way), true;
    way -= here;
  }
  return false;
}

std::string Launch::state() {
  std::string s = fmt::format("{};", code.number);
  for (auto& r : residents) {
    s += fmt::format("{};", r->block.number);
    s.append(reinterpret_cast<const char*>(r->block.shared), size_t(code.shared_bytes));
    for (auto& [id, b] : r->block.barriers) s += fmt::format("{} {} {};", id, b.arrived, b.phase);
    if (r->engine) r->engine->append_state(s);
    if (r->watch) r->watch->clocks.append_state(s);
    for (auto& w : r->warps) {
      int64_t idle_trips = w.seen_version == race_detector.memory_version ? w.idle_trips : -1;
      s += fmt::format("{} {} {} {};", int(w.state), w.barrier, w.phase, idle_trips);
      append_state(s, w);
    }
  }
  for (auto& e : written()) s.append(reinterpret_cast<const char*>(e.begin), size_t(e.end - e.begin));
  return s;
}

void Launch::check_small() const {
  if (code.cluster_size() > 1)
    fail(code.kernel->span, "all schedules: {} runs in clusters of blocks; try a number of schedules",
         grid.kernel);
  int64_t all = grid.size(), count = options.sample ? std::min(options.sample, all) : all;
  if (!options.blocks.empty()) count = int64_t(options.blocks.size());
  int64_t each = (code.thread_count() + code.warp - 1) / code.warp;
  if (count * each > Explorer::most_warps)
    fail(code.kernel->span,
         "all schedules: {} would run {} blocks of {} warps, but all orders are tried of at most {} warps; "
         "take fewer blocks (blocks=), or try a number of schedules",
         grid.kernel, count, each, Explorer::most_warps);
}

}  // namespace tl::sim
