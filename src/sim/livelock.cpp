#include "sim/livelock.h"

#include <algorithm>
#include <set>

#include "ir/rewrite.h"
#include "sim/barrier.h"
#include "sim/steps.h"
#include "sim/warp.h"
#include "target/effects.h"

namespace tl::sim {
namespace {

// The variables and elements that the loop's condition is made of, if none of them can change: nothing in the
// loop assigns to one that is the thread's own, and nothing in the kernel to any other.
std::string never_changing(const Warp& w) {
  auto* loop = w.code->sites[size_t(stands_at(w).site)].stmt.as<While>();
  if (!loop) return "";
  const Function& f = *w.code->function;
  auto storages = [&](const Stmt& body) {
    std::set<BufferId> written;
    for (BufferId b : written_buffers(body)) written.insert(f.storage(b));
    return written;
  };
  std::set<BufferId> in_loop = storages(loop->body), anywhere = storages(w.code->kernel->body);
  std::string names;
  bool may_change =
      contains(loop->cond, [](const Call&) { return true; }) || contains(loop->body, [](const Call& c) {
        return c.intrinsic->effect == Intrinsic::Effect::control || is_foreign(*c.intrinsic);
      });
  visit(loop->cond, [&](const Load& n) {
    bool own = f[n.buffer].scope == Scope::local || f[n.buffer].scope == Scope::fragment;
    may_change |=
        (own ? in_loop : anywhere).contains(f.storage(n.buffer)) || f[n.buffer].scope == Scope::global;
    if (names.find(f[n.buffer].name) == names.npos) names += (names.empty() ? "" : ", ") + f[n.buffer].name;
  });
  return may_change ? "" : names;
}

// Of the warp's threads that have left the loop, or wait for another branch: none goes on before it has
// ended.
std::string held_up(const Warp& w) {
  LaneMask held = w.alive & ~w.active & ~w.returned;
  if (!held) return "";
  std::string others = count_of(held) > 1 ? fmt::format(" and {} more", count_of(held) - 1) : "";
  return fmt::format(
      "; thread {}{} of the same warp cannot go on before this loop has ended, because threads of a warp "
      "cannot "
      "wait for each other: if the loop waits for one of them (which holds a lock, say), let one thread of "
      "each warp take part, on behalf of all",
      w.first + first_lane(held), others);
}

}  // namespace

bool reads_memory(const Warp& w) {
  const auto& all = w.code->operations;
  size_t test = w.next - 1, end = test + size_t(all[test].jump);
  if (all[test].run != narrow_on || end > all.size()) return true;
  size_t back = end - 1;
  while (back > test && all[back].run != jump) back--;  // behind it may stand where its breaks meet
  if (back == test) return true;
  size_t begin = size_t(int64_t(back) + all[back].jump);
  return std::any_of(all.begin() + int64_t(begin), all.begin() + int64_t(end), [&](const Operation& o) {
    if (o.effect == Operation::Effect::call) return true;
    if (o.effect != Operation::Effect::load) return false;
    Scope scope = w.code->places[size_t(o.row)].scope;
    return scope == Scope::global || scope == Scope::shared;
  });
}

std::string describe_livelock(const Warp& w, int lane, bool repeats, int64_t residents, size_t to_come) {
  std::string who = describe_thread(w, lane);
  if (std::string same = never_changing(w); !same.empty())
    return fmt::format(
        "{} does not leave this loop: {} never changes, because nothing in the loop assigns to it, and no "
        "other "
        "thread does; change a value of the condition inside the loop",
        who, same);
  if (reads_memory(w) && to_come > 0)
    return fmt::format(
        "{} waits in this loop for memory to change, but none of the {} blocks that {} holds at once (of {} "
        "threads and {} bytes of shared memory) can go on, and {} more blocks begin only when one of these "
        "has ended; make the grid smaller and let each block loop, or wait for blocks of lower numbers "
        "only{}",
        who, residents, w.code->chip, w.code->thread_count(), w.code->shared_bytes, to_come, held_up(w));
  if (reads_memory(w))
    return who + " waits in this loop for memory to change, but no other thread can go on and change it" +
           held_up(w);
  std::string why =
      repeats ? "the values in its condition do not change any more"
              : fmt::format("it has run more than {} iterations", most_computing_rounds * w.block->patience);
  return fmt::format(
      "{} does not leave this loop, which reads no memory: {}; change a value of the condition inside the "
      "loop",
      who, why);
}

}  // namespace tl::sim
