// HIP C++ for clang, without one header: the shared printer, and a prelude that replaces AMD's headers and
// device libraries, which are not needed.
#include "codegen/c_like.h"

namespace tl {
namespace {

constexpr std::string_view hip_prelude =
#include "codegen/prelude/hip.inc"
#include "codegen/prelude/hip_math.inc"
#include "codegen/prelude/hip_values.inc"
    ;

std::string no_instruction(const Intrinsic& intrinsic, const Target& target, const std::set<int64_t>&) {
  internal_error(fmt::format("{} has no instruction {}", target.name, intrinsic.name));
}

std::string no_assembly(c::Printer& printer, const Call&) {
  internal_error(fmt::format("PTX in a program for {}", printer.target.name));
}

// The size is known, so that the compiler checks it against the chip's.
std::string static_memory(int64_t bytes) {
  return fmt::format("__shared__ __align__(1024) unsigned char tl_shared[{}];", bytes);
}

// A multiprocessor shares the waves of its blocks among four units.
std::string work_group_size(const Kernel&, int64_t threads, int64_t blocks) {
  constexpr int64_t units = 4, wave = 64;
  int64_t waves = blocks * ((threads + wave - 1) / wave);
  std::string more = waves ? fmt::format(", amdgpu_waves_per_eu({})", (waves + units - 1) / units) : "";
  return fmt::format("__attribute__((amdgpu_flat_work_group_size({0}, {0}){1}))", threads, more);
}

}  // namespace

std::string hip_atomic(const AtomicUse& use, const Target& target);  // hip_atomic.cpp

Program print_hip(const Function& f, const Target& target) {
  static constexpr Dialect hip{.prelude = hip_prelude,
                               .instruction = no_instruction,
                               .atomic = hip_atomic,
                               .assembly = no_assembly,
                               .shared_memory = static_memory,
                               .bounds = work_group_size,
                               .map_parameter = "",
                               .brings_functions = true};
  return print_c_like(f, target, hip);
}

}  // namespace tl
