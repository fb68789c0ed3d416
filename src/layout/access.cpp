#include "layout/access.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "layout/algebra.h"
#include "layout/table.h"

namespace tl {
namespace {

// Calls visit(addresses) for each access of each warp: the bytes that its threads want at once.
template <class F>
void each_access(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int warp, F visit) {
  if (memory.extents != map.shape())
    fail({}, "the layout has the extents {} but the mapping {}: they must be those of one tile",
         tuple_text(memory.extents), tuple_text(map.shape()));
  std::vector<int64_t> offsets = table(flattened(memory)), places = table(map.layout);
  int64_t warps = (map.threads + warp - 1) / warp, steps = (map.registers + lanes - 1) / lanes;
  std::vector<int64_t> addresses(size_t(warps * steps * warp), -1);
  for (size_t p = 0; p < offsets.size(); p++) {
    size_t row = p * size_t(map.replicas) * 2;
    int64_t thread = places[row], reg = places[row + 1];
    if (reg % lanes) continue;
    addresses[size_t((thread / warp * steps + reg / lanes) * warp + thread % warp)] = offsets[p] * bits / 8;
  }
  for (size_t a = 0; a < addresses.size(); a += size_t(warp))
    visit(std::span(addresses).subspan(a, size_t(warp)));
}

}  // namespace

Wavefronts wavefronts(std::span<const int64_t> addresses, int width, int banks) {
  Wavefronts total;
  size_t part = width <= 4 ? addresses.size() : std::max<size_t>(1, size_t(banks * 4 / width));
  for (size_t first = 0; first < addresses.size(); first += part) {
    std::set<int64_t> words;
    std::vector<int64_t> per_bank(size_t(banks), 0);
    for (size_t i = first; i < std::min(first + part, addresses.size()); i++)
      for (int64_t at = addresses[i] / 4; addresses[i] >= 0 && at <= (addresses[i] + width - 1) / 4; at++)
        if (words.insert(at).second) per_bank[size_t(at % banks)]++;
    total.count += *std::max_element(per_bank.begin(), per_bank.end());
    total.ideal += (int64_t(words.size()) + banks - 1) / banks;
  }
  return total;
}

int64_t sectors(std::span<const int64_t> addresses, int width) {
  std::set<int64_t> touched;
  for (int64_t a : addresses)
    for (int64_t s = a / 32; a >= 0 && s <= (a + width - 1) / 32; s++) touched.insert(s);
  return int64_t(touched.size());
}

Wavefronts wavefronts(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int warp,
                      int banks) {
  Wavefronts total;
  each_access(memory, bits, map, lanes, warp, [&](std::span<const int64_t> addresses) {
    Wavefronts w = wavefronts(addresses, int(std::max<int64_t>(1, lanes * bits / 8)), banks);
    total.count += w.count;
    total.ideal += w.ideal;
  });
  return total;
}

int64_t sectors(const Layout& memory, int bits, const Fragment& map, int64_t lanes, int warp) {
  int64_t total = 0;
  each_access(memory, bits, map, lanes, warp, [&](std::span<const int64_t> addresses) {
    total += sectors(addresses, int(std::max<int64_t>(1, lanes * bits / 8)));
  });
  return total;
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
