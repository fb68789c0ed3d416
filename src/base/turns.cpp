// Threads of the system, all but one of which wait for their turn.
#include "base/turns.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/interrupt.h"

namespace tl {
namespace {

struct Stopped {};  // thrown in those that wait when another one has failed

}  // namespace

struct Turns::State {
  struct One {
    std::function<bool()> ready = {};  // what it waits for; empty: nothing
    bool done = false;
    std::unique_lock<std::mutex>* lock = nullptr;  // that it holds while it runs
  };
  std::function<void(size_t)> switched;
  std::vector<One> all = {};
  size_t now = 0;
  bool stopped = false;
  std::exception_ptr thrown = {};
  std::mutex mutex = {};
  std::condition_variable changed = {};

  std::optional<size_t> next_after(size_t from) const {
    for (size_t i = 1; i <= all.size(); i++) {
      size_t next = (from + i) % all.size();
      if (!all[next].done && (!all[next].ready || all[next].ready())) return next;
    }
    return std::nullopt;
  }
  // All that are left wait for each other: the first of them is told.
  std::optional<size_t> first_left() const {
    for (size_t i = 0; i < all.size(); i++)
      if (!all[i].done) return i;
    return std::nullopt;
  }
  void resume(size_t next) {
    if (next != now) switched(next);
    now = next;
    changed.notify_all();
  }

  void body(size_t number, const std::function<void()>& function) {
    std::unique_lock lock(mutex);
    all[number].lock = &lock;
    changed.wait(lock, [&] { return stopped || now == number; });
    try {
      if (!stopped) function();
    } catch (const Stopped&) {
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      stopped = true;
      changed.notify_all();
    }
    all[number].done = true;
    changed.notify_all();
    if (stopped) return;
    auto next = next_after(number);
    if (!next) next = first_left();
    if (next) resume(*next);
  }
};

Turns::Turns(std::function<void(size_t)> switched) : state(new State{.switched = std::move(switched)}) {}
Turns::~Turns() = default;

void Turns::run(const std::vector<std::function<void()>>& functions) {
  state->all.resize(functions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < functions.size(); i++)
    threads.emplace_back([this, i, &functions, task = attention.task] {
      Working working(task, false);
      state->body(i, functions[i]);
    });
  {
    std::unique_lock lock(state->mutex);
    auto all_done = [&] { return std::ranges::all_of(state->all, [](auto& one) { return one.done; }); };
    try {
      wait_looking(lock, state->changed, all_done);
    } catch (...) {  // the one that runs will hear it
      attention.task->ended = true;
      state->thrown = std::current_exception();
    }
  }
  for (auto& t : threads) t.join();
  if (state->thrown) std::rethrow_exception(state->thrown);
}

bool Turns::wait(const std::function<bool()>& ready) {
  State& s = *state;
  if (ready()) return true;
  size_t me = s.now;
  s.all[me].ready = ready;
  if (auto next = s.next_after(me)) {
    s.resume(*next);
    s.changed.wait(*s.all[me].lock, [&] { return s.stopped || s.now == me; });
  }
  s.all[me].ready = {};
  if (s.stopped) throw Stopped();
  return ready();
}

size_t Turns::current() const { return state->now; }

}  // namespace tl
