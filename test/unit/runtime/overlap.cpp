// overlaps_itself against counting: every element's place, for random small strides.
#include "runtime/overlap.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace tl;

namespace {

bool counted(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  std::set<int64_t> places;
  int64_t elements = 1;
  for (int64_t e : shape) elements *= e;
  for (int64_t i = 0; i < elements; i++) {
    int64_t rest = i, place = 0;
    for (size_t d = 0; d < shape.size(); d++) place += rest % shape[d] * strides[d], rest /= shape[d];
    if (!places.insert(place).second) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("overlap: two elements in one place") {
  std::mt19937 random(1);
  int found = 0;
  for (int round = 0; round < 20000; round++) {
    std::vector<int64_t> shape(1 + random() % 4), strides;
    for (auto& e : shape) e = random() % 6;
    for (size_t d = 0; d < shape.size(); d++) strides.push_back(int64_t(random() % 60) - 10);
    TensorView t{.ndim = int(shape.size()), .shape = shape.data(), .strides = strides.data()};
    bool overlaps = counted(shape, strides);
    found += overlaps;
    REQUIRE_EQ(overlaps_itself(t), overlaps);
  }
  CHECK_GT(found, 1000);
  CHECK_LT(found, 19000);
}

TEST_CASE("overlap: large tensors are quick to judge") {
  int64_t shape[] = {1 << 20, 1 << 20, 1 << 10}, apart[] = {1 << 30, 1 << 10, 1},
          turned[] = {1, 1 << 30, 1 << 20}, repeated[] = {0, 1 << 10, 1};
  TensorView t{.ndim = 3, .shape = shape};
  CHECK(!overlaps_itself(t));
  t.strides = apart;
  CHECK(!overlaps_itself(t));
  t.strides = turned;
  CHECK(!overlaps_itself(t));
  t.strides = repeated;
  CHECK(overlaps_itself(t));
}
