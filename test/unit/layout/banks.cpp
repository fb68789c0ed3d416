// Bank cycles and sectors: counted by hand, then the code; conflicts planted where there should be some.
#include "layout/banks.h"

#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <set>

#include "layout/swizzle.h"
#include "target/target.h"

using namespace tl;

namespace {

std::vector<int64_t> lanes(int n, int64_t stride, int64_t start = 0) {
  std::vector<int64_t> out;
  for (int i = 0; i < n; i++) out.push_back(start + i * stride);
  return out;
}

// Another way to count: bank by bank, word by word, over bytes.
int64_t by_hand(const std::vector<int64_t>& addresses, int width) {
  size_t together = width == 16 ? 8 : width == 8 ? 16 : 32;
  int64_t total = 0;
  for (size_t from = 0; from < addresses.size(); from += together) {
    std::map<int64_t, std::set<int64_t>> words_of_bank;
    size_t most = 0;
    for (size_t i = from; i < std::min(from + together, addresses.size()); i++)
      for (int b = 0; addresses[i] >= 0 && b < width; b++) {
        int64_t byte = addresses[i] + b;
        auto& words = words_of_bank[byte % 128 / 4];
        words.insert(byte / 128);
        most = std::max(most, words.size());
      }
    total += int64_t(most);
  }
  return total;
}

}  // namespace

TEST_CASE("bank cycles: a warp of 64 lanes, and a chip that serves other lanes at once") {
  CHECK(shared_bank_cycles(lanes(64, 4), 4).count == 2);
  CHECK(shared_bank_cycles(lanes(64, 128), 4).count == 64);
  const SharedBanks& banks = find_target("gfx942")->shared_banks;
  std::vector<int64_t> halves = lanes(64, 8);  // lanes 16 to 31 ask for the banks of 0 to 15 again
  CHECK(shared_bank_cycles(halves, 8, banks).count == 4);
  for (size_t i = 0; i < 64; i++) halves[i] = i % 32 < 16 ? int64_t(i % 16 * 8) : int64_t(i % 16 * 8 + 256);
  CHECK(shared_bank_cycles(halves, 8, banks).count == 4);
  CHECK(shared_bank_cycles(halves, 8, banks, true).count == 4);
  // Four lanes fill half of the banks; 4 to 7 ask for the same ones as 0 to 3, and 20 to 23 for the others.
  std::vector<int64_t> wide(64, -1);
  for (int64_t i = 0; i < 4; i++) {
    wide[size_t(i)] = i * 16;
    wide[size_t(i + 4)] = i * 16 + 128;
    wide[size_t(i + 20)] = i * 16 + 64;
  }
  CHECK(shared_bank_cycles(wide, 16).count == 3);               // 0 to 7 twice, 20 to 23
  CHECK(shared_bank_cycles(wide, 16, banks).count == 2);        // with 20 to 23; 4 to 7
  CHECK(shared_bank_cycles(wide, 16, banks, true).count == 3);  // stores go in order
  SharedBanks more{.count = 64};
  CHECK(shared_bank_cycles(lanes(32, 8), 4, more).count == 1);
}

namespace {

// Which of gfx942's lanes are served with this one, and how often one bank is asked, straight from what is
// known of its shared memory: lanes in bits of a mask, words in sets.
uint64_t served_with(int lane, int width, bool stores) {
  int half = lane / 32 * 32, within = lane % 32;
  if (width <= 4 || (width == 8 && !stores)) return uint64_t(0xFFFFFFFF) << half;
  if (width == 8) return uint64_t(0xFFFF) << lane / 16 * 16;
  if (stores) return uint64_t(0xFF) << lane / 8 * 8;
  for (uint64_t phase : {0x00F0000F, 0x000F00F0})  // 0-3 with 20-23, 4-7 with 16-19
    for (uint64_t lanes : {phase, phase << 8})     // 8-11 with 28-31, 12-15 with 24-27
      if (lanes >> within & 1) return lanes << half;
  return 0;
}
int64_t asked(const std::vector<int64_t>& at, int width, bool stores) {
  int64_t total = 0;
  for (uint64_t left = ~uint64_t(0); left;) {
    uint64_t phase = served_with(std::countr_zero(left), width, stores);
    left &= ~phase;
    std::set<int64_t> words[32];
    size_t most = 0;
    for (int lane = 0; lane < 64; lane++)
      for (int b = 0; (phase >> lane & 1) && at[size_t(lane)] >= 0 && b < width; b += 4) {
        int64_t word = (at[size_t(lane)] + b) / 4;
        words[word % 32].insert(word);
        most = std::max(most, words[word % 32].size());
      }
    total += int64_t(most);
  }
  return total;
}

}  // namespace

TEST_CASE("bank cycles: gfx942 serves any two lanes together or one after the other, as its table says") {
  const SharedBanks& banks = find_target("gfx942")->shared_banks;
  for (bool stores : {false, true})
    for (int width : {1, 2, 4, 8, 16})
      for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
          std::vector<int64_t> two(64, -1);
          two[size_t(i)] = 0;
          two[size_t(j)] = 64;  // of other banks
          bool together = served_with(i, width, stores) >> j & 1;
          if (shared_bank_cycles(two, width, banks, stores).count != (together ? 1 : 2))
            FAIL("lanes " << i << " and " << j << ", " << width << " bytes");
        }
}

