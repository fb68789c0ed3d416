// A100 (40 GB).  108 SMs; 64K registers and 164 KB of shared memory each, of which a block may take 163 KB;
// tensor cores run mma.sync at 2048 dense f16 operations a clock and SM; DRAM 1.55 to 2.0 TB/s; L2 40 MB.  No
// stmatrix, no bulk copies, no clusters; bf16 has fused multiply-add only.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_80;
const Target sm_80 = {
    .name = "sm_80",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .shared_bytes = 163 * 1024,
    .multiprocessors = {.count = 108, .threads = 2048, .blocks = 32, .shared_bytes = 164 * 1024},
    .rates = {.clock = 1.41e9,
              .memory = 1.555e12,
              .cache_bytes = 40 << 20,
              .f32 = 128,
              .f16 = 2048,
              .tf32 = 1024,
              .int8 = 4096},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8}),
    .copies = nvidia_copies(80),
    .atomics = nvidia_atomics(80),
    .async = nvidia_async(80),
};

}  // namespace tl
