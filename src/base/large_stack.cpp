#include "base/large_stack.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "base/interrupt.h"

namespace tl {
namespace {

constexpr size_t stack_bytes = 128 << 20;                  // of addresses; memory is taken as it is used
constexpr auto patience = std::chrono::milliseconds(100);  // with work that is to end

thread_local bool is_large = false;  // this thread's

struct Job {
  std::function<void()> work = {};
  std::shared_ptr<Task> task = {};
  std::exception_ptr thrown = {};
  bool done = false;
  std::mutex mutex = {};
  std::condition_variable changed = {};

  void run() {
    {
      Working working(task.get(), false);
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
      work = nullptr;  // what it owns goes before anybody is told
    }
    std::lock_guard guard(mutex);
    done = true;
    changed.notify_all();
  }
};

void* run(void* argument) {
  std::unique_ptr<std::shared_ptr<Job>> job(static_cast<std::shared_ptr<Job>*>(argument));
  is_large = true;
  (*job)->run();
  return nullptr;
}

bool begin(const std::shared_ptr<Job>& job) {
  auto held = std::make_unique<std::shared_ptr<Job>>(job);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  bool made = pthread_attr_setstacksize(&attributes, stack_bytes) == 0 &&
              pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
              pthread_create(&thread, &attributes, run, held.get()) == 0;
  pthread_attr_destroy(&attributes);
  if (made) static_cast<void>(held.release());
  return made;
}

void run_and_wait(std::function<void()> work, bool may_leave) {
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  if (attention.task) job->task = attention.task->shared_from_this();
  if (!begin(job)) return job->work();
  std::unique_lock lock(job->mutex);
  auto is_done = [&] { return job->done; };
  try {
    wait_looking(lock, job->changed, is_done);
  } catch (...) {
    job->task->ended = true;
    if (!lock) lock.lock();
    may_leave ? void(job->changed.wait_for(lock, patience, is_done)) : job->changed.wait(lock, is_done);
    throw;
  }
  if (job->thrown) std::rethrow_exception(job->thrown);
}

}  // namespace

void on_large_stack(const std::function<void()>& work) {
  if (is_large) return work();
  run_and_wait([&work] { work(); }, false);
}

void on_thread_of_its_own(std::function<void()> work) {
  if (is_large) return work();  // whoever began that thread hears
  run_and_wait(std::move(work), true);
}

}  // namespace tl
