// GB10 of the DGX Spark: 48 SMs; 128 GB of LPDDR5X beside the CPU, 0.273 TB/s; L2 24 MB.  Otherwise sm_120.
// Of its tensor rates only 1 PFLOPS of fp4 with sparsity is published: those of 16 and 8 bits are estimates,
// from the ratios on boards of sm_120 that are not for games.  Clock and L2 are not from a data sheet either.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_121;
const Target sm_121 = {
    .name = "sm_121",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .max_cluster = 8,
    .shared_bytes = 99 * 1024,
    .multiprocessors = {.count = 48, .threads = 1536, .blocks = 24, .shared_bytes = 100 * 1024},
    .rates = {.clock = 2.418e9,
              .memory = 0.273e12,
              .cache_bytes = 24 << 20,
              .f32 = 256,
              .f16 = 1024,
              .tf32 = 512,
              .int8 = 2048,
              .fp8 = 2048},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8, mma_fp8}),
    .copies = nvidia_copies(121),
    .atomics = nvidia_atomics(121),
    .async = nvidia_async(121),
};

}  // namespace tl
