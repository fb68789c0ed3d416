// Layouts and fragments against enumerations.
#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/fragment.h"
#include "unit/layout/points.h"

using namespace tl;

namespace {

int64_t at(const Layout& l, int64_t i, int64_t j) { return map_index(l, std::vector<int64_t>{i, j})[0]; }

// The value of the expression form at a point: by substitution and folding, not by the digits.
std::vector<int64_t> by_expressions(const Layout& l, const std::vector<int64_t>& x) {
  std::vector<Expr> at;
  for (int64_t v : x) at.push_back(imm(v));
  std::vector<int64_t> out;
  for (auto& e : map_index(l, at)) out.push_back(*as_int(simplify(e)));
  return out;
}

}  // namespace

TEST_CASE("row-major and strided") {
  Layout l = row_major({8, 32});
  CHECK(l.ranges[0] == 256);
  CHECK(at(l, 3, 5) == 3 * 32 + 5);
  CHECK(is_injective(l));
  Layout padded = strided({8, 32}, {40, 1});
  CHECK(at(padded, 3, 5) == 125);
  CHECK(padded.ranges[0] == 7 * 40 + 32);
  CHECK(is_injective(padded));
  CHECK_FALSE(equal(l, padded));
  CHECK_FALSE(is_injective(strided({8, 32}, {16, 1})));
}

TEST_CASE("swizzles: the same chunks, permuted, with 8 rows of a chunk column in 8 bank groups") {
  for (int bits : {8, 16, 32})
    for (int64_t bytes : {32, 64, 96, 128, 192, 256, 384}) {
      CAPTURE(bits);
      CAPTURE(bytes);
      int64_t cols = bytes * 8 / bits, chunk = 128 / bits;
      Layout l = swizzled({64, cols}, bits);
      REQUIRE(l.terms);
      CHECK(l.ranges[0] == 64 * cols);
      CHECK(is_injective(l));
      for (int64_t row = 0; row < 64; row += 8)
        for (int64_t c = 0; c < cols; c += chunk) {
          std::set<int64_t> groups;
          for (int64_t r = row; r < row + 8; r++) {
            int64_t offset = at(l, r, c) * bits / 8;
            CHECK(offset % 16 == 0);
            for (int64_t e = 1; e < chunk; e++) CHECK(at(l, r, c + e) == at(l, r, c) + e);
            groups.insert(offset / 16 % 8);
          }
          CHECK(groups.size() == 8);
        }
    }
}

TEST_CASE("digits and expressions are the same function, and expressions give the digits back") {
  for (auto& l :
       {row_major({4, 6, 10}), swizzled({32, 64}, 16), swizzled({48, 96}, 8), strided({5, 7}, {9, 1})}) {
    each_point(l.extents,
               [&](const std::vector<int64_t>& x) { CHECK(map_index(l, x) == by_expressions(l, x)); });
    Layout again = from_map(l.map());
    CHECK(again.terms.has_value());
    CHECK(equal(l, again));
    CHECK(again.ranges == l.ranges);
  }
}

TEST_CASE("a map without digits is still a layout") {
  Expr i = var("i"), j = var("j");
  Layout l = from_map({.vars = {i, j}, .extents = {4, 4}, .outputs = {floormod(i * 5 + j * 3, 16)}});
  CHECK_FALSE(l.terms.has_value());
  CHECK(map_index(l, std::vector<int64_t>{3, 2})[0] == 5);
  CHECK(table(l).size() == 16);
}

TEST_CASE("a fragment and its inverse: every element is visited by the thread and register that hold it") {
  // the m16n8 accumulator, twice along n
  Fragment f = make_fragment({16, 16}, 1,
                             {{.output = 0, .stride = 4, .digit = {0, 1, 8}},
                              {.output = 1, .stride = 2, .digit = {0, 8, 2}},
                              {.output = 1, .stride = 1, .digit = {1, 1, 2}},
                              {.output = 0, .stride = 1, .digit = {1, 2, 4}},
                              {.output = 1, .stride = 4, .digit = {1, 8, 2}}});
  CHECK(f.threads == 32);
  CHECK(f.registers == 8);
  CHECK(is_injective(f.layout));
  Expr tx = var("tx");
  FragmentLoops loops = inverse(f, tx, 32);
  CHECK_FALSE(loops.guard);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t t = 0; t < 32; t++) {
    std::vector<int64_t> extents;
    for (auto& a : loops.axes) extents.push_back(a.extent);
    each_point(extents, [&](const std::vector<int64_t>& r) {
      VarMap values{{tx.get(), imm(t)}};
      int64_t reg = 0;
      for (size_t a = 0; a < r.size(); a++) {
        values.emplace(loops.axes[a].var.get(), imm(r[a]));
        reg += r[a] * loops.axes[a].stride;
      }
      int64_t i = *as_int(simplify(substitute(loops.indices[0], values)));
      int64_t j = *as_int(simplify(substitute(loops.indices[1], values)));
      CHECK(map_index(f.layout, std::vector<int64_t>{i, j, 0}) == std::vector<int64_t>{t, reg});
      seen.insert({i, j});
    });
  }
  CHECK(seen.size() == 256);
}

TEST_CASE("a fragment padded to its digits guards the elements that do not exist") {
  Fragment f = make_fragment({10, 3}, 1,
                             {{.output = 0, .stride = 1, .digit = {0, 1, 4}},
                              {.output = 1, .stride = 3, .digit = {0, 4, 3}},
                              {.output = 1, .stride = 1, .digit = {1, 1, 3}}});
  FragmentLoops loops = inverse(f, var("tx"), 8);
  REQUIRE(loops.guard);  // thread < 4, and i < 10
  CHECK(f.threads == 4);
  CHECK(f.registers == 9);
}
