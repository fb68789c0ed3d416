// H100 and H200.  132 SMs; 228 KB of shared memory each, of which a block may take 227 KB; mma.sync reaches
// about 0.6 of the tensor rate; DRAM 3.35 TB/s (H100) or 4.8 TB/s (H200); L2 50 MB.  Adds stmatrix and bulk
// copies.
#include "target/nvidia.h"

namespace tl {

extern const Target sm_90, sm_90a;
const Target sm_90 = {
    .name = "sm_90",
    .language = &cuda_language,
    .max_block = {1024, 1024, 64},
    .max_grid = {INT32_MAX, 65535, 65535},
    .max_cluster = 8,
    .shared_bytes = 227 * 1024,
    .multiprocessors = {.count = 132, .threads = 2048, .blocks = 32, .shared_bytes = 228 * 1024},
    .rates = {.clock = 1.83e9,
              .memory = 3.35e12,
              .cache_bytes = 50 << 20,
              .f32 = 256,
              .f16 = 4096,
              .tf32 = 2048,
              .int8 = 8192,
              .fp8 = 8192},
    .index_bits = 32,
    .matrix = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8}),
    .copies = nvidia_copies(90),
    .atomics = nvidia_atomics(90),
    .async = nvidia_async(90),
};
// The same chip; its device compiler takes the instructions that no later chip keeps (wgmma, setmaxnreg), and
// its code runs on this chip alone.
const Target sm_90a = [] {
  Target chip = sm_90;
  chip.name = "sm_90a";
  chip.async = nvidia_async(sm_90a_only);
  chip.warpgroup = warpgroup_rows();
  // More, and the warp that begins them keeps the others waiting (bench/results/2026-11-28-dynamic.md).
  chip.early_turns = 2;
  return chip;
}();

}  // namespace tl
