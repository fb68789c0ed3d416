#include "pass/spread_banks.h"

#include <algorithm>

#include "ir/rewrite.h"
#include "ops/warp_accesses.h"

namespace tl {
namespace {

template <class R>
std::map<BufferId, int64_t> mentions(const R& r) {
  std::map<BufferId, int64_t> found;
  visit(r, [&](const Load& n) { found[n.buffer]++; }, [&](const Store& n) { found[n.buffer]++; });
  return found;
}

// Tiles with rows that these nests alone touch.
std::vector<BufferId> candidates(const Function& f, const Kernel& k, const std::vector<MappedNest>& nests,
                                 const LayoutDecisions& known) {
  std::map<BufferId, int64_t> everywhere = mentions(k.body), inside;
  std::set<const StmtNode*> tiles;
  for (auto& n : nests) {
    if (n.stmt.as<Tile>()) tiles.insert(n.stmt.get());
    for (auto& [b, count] : mentions(n.stmt)) inside[b] += count;
  }
  std::set<BufferId> others;  // of operators that are no nests, and other shapes of one storage
  visit(k.body, [&](const Tile& t) {
    for (auto& o : t.operands)
      if (auto* r = std::get_if<Region>(&o); r && !tiles.contains(&t)) others.insert(r->buffer);
  });
  for (auto& b : f.buffers)
    if (b.alias_of) others.insert(b.alias_of);
  std::vector<BufferId> found;
  visit(k.body, [&](const Alloc& n) {
    const BufferInfo& info = f[n.buffer];
    bool is_tile = info.scope == Scope::shared && info.shape.size() > 1 && !info.alias_of;
    if (is_tile && !known.shared.contains(n.buffer) && !others.contains(n.buffer) &&
        everywhere[n.buffer] == inside[n.buffer])
      found.push_back(n.buffer);
  });
  return found;
}

// The accesses of warps to a tile; nothing where they are unknown.
std::optional<std::vector<WarpAccess>> accesses_to(BufferId b, const std::vector<MappedNest>& nests,
                                                   int64_t warp) {
  std::vector<WarpAccess> all;
  for (auto& n : nests)
    for (auto& a : accesses_of(*n.nest)) {
      if (a.buffer != b) continue;
      auto some = warp_accesses(*n.nest, *n.mapping, a.index, n.lanes, warp);
      if (!some) return std::nullopt;
      for (auto& access : *some) access.stores = a.is_store;
      all.insert(all.end(), some->begin(), some->end());
    }
  return all;
}

WarpCost cost_of(const Layout& l, const std::vector<WarpAccess>& accesses, int bits,
                 const SharedBanks& banks) {
  WarpCost sum{.accesses = 0};
  for (auto& a : accesses) {
    WarpCost one = shared_cost(l, a, bits, banks);
    sum.count += one.count, sum.least += one.least, sum.accesses += one.accesses;
  }
  return sum;
}

}  // namespace

std::map<BufferId, Layout> spread_over_banks(const Function& f, const Kernel& k, const Target& target,
                                             const std::vector<MappedNest>& nests,
                                             const LayoutDecisions& known) {
  std::map<BufferId, Layout> chosen;
  for (BufferId b : candidates(f, k, nests, known)) {
    int bits = f[b].dtype.bits;
    const SharedBanks& banks = target.shared_banks;
    std::vector<int64_t> shape = tile_shape(f[b]);
    auto accesses = accesses_to(b, nests, target.warp);
    if (!accesses) continue;
    std::vector<Layout> family = bank_family(shape, bits);
    WarpCost plain = cost_of(family[0], *accesses, bits, banks);
    if (plain.excess() == 0) continue;
    std::erase_if(family, [&](const Layout& l) {
      return cost_of(l, *accesses, bits, banks).accesses > plain.accesses;
    });
    int64_t most = may_pad(k) ? 2 * product(shape) : product(shape);
    Layout best = fewest_bank_cycles(family, *accesses, bits, most, banks);
    if (!equal(best, family[0])) chosen.emplace(b, std::move(best));
  }
  return chosen;
}

}  // namespace tl
