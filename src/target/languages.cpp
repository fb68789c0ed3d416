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
  static const Language* const rows[] = {&cuda_language, &llvm_language};
  return rows;
}

const Language* find_language(std::string_view name) {
  for (auto* row : all_languages())
    if (row->name == name) return row;
  return nullptr;
}

}  // namespace tl
