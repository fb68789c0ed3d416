// One door to the device compilers.
#include <mutex>
#include <set>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/find.h"

namespace tl {

std::future<void> warm_up(const std::string& language) {
  static std::mutex lock;
  static std::set<std::string> done;
  std::lock_guard guard(lock);
  if (!done.insert(language).second) return {};
  return std::async(std::launch::async, [language] {
    try {
      language == "cuda" ? open_nvrtc() : open_llvm();
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

DeviceBinary build(const Program& program) {
  if (program.language == "cuda") return build_cuda(program);
  if (program.language == "llvm") return build_llvm(program);
  internal_error(fmt::format("{}: no device compiler for the language '{}'", program.name, program.language));
}

std::string toolchain_id(const std::string& language) {
  std::optional<std::string> path = language == "cuda" ? find_nvrtc() : find_llvm();
  return path ? file_identity(*path) : "";
}

}  // namespace tl
