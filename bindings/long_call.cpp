#include "long_call.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <stdlib.h>

#include <cstdio>
#include <thread>

namespace nb = nanobind;
using namespace tl;

namespace {

constexpr auto shown_after = std::chrono::seconds(2);

// ── the line of progress ──────────────────────────────────────────────────────────────────────────────────
std::atomic<const Task*> shown{nullptr};  // there is one line: of the call that wanted it first
constexpr std::string_view clear_line = "\r\033[K";

void write_line(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) shown = nullptr;  // nobody reads it
}

void show(Task& task) {
  auto now = Task::Clock::now();
  if (task.begun == Task::Clock::time_point()) task.begun = now;
  if (now - task.begun < shown_after) return;
  const Task* none = nullptr;
  if (shown != &task && (!isatty(STDERR_FILENO) || !shown.compare_exchange_strong(none, &task))) return;
  const char* part = task.part;
  int64_t done = task.done, all = task.all;
  std::string where = part      ? fmt::format(": {}", part)
                      : all > 0 ? fmt::format(": {} of {} blocks done", done, all)
                                : "";
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - task.begun).count();
  write_line(fmt::format("{}tilelang: {} {}{}, {} s", clear_line, task.doing, task.name, where, seconds));
}

void stop_showing(const Task& task) {
  if (shown != &task) return;
  write_line(clear_line);
  shown = nullptr;
}

// ── the call ──────────────────────────────────────────────────────────────────────────────────────────────
void listen(Task& task) {
  if (ends_elsewhere()) throw Interrupted();
  {
    GilHeld held;
    if (or_sleep_at_exit([] { return PyErr_CheckSignals(); }) != 0) throw nb::python_error();
  }
  show(task);
}

thread_local std::shared_ptr<Task> kept;  // of the last call, for the next one

std::shared_ptr<Task> make_task(const char* doing, const char* name) {
  std::shared_ptr<Task> task = std::move(kept);
  if (!task || task.use_count() > 1) task = std::make_shared<Task>();
  task->listen = &listen;
  task->doing = doing;
  task->name = name;
  task->part = nullptr;
  task->done = task->all = 0;
  task->ended = task->left_behind = false;
  task->begun = task->next = {};
  return task;
}

// What threads work with, a device compiler's tables say, is destroyed after this.
void leave_before_destructors(int status, void*) {
  for (int i = 0; i < 20 && threads_at_work > 0; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (threads_at_work == 0) return;
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

LongCall::LongCall(const char* doing, const std::string& name)
    : task(make_task(doing, name.c_str())),
      working(task.get(), true) {}

LongCall::~LongCall() {
  stop_showing(*task);
  if (!task->left_behind) kept = std::move(task);
}

void begin_exit() {
  ending_thread = PyThread_get_thread_ident();
  on_exit(leave_before_destructors, nullptr);
}