TEST_CASE("bank cycles: every stride, XOR and number of lanes on gfx942") {
  const SharedBanks& banks = find_target("gfx942")->shared_banks;
  for (bool stores : {false, true})
    for (int width : {1, 2, 4, 8, 16})
      for (int64_t run : {1, 2, 4, 8, 16, 32, 64})         // lanes along a row
        for (int64_t pitch = 0; pitch <= 640; pitch += 4)  // bytes of a row
          for (int64_t turned : {0, 1, 3, 7})              // chunks of 16 bytes XORed with the row
            for (int64_t among : {64, 40}) {
              if (pitch % width) continue;
              std::vector<int64_t> at(64, -1);
              for (int64_t lane = 0; lane < among; lane++) {
                int64_t row = lane / run;
                at[size_t(lane)] = row * pitch + ((lane % run * width) ^ ((row & turned) * 16));
              }
              WarpCost cost = shared_bank_cycles(at, width, banks, stores);
              if (cost.count != asked(at, width, stores) || cost.least > cost.count)
                FAIL("width " << width << ", run " << run << ", pitch " << pitch << ", stores " << stores);
            }
}

TEST_CASE("bank cycles: known cases") {
  CHECK(shared_bank_cycles(lanes(32, 4), 4).count == 1);
  CHECK(shared_bank_cycles(lanes(32, 0), 4).count == 1);     // one word for all
  CHECK(shared_bank_cycles(lanes(32, 128), 4).count == 32);  // one bank for all
  CHECK(shared_bank_cycles(lanes(32, 132), 4).count == 1);   // padded by a word
  CHECK(shared_bank_cycles(lanes(32, 8), 4).count == 2);
  CHECK(shared_bank_cycles(lanes(32, 2), 2).count == 1);     // two lanes to a word
  CHECK(shared_bank_cycles(lanes(32, 8), 8).count == 2);     // 256 bytes
  CHECK(shared_bank_cycles(lanes(32, 16), 16).count == 4);   // 512 bytes
  CHECK(shared_bank_cycles(lanes(32, 64), 16).count == 16);  // four-way, in each quarter
  CHECK(shared_bank_cycles(lanes(32, 80), 16).count == 4);
  CHECK(shared_bank_cycles(lanes(8, 128), 16).count == 8);  // eight rows in one bank group
  CHECK(shared_bank_cycles(lanes(8, 144), 16).count == 1);
  CHECK(shared_bank_cycles({-1, -1, 0, 128}, 4).count == 2);  // two lanes take part
  CHECK(shared_bank_cycles({-1, -1}, 4).count == 0);
}

TEST_CASE("bank cycles: the least is what the bytes need") {
  CHECK(shared_bank_cycles(lanes(32, 128), 4).least == 1);
  CHECK(shared_bank_cycles(lanes(32, 16), 16).least == 4);
  CHECK(shared_bank_cycles(lanes(32, 0), 16).least == 4);  // each quarter is served by itself
}

TEST_CASE("bank cycles: random addresses, counted twice") {
  uint64_t state = 7;
  auto next = [&](uint64_t n) {
    return int64_t((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % int64_t(n);
  };
  for (int round = 0; round < 400; round++) {
    int width = 1 << next(5);
    std::vector<int64_t> at;
    for (int i = 0; i < 32; i++) at.push_back(next(10) == 0 ? -1 : next(64) * width * (next(2) ? 8 : 1));
    WarpCost cost = shared_bank_cycles(at, width);
    CHECK(cost.count == by_hand(at, width));
    CHECK(cost.least <= cost.count);
  }
}

TEST_CASE("sectors: 32 bytes each") {
  CHECK(global_sectors(lanes(32, 4), 4).count == 4);
  CHECK(global_sectors(lanes(32, 4, 4), 4).count == 5);  // begins within one
  CHECK(global_sectors(lanes(32, 32), 4).count == 32);
  CHECK(global_sectors(lanes(32, 32), 4).least == 4);
  CHECK(global_sectors(lanes(32, 16), 16).count == 16);
}

TEST_CASE("an access that the layout tears apart costs one access an element") {
  WarpAccess access{.lanes = {{0, 0}, {0, 4}, {1, 0}, {1, 4}}, .elements = 4, .times = 3};
  CHECK(shared_cost(row_major({4, 8}), access, 32).count == 3);
  CHECK(shared_cost(strided({4, 8}, {9, 1}), access, 32).count ==
        3 * 4);  // row 1 is not aligned to 4 elements
}

TEST_CASE("rows of chunks: no conflict for any eight rows of a chunk column, whatever the width") {
  for (int bits : {8, 16, 32, 64})
    for (int64_t cols = 128 / bits; cols <= 300; cols += bits == 8 ? 4 : 1) {
      CAPTURE(bits);
      CAPTURE(cols);
      Layout l = conflict_free({16, cols}, bits, true);
      CHECK(is_injective(l));
      int64_t chunk = 128 / bits;
      for (int64_t c = 0; c + chunk <= cols; c += chunk)
        for (int64_t r : {0, 8}) {
          WarpAccess access{.lanes = {}, .elements = chunk};
          for (int64_t i = r; i < r + 8; i++) access.lanes.push_back({i, c});
          CHECK(shared_cost(l, access, bits).count == 1);
        }
    }
}

TEST_CASE("the family has a layout without conflicts for reading down a column, where there is one") {
  std::vector<WarpAccess> column(1);
  for (int64_t i = 0; i < 32; i++) column[0].lanes.push_back({i, 3});
  Layout plain = row_major({32, 32});
  CHECK(shared_cost(plain, column[0], 32).count == 32);
  Layout best = fewest_bank_cycles(bank_family({32, 32}, 32), column, 32, 1 << 20);
  CHECK(shared_cost(best, column[0], 32).count == 1);
  CHECK(best.ranges[0] == 31 * 33 + 32);
  CHECK(shared_cost(fewest_bank_cycles(bank_family({32, 32}, 32), column, 32, 1024), column[0], 32).count ==
        4);  // no room to pad
  for (auto& l : bank_family({24, 48}, 16)) CHECK(is_injective(l));
}
