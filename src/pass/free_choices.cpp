// Free choices are tried out: of the statements that share undecided fragments, those that touch the largest
// one may choose; inference is run to its end for each choice, on a copy of what is known, and the cheapest
// is taken.
#include <algorithm>

#include "ops/mapping.h"
#include "pass/inference.h"

namespace tl {
namespace {

constexpr size_t most_trials = 8;

// What a decided inference costs one thread: accesses to memory, a shared round trip for what is staged,
// and registers.
int64_t price_of(const Inference& in) {
  int64_t total = 0;
  for (auto& item : in.items) {
    total += int64_t(item.relayout.size()) * 1000;
    if (!item.loop || !item.nest) continue;
    int64_t trips = item.loop->registers;
    for (auto& a : accesses_of(*item.nest)) {
      Scope scope = in.f[a.buffer].scope;
      if (scope != Scope::global && scope != Scope::shared) continue;
      int64_t price = scope == Scope::global ? 16 : 4;
      total += price * trips / access_width(*item.nest, in.context(item.team), *item.loop, a);
    }
  }
  for (auto& [b, fragment] : in.known.fragments) total += fragment.registers * in.f[b].dtype.bits / 32;
  return total;
}

// Undecided items that share undecided fragments with the first, itself included.
std::vector<size_t> component(const Inference& in, size_t first) {
  std::set<BufferId> buffers;
  std::set<size_t> members{first};
  for (size_t before = 0; before != members.size() + buffers.size();) {
    before = members.size() + buffers.size();
    for (size_t i : members)
      for (BufferId b : in.items[i].touched)
        if (!in.known.fragments.contains(b)) buffers.insert(b);
    for (size_t i = 0; i < in.items.size(); i++)
      if (!in.items[i].settled && in.items[i].elements.empty() &&
          std::ranges::any_of(in.items[i].touched, [&](BufferId b) { return buffers.contains(b); }))
        members.insert(i);
  }
  return {members.begin(), members.end()};
}

// Elements of the largest undecided fragment that an item touches: the rest follows it by reductions and
// broadcasts, without a way through shared memory.
int64_t weight(const Inference& in, size_t i) {
  int64_t most = 0;
  for (BufferId b : in.items[i].touched) {
    if (in.known.fragments.contains(b)) continue;
    int64_t size = 1;
    for (int64_t e : tile_shape(in.f[b])) size *= e;
    most = std::max(most, size);
  }
  return most;
}

bool choose(Inference& in, size_t i) {
  return learn(in, in.items[i], ask(in, in.items[i], Strictness::free), Strictness::free);
}

// The rest of a trial, so that what it leaves open is paid for too: the largest first, the first of equals.
void finish(Inference& in, const std::vector<size_t>& members) {
  for (;;) {
    settle(in);
    std::optional<size_t> next;
    for (size_t i : members)
      if (!in.items[i].settled && (!next || weight(in, i) > weight(in, *next))) next = i;
    if (!next || !choose(in, *next)) return;
  }
}

// Lets the undecided item decide whose choice makes everything cheapest; the first of equals.
bool choose_best(Inference& in, size_t first) {
  std::vector<size_t> members = component(in, first);
  if (members.size() == 1 || !in.target.has_threads()) return choose(in, first);
  int64_t most = 0;
  for (size_t i : members) most = std::max(most, weight(in, i));
  const std::vector<size_t> all = members;
  std::erase_if(members, [&](size_t i) { return weight(in, i) < most; });
  size_t best = members[0];
  int64_t least = INT64_MAX;
  for (size_t n = 0; n < members.size() && n < most_trials; n++) {
    Inference trial = in;
    if (!choose(trial, members[n])) continue;
    finish(trial, all);
    if (int64_t c = price_of(trial); c < least) {
      least = c;
      best = members[n];
    }
  }
  return choose(in, best) || choose(in, first);
}

}  // namespace

bool take_free_choice(Inference& in) {
  for (bool elements : {false, true})  // single elements take what is left
    for (size_t i = 0; i < in.items.size(); i++)
      if (!in.items[i].settled && in.items[i].elements.empty() != elements && choose_best(in, i)) return true;
  return false;
}

}  // namespace tl
