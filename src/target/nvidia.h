// The rows that several NVIDIA chips share: instructions are listed once, chips name those they have.
#pragma once
#include "target/target.h"

namespace tl {

extern const MatrixInstr mma_16bit[6], mma_tf32[2], mma_int8[8],
    mma_fp8[4];  // k = 32 of 8 bits before k = 16
std::vector<const MatrixInstr*> rows_of(std::initializer_list<std::span<const MatrixInstr>> groups);
// sm_80 and later; what sm_90 adds stands behind it, so that the table of sm_80 is its beginning.
std::span<const AtomicInstr> nvidia_atomics(bool with_sm_90);
std::span<const AsyncInstr> nvidia_async(bool with_sm_90);
std::vector<const CopyInstr*> nvidia_copies(bool with_sm_90);
std::span<const MatrixInstr* const> nvidia_matrix_rows();
std::span<const MatrixShape> nvidia_matrix_shapes();

}  // namespace tl
