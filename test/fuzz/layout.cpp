// Random maps of indices: what is read out of their expressions, composed, inverted, reshaped and repeated
// must be what enumerating them gives.
#include <doctest/doctest.h>

#include <random>

#include "evaluate.h"
#include "fuzz/seeds.h"
#include "ir/text.h"
#include "layout/algebra.h"
#include "layout/fragment.h"
#include "layout/table.h"

using namespace tl;
using namespace tl::test;

namespace {

using Places = std::vector<int64_t>;

struct Maker {
  std::mt19937_64 random;
  Places extents = {};
  std::vector<Expr> vars = {};

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }

  void shape() {
    extents.clear();
    bool powers = below(2) == 0;
    for (int64_t d = 1 + below(3); d-- > 0;)
      extents.push_back(powers ? int64_t(1) << (1 + below(4)) : 1 + below(13));
    vars = input_vars(extents.size());
  }

  int64_t constant() {
    static constexpr int64_t pool[] = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 32};
    return pool[below(std::size(pool))];
  }

  Expr term(int depth) {
    Expr x = vars[size_t(below(int64_t(vars.size())))];
    if (depth == 0) return x;
    Expr a = term(depth - 1);
    switch (below(9)) {
      case 0:
        return a + term(depth - 1);
      case 1:
        return a * constant();
      case 2:
        return floordiv(a, constant());
      case 3:
        return floormod(a, constant());
      case 4:
        return binary(BinaryOp::bit_xor, a, term(depth - 1));
      case 5:
        return binary(BinaryOp::bit_and, a,
                      imm((int64_t(1) << below(4)) * ((int64_t(1) << (1 + below(3))) - 1)));
      case 6:
        return binary(BinaryOp::shr, a, imm(below(4)));
      case 7:
        return a * constant() + term(depth - 1);
      default:
        return max(a, term(depth - 1));
    }
  }
};

Places enumerated(const IndexMap& map) {
  Places out;
  int64_t size = 1;
  for (int64_t e : map.extents) size *= e;
  for (int64_t p = 0; p < size; p++) {
    Evaluator evaluator;
    Places x = point_at(map.extents, p);
    for (size_t i = 0; i < x.size(); i++) evaluator.vars[map.vars[i].get()] = {.i = x[i]};
    for (auto& e : map.outputs) out.push_back(int64_t(evaluator(e).i));
  }
  return out;
}

}  // namespace

TEST_CASE("layouts: what is read out of expressions is what they are") {
  int digits = 0, injective = 0, total = 0;
  fuzz::each_seed({.fixed = 3000, .fresh = 300, .share = 0.04}, [&](uint64_t seed) {
    Maker make{.random = std::mt19937_64(seed)};
    make.shape();
    IndexMap map{.vars = make.vars, .extents = make.extents, .outputs = {}};
    for (int64_t o = 1 + make.below(2); o-- > 0;) map.outputs.push_back(make.term(int(1 + make.below(3))));
    CAPTURE(seed);
    Layout l = from_map(map);
    CAPTURE(to_string(l));
    Places points = enumerated(map);
    bool same = table(l) == points && enumerated(l.map()) == points;
    CHECK(same);
    for (size_t i = 0; i < points.size(); i++) same = same && points[i] < l.ranges[i % l.ranges.size()];
    CHECK(same);
    bool free = !find_collision(points, l.ranges.size());
    CHECK(is_injective(l) == free);
    total++;
    digits += l.terms.has_value();
    injective += free;
    double places = 1;
    for (int64_t r : l.ranges) places *= double(r);
    if (free && places < 1e5) {
      Layout back = inverse(l);
      bool home = true;
      size_t n = l.ranges.size();
      for (int64_t p = 0; p < l.size(); p++) {
        Places place(points.begin() + int64_t(n) * p, points.begin() + int64_t(n) * (p + 1));
        home = home && map_index(back, place) == point_at(l.extents, p);
      }
      CHECK(home);
    }
    return same;
  });
  MESSAGE(digits << " of " << total << " maps have digits, " << injective << " are injective");
}

TEST_CASE("layouts: composed, reshaped, repeated") {
  fuzz::each_seed({.fixed = 1500, .fresh = 150, .share = 0.04}, [&](uint64_t seed) {
    Maker make{.random = std::mt19937_64(seed + 100000)};
    make.shape();
    CAPTURE(seed);
    IndexMap map{.vars = make.vars, .extents = make.extents, .outputs = {make.term(2), make.term(1)}};
    Layout inner = from_map(map);
    make.extents = inner.ranges;
    make.vars = input_vars(2);
    if (make.extents[0] * make.extents[1] > 20000) return true;
    Layout outer = from_map({.vars = make.vars, .extents = make.extents, .outputs = {make.term(3)}});
    Places first = table(inner), second = table(outer), expected;
    for (size_t p = 0; p < first.size(); p += 2)
      expected.push_back(second[size_t(first[p] * make.extents[1] + first[p + 1])]);
    CHECK(table(compose(outer, inner)) == expected);
    int64_t size = outer.size(), cut = 1 + make.below(6);
    if (size % cut == 0) CHECK(table(reshape(outer, {cut, size / cut})) == second);
    int64_t factor = 1 + make.below(3);
    Layout twice = flattened(repeat(outer, 1, factor));
    bool same = true;
    for (int64_t p = 0; p < twice.size(); p++) {
      Places x = point_at(twice.extents, p);
      int64_t at = second[size_t(x[0] * outer.extents[1] + x[1] % outer.extents[1])];
      same = same && map_index(twice, x)[0] == at + x[1] / outer.extents[1] * outer.ranges[0];
    }
    CHECK(same);
    return same;
  });
}
