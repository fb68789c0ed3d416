// The instructions of warpgroups: where their operands live.
#pragma once
#include "target/instr.h"

namespace tl {

// The row that a call is of; null: it is none.
const WarpgroupInstr* warpgroup_row_of(const Intrinsic& intrinsic);
// Of 128 threads: D of 64 × n, and A in registers.
OperandFragment accumulator_of(int64_t n);
OperandFragment a_fragment_of(const WarpgroupInstr& row);
// Where an element of a tile in shared memory lies, in bytes from its beginning, before the pattern is
// applied to the address.
int64_t place_in_tile(const TileMode& mode, int bits, int64_t mn, int64_t k);

}  // namespace tl
