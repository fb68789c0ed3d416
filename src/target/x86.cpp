// CPUs that run x86-64 code.  One thread per block; "shared memory" is the block's part of a worker's arena.
//
// What a core gives (per cycle): two fused multiply-adds of a whole vector, two vector loads, one vector
// store. A multiply-add takes four cycles, so eight independent ones must be in flight; a register tile of
// rows × 2 vectors with 6 rows (16 registers) or 12 rows (32 registers) has them and needs less than one load
// per multiply-add. L1 is 32 to 48 KiB, L2 256 KiB to 2 MiB, L3 shared, some 32 MiB. An access may have any
// alignment; crossing a 64-byte line costs a second access. A store first reads its line, unless it goes past
// the caches (a non-temporal store, of an aligned vector), which pays where the line would leave the caches
// unread anyway.
//
// The three differ in vector width and in how many vector registers there are; later chips (cooperlake,
// sapphirerapids, znver3 …) only add instructions that the printer does not name, and run one of these.
#include "target/target.h"

namespace tl {

// Every x86-64 machine: 16-byte vectors, no fused multiply-add, no lane masks (LLVM opens them into
// branches).
extern const Target x86_64 = {
    .name = "x86-64",
    .language = &llvm_language,
    .warp = 1,
    .shared_bytes = 64 << 20,
    .vector_bytes = 16,
    .vector_alignment = 1,
    .masked_vectors = true,
    .unroll = true,
    .vector_registers = 16,
    .streaming_bytes = 24 << 20,
    .features = "",
};

// AVX2, FMA and half-precision conversion: Intel since 2013, AMD since 2015 (whole-width since Zen 2).
extern const Target haswell = {
    .name = "haswell",
    .language = &llvm_language,
    .warp = 1,
    .shared_bytes = 64 << 20,
    .vector_bytes = 32,
    .vector_alignment = 1,
    .masked_vectors = true,
    .unroll = true,
    .vector_registers = 16,
    .streaming_bytes = 24 << 20,
    .features = "+avx2,+fma,+f16c,+bmi2",
};

// AVX-512 with its byte, word and short-vector parts: Intel servers since 2017, AMD since Zen 4.
extern const Target skylake_avx512 = {
    .name = "skylake-avx512",
    .language = &llvm_language,
    .warp = 1,
    .shared_bytes = 64 << 20,
    .vector_bytes = 64,
    .vector_alignment = 1,
    .masked_vectors = true,
    .unroll = true,
    .vector_registers = 32,
    .streaming_bytes = 24 << 20,
    .features = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+f16c,+bmi2",
};

// Dot products of neighbours: vpdpbusd of four 8-bit integers (AVX512-VNNI), vdpbf16ps of two bf16
// (AVX512-BF16).
constexpr Intrinsic dot_intrinsic(std::string_view name) { return {.name = name, .arity = 3}; }
extern const DotInstr dot4_u8_s8, dot2_bf16;
const DotInstr dot4_u8_s8 = {.intrinsic = dot_intrinsic("dot4_u8_s8"),
                             .depth = 4,
                             .a_type = u8,
                             .b_type = i8,
                             .c_type = i32,
                             .lanes = 16,
                             .text = "llvm.x86.avx512.vpdpbusd.512"};
const DotInstr dot2_bf16 = {.intrinsic = dot_intrinsic("dot2_bf16"),
                            .depth = 2,
                            .a_type = bf16,
                            .b_type = bf16,
                            .c_type = f32,
                            .lanes = 16,
                            .text = "llvm.x86.avx512bf16.dpbf16ps.512"};
std::span<const DotInstr* const> x86_dots() {
  static const DotInstr* const rows[] = {&dot4_u8_s8, &dot2_bf16};
  return rows;
}

extern const Target cascadelake = {
    .name = "cascadelake",
    .language = &llvm_language,
    .warp = 1,
    .shared_bytes = 64 << 20,
    .vector_bytes = 64,
    .vector_alignment = 1,
    .masked_vectors = true,
    .unroll = true,
    .dots = {&dot4_u8_s8},
    .vector_registers = 32,
    .streaming_bytes = 24 << 20,
    .features = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni,+avx2,+fma,+f16c,+bmi2",
};

extern const Target cooperlake = {
    .name = "cooperlake",
    .language = &llvm_language,
    .warp = 1,
    .shared_bytes = 64 << 20,
    .vector_bytes = 64,
    .vector_alignment = 1,
    .masked_vectors = true,
    .unroll = true,
    .dots = {&dot4_u8_s8, &dot2_bf16},
    .vector_registers = 32,
    .streaming_bytes = 24 << 20,
    .features = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni,+avx512bf16,+avx2,+fma,+f16c,+bmi2",
};

}  // namespace tl
