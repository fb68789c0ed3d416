// MI300X.  304 compute units on eight dies; a wave has 64 lanes.  A unit has 64 KB of LDS, its shared memory,
// in 32 banks of 4 bytes, all of which one block may take; four units in it run at most eight waves each, and
// a lane's share of the 512 registers decides how many.  HBM3 of 5.3 TB/s; 4 MB of L2 on each die, and 256 MB
// of a cache in front of the memory.
//
// The only barrier is that of the whole block. The lanes of a wave exchange words by bpermute, in which each
// lane names its source. Its matrix instructions are not described here yet, so products are multiply-adds of
// single lanes; nor are its copies from memory to LDS, of at most 4 bytes a lane.
//
// LDS serves 32 lanes at once, of 8 bytes 32 that load and 16 that store, of 16 bytes eight; those of a load
// are not neighbours.
#include "target/target.h"

namespace tl {
namespace {

// clang-format off
constexpr uint8_t loaded[] = { 0,  1,  2,  3, 20, 21, 22, 23,   4,  5,  6,  7, 16, 17, 18, 19,
                               8,  9, 10, 11, 28, 29, 30, 31,  12, 13, 14, 15, 24, 25, 26, 27,
                              32, 33, 34, 35, 52, 53, 54, 55,  36, 37, 38, 39, 48, 49, 50, 51,
                              40, 41, 42, 43, 60, 61, 62, 63,  44, 45, 46, 47, 56, 57, 58, 59};

// What LDS can do beyond that, maxima and minima of float32, memory cannot.
using A = Intrinsic::Atomic;
const AtomicInstr updates[] = {
    {A::add, f32, "fadd_f32"}, {A::add, f16.with_lanes(2), "fadd_v2f16"},
    {A::add, f64, "fadd_f64"}, {A::add, bf16.with_lanes(2), "fadd_v2bf16"},
    {A::max, f64, "fmax_f64"}, {A::max, f32, "fmax_f32", Scope::shared},
    {A::min, f64, "fmin_f64"}, {A::min, f32, "fmin_f32", Scope::shared},
    {A::add, i32, "add_i32"}, {A::add, u32, "add_u32"}, {A::add, i64, "add_i64"}, {A::add, u64, "add_u64"},
    {A::max, i32, "max_i32"}, {A::max, u32, "max_u32"}, {A::max, i64, "max_i64"}, {A::max, u64, "max_u64"},
    {A::min, i32, "min_i32"}, {A::min, u32, "min_u32"}, {A::min, i64, "min_i64"}, {A::min, u64, "min_u64"},
    {A::bit_or, i32, "or_i32"}, {A::bit_or, u32, "or_u32"},
    {A::bit_or, i64, "or_i64"}, {A::bit_or, u64, "or_u64"}};
// clang-format on

}  // namespace

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
    .shared_banks = {.loading = {32, 32, 8}, .storing = {32, 16, 8}, .order = loaded},
    .atomics = updates,
};

}  // namespace tl
