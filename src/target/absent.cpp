// Chips and kinds of targets that this version does not support, or not all of, with the reason.
#include "target/target.h"

namespace tl {
namespace {

struct Absent {
  std::string_view name;  // or how it begins; the first that fits counts
  std::string_view why;
};

constexpr std::string_view old = "chips before Volta have no tensor cores and no asynchronous copies";
constexpr std::string_view blackwell =
    "this version has neither tcgen05 nor tensor memory, by which tensor cores of Blackwell are reached";

constexpr std::string_view volta =
    "Volta has no asynchronous copies (cp.async), and its tensor cores multiply f16 alone, in shapes of "
    "their own";

constexpr Absent chips[] = {
    {"sm_70", volta},
    {"sm_72", volta},
    {"sm_10", blackwell},
    {"sm_11", blackwell},
    {"sm_3", old},
    {"sm_5", old},
    {"sm_6", old},
    {"gfx", "this version describes gfx942 alone of AMD's GPUs, and a code object runs on its own chip only"},
};

constexpr Absent kinds[] = {
    {"metal", "there is no back end for Apple's GPUs"},
    {"webgpu", "there is no back end that writes WGSL"},
    {"vulkan", "there is no back end that writes SPIR-V"},
    {"opencl", "there is no back end that writes OpenCL"},
    {"cutedsl", "kernels for NVIDIA's GPUs are CUDA text here, not CuTe DSL: say cuda"},
    {"nvptx", "kernels for NVIDIA's GPUs are CUDA text, of which NVRTC makes PTX: say cuda"},
    {"c", "kernels for CPUs are compiled by LLVM, and no C text is written: say cpu"},
};

}  // namespace

std::string_view why_no_chip(std::string_view name) {
  for (auto& row : chips)
    if (name.starts_with(row.name)) return row.why;
  return {};
}

std::string_view why_no_kind(std::string_view name) {
  for (auto& row : kinds)
    if (name == row.name) return row.why;
  return {};
}

}  // namespace tl
