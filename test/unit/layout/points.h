// What the tests of layouts share: all points of a box, and random maps.
#pragma once
#include <algorithm>
#include <random>

#include "layout/algebra.h"

namespace tl {

template <class F>
void each_point(const std::vector<int64_t>& extents, F f) {
  std::vector<int64_t> x(extents.size(), 0);
  for (bool more = true; more;) {
    f(x);
    more = false;
    for (size_t d = x.size(); d-- > 0; x[d] = 0)
      if (++x[d] < extents[d]) {
        more = true;
        break;
      }
  }
}

// A random injective layout: every input cut into digits, the digits dealt out in any order, now and then
// with room between them.  `ragged`: the last digit of an input need not be full.
inline Layout random_digits(std::mt19937& random, bool ragged, bool gaps, int inputs) {
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<int64_t> extents;
  std::vector<Term> terms;
  for (int in = 0; in < inputs; in++) {
    int64_t divisor = 1;
    for (int64_t d = pick(1, 3); d-- > 0;) {
      int64_t radix = pick(2, 5);
      terms.push_back({.digit = {in, divisor, radix}});
      divisor *= radix;
    }
    int64_t top = terms.back().digit.radix;
    extents.push_back(ragged ? divisor - pick(0, divisor / top - 1) : divisor);
  }
  std::shuffle(terms.begin(), terms.end(), random);
  int outputs = int(pick(1, 2));
  std::vector<int64_t> strides(size_t(outputs), 1);
  for (Term& t : terms) {
    t.output = int(pick(0, outputs - 1));
    t.stride = strides[size_t(t.output)];
    strides[size_t(t.output)] *= t.digit.radix + (gaps ? pick(0, 1) : 0);
  }
  return from_terms(extents, outputs, std::move(terms));
}

}  // namespace tl
