// What is known of variables: ranges and divisibility, as small value types.
#pragma once
#include <set>

#include "ir/build.h"

namespace tl {

// All integers in [min, max]; the limits of int64 stand for "unbounded".
struct Interval {
  int64_t min = INT64_MIN, max = INT64_MAX;
  static Interval point(int64_t v) { return {v, v}; }
  bool bounded() const { return min != INT64_MIN && max != INT64_MAX; }
  bool contains(int64_t v) const { return min <= v && v <= max; }
  bool operator==(const Interval&) const = default;
};

// All integers congruent to `remainder` modulo `modulus`; modulus 0 means the one number `remainder`.
struct Modular {
  int64_t modulus = 1, remainder = 0;
  bool operator==(const Modular&) const = default;
};

// What holds of the variables in scope.  A value: copy it to add facts for a subtree.
struct Facts {
  std::map<const ExprNode*, Interval> ranges;
  std::map<const ExprNode*, Modular> divisibility;
  std::vector<Expr> at_most_zero;  // integer sums over several variables that are <= 0
  std::set<const ExprNode*> data;  // names of data (see Info::data), integers and bools
  void bind(const Expr& var, Interval range) { ranges[var.get()] = range; }
  void bind(const Expr& var, Modular m) { divisibility[var.get()] = m; }
  // A new variable that runs over [0, extent).
  Expr loop_var(std::string hint, int64_t extent) {
    Expr v = var(std::move(hint));
    bind(v, Interval{0, extent - 1});
    return v;
  }
  // Learns from a condition that holds: `x < 8`, `x % 4 == 0`, conjunctions of such.
  void assume(const Expr& condition);
};

// What the value of a name says of it.  Nothing is noted where it says no more than the type: facts are
// copied often.
void learn(Facts& facts, const Expr& var, const Expr& value);

Interval interval_of(const Expr& e, const Facts& facts);
Modular modular_of(const Expr& e, const Facts& facts);

}  // namespace tl
