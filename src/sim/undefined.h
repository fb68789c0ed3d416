// Values made from registers that their thread has not written.  To compute with them is no fault: a vector may reach
// past the end of a row, if what comes of it is thrown away; nor to keep them in shared memory, where they are as if
// nobody had written them.  To store one in a tensor, to branch by it or to use it as an index
// is.  As almost no value is one, they stand in a short list; while it is empty nothing is done at all.
#pragma once
#include <array>

#include "sim/machine.h"

namespace tl::sim {

// Before an access: where it goes, and whether, must be defined.
void check_index(Warp& w, const Operation& o);
// After an operation of these lanes: what it has made of the undefined values, or a finding.
void follow_undefined(Warp& w, const Operation& o, Mask active);
void clear_undefined(Warp& w, int32_t slot, int32_t count);  // they get other values
// A load has found these lanes of an element unwritten.
void add_undefined(Warp& w, int32_t slot, Mask lanes, const Origin& origin);
// A shuffle by these lanes: what it moves that is not defined, and what it takes from lanes that do not take part.
void follow_shuffle(Warp& w, const CallSite& site, Mask lanes, const std::array<int8_t, lane_count>& source);

}  // namespace tl::sim
