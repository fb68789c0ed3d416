// MI300X.  304 compute units on eight dies; a wave has 64 lanes.  A unit has 64 KB of LDS, its shared memory,
// in 32 banks of 4 bytes, all of which one block may take; four units in it run at most eight waves each, and
// a lane's share of the 512 registers decides how many.  HBM3 of 5.3 TB/s; 4 MB of L2 on each die, and 256 MB
// of a cache in front of the memory.
//
// A barrier joins all of a block, and there is no other.  The lanes of a wave exchange words by bpermute,
// whose lanes are named each for itself.  Of its matrix instructions none is described here yet, so products
// are multiply-adds of single lanes; it copies from memory to LDS in no more than 4 bytes a lane, which is
// not described either.
#include "target/target.h"

namespace tl {

extern const Target gfx942;
const Target gfx942 = {
    .name = "gfx942",
    .language = &hip_language,
    .warp = 64,
    .max_block = {1024, 1024, 1024},
    .max_grid = {INT32_MAX, 65535, 65535},
    .shared_bytes = 64 * 1024,
    .multiprocessors =
        {.count = 304, .threads = 2048, .blocks = 32, .shared_bytes = 64 * 1024, .registers = 128 << 10},
    .rates = {.clock = 2.1e9,
              .memory = 5.3e12,
              .cache_bytes = 32 << 20,
              .f32 = 256,
              .f16 = 2048,
              .tf32 = 1024,
              .int8 = 4096,
              .fp8 = 4096},
    .registers = 512,
    .index_bits = 32,
};

}  // namespace tl
