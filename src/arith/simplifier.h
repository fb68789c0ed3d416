// The inside of simplify: one walk from the leaves up, and the constructors that it ends in.  Every `make_…`
// takes simplified operands and gives a simplified node.  Integers go through sums (affine.h), the rest
// through the rows of rules.cpp.
#pragma once
#include "arith/affine.h"
#include "ir/rewrite.h"

namespace tl {

struct Simplifier {
  explicit Simplifier(const Facts& f) : known(facts) { set_facts(f); }
  Simplifier(const Simplifier&) = delete;

  Facts facts;      // change them through set_facts and learn
  VarMap replaced;  // variables that stand for a simpler expression
  Analysis known;
  Span here;                  // that of the node being simplified: new nodes get it
  std::vector<Sum> bounds;    // facts.at_most_zero, read
  bool remember = false;      // note the result of every node, not only of shared ones
  std::vector<Expr> failing;  // of the sum being collected: operands that divide by what may be 0
  int proof_steps = 0;        // left to the comparison at hand: a proof is short or not at all

  void set_facts(Facts f);
  void learn(const Expr& condition);  // simplified, and free of loads
  void learn_range(const Expr& var, Interval range);
  void learn_sum(const Sum& d);  // d <= 0

  // simplify.cpp: the walk
  Expr run(const Expr& e);  // to a fixed point
  Expr walk(const Expr& e);
  // A claim may use names, which must not outlive their Lets in it.  Has it changed?
  bool walk_claim(Claim& claim);
  Expr make(BinaryOp op, const Expr& a, const Expr& b);
  Expr make_unary(UnaryOp op, const Expr& a);
  Expr make_cast(DType type, const Expr& a);
  Expr make_select(const Expr& cond, const Expr& a, const Expr& b);
  Expr plain(BinaryOp op, const Expr& a, const Expr& b);  // just the node; constants fold where they can
  Expr constant(int64_t value, DType type) { return imm(value, type, here); }

  // terms.cpp: sums and products
  Sum parse(const Expr& e) { return parse_sum(e, known); }
  Sum exact_sum(const Expr& e);  // the sum that is the value of e as an integer
  void collect(Sum& s, const Expr& e, int64_t factor, bool root);
  Sum product(const Expr& a, const Expr& b);
  Expr finish(Sum s);
  void recombine(Sum& s);  // 4*(x//4) + x%4 -> x, and the like

  // divide.cpp: f//c and f%c for exact sums and c > 0
  Sum quotient(Sum f, int64_t c);
  Sum remainder(Sum f, int64_t c);
  Expr divide(BinaryOp op, const Expr& a, const Expr& b);
  bool never_zero(const Expr& divisor);
  // What may be 0 and divides in the operands does so in the result.
  bool keeps_divisions(const std::vector<Expr>& operands, const Expr& result);

  // compare.cpp
  Expr compare(BinaryOp op, const Expr& a, const Expr& b);
  std::optional<Sum> difference(const Expr& a, const Expr& b);  // over the integers
  bool at_most_zero(const Sum& d, int depth = 2);
  std::optional<std::pair<BinaryOp, Sum>> as_constraint(const Expr& e);  // le, eq or ne of a sum with 0

  // logic.cpp
  Expr conjunction(const Expr& a, const Expr& b);
  Expr disjunction(const Expr& a, const Expr& b);
  bool implies(const Expr& a, const Expr& b);
  Expr min_max(BinaryOp op, const Expr& a, const Expr& b);
  Expr exclusive_or(const Expr& a, const Expr& b);
  Expr inclusive_or(const Expr& a, const Expr& b);  // or null

  // vector.cpp: several lanes; null where there is nothing to do
  Expr make_vector(BinaryOp op, const Expr& a, const Expr& b);

  // rules.cpp: the first row that matches, or null
  Expr apply_rules(BinaryOp op, const Expr& a, const Expr& b);
  Expr apply_rules(UnaryOp op, const Expr& a);
  Expr apply_rules(const Expr& cond, const Expr& a, const Expr& b);
};

bool is_scalar_int(const Expr& e);
// The operands of e where it is a Binary of that kind, by a constant > 0.
struct ByConstant {
  Expr a;
  int64_t c;
};
std::optional<ByConstant> by_constant(const Expr& e, BinaryOp op);
void flatten_product(const Expr& e, std::vector<Expr>& factors);

}  // namespace tl
