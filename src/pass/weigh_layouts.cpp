#include "pass/weigh_layouts.h"

#include "ops/warp_accesses.h"
#include "pass/share_storage.h"

namespace tl {
namespace {

std::vector<WarpAccess> all_accesses(const BufferInfo& tile, const std::vector<SharedDemand>& demands,
                                     const Target& target) {
  std::vector<WarpAccess> all;
  for (auto& d : demands) all.insert(all.end(), d.reads.begin(), d.reads.end());
  if (!all.empty()) all.push_back(copy_writes(tile_shape(tile), tile.dtype.bits, target));
  return all;
}

}  // namespace

Layout weigh_layouts(const Function& f, BufferId id, const std::vector<SharedDemand>& demands,
                     const Target& target, int64_t most) {
  const BufferInfo& tile = f[id];
  std::vector<WarpAccess> accesses = all_accesses(tile, demands, target);
  std::vector<Layout> family;
  for (auto& d : demands) family.push_back(d.layout);
  if (accesses.empty()) return family[0];
  for (auto& l : bank_family(tile_shape(tile), tile.dtype.bits))
    if (fits_others(l, f, id)) family.push_back(l);
  return fewest_wavefronts(family, accesses, tile.dtype.bits, most);
}

int64_t wavefronts(const Layout& l, const BufferInfo& tile, const std::vector<SharedDemand>& demands,
                   const Target& target) {
  int64_t count = 0;
  for (auto& a : all_accesses(tile, demands, target)) count += shared_cost(l, a, tile.dtype.bits).count;
  return count;
}

}  // namespace tl
