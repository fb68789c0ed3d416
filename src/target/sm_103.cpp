// B300 and GB300.  As sm_100, with DRAM of 8 TB/s, and integer products at a thirtieth of its rate.
// Rates: published figures of the HGX B300 (dense, one GPU: 2.25 PFLOPS of f16, 0.15 POPS of int8), at the
// clock that they imply.  148 SMs and the L2 are taken to be those of the B200; the whole die has 160 SMs.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_103;
const Target sm_103 = {
    .name = "sm_103",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .max_cluster = 8,
    .shared_bytes = 227 * 1024,
    .multiprocessors = {.count = 148, .threads = 2048, .blocks = 32, .shared_bytes = 228 * 1024},
    .rates = {.clock = 1.856e9,
              .memory = 8e12,
              .cache_bytes = 126 << 20,
              .f32 = 256,
              .f16 = 8192,
              .tf32 = 4096,
              .int8 = 546,
              .fp8 = 16384},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8}),
    .copies = nvidia_copies(103),
    .atomics = nvidia_atomics(103),
    .async = nvidia_async(103),
};

}  // namespace tl
