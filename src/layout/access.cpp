#include "layout/access.h"

#include <algorithm>

#include "base/error.h"
#include "layout/algebra.h"
#include "layout/table.h"

namespace tl {
namespace {

// The cost of each access of each warp, by its lanes' addresses and its width, added up.
template <class Cost>
WarpCost all_accesses(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int64_t warp,
                      Cost cost) {
  if (memory.extents != map.shape())
    fail({}, "the layout has the extents {} but the mapping {}: they must be those of one tile",
         tuple_text(memory.extents), tuple_text(map.shape()));
  std::vector<int64_t> offsets = table(flattened(memory)), places = table(map.layout);
  int64_t warps = (map.threads + warp - 1) / warp, steps = (map.registers + lanes - 1) / lanes;
  std::vector<std::vector<int64_t>> accesses(size_t(warps * steps), std::vector<int64_t>(size_t(warp), -1));
  for (size_t p = 0; p < offsets.size(); p++) {
    size_t row = p * size_t(map.replicas) * 2;
    int64_t thread = places[row], reg = places[row + 1];
    if (reg % lanes == 0)
      accesses[size_t(thread / warp * steps + reg / lanes)][size_t(thread % warp)] = offsets[p] * bits / 8;
  }
  int width = int(std::max<int64_t>(1, lanes * bits / 8));
  WarpCost total;
  for (auto& addresses : accesses) {
    WarpCost one = cost(addresses, width);
    total.count += one.count;
    total.least += one.least;
  }
  return total;
}

}  // namespace

WarpCost bank_cycles(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int64_t warp,
                     const SharedBanks& banks) {
  return all_accesses(memory, bits, map, lanes, warp, [&](const std::vector<int64_t>& addresses, int width) {
    return shared_bank_cycles(addresses, width, banks);
  });
}

WarpCost sectors(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int64_t warp) {
  return all_accesses(memory, bits, map, lanes, warp, global_sectors);
}

int64_t vector_width(const Layout& memory, int64_t limit) {
  std::vector<int64_t> offsets = table(flattened(memory));
  int64_t last = memory.extents.empty() ? 1 : memory.extents.back(), width = 1;
  auto works = [&](int64_t v) {
    for (size_t p = 0; p < offsets.size(); p++) {
      int64_t at = int64_t(p) % v;
      if (at == 0 ? offsets[p] % v != 0 : offsets[p] != offsets[p - 1] + 1) return false;
    }
    return true;
  };
  while (width * 2 <= limit && last % (width * 2) == 0 && works(width * 2)) width *= 2;
  return width;
}

}  // namespace tl
