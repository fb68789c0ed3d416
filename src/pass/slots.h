// Tiles that exist several times: a slot for each of the iterations that use them at once.
#pragma once
#include <functional>

#include "ir/rewrite.h"

namespace tl {

// The slot of an access of so many indices; null: it names none, or names one already.
using SlotOf = std::function<Expr(BufferId tile, size_t rank)>;
// Accesses name their slots by an index in front of the others.
Stmt with_slots(const Stmt& body, const SlotOf& slot_of);
// The slots become the leading dimension; a layout that the user has given is that of each slot.
void give_slots(BufferInfo& tile);

}  // namespace tl
