// Ways to walk the tree.  `dispatch` is total: forget a node and it does not compile.  `rewrite` is partial:
// name the nodes you change, the rest is walked for you.  `visit` reads.
#pragma once
#include <functional>

#include "base/error.h"
#include "ir/kernel.h"

namespace tl {

template <class... F>
struct overloads : F... {
  using F::operator()...;
};
template <class... F>
overloads(F...) -> overloads<F...>;

template <class F>
decltype(auto) dispatch(const Expr& e, F&& f) {
  switch (e->kind) {
#define X(N) \
  case Kind::N: \
    return f(static_cast<const N&>(*e));
    TL_EXPRS(X)
#undef X
    default:
      internal_error("not an expression");
  }
}
template <class F>
decltype(auto) dispatch(const Stmt& s, F&& f) {
  switch (s->kind) {
#define X(N) \
  case Kind::N: \
    return f(static_cast<const N&>(*s));
    TL_STMTS(X)
#undef X
    default:
      internal_error("not a statement");
  }
}

// The walk: rebuilds a node only if a child changed.
struct Rewriter {
  virtual ~Rewriter() = default;
  virtual Expr operator()(const Expr& e) { return children(e); }
  virtual Stmt operator()(const Stmt& s) { return children(s); }
  Expr children(const Expr& e);
  Stmt children(const Stmt& s);
  template <class N>
  Ref<typename N::Base> children(const N& n) {
    return children(Ref<typename N::Base>(&n));
  }
};

template <class F>
struct handler_of;
template <class C, class R, class N, class... S>
struct handler_of<R (C::*)(const N&, S...) const> {
  using node = N;
};
template <class C, class R, class N, class... S>
struct handler_of<R (C::*)(const N&, S...)> {
  using node = N;
};
template <class F>
using handled_node = typename handler_of<decltype(&std::decay_t<F>::operator())>::node;

template <class... F>
struct RewriteWith final : Rewriter {
  std::tuple<F...> handlers;
  explicit RewriteWith(F... f) : handlers(std::move(f)...) {}
  template <class R>
  R run(const R& r) {
    R out;
    auto attempt = [&](auto& f) {
      using N = handled_node<decltype(f)>;
      if constexpr (std::is_same_v<R, Ref<typename N::Base>>)
        if (const N* n = r.template as<N>()) {
          out = f(*n, *this);
          return true;
        }
      return false;
    };
    bool hit = std::apply([&](auto&... f) { return (attempt(f) || ...); }, handlers);
    return hit ? out : children(r);
  }
  Expr operator()(const Expr& e) override { return run(e); }
  Stmt operator()(const Stmt& s) override { return run(s); }
};

// Handlers are `(const N&, Rewriter& self) -> Expr or Stmt`; self.children(n) walks on below n.  A statement
// handler may return an empty Block to delete.
template <class R, class... F>
R rewrite(const R& root, F... handlers) {
  RewriteWith<F...> rewriter(std::move(handlers)...);
  return rewriter(root);
}

// Every node below and including root, parents first.
void visit_nodes(const Expr& root, const std::function<void(const Node&)>& f);
void visit_nodes(const Stmt& root, const std::function<void(const Node&)>& f);

// The nodes right below, in order.
void visit_below(const Expr& e, const std::function<void(const Expr&)>& f);
void visit_below(const Stmt& s, const std::function<void(const Stmt&)>& statements,
                 const std::function<void(const Expr&)>& expressions);

// Handlers are `(const N&)`; called for every node of that kind, parents first.
template <class R, class... F>
void visit(const R& root, F... handlers) {
  visit_nodes(root, [&](const Node& node) {
    auto attempt = [&](auto& f) {
      using N = handled_node<decltype(f)>;
      if (node.kind == N::KIND) f(static_cast<const N&>(node));
    };
    (attempt(handlers), ...);
  });
}

// Does one of the handlers `(const N&) -> bool` say yes to a node of that kind?
template <class N, class... F>
bool contains(const Ref<N>& root, F... handlers) {
  bool found = false;
  visit(root, [&](const handled_node<F>& n) { found = found || handlers(n); }...);
  return found;
}

// Equal trees; a Var equals itself only.  Spans do not count.
bool equal(const Expr& a, const Expr& b);
// False also where that takes a look at more nodes.
bool equal_within(int64_t nodes, const Expr& a, const Expr& b);
bool equal(const Stmt& a, const Stmt& b);
// Equal up to a renaming of variables, one to one.
bool equivalent(const Expr& a, const Expr& b);
bool equivalent(const Stmt& a, const Stmt& b);
bool equivalent(const Function& a, const Function& b);
// Equal trees have equal hashes; spans and names do not count, a Var hashes by identity.
uint64_t hash(const Expr& e);

using VarMap = std::map<const ExprNode*, Expr>;
Expr substitute(const Expr& e, const VarMap& values);
Stmt substitute(const Stmt& s, const VarMap& values);
// A copy whose loops and Lets have variables of their own.
Stmt renamed(const Stmt& s);
bool uses_var(const Expr& e, const Expr& var);

// The statements of a block, and of blocks right in it; of any other statement itself.
std::vector<Stmt> statements_of(const Stmt& s);
// The control statement (break, continue, thread_return) that this is; null if it is none.
const Intrinsic* control_of(const Stmt& s);
bool has_control(const Stmt& s);  // … or has inside
// Does a break or continue inside the loop's body belong to that loop?
bool jumps(const Stmt& loop_body);

}  // namespace tl
