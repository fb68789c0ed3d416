// What the hardware offers: data only.  Passes and operators ask for rows and numbers, never "which chip?".
#pragma once
#include <array>

#include "layout/banks.h"
#include "target/instr.h"
#include "target/language.h"

namespace tl {

// The processors of a chip that run blocks; GPUs only.
struct Multiprocessors {
  int64_t count = 0, threads = 0, blocks = 0;  // of each: threads and blocks that it holds at once
  int64_t shared_bytes = 0;                    // of all its blocks
  int64_t registers = 64 << 10;                // of 32 bits, of all its threads
  int64_t reserved_bytes = 1024;               // of these, for each block
  // How many blocks of so many threads and bytes of shared memory the chip holds at once, as far as these
  // decide it; `warp`: threads of a warp.
  int64_t residents(int64_t block_threads, int64_t block_bytes, int warp) const;
  // Registers of each thread at the launch of a kernel of which so many blocks share a multiprocessor, if it
  // is compiled to use all. Warpgroups that hand registers to each other have no more than these together.
  int64_t launch_registers(int64_t block_threads, int64_t shared_by = 1) const;
};

// Rates of the board that the chip's file names first, by its data sheet: for estimates.
struct Rates {
  double clock = 0;         // Hz, boosted
  double memory = 0;        // bytes a second
  int64_t cache_bytes = 0;  // of L2
  // Dense operations a clock and multiprocessor, a multiply-add being two: of tensor cores, but for f32.
  int f32 = 0, f16 = 0, tf32 = 0, int8 = 0, fp8 = 0;
};

struct Target {
  std::string_view name;      // "sm_90": the chip; what -arch or -mcpu names
  const Language* language;   // what its programs are printed in
  int warp = 32;              // threads that execute together; 1: one thread per block
  int default_threads = 128;  // of a T.Kernel that names none
  int max_threads = 1024;
  std::array<int64_t, 3> max_block = {INT64_MAX, INT64_MAX, INT64_MAX};  // threads along x, y, z
  std::array<int64_t, 3> max_grid = {INT64_MAX, INT64_MAX, INT64_MAX};   // blocks along x, y, z
  int64_t max_cluster = 1;                                               // blocks that run together
  int64_t shared_bytes = 0;                                              // a block may allocate
  Multiprocessors multiprocessors = {};                                  // what concurrent blocks share
  Rates rates = {};
  int64_t local_bytes = 512 << 10;  // a thread's own memory, for what its registers do not hold
  int registers = 255;              // 32-bit, a thread may use
  int vector_bytes = 16;            // widest access of one thread
  int64_t vector_alignment = 0;     // bytes an access of n bytes must be aligned to: 0 means n
  int index_bits = 64;              // of the index arithmetic it does best
  bool masked_vectors = false;      // a vector access may be masked lane by lane
  bool keeps_indices = false;       // asked for, by the simulator: accesses keep what Claim holds
  bool fast_math = false;           // asked for: quicker, less exact forms of float functions
  bool unroll = false;              // unrolled loops are expanded here, not by the device compiler
  SharedBanks shared_banks = {};
  std::vector<const MatrixInstr*> matrix = {};  // best first
  std::vector<const CopyInstr*> copies = {};
  std::span<const AtomicInstr> atomics = {};  // others are done by compare and swap
  std::span<const AsyncInstr> async = {};
  std::span<const WarpgroupInstr> warpgroup = {};
  std::vector<const DotInstr*> dots = {};
  int64_t early_turns = 0;              // of a role that loads, begun before a block's threads have come
  int vector_registers = 0;             // CPU: how many, for the micro-kernel
  int64_t streaming_bytes = INT64_MAX;  // a tensor that is as large, and not read, is written past the caches
  std::string_view features = "";       // for the device compiler

  bool has_threads() const { return warp > 1; }
  int lanes(DType type) const { return vector_bytes * 8 / type.bits; }
  // The best row for these operand and accumulator types; null if the target has none.
  const MatrixInstr* matrix_for(DType a, DType b, DType c) const;
  const DotInstr* dot_for(DType a, DType b, DType c) const;
  const CopyInstr* copy_named(std::string_view name) const;
  // Of the copies that threads wait for in groups; null if the target has none.
  const AsyncInstr* group_row(AsyncInstr::AsyncKind does) const;
  bool lacks(const Intrinsic& row) const;  // is it an instruction, and not one of this target's?
  const AtomicInstr* atomic_for(Intrinsic::Atomic op, DType value, bool global) const;
  // How many neighbouring elements the chip can update by one call of this kind, each for itself.
  int64_t atomic_lanes(const Call& atomic, const Function& f) const;
};

// ── target/all.cpp ────────────────────────────────────────────────────────────────────────────────────
std::span<const Target* const> all_targets();
const Target* find_target(std::string_view chip);  // null if there is none of that name
// Of a later chip of NVIDIA's that has no literal ("sm_110", "sm_100a"): the newest literal whose programs
// run there too, because PTX is compatible with all later chips; null if there is none, or it has its own.
const Target* nearest_target(std::string_view chip);
std::span<const DotInstr* const> x86_dots();
const Intrinsic* find_instr(std::string_view name);  // a row's intrinsic, for the parser and the simulator

// What a target string says: "cuda -arch=sm_80", "sim:sm_80", "cpu", "cpu -mcpu=haswell", "reference",
// "auto", "llvm".
struct TargetSpec {
  std::string kind;                    // of the language, or "sim", "reference", "auto"
  const Language* language = nullptr;  // that kernels are compiled from; null for "sim", "reference", "auto"
  std::string chip = "";               // empty: take the machine's; of find_target, or of nearest_target
};
// CompileError (no position) with the known targets if it is not one.
TargetSpec parse_target(std::string_view text);
std::string chips_of(const Language& language);  // "sm_80, sm_86, …"
std::string simulated_chips();                   // of all languages with threads
std::string chips_with(const Intrinsic& row);    // that have this instruction

// ── target/absent.cpp: what is named elsewhere and not here, and why; empty if unknown ─────────
// Of a chip that nearest_target answers for: what it has and its programs do not use.
std::string_view why_no_chip(std::string_view name);
std::string_view why_no_kind(std::string_view name);

}  // namespace tl
