// Undefined values: read from unwritten registers, shared memory or output tensors, or computed from those.
// Computing with them is allowed, including in matrix instructions, because a vector may reach past the end
// of a row if the result is discarded; so is keeping them in registers or shared memory, which then count as
// unwritten. Storing one in a tensor, branching on it, using it as an index or passing it to an operation
// that is not followed (an atomic update, an asynchronous copy, foreign code) is a finding. Few values are
// undefined, so they are in a short list; while it is empty nothing is done at all.
#pragma once
#include <array>

#include "sim/machine.h"

namespace tl::sim {

// Before an access: its index and its mask must be defined.
void check_index(Warp& w, const Operation& o);
// After an operation of these lanes: propagates undefined values, or reports a finding.
void follow_undefined(Warp& w, const Operation& o, LaneMask active);
void clear_undefined(Warp& w, int32_t slot, int32_t count);  // they get other values
// A load of such elements (of so many bytes) has found these holes.
void add_undefined(Warp& w, const Operation& o, int64_t element, const Holes& holes);
// A shuffle by these lanes: the undefined values that it moves, and reads of lanes that do not take part.
void follow_shuffle(Warp& w, const CallSite& site, LaneMask lanes,
                    const std::array<int8_t, max_lanes>& source);

}  // namespace tl::sim
