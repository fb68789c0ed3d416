// The fragments of a gemm's operands, made of those of the instruction that multiplies them.
#pragma once
#include "layout/fragment.h"
#include "target/instr.h"

namespace tl {

// How an instruction's tiles make up an operand.
struct Repeat {
  int input;                       // the dimension of the buffer
  int64_t divisor, radix, stride;  // of the digit, and its stride in threads or registers
};

// The instruction's own fragment, repeated over the tiles of a warp (or warpgroup) and the steps of k
// (registers), over the warps that hold different parts (threads), replicated over those that hold the same.
Fragment repeated(const OperandFragment& tile, std::vector<int64_t> shape, bool transposed,
                  const std::vector<Repeat>& registers, const std::vector<Repeat>& threads,
                  int64_t replicas = 1, int64_t replica_stride = 0);

}  // namespace tl
