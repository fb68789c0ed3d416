// The rows that several NVIDIA chips share: instructions are listed once, chips name those they have.
#pragma once
#include <algorithm>

#include "target/target.h"

namespace tl {

// Of 16 bits with k = 16 before those of f16 with k = 8; of 8 bits k = 32 before k = 16.
extern const MatrixInstr mma_16bit[4], mma_f16_k8[2], mma_tf32[2], mma_int8[8], mma_fp8[4];
extern const MatrixInstr mma_m8n8[4];  // of sm_75; later chips have larger ones
std::vector<const MatrixInstr*> rows_of(std::initializer_list<std::span<const MatrixInstr>> groups);
// What a chip has of a table whose rows stand in the order of the first chips that have them.
template <class Row>
std::span<const Row> until(std::span<const Row> rows, int chip) {
  auto newer = std::ranges::find_if(rows, [&](const Row& row) { return row.since > chip; });
  return rows.first(size_t(newer - rows.begin()));
}
constexpr int newest = 121;       // all rows but for …
constexpr int sm_90a_only = 901;  // … those of sm_90a alone, which stand last
std::span<const AtomicInstr> nvidia_atomics(int chip);
std::span<const AsyncInstr> nvidia_async(int chip);
std::span<const WarpgroupInstr> warpgroup_rows();  // of sm_90a alone
std::vector<const CopyInstr*> nvidia_copies(int chip);
std::span<const MatrixInstr* const> nvidia_matrix_rows();
std::span<const MatrixShape> nvidia_matrix_shapes();

}  // namespace tl
