// Which tiles of the grid each block takes, where they differ in length.
#pragma once
#include <optional>

#include "pass/block_order.h"
#include "pass/role_plan.h"

namespace tl {

// The tiles of so many blocks, each by its number in `order`: every tile goes to the block that is free
// first, as the chip would give it, if a turn takes as long everywhere.  nullopt: how many turns a tile has
// is not known before the call, or there are too many tiles to list.
std::optional<TileLists> plan_tile_lists(const Kernel& k, const RolePlan& plan, const BlockOrder& order,
                                         int64_t resident);

}  // namespace tl
