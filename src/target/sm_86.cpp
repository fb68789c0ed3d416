// A40, and RTX 30: 84 SMs (A40, A6000).  100 KB of shared memory an SM, of which a block may take 99 KB;
// otherwise the instructions of sm_80, at half its tensor rate with f32 accumulation.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_86;
const Target sm_86 = {
    .name = "sm_86",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .shared_bytes = 99 * 1024,
    .multiprocessors = {.count = 84, .threads = 1536, .blocks = 16, .shared_bytes = 100 * 1024},
    .rates = {.clock = 1.74e9,
              .memory = 0.696e12,
              .cache_bytes = 6 << 20,
              .f32 = 256,
              .f16 = 1024,
              .tf32 = 512,
              .int8 = 2048},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8}),
    .copies = nvidia_copies(86),
    .atomics = nvidia_atomics(86),
    .async = nvidia_async(86),
};

}  // namespace tl
