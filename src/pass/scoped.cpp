// Scoping of facts: loops bind ranges, conditions hold in their branch, Lets bound their variable.
#include "pass/scoped.h"

namespace tl {

Stmt ScopedRewriter::operator()(const Stmt& s) {
  if (auto* n = s.as<Let>()) {  // visible to the statements that follow: stays until the block ends
    learn(facts, n->var, n->value);
    return at(s);
  }
  if (auto* n = s.as<Eval>()) {  // an assumption holds from here on
    auto* c = n->value.as<Call>();
    if (c && c->callee == &assume_function) facts.assume(c->args[0]);
    return at(s);
  }
  if (s.as<Block>()) {
    Facts outer = facts;
    Stmt out = at(s);
    facts = std::move(outer);
    return out;
  }
  if (auto* n = s.as<For>()) {
    Facts outer = facts;
    Interval min = interval_of(n->min, facts), extent = interval_of(n->extent, facts);
    int64_t last = extent.max == INT64_MAX || min.max == INT64_MAX ? INT64_MAX : min.max + extent.max - 1;
    facts.bind(n->var, Interval{min.min, last});
    loops.push_back(n);
    Stmt out = at(s);
    loops.pop_back();
    facts = std::move(outer);
    return out;
  }
  if (auto* n = s.as<If>()) {
    Facts outer = facts;
    Expr cond = (*this)(n->cond);
    facts.assume(cond);
    Stmt then_body = (*this)(n->then_body);
    facts = outer;
    Stmt else_body = n->else_body ? (*this)(n->else_body) : Stmt();
    facts = std::move(outer);
    if (cond.same(n->cond) && then_body.same(n->then_body) && else_body.same(n->else_body)) return s;
    return if_then(cond, then_body, else_body, n->span);
  }
  return at(s);
}

}  // namespace tl
