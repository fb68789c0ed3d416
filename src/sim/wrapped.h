// What an integer would be without the limits of its type, beside what it is: followed through registers and
// memory of the block, from where a value leaves its type to where it is an index, or decides whether an
// access by it happens. Values that go through a remainder or bit operations, as hashes do, and unsigned
// values are no longer followed.
//
// Sums and products count modulo 2^n: a value that comes back to what it would be has not wrapped.
#pragma once
#include "sim/machine.h"

namespace tl::sim {

void check_wrapped(Warp& w, const Operation& o);                    // before it runs
void follow_wrapped(Warp& w, const Operation& o, LaneMask active);  // after
// Of the operations that may leave their type, those whose value may become an index are marked.
void mark_wrapping(Code& code);
// The operations that access memory at an index that is made of that operation's value.
std::vector<bool> reached_by(const Code& code, const Operation& origin);

}  // namespace tl::sim
