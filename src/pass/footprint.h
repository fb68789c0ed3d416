// Which thread touches which elements of a shared buffer.  Two accesses need a barrier between them only
// where different threads touch one element; a thread sees its own writes.
//
//   S[tx + 1] = …  by 64 threads, then S[0] = … by thread 0:   they meet nowhere
//   … = S[63 - tx]:                                             every element on another thread
//
// Found by enumeration: the index is computed for all threads, at every point of the loops around it.
// Elements of a tensor are computed for one block and one choice of the sizes, as a sample of all, and kept
// modulo a prime. Those of two accesses are compared where both move alike with the block and the sizes.
#pragma once
#include <functional>
#include <span>

#include "ir/kernel.h"
#include "pass/thread_values.h"

namespace tl {

struct Footprint {
  // -3 - w: several of warp w; -100 - g: of group g (Team::group), but of no one warp
  static constexpr int16_t nobody = -1, several = -2, warp_zero = -3, group_zero = -100;
  std::vector<int16_t> owner = {};  // by element; empty: any thread may touch any element
  Expr base = {};                   // of a tensor: where the block and the sizes have the access begin
  static constexpr int64_t tensor_slots = 16381;

  bool is_unknown() const { return owner.empty(); }
  bool moves_like(const Footprint& other) const;
  void add(const Footprint& other, int warp);
};
// Do different threads touch one element, one in `a` and another in `b`? Of one warp, of one group, or
// others.
enum class Conflict { none, intra_warp, intra_group, intra_block };
Conflict conflict_of(const Footprint& a, const Footprint& b, int warp);

class Footprints {
 public:
  Footprints(const Function& f, const Kernel& kernel, int warp);
  void enter(const For& loop);  // its variable takes these values
  void bind(const Let& let);
  // From here on the variable is a number whose remainder by `turns` is `turn`, or (turns 0) that number;
  // null: no variable is.
  void take_turn(const ExprNode* var, int64_t turn, int64_t turns);
  // What a condition is in this turn; nullopt: it depends on more.
  std::optional<bool> known(const Expr& condition) const;
  // An access by a team, where these conditions hold (each with whether it must or must not).
  using Conditions = std::vector<std::pair<Expr, bool>>;
  // It reaches over `elements` from the index on, on behalf of a thread or of any one of its warp.
  struct Reach {
    int64_t elements = 1;
    bool by_warp = false;
  };
  Footprint of(BufferId buffer, std::span<const Expr> index, const Conditions& conditions, const Team& team,
               const Reach& reach) const;

  // Stores to one tensor in loops over tiles, between whose turns a barrier may stand; outermost first.
  struct TurnedStores {
    struct Store {
      Expr index;
      int64_t elements;  // from there on
      Conditions conditions;
      std::vector<const For*> inner;  // loops around it in its tile
    };
    Team team;
    std::vector<const For*> loops;
    bool in_while;
    std::vector<Store> stores;
    std::function<bool(const Expr&)> differs;  // among threads
  };
  // Do different threads write one element in two turns? True as well where only data tell, thread by thread.
  // A loop with the attribute as_blocks counts as one turn: its turns are as independent as blocks of a grid.
  // See footprint_turns.cpp.
  bool turns_meet(const TurnedStores& stores) const;

 private:
  struct Range {
    int64_t first, count;
  };
  const Function& f;
  size_t threads;
  int warp;
  LaneEnv fixed = {}, sampled = {};  // the thread; with block indices and sizes
  std::map<const ExprNode*, Range> loops = {};
  std::map<const ExprNode*, Expr> lets = {};
  std::map<const ExprNode*, int64_t> sizes = {};  // of these
  const ExprNode* turned = nullptr;
  Expr multiple = {}, turn_value = {};  // the variable in its turn: a multiple of the turns and a rest

  static LaneEnv of_team(const LaneEnv& env, const Team& team);
  Expr resolved(const Expr& e) const;
  Expr base_of(BufferId buffer, const Expr& index) const;
  Expr in_turn(const Expr& e) const;
  void split(const Expr& condition, bool holds, Conditions& to) const;
  // `env`: the variables that are known, `chosen`: with those that have a sample value; of the team's
  // threads.
  void touch(Footprint& to, const Expr& index, const Conditions& conditions, const Team& team,
             const Reach& reach, const LaneEnv& env, const LaneEnv& chosen, bool& known) const;
};

}  // namespace tl
