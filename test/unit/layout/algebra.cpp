// The laws of the layout algebra, each against an enumeration.
#include "layout/algebra.h"

#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/swizzle.h"
#include "layout/table.h"
#include "unit/layout/points.h"

using namespace tl;

namespace {

using Point = std::vector<int64_t>;

void check_inverse(const Layout& l) {
  CAPTURE(to_string(l));
  Layout back = inverse(l);
  CHECK(back.extents == l.ranges);
  std::set<Point> places;
  int wrong = 0;
  each_point(l.extents, [&](const Point& x) {
    Point y = map_index(l, x);
    places.insert(y);
    wrong += map_index(back, y) != x;
  });
  CHECK(places.size() == size_t(l.size()));
  each_point(l.ranges, [&](const Point& y) {  // padding is sent outside
    Point x = map_index(back, y);
    bool inside = true;
    for (size_t d = 0; d < x.size(); d++) inside = inside && x[d] < l.extents[d];
    wrong += inside != places.contains(y);
  });
  CHECK(wrong == 0);
}

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const CompileError& e) {
    return e.text;
  }
  return "no error";
}

Layout from_function(std::vector<int64_t> extents,
                     const std::function<std::vector<Expr>(const std::vector<Expr>&)>& f) {
  std::vector<Expr> vars = input_vars(extents.size());
  return from_map({.vars = vars, .extents = extents, .outputs = f(vars)});
}

Expr exclusive(Expr a, Expr b) { return binary(BinaryOp::bit_xor, std::move(a), std::move(b)); }

// A layout without digits: a permutation of its 24 elements by no rule.
Layout scrambled() {
  return from_function({4, 6},
                       [](auto& v) { return std::vector<Expr>{floormod((v[0] * 6 + v[1]) * 7 + 3, 24)}; });
}

}  // namespace

TEST_CASE("inverse(l)(l(x)) is x, for random digits of any radix") {
  std::mt19937 random(1);
  int with_digits = 0, without_gaps = 0;
  for (int i = 0; i < 300; i++) {
    bool ragged = i % 3 == 1, gaps = i % 3 == 2;
    Layout l = random_digits(random, ragged, gaps, 1 + i % 3);
    check_inverse(l);
    CHECK(is_injective(l));
    if (!ragged && !gaps) {
      without_gaps++;
      CHECK(is_bijective(l));
      with_digits += inverse(l).terms.has_value();
    }
  }
  CHECK(with_digits == without_gaps);  // closed
}

TEST_CASE("inverse of swizzles: digits again, and the inverse of the inverse") {
  std::vector<Layout> list = {swizzled({64, 64}, 16),
                              swizzled({48, 96}, 16),
                              swizzled({10, 32}, 16),
                              swizzled({3, 16, 128}, 8, 64),
                              swizzled_panels({32, 128}, 16, 0),
                              xor_swizzled({32, 32}, 3, 2, 3),
                              xor_swizzled({16, 64}, 2, 3, 4)};
  for (auto& l : list) {
    check_inverse(l);
    REQUIRE(inverse(l).terms.has_value());
    CHECK(is_bijective(l));
    CHECK(equal(inverse(inverse(l)), l));
    CHECK(inverse(inverse(l)).terms.has_value());
  }
}

TEST_CASE("a map whose bits are XORed several times over is solved") {
  Layout l = from_function({8, 8}, [](auto& v) {
    return std::vector<Expr>{exclusive(v[0], v[1]), exclusive(v[1], floordiv(v[0], 2))};
  });
  REQUIRE(l.terms);
  check_inverse(l);
  CHECK(inverse(l).terms.has_value());
  Layout singular = from_function(
      {4, 4}, [](auto& v) { return std::vector<Expr>{exclusive(v[0], v[1]), exclusive(v[1], v[0])}; });
  CHECK_FALSE(is_injective(singular));
}

TEST_CASE("a table has an inverse too") {
  Layout l = scrambled();
  REQUIRE_FALSE(l.terms);
  REQUIRE(l.points);
  CHECK(is_bijective(l));
  check_inverse(l);
  CHECK(error_of([&] { inverse(l).map(); }) ==
        "this layout of 24 points is known as a table only, and no expression says where an element goes: "
        "give its map as expressions");
  CHECK(equal(compose(inverse(l), l), compose(inverse(row_major({4, 6})), row_major({4, 6}))));
}

