// A program may allocate a tile for a branch that Python leaves out.  A view counts as its tile.
#include "pass/unused_tiles.h"

#include <set>

#include "ir/build.h"
#include "ir/rewrite.h"

namespace tl {

Stmt without_unused_tiles(const Function& f, const Stmt& body) {
  std::set<BufferId> named;
  auto note = [&](BufferId b) { named.insert(f.storage(b)); };
  visit(
      body, [&](const Load& n) { note(n.buffer); }, [&](const Store& n) { note(n.buffer); },
      [&](const Tile& n) {
        for (auto& operand : n.operands)
          if (auto* region = std::get_if<Region>(&operand)) note(region->buffer);
      });
  return rewrite(body, [&](const Alloc& n, Rewriter&) -> Stmt {
    return named.contains(f.storage(n.buffer)) ? Stmt(&n) : block({}, n.span);
  });
}

}  // namespace tl
