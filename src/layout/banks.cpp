// Counting bank cycles and sectors.
#include "layout/banks.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/interrupt.h"
#include "layout/swizzle.h"

namespace tl {
namespace {

constexpr int64_t word = 4, sector = 32;

// The distinct units of `size` bytes that these lanes touch.
std::vector<int64_t> units(const std::vector<int64_t>& addresses, size_t from, size_t to, int width,
                           int64_t size) {
  std::vector<int64_t> out;
  for (size_t lane = from; lane < std::min(to, addresses.size()); lane++) {
    int64_t at = addresses[lane];
    if (at < 0) continue;
    for (int64_t u = at / size; u <= (at + width - 1) / size; u++) out.push_back(u);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

WarpCost shared_bank_cycles(const std::vector<int64_t>& addresses, int width, const SharedBanks& banks,
                            bool stores) {
  constexpr size_t most = 64;
  internal_check(width > 0 && width <= 16, "an access of at most 16 bytes");
  internal_check(banks.count <= int(most) && std::has_single_bit(unsigned(banks.count)),
                 "a power of two of banks");
  size_t wide = width <= 4 ? 0 : width <= 8 ? 1 : 2;
  auto together = size_t((stores ? banks.storing : banks.loading)[wide]);
  std::vector<int64_t> ordered;
  if (!stores && wide == 2)
    for (size_t lane : banks.order) ordered.push_back(lane < addresses.size() ? addresses[lane] : -1);
  const std::vector<int64_t>& served = ordered.empty() ? addresses : ordered;
  WarpCost cost;
  for (size_t from = 0; from < served.size(); from += together) {
    std::vector<int64_t> words = units(served, from, from + together, width, word);
    int64_t per_bank[most];
    std::fill_n(per_bank, banks.count, 0);
    for (int64_t w : words) per_bank[w & (banks.count - 1)]++;
    cost.count += *std::max_element(per_bank, per_bank + banks.count);
    cost.least += (int64_t(words.size()) + banks.count - 1) / banks.count;
  }
  return cost;
}

WarpCost global_sectors(const std::vector<int64_t>& addresses, int width) {
  int64_t bytes = int64_t(units(addresses, 0, addresses.size(), width, 1).size());
  return {.count = int64_t(units(addresses, 0, addresses.size(), width, sector).size()),
          .least = (bytes + sector - 1) / sector};
}

WarpCost shared_cost(const Layout& l, const WarpAccess& access, int bits, const SharedBanks& banks) {
  int64_t most = std::max(1, 128 / bits), n = access.elements, piece = std::min(n, most);
  auto first_of = [&](std::vector<int64_t> index, int64_t at) {
    if (index.empty()) return int64_t(-1);
    index.back() += at;
    return map_index(l, index)[0];
  };
  bool together = n % piece == 0;
  for (auto& index : access.lanes)
    for (int64_t at = 0; together && !index.empty() && at < n; at += piece) {
      int64_t first = first_of(index, at);
      together = first % piece == 0 && first_of(index, at + piece - 1) == first + piece - 1;
    }
  if (!together) piece = 1;
  WarpCost cost{.accesses = n / piece * access.times};
  for (int64_t at = 0; at < n; at += piece) {
    std::vector<int64_t> addresses;
    for (auto& index : access.lanes) {
      int64_t first = first_of(index, at);
      addresses.push_back(first < 0 ? first : first * bits / 8);
    }
    WarpCost one = shared_bank_cycles(addresses, std::max(1, int(piece * bits / 8)), banks, access.stores);
    cost.count += one.count * access.times;
    cost.least += one.least * access.times;
  }
  return cost;
}

std::vector<Layout> bank_family(const std::vector<int64_t>& extents, int bits) {
  std::vector<Layout> family{row_major(extents)};
  size_t last = extents.size() - 1;
  if (extents.size() < 2 || bits % 8) return family;
  int64_t chunk = 128 / bits, cols = extents[last];
  for (int64_t bytes : {16, 8, 4})
    if (bytes * 8 >= bits) family.push_back(set_apart(extents, cols + bytes * 8 / bits));
  for (int64_t chunks : {8, 4, 2}) {  // XORed together
    if (cols % (chunk * chunks)) continue;
    for (int64_t divisor = 1; divisor < extents[last - 1] && divisor <= 8; divisor *= 2) {
      std::vector<Term> terms = *set_apart(extents, cols).terms;
      std::erase_if(terms, [&](const Term& t) { return t.digit.input == int(last); });
      int in = int(last);
      terms.push_back({.stride = chunk * chunks, .digit = {in, chunk * chunks, cols / (chunk * chunks)}});
      terms.push_back({.stride = chunk, .digit = {in, chunk, chunks}, .xors = {{in - 1, divisor, chunks}}});
      terms.push_back({.stride = 1, .digit = {in, 1, chunk}});
      family.push_back(from_terms(extents, 1, std::move(terms)));
    }
  }
  return family;
}

Layout fewest_bank_cycles(const std::vector<Layout>& family, const std::vector<WarpAccess>& accesses,
                          int bits, int64_t most, const SharedBanks& banks) {
  const Layout* best = nullptr;
  int64_t least = 0;
  for (auto& l : family) {
    int64_t count = 0;
    for (auto& a : accesses) {
      poll();
      count += shared_cost(l, a, bits, banks).count;
    }
    if (!best || (count < least && l.ranges[0] <= most)) std::tie(best, least) = std::tuple(&l, count);
  }
  return *best;
}

}  // namespace tl
