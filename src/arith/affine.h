// Sums of products: an integer expression as c0 + c1*t1 + c2*t2 + … over distinct opaque terms.  For an i64
// that has no data in it (see Info::data) this is exact; else the coefficients count modulo 2^n, and only
// where the exact range of the sum fits the type (see `exact`) is the sum also the value as an integer.
#pragma once
#include "arith/analysis.h"

namespace tl {

struct SumTerm {
  int64_t factor = 1;
  Expr e;
  Interval range;
  uint64_t hash = 0;
  bool data = false;  // see Info::data
};
struct Sum {
  DType type = i64;
  bool integers = true;  // coefficients are integers; otherwise residues of a wrapping type
  bool index = false;    // integers, until a term of data makes them residues
  bool ok = true;        // false: a coefficient left int64, and nothing may be concluded
  int64_t constant = 0;
  std::vector<SumTerm> terms = {};  // factors are not 0
  bool is_constant() const { return terms.empty(); }
};

Sum empty_sum(DType type);
Sum integer_sum(DType type);                   // of any type, over the integers
Sum term_sum(const Expr& e, Analysis& known);  // 1*e
void add_constant(Sum& s, int64_t value, int64_t factor = 1);
void add_term(Sum& s, const Expr& e, int64_t factor, Analysis& known);
void add_term(Sum& s, const SumTerm& t, int64_t factor, Analysis& known);
void add_sum(Sum& s, const Sum& other, int64_t factor, Analysis& known);
Sum scaled(const Sum& s, int64_t factor, Analysis& known);

// Reads a sum off an expression, looking through + - * by constants and negation only.
Sum parse_sum(const Expr& e, Analysis& known);
const SumTerm* find_term(const Sum& s, const Expr& e, Analysis& known);

bool wraps(const Sum& s);  // what is emitted of it may leave its type on the way
WideRange range(const Sum& s);
Modular modular(const Sum& s, Analysis& known);
// The value is the sum over the integers.  May move the constant of a wrapping type by 2^n to make it so.
bool exact(Sum& s);
// Back to an expression: larger factors first, subtractions last; equal sums give equal trees.  A sum over
// the integers must have a value of its type.
Expr emit(const Sum& s, Span span = {});

// An order of trees that knows no addresses: products, other operators, loads, variables by their hints.  0
// where it cannot tell.
int order(const Expr& a, const Expr& b);
void sort_by_order(std::vector<Expr>& list);  // stable

}  // namespace tl
