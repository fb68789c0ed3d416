// Flushed at once, so that lines stand in order beside those of Python, which has a buffer of its own.
#include "base/output.h"

#include <cstdio>
#include <mutex>

namespace tl {

void write_output(std::string_view text) {
  static std::mutex lock;
  std::lock_guard guard(lock);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace tl
