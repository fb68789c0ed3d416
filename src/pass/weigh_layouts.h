// Two demands on one shared tile: operators that want different layouts of it get the one, of theirs and of
// those that spread over the banks, under which what they all do with the tile takes the fewest wavefronts.
#pragma once
#include "ops/op.h"

namespace tl {

// What an operator wants of a shared tile: this layout, for it reads it so.
struct SharedDemand {
  Stmt stmt;
  Layout layout;
  std::vector<WarpAccess> reads;
};

// Of no more than `most` elements, unless it is the first one's own, which stands where nobody says how he
// reads. Of what all that share the tile's storage can be seen in, as the demands are.
Layout weigh_layouts(const Function& f, BufferId tile, const std::vector<SharedDemand>& demands,
                     const Target& target, int64_t most);
// Wavefronts of all that these demands read, and of the copy that fills the tile.
int64_t wavefronts(const Layout& l, const BufferInfo& tile, const std::vector<SharedDemand>& demands,
                   const Target& target);

}  // namespace tl
