// Work that somebody waits for, and may stop waiting for (Ctrl-C).  Whoever works long polls: on the thread
// of the call that asks whoever listens, a few times a second; on threads that work for it, whether it has
// been told to end.  Where nobody listens, polling does nothing.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace tl {

// Ends work that nobody waits for any more, on the threads that help.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// One call from outside, to all threads that work for it.
struct Task : std::enable_shared_from_this<Task> {
  using Clock = std::chrono::steady_clock;
  static constexpr auto interval = std::chrono::milliseconds(50);
  // On the thread of the call, once an interval: what it throws ends the work.
  void (*listen)(Task&) = nullptr;
  const char* doing = "";                  // "compiling", for who shows progress
  const char* name = "";                   // of the kernel
  std::atomic<const char*> part{nullptr};  // of the work: a constant
  std::atomic<int64_t> done{0}, all{0};    // blocks, where they are counted
  std::atomic<bool> ended{false};          // it is not wanted any more
  bool left_behind = false;                // ended, but a thread goes on that uses what the call was given
  Clock::time_point begun = {}, next = {};
};

// What a thread polls.
struct Attention {
  Task* task = nullptr;
  bool is_of_call = false;  // the thread that made the call, and hears what is said to it
  uint32_t left = 0;        // polls until the next look
  uint64_t steps = 0;       // polls so far: of a compilation, nodes that were visited
};
extern constinit thread_local Attention attention;
extern constinit std::atomic<uint64_t> steps_done;  // by work that has ended, on all threads
// What tests count in place of time: of all work that has ended, and of this thread's.
inline uint64_t steps_so_far() { return steps_done.load(std::memory_order_relaxed) + attention.steps; }

// Throws where the work is to end.
void look();
// The same at each 64th call, for what is called often.
inline void poll() {
  attention.steps++;
  if (attention.task && attention.left-- == 0) look();
}

// What it is at, for who shows progress: a constant.
inline void now_at(const char* part) {
  if (attention.task) attention.task->part = part;
}

extern constinit std::atomic<int> threads_at_work;

// For its life, this thread works for a task.
class Working {
 public:
  Working(Task* task, bool is_of_call) {
    attention = {task, is_of_call};
    threads_at_work.fetch_add(1, std::memory_order_relaxed);
  }
  Working(const Working&) = delete;
  ~Working() {
    steps_done.fetch_add(attention.steps, std::memory_order_relaxed);
    attention = before;
    threads_at_work.fetch_sub(1, std::memory_order_release);
  }

 private:
  Attention before = attention;
};

// Waits until `ready` holds, which is asked under `lock`; looks up meanwhile.
template <class Ready>
void wait_looking(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Ready ready) {
  while (!changed.wait_for(lock, Task::interval, ready)) {
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace tl
