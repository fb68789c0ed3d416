#include "base/interrupt.h"

namespace tl {

constinit thread_local Attention attention;
constinit std::atomic<uint64_t> steps_done{0};
constinit std::atomic<int> threads_at_work{0};

void look() {
  Attention& a = attention;
  if (!a.task) return;
  a.left = 63;
  if (a.task->ended.load(std::memory_order_relaxed)) throw Interrupted();
  if (!a.is_of_call || !a.task->listen) return;
  auto now = Task::Clock::now();
  if (now < a.task->next) return;
  a.task->next = now + Task::interval;
  a.task->listen(*a.task);
}

}  // namespace tl