TEST_CASE("composition is one map after the other") {
  std::mt19937 random(2);
  int digits = 0, trials = 200;
  for (int i = 0; i < trials; i++) {
    Layout inner = random_digits(random, i % 2, i % 3 == 0, 1 + i % 3);
    Layout outer = i % 4 == 3 ? strided(inner.ranges, std::vector<int64_t>(inner.ranges.size(), 3))
                              : row_major(inner.ranges);
    Layout both = compose(outer, inner);
    digits += both.terms.has_value();
    each_point(inner.extents,
               [&](const Point& x) { CHECK(map_index(both, x) == map_index(outer, map_index(inner, x))); });
  }
  CHECK(digits == trials);
  Layout l =
      compose(scrambled(), row_major({4, 6}).terms
                               ? from_function({6, 4}, [](auto& v) { return std::vector<Expr>{v[1], v[0]}; })
                               : row_major({4, 6}));
  each_point({6, 4}, [&](const Point& x) { CHECK(map_index(l, x) == map_index(scrambled(), {x[1], x[0]})); });
  CHECK_FALSE(l.outputs.empty());
}

TEST_CASE("a swizzle composed with itself stays small") {
  Layout once = swizzled({8, 64}, 16), split = inverse(row_major({8, 64})), l = once;
  for (int i = 0; i < 6; i++) {
    Layout again = compose(once, compose(split, l));
    each_point({8, 64}, [&](const Point& x) {
      CHECK(map_index(again, x) == map_index(once, map_index(split, map_index(l, x))));
    });
    REQUIRE(again.terms);
    CHECK(again.terms->size() <= 3);
    l = again;
  }
  CHECK(equal(l, once));  // an even number of XORs with the row cancel
}

TEST_CASE("reshape, expand, repeat") {
  for (auto& l : {swizzled({8, 64}, 16), row_major({8, 64}), strided({8, 64}, {72, 1})}) {
    Layout r = reshape(l, {4, 2, 16, 4});
    CHECK(r.terms.has_value());
    CHECK(table(r) == table(l));
    CHECK(equal(reshape(r, {8, 64}), l));
    Layout e = expand(l, {3});
    CHECK(e.extents == Point{3, 8, 64});
    each_point(e.extents,
               [&](const Point& x) { CHECK(map_index(e, x) == Point{x[0], map_index(l, {x[1], x[2]})[0]}); });
    Layout p = repeat(l, 1, 3);
    CHECK(p.terms.has_value());
    CHECK(p.extents == Point{8, 192});
    each_point(p.extents, [&](const Point& x) {
      CHECK(map_index(p, x) == Point{x[1] / 64, map_index(l, {x[0], x[1] % 64})[0]});
    });
    Layout flat = flattened(p);
    CHECK(flat.ranges == Point{3 * l.ranges[0]});
    CHECK(is_injective(flat));
  }
  Layout odd = reshape(row_major({6, 10}), {4, 15});  // no digits of i and j, but one number all the same
  CHECK(table(odd) == table(row_major({6, 10})));
  CHECK(equal(odd, row_major({4, 15})));
  Layout s = scrambled();
  CHECK(table(reshape(s, {2, 12})) == table(s));
  CHECK_FALSE(reshape(s, {2, 12}).outputs.empty());
  each_point({8, 6}, [&](const Point& x) {
    CHECK(map_index(repeat(s, 0, 2), x) == Point{x[0] / 4, map_index(s, {x[0] % 4, x[1]})[0]});
  });
}

