// What warps that only load can know and do.
#pragma once
#include "pass/walk.h"
#include "target/target.h"

namespace tl {

struct LoadingWarps {
  Function& f;
  const Kernel& k;
  const Target& target;
  std::map<BufferId, std::string> for_threads = {};  // tiles that only threads can fill, and why
  std::set<BufferId> written = {};                   // by the kernel
  bool writes_tensors = false;

  // Why they cannot do a copy to a tile by TMA; "": they can. `slotted`: to one of several slots.
  std::string why_not(const Stmt& copy, BufferId tensor, BufferId tile, bool slotted) const;

 private:
  std::string why_unknown(const Expr& e) const;
  // Of everything that says when a tile is loaded, and which.
  std::string why_unknown_around(const Stmt& copy) const;
  // As it will be: a tile of several slots need not begin where boxes do.
  std::string why_no_boxes(const Tile& t, BufferId tile, bool slotted) const;
};
LoadingWarps loading_warps(Function& f, const Kernel& k, const Target& target);

}  // namespace tl
