// What insert_sync remembers on its way: accesses that no barrier has ordered yet, and copies that go on.
#pragma once
#include "pass/block_accesses.h"

namespace tl {

struct Past {
  Accesses pending = {};                     // since the last barrier of the team
  Accesses in_groups = {};                   // of these, since the last one in groups
  Accesses unfenced = {};                    // writes to shared memory since the last fence
  std::map<Token, Accesses> in_flight = {};  // begun, and not yet waited for on every way
  void add(const Past& o, int warp);
};

struct PendingAccesses : Past {
  // Of a team in a ring (rings.h): what it has done, for all others; and for itself in the ring's next turn.
  struct Beside {
    Past all = {}, own = {};
  };
  std::map<std::pair<const StmtNode*, Team>, Beside> beside = {};  // by the first group of the section

  void add(const PendingAccesses& o, int warp);
  // With all that is pending (unfenced): but what teams of a `ring`, whose turn begins, did in turns before
  // its program orders.
  Conflict conflict(const BlockAccesses& accesses, Accesses Past::* which, const Accesses& a,
                    const StmtNode* ring) const;
  // What a statement of the team does, and waits for; `by_some`: not all threads of the team come there.
  // `by_proxy`: the tiles that tiles_by_proxy names.
  void follow(const StatementAccesses& a, const Team& team, bool by_some, const std::set<BufferId>& by_proxy,
              int warp);
  void note(const Accesses& a, const Team& team, int warp);
  void meet();                        // a barrier of the program
  bool pass_barrier(bool in_groups);  // one of insert_sync's: does it need a fence?

 private:
  void note_unfenced(const Accesses& a, const std::set<BufferId>& by_proxy, int warp);
};

// The tiles in whose memory the asynchronous proxy reads or writes.
std::set<BufferId> tiles_by_proxy(const Function& f, const Kernel& kernel);

}  // namespace tl
