#include "runtime/failure.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tl {
namespace {

constexpr size_t bytes = 4096;
alignas(bytes) char record[bytes];  // a page, which a driver that ends does not take away

// A fault often surfaces in another library's call: then it is told at the end at least.
void tell_at_end() {
  if (std::string text = take_device_failure(); !text.empty())
    std::fprintf(stderr, "tilelang: %s\n", text.c_str());
}

bool is_registered() {
  static const bool done = [] {
    constexpr unsigned portable_and_mapped = 3;
    if (cuda_driver().host_register(record, bytes, portable_and_mapped) != 0) return false;
    std::atexit(tell_at_end);
    return true;
  }();
  return done;
}

}  // namespace

void place_failures(CudaDriver::Image module) {
  const CudaDriver& d = cuda_driver();
  CudaDriver::Address variable = 0, place = 0;
  size_t size = 0;
  if (d.module_global(&variable, &size, module, "tl_failure") != 0 || size != sizeof place) return;
  if (!is_registered() || d.host_address(&place, record, 0) != 0) return;
  CudaDriver::StreamHandle stream = nullptr;  // of its own: another one may be recorded into a graph
  constexpr unsigned non_blocking = 1;
  if (d.stream_create(&stream, non_blocking) != 0) return;
  if (d.copy_in(variable, &place, sizeof place, stream) == 0) d.stream_wait(stream);
  d.stream_destroy(stream);
}

std::string take_device_failure() {
  static std::mutex lock;
  std::lock_guard guard(lock);
  std::string text = failure_text(record);
  std::memset(record, 0, sizeof(int));
  return text;
}

std::string failure_text(const void* written) {
  constexpr size_t head = 7 * sizeof(int), mark = 2;  // "%d"
  int words[7];
  std::memcpy(words, written, head);
  if (words[0] != 1) return "";
  const char* letters = static_cast<const char*>(written) + head;
  std::string text(letters, strnlen(letters, bytes - head));
  while (text.ends_with('\n')) text.pop_back();
  // The six numbers are the last ones: what stands before them may hold any letters.
  for (int i = 6; i >= 1; i--)
    if (size_t at = text.rfind("%d"); at != text.npos) text.replace(at, mark, std::to_string(words[i]));
  for (size_t at = 0; (at = text.find("%%", at)) != text.npos; at++) text.erase(at, 1);
  return text;
}

}  // namespace tl
