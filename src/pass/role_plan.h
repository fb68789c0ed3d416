// Which loops of a kernel are divided among roles: warps that only load tiles, and those that compute.
#pragma once
#include <optional>
#include <set>

#include "ops/op.h"

namespace tl {

// Tiles of a loop that are loaded together and first used by the same statement.
struct RoleRing {
  std::vector<BufferId> tiles = {};
  std::vector<Stmt> copies = {};
  size_t first = 0;                  // of the loop's statements, that waits for them: the first to use them
  std::vector<size_t> readers = {};  // all that use them, in order
  bool read_by_threads = false;
};
struct RoleLoop {
  Stmt loop;
  int64_t slots = 0, most_slots = 0;
  std::vector<Stmt> allocs = {};
  std::vector<Stmt> body = {};  // its statements without the copies
  std::vector<RoleRing> rings = {};
  // Products that are begun, and waited for where something needs them (product_plan.h). If none is late,
  // they stay in flight until those of the next turn have begun.
  std::set<const StmtNode*> in_flight = {};
  std::vector<size_t> late = {};  // those that are begun a turn late,
  size_t late_place = 0;          // in front of this statement of the next turn
  Stmt anchored = {};             // the last that threads do beside them,
  BufferId anchor = {};           // and what it computes
};
// A tile beside the loops, that the role that loads fills each time its copy comes.
struct RoleLoad {
  Stmt copy;
  BufferId tile;
  Stmt last;  // of the statements behind the copy, in the same block, that use it
  bool read_by_threads = false;
  bool may_have_slots = false;
};
struct RolePlan {
  std::vector<RoleLoop> loops = {};  // none: the kernel has one role
  std::vector<RoleLoad> loads = {};
  int64_t consumers = 0;                              // threads, from 0 on; those that load stand behind them
  int64_t blocks = 1;                                 // that a multiprocessor runs at once
  int64_t load_registers = 0, compute_registers = 0;  // of a thread; 0: as many as at the launch
  int64_t free_bytes = 0;                             // of shared memory, that a block may still take

  const RoleLoad* find_load(const Stmt& copy) const;
  const RoleLoop* find(const Stmt& loop) const;
  const RoleLoop* find(const StmtNode* loop) const;
};

// Do all blocks have as much to do?  Else a walk through the grid needs lists (tile_lists.h); where there are
// none, the chip gives each block to the multiprocessor that is free first.
bool has_even_blocks(const Kernel& k, const RolePlan& plan);
// Of the kernel; nullopt: only a call knows.
std::optional<int64_t> blocks_of_grid(const Kernel& k);

// A warpgroup, so that it can give registers back; its first warp loads, and alone arrives at `full`.
constexpr int64_t loading_threads = 128, warps_that_load = 1;

// What it does not find possible it reports.
RolePlan plan_roles(Function& f, const Kernel& k, const Target& target);

}  // namespace tl
