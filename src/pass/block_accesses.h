// What statements do to memory that threads share, thread by thread: the accesses that a barrier may have to
// order.
#pragma once
#include "pass/footprint.h"
#include "pass/walk.h"
#include "target/effects.h"

namespace tl {

// Atomic updates of a kind are in no conflict with one another, unless they tell what was there before.
struct UpdateKind {
  Intrinsic::Atomic update;
  bool is_told;
  auto operator<=>(const UpdateKind&) const = default;
  bool commutes_with(const UpdateKind& o) const { return update == o.update && !is_told && !o.is_told; }
};

struct Accesses {
  std::map<BufferId, Footprint> reads = {}, writes = {};
  std::map<UpdateKind, std::map<BufferId, Footprint>> updates = {};  // atomic, of tensors
  bool empty() const { return reads.empty() && writes.empty() && updates.empty(); }
  static void add(std::map<BufferId, Footprint>& to, BufferId b, const Footprint& footprint, int warp) {
    auto [it, is_new] = to.emplace(b, footprint);
    if (!is_new) it->second.add(footprint, warp);
  }
  void add(const Accesses& o, int warp) {
    for (auto& [b, footprint] : o.reads) add(reads, b, footprint, warp);
    for (auto& [b, footprint] : o.writes) add(writes, b, footprint, warp);
    for (auto& [kind, touched] : o.updates)
      for (auto& [b, footprint] : touched) add(updates[kind], b, footprint, warp);
  }
};

// What a statement does at once, which asynchronous operations it begins, their token, and what it waits for.
struct StatementAccesses {
  Accesses now = {};
  std::map<Token, Accesses> begun = {};
  std::vector<Completion> completes = {};
  bool meets = false;    // a barrier that the user wrote, as a statement or as a value in one
  bool signals = false;  // … between teams
  bool fences = false;   // the asynchronous proxy sees what came before

  bool writes() const;
};

// Do two buffers share memory?
bool overlap(const Function& f, BufferId a, BufferId b);

struct BlockAccesses {
  const Function& f;
  const Kernel& kernel;
  int warp;  // threads of one
  Footprints footprints = {f, kernel, warp};
  std::map<std::pair<const Node*, int64_t>, StatementAccesses> known = {};  // by the turn as well
  int64_t turn = -1;
  std::set<BufferId> exchanged = {};    // tensors that are written, and touched elsewhere or by another turn
  std::set<BufferId> overlapping = {};  // tensors that the program says may overlap any other one
  bool thread_level = kernel.attrs.get_int("thread_level") != 0;

  BlockAccesses(const Function& f, const Kernel& kernel, int warp);
  // Reads the kernel's body.
  void find();
  // The accesses of a team's threads in a statement and all below it; in an expression.
  const StatementAccesses& of(const Stmt& s, const Team& team);
  StatementAccesses of(const Expr& e, const Team& team) const;
  // From here on the loop's variable is one whose remainder by `turns` is `turn`; null: no loop's is.
  void take_turn(const For* loop, int64_t turn, int64_t turns);
  // Must the later accesses wait for the earlier ones, and of which threads? In shared memory, conflicts
  // within a warp count as those of a group.
  Conflict conflict(const Accesses& before, const Accesses& after) const;
  // Do threads exchange data from one iteration of a loop to the next?
  bool meets_itself(const StatementAccesses& a) const;

 private:
  using Buffers = std::map<BufferId, Footprint>;
  Conflict conflict(const Buffers& before, const Buffers& after) const;
  void find_turns_that_meet();
  bool may_overlap(BufferId a, BufferId b) const;  // tensors, as the program says
  void include(StatementAccesses& to, const Effects& effects, const WalkContext& at) const;
  void add(StatementAccesses& to, const Effect& e, const WalkContext& at, bool in_tile) const;
};

}  // namespace tl
