// A variable that is read where nothing can have been assigned to it.  Only the first iteration of each loop
// is checked: a later one may read what an earlier one assigned.
#include "base/error.h"
#include "ir/depth.h"
#include "ir/rewrite.h"
#include "ops/op.h"

namespace tl {
namespace {

struct Variables final : Rewriter {
  const Function& f;
  std::set<BufferId> unset = {};               // nothing has been assigned to them, whichever way led here
  std::vector<std::set<BufferId>> loops = {};  // what is assigned in those around the statement
  Span statement = {};
  explicit Variables(const Function& f) : f(f) {}

  bool is_variable(BufferId b) const {
    bool other = f[b].alias_of != BufferId();
    for (auto& info : f.buffers) other |= info.alias_of == b;
    return f[b].scope == Scope::local && f[b].shape.empty() && !other;
  }
  void read(BufferId b, Span span) const {
    if (unset.contains(b))
      fail(span ? span : statement,
           "{0} is read here, but nothing has been assigned to this variable before: give it a first value "
           "where it is made, {0} = T.alloc_var(dtype, init), or assign to it first",
           f[b].name);
  }

  // What only some iterations do may come after all that the loops around it assign.
  template <class F>
  void sometimes(F walk) {
    std::set<BufferId> before = unset;
    for (auto& loop : loops)
      for (BufferId b : loop) unset.erase(b);
    std::set<BufferId> entered = unset;
    walk();
    for (BufferId b : entered)
      if (!unset.contains(b)) before.erase(b);
    unset = std::move(before);
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Load>()) read(n->buffer, n->span);
    if (auto* n = e.as<Select>()) {
      (*this)(n->cond);
      sometimes([&] { (*this)(n->a); });
      sometimes([&] { (*this)(n->b); });
      return e;
    }
    if (auto* n = e.as<Binary>(); n && is_logical(n->op)) {
      (*this)(n->a);
      sometimes([&] { (*this)(n->b); });
      return e;
    }
    auto* call = e.as<Call>();
    if (!call || call->intrinsic != &address_of) return children(e);
    const Load& place = *call->args[0].as<Load>();
    unset.erase(place.buffer);  // who has the address may assign
    for (auto& i : place.index) (*this)(i);
    return e;
  }
  void value(const Expr& e) {
    if (e) (*this)(e);
  }

  // ── statements ──────────────────────────────────────────────────────────────────────────────────────
  static std::set<BufferId> assigned_in(const Stmt& s) {
    std::set<BufferId> all;
    visit(
        s, [&](const Store& n) { all.insert(n.buffer); },
        [&](const Call& n) {
          if (n.intrinsic == &address_of) all.insert(n.args[0].as<Load>()->buffer);
        },
        [&](const Tile& n) {
          for (size_t i = 0; i < n.operands.size(); i++)
            if (auto* r = std::get_if<Region>(&n.operands[i]); r && n.op->operands[i].access != Access::read)
              all.insert(r->buffer);
        });
    return all;
  }
  void loop(const Stmt& body) {
    loops.push_back(assigned_in(body));
    (*this)(body);
    loops.pop_back();
  }
  void operate(const Tile& t) {
    for (size_t i = 0; i < t.operands.size(); i++) {
      if (auto* x = std::get_if<Expr>(&t.operands[i])) value(*x);
      auto* r = std::get_if<Region>(&t.operands[i]);
      if (!r) continue;
      for (auto& range : r->ranges) value(range.min);
      Access access = t.op->operands[i].access;
      if (!t.body && (access == Access::read || access == Access::update)) read(r->buffer, t.span);
    }
    if (t.body) (*this)(t.body);
    for (BufferId b : assigned_in(Stmt(&t))) unset.erase(b);
  }
  Stmt operator()(const Stmt& s) override {
    if (s->span) statement = s->span;
    if (auto* n = s.as<Alloc>()) {
      if (is_variable(n->buffer)) unset.insert(n->buffer);
      for (auto& loop : loops) loop.erase(n->buffer);  // each iteration has one of its own
    } else if (auto* n = s.as<Store>()) {
      children(s);
      unset.erase(n->buffer);
    } else if (auto* n = s.as<Tile>()) {
      operate(*n);
    } else if (auto* n = s.as<For>()) {
      value(n->min);
      value(n->extent);
      loop(n->body);
    } else if (auto* n = s.as<While>()) {
      value(n->cond);
      loop(n->body);
    } else if (auto* n = s.as<If>()) {
      value(n->cond);
      sometimes([&] { (*this)(n->then_body); });
      if (n->else_body) sometimes([&] { (*this)(n->else_body); });
    } else {
      children(s);
    }
    return s;
  }
};

}  // namespace

void check_variables(const Function& f) {
  Variables variables(f);
  bool any = false;
  for (size_t i = 0; i < f.buffers.size(); i++) any |= variables.is_variable(BufferId{int(i)});
  if (!any) return;
  on_stack_for(f, [&] {
    for (auto& k : f.kernels) variables(k.body);
  });
}

}  // namespace tl
