// T4, and RTX 20: 40 SMs (T4).  64 KB of shared memory an SM, all of which one block may take; 1024 threads
// an SM; L2 4 MB; DRAM 0.32 TB/s.  mma.sync multiplies f16 (m16n8k8) and integers (m8n8), and ldmatrix loads
// for it; bf16 and tf32 are multiply-adds in f32.  No cp.async, no mbarrier, no redux: loads go through
// registers. Limits: CCCL's device traits for 7.5.  Rates: NVIDIA's published 65 TFLOPS and 130 TOPS of the
// T4.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_75;
const Target sm_75 = {
    .name = "sm_75",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .shared_bytes = 64 * 1024,
    .multiprocessors =
        {.count = 40, .threads = 1024, .blocks = 16, .shared_bytes = 64 * 1024, .reserved_bytes = 0},
    .rates =
        {.clock = 1.59e9, .memory = 0.32e12, .cache_bytes = 4 << 20, .f32 = 128, .f16 = 1024, .int8 = 2048},
    .index_bits = 32,
    .matrix = rows_of({mma_f16_k8, mma_m8n8}),
    .copies = nvidia_copies(75),
    .atomics = nvidia_atomics(75),
    .async = nvidia_async(75),
};

}  // namespace tl
