// Every language by name.
#include "target/language.h"

namespace tl {

const Language cuda_language = {
    .name = "cuda",
    .kind = "cuda",
    .synonym = "",
    .chip_option = "-arch=",
    .suffix = ".cu",
    .machine = "CUDA device",
    .has_threads = true,
    .takes_ptx = true,
    .takes_nvcc_flags = true,
};

namespace {

constexpr std::string_view one_barrier = "AMD's GPUs have one barrier for each block, of all its threads";
constexpr std::string_view no_rounding = "HIP text has no arithmetic with directed rounding";
constexpr std::string_view no_library =
    "HIP text has no such function of float64, which AMD's device library would bring; take float32";

constexpr Lacking not_in_hip[] = {{"ptx", 0, "PTX is for NVIDIA's GPUs"},
                                  {"bar_sync", 0, one_barrier},
                                  {"bar_arrive", 0, one_barrier},
                                  {"bar_sync_groups", 0, one_barrier},
                                  {"sync_threads_count", 0, "AMD's GPUs have no barrier that counts"},
                                  {"sync_threads_and", 0, "AMD's GPUs have no barrier that votes"},
                                  {"sync_threads_or", 0, "AMD's GPUs have no barrier that votes"},
                                  {"ieee_*_rz", 0, no_rounding},
                                  {"ieee_*_ru", 0, no_rounding},
                                  {"ieee_*_rd", 0, no_rounding},
                                  {"ieee_frsqrt_rn", 0, "HIP text has no root that is rounded correctly"},
                                  {"sin", 64, no_library},
                                  {"cos", 64, no_library},
                                  {"tan", 64, no_library},
                                  {"asin", 64, no_library},
                                  {"acos", 64, no_library},
                                  {"atan", 64, no_library},
                                  {"atan2", 64, no_library},
                                  {"sinh", 64, no_library},
                                  {"cosh", 64, no_library},
                                  {"tanh", 64, no_library},
                                  {"asinh", 64, no_library},
                                  {"acosh", 64, no_library},
                                  {"atanh", 64, no_library},
                                  {"expm1", 64, no_library},
                                  {"log1p", 64, no_library},
                                  {"pow", 64, no_library},
                                  {"hypot", 64, no_library},
                                  {"erf", 64, no_library},
                                  {"fast_sin", 64, no_library},
                                  {"fast_cos", 64, no_library},
                                  {"fast_tan", 64, no_library}};

}  // namespace

// HIP C++ for AMD's GPUs.
const Language hip_language = {
    .name = "hip",
    .kind = "hip",
    .synonym = "rocm",
    .chip_option = "-mcpu=",
    .suffix = ".hip",
    .machine = "AMD GPU",
    .has_threads = true,
    .lacking = not_in_hip,
};

// LLVM IR for the host's CPU.
const Language llvm_language = {
    .name = "llvm",
    .kind = "cpu",
    .synonym = "llvm",
    .chip_option = "-mcpu=",
    .suffix = ".ll",
    .machine = "CPU",
    .tells_lines = true,
};

std::span<const Language* const> all_languages() {
  static const Language* const rows[] = {&cuda_language, &hip_language, &llvm_language};
  return rows;
}

std::string_view Language::why_not(std::string_view call, int bits) const {
  for (auto& row : lacking) {
    size_t star = row.call.find('*');
    bool named = star == row.call.npos ? row.call == call
                                       : call.starts_with(row.call.substr(0, star)) &&
                                             call.ends_with(row.call.substr(star + 1));
    if (named && (!row.bits || row.bits == bits)) return row.why;
  }
  return {};
}

const Language* find_language(std::string_view name) {
  for (auto* row : all_languages())
    if (row->name == name) return row;
  return nullptr;
}

}  // namespace tl
