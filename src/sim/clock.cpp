#include "sim/clock.h"

#include <algorithm>

namespace tl::sim {
namespace {

std::shared_ptr<const Epochs> latest(const std::shared_ptr<const Epochs>& a, const std::shared_ptr<const Epochs>& b) {
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

Clocks::Clocks(int32_t block, int64_t threads) : block(block), epochs(size_t(2 * threads), 1), known(size_t(2 * threads)) {}

bool Clocks::knows_other(const Stamp& s, int64_t thread) const {
  const Known* k = known[size_t(thread)].get();
  if (!k) return false;
  auto it = k->blocks.find(s.block);
  return it != k->blocks.end() && (*it->second)[s.thread] >= s.epoch;
}

// k, and what these threads have done so far.
KnownRef Clocks::with_own(const KnownRef& k, std::span<const int32_t> threads) const {
  auto result = k ? std::make_shared<Known>(*k) : std::make_shared<Known>();
  auto& held = result->blocks[block];
  auto own = held ? std::make_shared<Epochs>(*held) : std::make_shared<Epochs>(epochs.size(), 0);
  for (int32_t t : threads) (*own)[size_t(t)] = std::max((*own)[size_t(t)], epochs[size_t(t)]);
  result->own = own->data();
  held = std::move(own);
  return result;
}

void Clocks::meet(std::span<const int32_t> threads) {
  std::vector<KnownRef> distinct;
  for (int32_t t : threads)
    if (std::find(distinct.begin(), distinct.end(), known[size_t(t)]) == distinct.end())
      distinct.push_back(known[size_t(t)]);
  KnownRef all;
  for (auto& k : distinct) all = merge(all, k);
  all = with_own(all, threads);
  for (int32_t t : threads) {
    known[size_t(t)] = all;
    epochs[size_t(t)]++;
  }
}

KnownRef Clocks::release(int64_t thread) {
  int32_t t = int32_t(thread);
  KnownRef told = with_own(known[size_t(thread)], {&t, 1});
  epochs[size_t(thread)]++;
  return told;
}

void Clocks::acquire(int64_t thread, const KnownRef& released) {
  auto& mine = known[size_t(thread)];
  if (!released || mine == released) return;
  auto both = std::make_shared<Known>(*merge(mine, released));
  auto it = both->blocks.find(block);
  both->own = it == both->blocks.end() ? nullptr : it->second->data();
  mine = std::move(both);
}

}  // namespace tl::sim
