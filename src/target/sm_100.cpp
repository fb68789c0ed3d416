// B200 and GB200: 148 SMs (B200).  228 KB of shared memory an SM, of which a block may take 227 KB; DRAM
// 7.7 TB/s.  Its tensor cores are reached in full by tcgen05 alone, which is not described here; mma.sync
// runs, and its fp8 rows are left out because ptxas makes f16 products of them, as on sm_90 (seen in its
// SASS). Rates: published figures of the HGX B200 (dense, one GPU: 2.25 PFLOPS of f16, 4.5 of fp8), at the
// clock that they imply.  L2 of 126 MB is not from a data sheet, and nothing of this was measured here.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_100;
const Target sm_100 = {
    .name = "sm_100",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .max_cluster = 8,
    .shared_bytes = 227 * 1024,
    .multiprocessors = {.count = 148, .threads = 2048, .blocks = 32, .shared_bytes = 228 * 1024},
    .rates = {.clock = 1.856e9,
              .memory = 7.7e12,
              .cache_bytes = 126 << 20,
              .f32 = 256,
              .f16 = 8192,
              .tf32 = 4096,
              .int8 = 16384,
              .fp8 = 16384},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8}),
    .copies = nvidia_copies(100),
    .atomics = nvidia_atomics(100),
    .async = nvidia_async(100),
};

}  // namespace tl
