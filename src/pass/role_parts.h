// What the two roles of a kernel share, and the statements of each: loading_role.cpp, computing_role.cpp.
#pragma once
#include <map>

#include "pass/role_plan.h"
#include "pass/role_stamps.h"
#include "pass/store_parts.h"
#include "pass/walk.h"

namespace tl {

// The barriers of a ring's slots. Behind the last slot `empty` may have a word that nobody waits for.
struct RingWords {
  BufferId full, empty;
};

struct DividedKernel {
  Function& f;
  Kernel& k;
  const Target& target;
  const RolePlan& plan;
  std::map<const void*, RingWords> words = {};    // of a RoleRing, or a RoleLoad
  std::map<const void*, BufferId> counters = {};  // of turns of a RoleLoop, or a RoleLoad, that do not follow
                                                  // from the loops around
  std::map<const RoleLoop*, BufferId> anchors = {};  // of loops that have one
  std::vector<StoreParts> stores = {};               // fragments that leave by the accelerator
  std::set<const StmtNode*> clearing = {};           // products that clear their sums in a loop's first turn,
  std::set<const StmtNode*> dropped = {};            // and the statements that they replace
  RoleStamps* stamps = nullptr;                      // null: none are asked for
  bool loads_ahead = false;                          // of the first turns, before all threads have come
  std::set<const RoleLoad*> two_slots = {};          // loads whose tiles have so many
  std::set<const RoleLoad*> kept_to_one = {};        // and those that would, if there were memory
  std::map<BufferId, Expr> slots_beside = {};        // the slot in use, of each such tile

  Stmt instruction(std::string_view name, std::vector<Expr> args, Span span) const;
  int64_t early_turns(const RoleLoop& loop) const { return std::min(target.early_turns, loop.slots); }
  static Expr slot(const RoleLoop& loop, const Expr& turn) { return floormod(turn, loop.slots); }
  // For the phase of `full` that the turn's slot is in, or of `empty` before that one.
  Stmt wait_full(const RoleLoop& loop, const RoleRing& ring, const Expr& turn) const;
  Stmt wait_empty(const RoleLoop& loop, const RoleRing& ring, const Expr& turn) const;
  Stmt wait_for(BufferId words, const Expr& slot, const Expr& phase, Span span) const;
  Stmt wait_for_products(int64_t left, Span span) const;
  // A stamp where a turn begins or ends.
  void stamp(const RoleLoop& loop, RoleStamps::Edge edge, std::vector<Stmt>& out) const;
  Expr word(BufferId words, const Expr& slot, Span span) const;
  // One thread of each warp, behind all of them where they have read the slot themselves.
  Stmt arrive(BufferId words, const Expr& slot, bool together, Span span) const;

  int64_t slots(const RoleLoad& load) const { return two_slots.contains(&load) ? 2 : 1; }
  Expr slot(const RoleLoad& load, const Expr& turn) const { return floormod(turn, slots(load)); }
  Stmt wait_full(const RoleLoad& load, const Expr& turn) const;
  Stmt wait_empty(const RoleLoad& load, const Expr& turn) const;

  // The number of the turn that `at` stands in, all loops around counted.
  Expr turn(const void* of, const Stmt& s, const WalkContext& at);
  bool is_counted(const void* of) const { return counters.contains(of); }
  Stmt count(const void* of, const Expr& turns, Span span) const;
  // The turn by a name, so that regions do not read memory.
  Expr named_turn(const RoleLoop& loop, const WalkContext& at, std::vector<Stmt>& out);
};

// Of the role that loads: all turns; or, of a loop that nothing but a walk of tiles stands around, the first
// of all, whose loads begin early, and those behind them.
enum class Turns { all, first, later };
Stmt loading_part(DividedKernel& all, Turns turns = Turns::all);
Stmt computing_part(DividedKernel& all);

}  // namespace tl
