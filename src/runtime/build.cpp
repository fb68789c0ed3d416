// One door to the device compilers.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/find.h"

namespace tl {
namespace {

std::atomic<int> warming{0};

// A process must not end while a library is being opened.
void wait_until_warm() {
  for (int seen; (seen = warming.load()) != 0;) warming.wait(seen);
}

}  // namespace

void warm_up(const std::string& language) {
  static std::mutex lock;
  static std::set<std::string> done;
  std::lock_guard guard(lock);
  if (!done.insert(language).second) return;
  std::atexit(wait_until_warm);
  pthread_atfork(nullptr, nullptr, [] { warming = 0; });  // a forked child has no such thread
  warming++;
  std::thread([language] {
    try {
      language == "cuda" ? open_nvrtc() : open_llvm();
    } catch (const std::exception&) {  // build() will say it
    }
    warming--;
    warming.notify_all();
  }).detach();
}

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
