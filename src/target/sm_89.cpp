// RTX 4090, and the other RTX 40 and L40: 128 SMs (RTX 4090).  100 KB of shared memory an SM, of which a
// block may take 99 KB; large L2 (72 MB on the biggest); adds fp8 to mma.sync.  Cards for games sum 16-bit
// products in f32 at half the rate.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_89;
const Target sm_89 = {
    .name = "sm_89",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .shared_bytes = 99 * 1024,
    .multiprocessors = {.count = 128, .threads = 1536, .blocks = 24, .shared_bytes = 100 * 1024},
    .rates = {.clock = 2.52e9,
              .memory = 1.008e12,
              .cache_bytes = 72 << 20,
              .f32 = 256,
              .f16 = 512,
              .tf32 = 256,
              .int8 = 2048,
              .fp8 = 1024},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8, mma_fp8}),
    .copies = nvidia_copies(89),
    .atomics = nvidia_atomics(89),
    .async = nvidia_async(89),
};

}  // namespace tl
