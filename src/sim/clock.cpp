#include "sim/clock.h"

#include <algorithm>
#include <utility>

namespace tl::sim {
namespace {

std::shared_ptr<const Epochs> latest(const std::shared_ptr<const Epochs>& a,
                                     const std::shared_ptr<const Epochs>& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  auto both = std::make_shared<Epochs>(*a);
  for (size_t i = 0; i < both->size(); i++) (*both)[i] = std::max((*both)[i], (*b)[i]);
  return both;
}

}  // namespace

KnownRef merge(const KnownRef& a, const KnownRef& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  auto both = std::make_shared<Known>(*a);
  both->own = nullptr;
  for (auto& [block, epochs] : b->blocks) {
    auto& mine = both->blocks[block];
    mine = latest(mine, epochs);
  }
  return both;
}

Clocks::Clocks(int32_t block, int64_t threads, int timelines, int64_t barriers, int64_t product_warps)
    : block(block),
      threads(threads),
      timelines(timelines),
      first_product(timelines * threads + barriers),
      epochs(size_t(threads), 1),
      joined(size_t(first_product + product_warps)),
      known(size_t(threads)) {}

bool Clocks::knows(int64_t thread, const KnownRef& released, int64_t first, int64_t end) const {
  auto it = released->blocks.find(block);
  if (it == released->blocks.end()) return true;
  const Known* mine = known[size_t(thread)].get();
  for (int64_t t = 0; t < threads; t++) {
    bool is_told = (*it->second)[size_t(t)] > 0 && (t < first || t >= end);
    if (is_told && !(mine && mine->own && mine->own[t] >= (*it->second)[size_t(t)])) return false;
  }
  return true;
}

// k, and what these threads have done and joined so far.
KnownRef Clocks::with_own(const KnownRef& k, std::span<const int32_t> who) const {
  auto result = k ? std::make_shared<Known>(*k) : std::make_shared<Known>();
  auto& held = result->blocks[block];
  auto own = held ? std::make_shared<Epochs>(*held) : std::make_shared<Epochs>(joined.size(), 0);
  auto raise = [&](int32_t slot, uint32_t epoch) {
    (*own)[size_t(slot)] = std::max((*own)[size_t(slot)], epoch);
  };
  for (int32_t t : who) {
    raise(t, epochs[size_t(t)]);
    for (int timeline = 1; timeline < timelines; timeline++)
      raise(slot(Timeline(timeline), t), joined[size_t(slot(Timeline(timeline), t))]);
    if (int32_t products = slot_of_products(t / product_threads); products < int32_t(joined.size()))
      raise(products, joined[size_t(products)]);
  }
  result->own = own->data();
  held = std::move(own);
  return result;
}

void Clocks::meet(std::span<const int32_t> who) {
  KnownRef all = release(who);
  for (int32_t t : who) known[size_t(t)] = all;
}

KnownRef Clocks::release(std::span<const int32_t> who) {
  std::vector<KnownRef> distinct;
  for (int32_t t : who)
    if (std::ranges::find(distinct, known[size_t(t)]) == distinct.end()) distinct.push_back(known[size_t(t)]);
  KnownRef all;
  for (auto& k : distinct) all = merge(all, k);
  all = with_own(all, who);
  for (int32_t t : who) epochs[size_t(t)]++;
  return all;
}

bool Clocks::is_known(const Stamp& s) const {
  return std::ranges::any_of(known, [&](auto& k) { return covers(k, s); });
}

KnownRef Clocks::release(int64_t thread) {
  int32_t t = int32_t(thread);
  KnownRef released = with_own(known[size_t(thread)], {&t, 1});
  epochs[size_t(thread)]++;
  return released;
}

void Clocks::acquire(int64_t thread, const KnownRef& released) {
  int32_t t = int32_t(thread);
  acquire({&t, 1}, released);
}

// Those that knew the same know the same afterwards, and share it.
void Clocks::acquire(std::span<const int32_t> who, const KnownRef& released) {
  KnownRef before, after;
  for (int32_t t : who) {
    auto& mine = known[size_t(t)];
    if (!released || mine == released) continue;
    if (!after || before != mine) {
      auto both = std::make_shared<Known>(*merge(mine, released));
      auto it = both->blocks.find(block);
      both->own = it == both->blocks.end() ? nullptr : it->second->data();
      before = std::exchange(mine, after = std::move(both));
    } else {
      mine = after;
    }
  }
}

void Clocks::fence(int64_t thread, bool everywhere) {
  if (everywhere) join(thread, Timeline::fenced_tensors, epochs[size_t(thread)]);
  join(thread, Timeline::fenced, epochs[size_t(thread)]++);
  int32_t copies =
      slot(Timeline::copies,
           thread);  // those that have landed: it has waited for them, or heard it from a barrier
  const Known* k = known[size_t(thread)].get();
  join(thread, Timeline::fenced_copies, std::max(joined[size_t(copies)], k && k->own ? k->own[copies] : 0));
}

void Clocks::append_state(std::string& state) const {
  auto append = [&](const Epochs& e) {
    state.append(reinterpret_cast<const char*>(e.data()), e.size() * sizeof(e[0]));
  };
  append(epochs);
  append(joined);
  const Known* last = nullptr;
  for (auto& k : known) {
    if (!k || k.get() == last) continue;  // most share one
    last = k.get();
    for (auto& [other, held] : k->blocks) append(*held);
  }
}

KnownRef Clocks::with(const KnownRef& k, int32_t slot, uint32_t epoch) const {
  auto result = std::make_shared<Known>(*with_own(k, {}));
  auto own = std::make_shared<Epochs>(*result->blocks[block]);
  (*own)[size_t(slot)] = std::max((*own)[size_t(slot)], epoch);
  result->own = own->data();
  result->blocks[block] = std::move(own);
  return result;
}

}  // namespace tl::sim
