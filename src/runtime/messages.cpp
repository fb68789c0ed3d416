// One launch runs at a time, so one place for a failure is enough.
#include "runtime/messages.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "base/output.h"
#include "runtime/device.h"

namespace tl {
namespace {

std::atomic<const char*> failure{nullptr};

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
  const char* none = nullptr;
  failure.compare_exchange_strong(none, message);
}

void raise_failure() {
  if (!failure.load(std::memory_order_relaxed)) return;
  if (const char* message = failure.exchange(nullptr)) throw RuntimeError(message);
}

}  // namespace tl
