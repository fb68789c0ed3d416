// Values made of memory that nobody has written: of registers, of shared memory, of a tensor that is an
// output.  To compute with them is no fault, by matrix instructions neither: a vector may reach past the end
// of a row, if what comes of it is thrown away; nor to keep them in registers or shared memory, which are
// then as if nobody had written them.  To store one in a tensor, to branch by it, to use it as an index or to
// hand it to what is not followed (an atomic update, a copy that goes on beside the thread, foreign code) is.
// As almost no value is one, they stand in a short list; while it is empty nothing is done at all.
#pragma once
#include <array>

#include "sim/machine.h"

namespace tl::sim {

// Before an access: where it goes, and whether, must be defined.
void check_index(Warp& w, const Operation& o);
// After an operation of these lanes: what it has made of the undefined values, or a finding.
void follow_undefined(Warp& w, const Operation& o, LaneMask active);
void clear_undefined(Warp& w, int32_t slot, int32_t count);  // they get other values
// A load of such elements (of so many bytes) has found these holes.
void add_undefined(Warp& w, const Operation& o, int64_t element, const Holes& holes);
// A shuffle by these lanes: what it moves that is not defined, and what it takes from lanes that do not take
// part.
void follow_shuffle(Warp& w, const CallSite& site, LaneMask lanes,
                    const std::array<int8_t, max_lanes>& source);

}  // namespace tl::sim
