// RTX 5090, and the other RTX 50 and RTX PRO of Blackwell: 170 SMs (RTX 5090).  100 KB of shared memory an
// SM, of which a block may take 99 KB; L2 96 MB; DRAM 1.79 TB/s.  There is no tcgen05: mma.sync is all that
// reaches its tensor cores, of fp8 by an instruction of its own (seen in ptxas's SASS).  Bulk copies and
// stmatrix as on sm_90.  Cards for games sum 16-bit products in f32 at half the rate, which is the rate here.
// Rates: published figures of the RTX 5090 (2.407 GHz, 838 TOPS of int8), dense.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_120;
const Target sm_120 = {
    .name = "sm_120",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .max_cluster = 8,
    .shared_bytes = 99 * 1024,
    .multiprocessors = {.count = 170, .threads = 1536, .blocks = 24, .shared_bytes = 100 * 1024},
    .rates = {.clock = 2.407e9,
              .memory = 1.792e12,
              .cache_bytes = 96 << 20,
              .f32 = 256,
              .f16 = 512,
              .tf32 = 256,
              .int8 = 2048,
              .fp8 = 1024},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8, mma_fp8}),
    .copies = nvidia_copies(120),
    .atomics = nvidia_atomics(120),
    .async = nvidia_async(120),
};

}  // namespace tl
