// The thread that runs the block records a failure; the thread that runs the grid collects it.
#include "runtime/messages.h"

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

#include "base/output.h"
#include "runtime/device.h"

namespace tl {
namespace {

thread_local const char* noted = nullptr;

}  // namespace

void print_line(const char* format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int length = std::vsnprintf(nullptr, 0, format, list);
  std::string text(size_t(length > 0 ? length : 0) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  va_end(list);
  text.pop_back();
  write_output(text);
}

void note_failure(const char* message) {
  if (!noted) noted = message;
}

const char* take_failure() { return std::exchange(noted, nullptr); }

void raise_failure(const char* message) { throw RuntimeError(message); }

}  // namespace tl
