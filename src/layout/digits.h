// The arithmetic of the digit form.  A Sum is one output of a layout: terms that add up (their `output` is
// not looked at).  It can be divided by a constant, reduced modulo one, XORed with another, whenever no carry
// crosses the cut; so expressions are read, and layouts composed, by computing with Sums instead of numbers.
//
//   (i*32 + j) // 8   with j < 32:   j = (j // 8)*8 + j % 8,   so  i*4 + j // 8
#pragma once
#include "layout/layout.h"

namespace tl {

using Sum = std::vector<Term>;

// The largest value of a term's digit (before its stride); a power of two less one under XOR.
int64_t largest(const Term& t, const std::vector<int64_t>& extents);

// sum == high * divisor + low, with low < divisor.  Nothing if a carry or a digit's radix stands in the way.
struct Split {
  Sum high, low;
};
std::optional<Split> split(const Sum& sum, int64_t divisor, const std::vector<int64_t>& extents);
// One term cut at `radix`, a divisor of its digit's radix (or any number, for the last digit of its input).
std::optional<std::pair<Term, Term>> cut(const Term& t, int64_t radix, const std::vector<int64_t>& extents);

std::optional<Sum> exclusive_or(const Sum& a, const Sum& b, const std::vector<int64_t>& extents);
Sum scaled(Sum sum, int64_t factor);
// Fewer, larger digits where neighbours lie next to each other; the same function.  Sorted by stride,
// descending.
Sum merged(Sum sum);
// As merged, per output.
std::vector<Term> merged_terms(const std::vector<Term>& terms);
// The term whose digits are all of these, XORed; nothing if all are zero.
std::optional<Term> xor_term(int64_t stride, std::vector<Digit> digits, const std::vector<int64_t>& extents);

// An expression over `vars` as a Sum.
std::optional<Sum> read_sum(const Expr& e, const std::vector<Expr>& vars,
                            const std::vector<int64_t>& extents);
// The sums of a layout's outputs; it must have digits.
std::vector<Sum> sums_of(const Layout& l);

}  // namespace tl
