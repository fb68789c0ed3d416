// Teams beside each other, each of which waits for others by phases of barriers in memory: their program
// orders what they exchange, also from one turn of a loop around them to the next.
#pragma once
#include "pass/varying.h"

namespace tl {

// Adjacent groups, as section_length counts them.
bool is_ring(std::span<const Stmt> groups);
bool has_ring(const Stmt& body);
// A wait for a phase: threads leave it at different times, but each when that phase has ended.
bool is_wait_of_all(const Stmt& s, const Varying& varying);
// Is there a wait for a phase by the state that an arrival gave?
bool waits_by_state(const Stmt& body);

}  // namespace tl
