// Scoping: loops bind ranges, conditions hold in their arm, Lets and assumptions hold until their block ends.
#include "pass/walk.h"

#include <algorithm>

namespace tl {

bool WalkContext::encloses(const WalkContext& inner) const {
  auto begins = [](const auto& outer, const auto& list, auto same) {
    return outer.size() <= list.size() && std::equal(outer.begin(), outer.end(), list.begin(), same);
  };
  auto same = [](auto& a, auto& b) { return a == b; };
  return team == inner.team && begins(loops, inner.loops, same) && begins(whiles, inner.whiles, same) &&
         begins(conditions, inner.conditions,
                [](auto& a, auto& b) { return a.first.same(b.first) && a.second == b.second; });
}

Inside::Inside(WalkContext& at)
    : at(at),
      loops(at.loops.size()),
      whiles(at.whiles.size()),
      conditions(at.conditions.size()),
      lets(at.lets.size()),
      team(at.team) {
  if (at.learns) facts = at.facts;
}

Inside::Inside(WalkContext& at, const For& loop) : Inside(at) {
  at.loops.push_back(&loop);
  if (!at.learns) return;
  Interval min = interval_of(loop.min, at.facts), extent = interval_of(loop.extent, at.facts);
  int64_t last = extent.max == INT64_MAX || min.max == INT64_MAX ? INT64_MAX : min.max + extent.max - 1;
  at.facts.bind(loop.var, Interval{min.min, last});
}

Inside::Inside(WalkContext& at, const While& loop) : Inside(at) { at.whiles.push_back(&loop); }

Inside::Inside(WalkContext& at, const Expr& condition, bool holds) : Inside(at) {
  at.conditions.emplace_back(condition, holds);
  if (at.learns && holds) at.facts.assume(condition);
}

Inside::Inside(WalkContext& at, const Group& group) : Inside(at) {
  at.team = team_of(group);
  if (at.learns && at.thread) at.facts.bind(at.thread, Interval{group.first, group.first + group.count - 1});
}

Inside::~Inside() {
  at.loops.resize(loops);
  at.conditions.resize(conditions);
  at.lets.resize(lets);
  at.whiles.resize(whiles);
  at.team = team;
  if (facts) at.facts = std::move(*facts);
}

void note_statement(WalkContext& at, const Stmt& s) {
  if (auto* n = s.as<Let>()) {
    at.lets.push_back(n);
    if (at.learns) learn(at.facts, n->var, n->value);
  } else if (auto* n = s.as<Eval>(); n && at.learns) {
    auto* c = n->value.as<Call>();
    if (c && c->intrinsic == &assume_function) at.facts.assume(c->args[0]);
  }
}

namespace {

struct Walker {
  WalkContext at;
  const Enter& enter;
  const Leave& leave;

  void statement(const Stmt& s) {
    if (!s || !enter(s, at)) return;
    dispatch(s, [&](const auto& n) { below(n); });
    if (leave) leave(s, at);
    note_statement(at, s);
  }
  void below(const Store&) {}
  void below(const Let&) {}
  void below(const Alloc&) {}
  void below(const Eval&) {}
  void below(const Tile& n) {  // what a user's operator becomes
    Inside inside(at);
    statement(n.body);
  }
  void below(const Block& n) {
    Inside inside(at);
    for (auto& s : n.stmts) statement(s);
  }
  void below(const For& n) {
    Inside inside(at, n);
    statement(n.body);
  }
  void below(const While& n) {
    Inside inside(at, n);
    statement(n.body);
  }
  void below(const If& n) {
    arm(n.cond, true, n.then_body);
    if (n.else_body) arm(n.cond, false, n.else_body);
  }
  void arm(const Expr& condition, bool holds, const Stmt& body) {
    Inside inside(at, condition, holds);
    statement(body);
  }
  void below(const Group& n) {
    Inside inside(at, n);
    statement(n.body);
  }
};

}  // namespace

void walk(const Stmt& body, WalkContext at, const Enter& enter, const Leave& leave) {
  Walker{.at = std::move(at), .enter = enter, .leave = leave}.statement(body);
}

Stmt ScopedRewriter::operator()(const Stmt& s) {
  if (auto* n = s.as<If>()) {
    Expr cond = (*this)(n->cond);
    auto arm = [&](bool holds, const Stmt& body) {
      Inside inside(context, cond, holds);
      return (*this)(body);
    };
    Stmt then_body = arm(true, n->then_body), else_body = n->else_body ? arm(false, n->else_body) : Stmt();
    if (cond.same(n->cond) && then_body.same(n->then_body) && else_body.same(n->else_body)) return s;
    return if_then(cond, then_body, else_body, n->span);
  }
  std::optional<Inside> inside;
  if (auto* n = s.as<For>())
    inside.emplace(context, *n);
  else if (auto* n = s.as<While>())
    inside.emplace(context, *n);
  else if (auto* n = s.as<Group>())
    inside.emplace(context, *n);
  else if (s.as<Block>() || s.as<Tile>())
    inside.emplace(context);
  else
    note_statement(context, s);  // before its own rewriting: it may hold within itself
  return at(s);
}

}  // namespace tl
