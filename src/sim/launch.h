// One launch of a kernel: its blocks with their memory, and the states of their warps.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "sim/engine.h"
#include "sim/explore.h"
#include "sim/performance_counters.h"
#include "sim/race_detector.h"
#include "sim/run.h"
#include "sim/schedule.h"

namespace tl::sim {

// A block that is running: its memory, its warps.
struct Resident {
  Block block;
  std::unique_ptr<BlockWatch> watch = {};
  std::unique_ptr<Engine> engine = {};
  std::vector<Warp> warps = {};
};

struct Launch {
  const Code& code;
  Host& host;
  const SimulationOptions& options;
  Findings& findings;
  GlobalShadow& cells;
  const Deadline& deadline;
  Grid grid = grid_of_kernel();
  std::vector<Tensor> tensors = tensors_of_call();
  std::vector<MapView> maps = maps_of_call();
  std::vector<Extent> arguments = arguments_of_call();
  RaceDetector race_detector = {code, grid, findings, cells, tensors, written()};
  PerformanceCounters counters{code};
  Schedule schedule{options.seed};
  std::vector<int64_t> blocks = {};  // still to begin, the next one last
  std::vector<std::unique_ptr<Resident>> residents = {}, idle = {};
  int64_t ended = 0, unheeded = 0;
  int64_t astray = 0;            // operations since an access outside of its buffer was found
  Explorer* explorer = nullptr;  // where all orders are tried

  // launch.cpp: what there is
  Grid grid_of_kernel();
  std::vector<Tensor> tensors_of_call();
  std::vector<MapView> maps_of_call();
  std::vector<Extent> arguments_of_call();
  std::vector<Extent> written();
  std::vector<Extent> fresh();
  std::unique_ptr<Resident> make();
  void poison_shared(Block& block);
  void begin(int64_t number);
  void begin_with_cluster(int64_t number);  // and all others of its cluster
  int64_t first_of_cluster(int64_t number) const;
  void each_warp(const Cluster& cluster, const std::function<void(Warp&)>& f);
  bool has_ended(const Cluster& cluster) const;
  // No block of it may have ended before the others have reached it for the last time.
  void check_outlived(const Cluster& cluster);
  void complete(Finding& f, const Warp& w) const;  // where a warp was stopped

  // run.cpp: what happens No warp of it runs: it has ended (false), or all continue, or wait for the whole
  // grid.
  bool resolve(Resident& r);
  static void resume(Resident& r);
  // Every block that runs waits for the grid.
  void resolve_grid();
  // Only warps that wait in loops for others run. When their state repeats with the same memory, they wait
  // for ever; a loop that counts its iterations never repeats its state, and is given most_idle_rounds.
  struct Rounds {
    int64_t version = -1;  // of memory, in all of them
    std::unordered_set<size_t> states = {};
  } rounds = {};
  void wake();
  // A copy lands that they may wait for.
  bool land_next();

  bool together() const;
  bool is_pointless() const;  // to go on after what was found
  void run();
  void choose_blocks();
  struct Ready {  // the warps that can go on, and their numbers among all
    std::vector<Warp*> warps = {};
    std::vector<int64_t> numbers = {};
    bool spinning = false;  // others go round in loops until memory changes
  };
  void find_ready(Ready& ready);
  // No warp can go on: a block must end or begin or a copy land; returns how many blocks are needed at once.
  int64_t unblock(const Ready& ready, int64_t wanted);
  void step(Warp& w);
  void heed(const Warp& w, int64_t executed);
  void execute_quantum(Warp& w);
  // Blocks none of whose warps runs: they end, or pass their barrier.  Did any?
  bool settle();
  void check_clusters();  // a finding where a warp waits at its cluster's barrier
  // A block's memory ends with it: copies that still use it must have been waited for.
  void finish(Resident& r);
  // What stops the run is the last finding of all.
  bool run_guarded();

  // explore.cpp: all that can happen
  // One of the ways to go on, where warps have come to places where they meet; false: there is none.
  bool explore(const std::vector<Warp*>& warps);
  std::string state();  // all that decides what comes
  void check_small() const;
};

void append_state(std::string& state, const Warp& w);

}  // namespace tl::sim
