#include "base/large_stack.h"

#include <pthread.h>

#include <exception>

namespace tl {
namespace {

constexpr size_t stack_bytes = 128 << 20;  // of addresses; memory is taken as it is used

thread_local bool is_large = false;  // this thread's

struct Job {
  const std::function<void()>& work;
  std::exception_ptr thrown = {};
};

void* run(void* argument) {
  auto& job = *static_cast<Job*>(argument);
  is_large = true;
  try {
    job.work();
  } catch (...) {
    job.thrown = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void on_large_stack(const std::function<void()>& work) {
  if (is_large) return work();
  Job job{work};
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  bool made = pthread_attr_setstacksize(&attributes, stack_bytes) == 0 &&
              pthread_create(&thread, &attributes, run, &job) == 0;
  pthread_attr_destroy(&attributes);
  if (!made) return work();
  pthread_join(thread, nullptr);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

}  // namespace tl
