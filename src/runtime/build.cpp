// The table of device compilers and devices: a row for each language.
#include <mutex>
#include <set>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/find.h"
#include "runtime/platform.h"

namespace tl {

std::future<void> warm_up(const std::string& language) {
  static std::mutex lock;
  static std::set<std::string> done;
  std::lock_guard guard(lock);
  if (!done.insert(language).second) return {};
  return std::async(std::launch::async, [language] {
    try {
      platform_of(language).open();
    } catch (const std::exception&) {  // build() will say it
    }
  });
}

BuildError::BuildError(const Program& program, std::string by, std::string refused_flag, std::string says)
    : std::runtime_error(
          refused_flag.empty()
              ? fmt::format("{}: {} refuses the text made for {}:\n{}", program.name, by, program.chip, says)
              : fmt::format("{}: {} refuses the flag '{}': {}", program.name, by, refused_flag, says)),
      compiler(std::move(by)),
      flag(std::move(refused_flag)),
      log(std::move(says)) {}

namespace {

int only_ordinal() { return 0; }
Device* host(int, std::string*) { return &cpu_device(); }

// clang-format off
constexpr Platform platforms[] = {
    {"cuda", device_cuda, build_cuda, open_nvrtc, find_nvrtc, cuda_current_ordinal, cuda_device, nvrtc_knows},
    {"hip",  device_rocm, build_hip,  open_clang, find_clang, only_ordinal,         rocm_device, nullptr, true},
    {"llvm", device_cpu,  build_llvm, open_llvm,  find_llvm,  only_ordinal,         host}};
// clang-format on

}  // namespace

const Platform& platform_of(std::string_view language) {
  for (auto& row : platforms)
    if (row.language == language) return row;
  internal_error(fmt::format("no device compiler for the language '{}'", language));
}

DeviceBinary build(const Program& program) { return platform_of(program.language).build(program); }

std::string toolchain_id(const std::string& language) {
  std::optional<std::string> path = platform_of(language).find();
  return path ? file_identity(*path) : "";
}

}  // namespace tl