TEST_CASE("questions without an answer name what is in conflict") {
  CHECK(error_of([] { inverse(strided({4, 6}, {4, 1})); }) ==
        "the layout has no inverse: the elements (0, 4) and (1, 0) both go to (4,)");
  CHECK(error_of([] { reshape(row_major({4, 6}), {5, 5}); }) ==
        "a layout of the extents (4, 6) has 24 elements and cannot be reshaped to (5, 5), which has 25");
  CHECK(error_of([] { compose(row_major({4, 6}), row_major({24})); }) ==
        "the first layout gives 1 numbers, (24,), but the second takes 2, of the extents (4, 6)");
  CHECK(error_of([] { compose(row_major({20}), row_major({4, 6})); }) ==
        "the first layout sends the element (3, 2) to (20,), outside the extents (20,) of the second");
  CHECK(error_of([] { repeat(row_major({4, 6}), 2, 2); }) ==
        "repeat: dimension 2 is out of range for a layout of 2 dimensions with the extents (4, 6)");
  CHECK(error_of([] { repeat(row_major({4, 6}), 0, -1); }) ==
        "repeat: the factor is -1; it must be 1 or more");
  CHECK(error_of([] { locate(row_major({4, 6}), {1, 6}); }) ==
        "index 6 of dimension 1 in (1, 6) is outside the extents (4, 6) of the layout");
  CHECK(error_of([] { locate(row_major({4, 6}), {1}); }) ==
        "the layout has 2 inputs, of the extents (4, 6), but is given 1 indices");
  CHECK(error_of([] { from_function({4, 4}, [](auto& v) { return std::vector<Expr>{v[0] - v[1]}; }); }) ==
        "the layout sends the element (0, 1) to -1: places are counted from 0");
  CHECK(error_of([] { swizzled({8, 48}, 16, 128); }) ==
        "the swizzle of 128 bytes needs rows of a multiple of that, but a row of 48 elements of 16 bits is "
        "96 bytes: use a narrower pattern or padding");
}

TEST_CASE("digits are found where expressions hide them") {
  auto digits = [](std::vector<int64_t> extents, auto f) {
    Layout l = from_function(extents, f);
    each_point(extents, [&](const Point& x) {
      std::vector<Expr> at;
      for (int64_t v : x) at.push_back(imm(v));
      VarMap values;
      std::vector<Expr> vars = input_vars(extents.size());
      for (size_t i = 0; i < x.size(); i++) values.emplace(vars[i].get(), at[i]);
      CHECK(*as_int(simplify(substitute(f(vars)[0], values))) == map_index(l, x)[0]);
    });
    return l.terms.has_value();
  };
  using V = std::vector<Expr>;
  CHECK(
      digits({16, 16}, [](const V& v) { return V{floordiv(floormod(v[1], 8), 2) + floormod(v[0], 8) * 4}; }));
  CHECK(digits({8, 32}, [](const V& v) { return V{floordiv(v[0] * 32 + v[1], 8)}; }));
  CHECK(digits({8, 32}, [](const V& v) { return V{exclusive(v[0] * 32 + v[1], floormod(v[0], 4) * 8)}; }));
  CHECK(digits({6, 10}, [](const V& v) {
    return V{floormod(v[0] * 10 + v[1], 5) + floordiv(v[0] * 10 + v[1], 5) * 8};
  }));
  CHECK(digits({4, 8}, [](const V& v) { return V{max(v[0] * 8, v[0] * 8 + v[1])}; }));  // by its table
  CHECK(
      digits({8, 8}, [](const V& v) { return V{floormod(exclusive(v[0] * 9, v[1]), 8)}; }));  // bits of i, j
  CHECK_FALSE(digits({4, 6}, [](const V& v) { return V{floormod(v[0] * 5 + v[1] * 3, 16)}; }));
}

TEST_CASE("equality looks at the function, not at the spelling") {
  Layout split = from_function(
      {64}, [](auto& v) { return std::vector<Expr>{floordiv(v[0], 8) * 8 + floormod(v[0], 8)}; });
  CHECK(equal(split, row_major({64})));
  CHECK(is_bijective(split));
  CHECK(split.ranges == Point{64});
  Layout ragged = from_terms({10}, 1, {{.stride = 1, .digit = {0, 1, 4}}, {.stride = 4, .digit = {0, 4, 3}}});
  CHECK(ragged.ranges == Point{10});
  CHECK(is_bijective(ragged));
  CHECK_FALSE(is_bijective(strided({8, 32}, {40, 1})));
  CHECK_FALSE(equal(row_major({4, 6}), row_major({6, 4})));
}

TEST_CASE("padding and patterns: eight rows of a chunk in eight bank groups, for any width") {
  for (int bits : {8, 16, 32})
    for (int64_t cols = 128 / bits; cols < 200; cols += 128 / bits) {
      Layout l = conflict_free({16, cols}, bits, true);
      CHECK(is_injective(l));
      for (int64_t c = 0; c < cols; c += 128 / bits) {
        std::set<int64_t> groups;
        for (int64_t r = 0; r < 8; r++) groups.insert(map_index(l, {r, c})[0] * bits / 128 % 8);
        CHECK(groups.size() == 8);
      }
    }
}
