// The one walk over fields(): rebuilding children, comparing, hashing, substituting.
#include "ir/rewrite.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "base/interrupt.h"
#include "ir/build.h"
#include "ir/intrinsic.h"

namespace tl {

namespace {

template <class T>
concept HasFields = requires(T& t) { t.fields(); };

// ── rebuilding ────────────────────────────────────────────────────────────────────────────────────────
// All of them first: each must find the others, whichever way they nest (lookup by argument does not look
// into an unnamed namespace, and would take the one for plain data).
bool remap(Expr& r, Rewriter& rw);
bool remap(Stmt& r, Rewriter& rw);
template <class T>
bool remap(T& value, Rewriter& rw);
template <class T>
bool remap(std::vector<T>& v, Rewriter& rw);
template <class... T>
bool remap(std::variant<T...>& v, Rewriter& rw);
template <class K, class V, class C>
bool remap(std::map<K, V, C>& m, Rewriter& rw);

bool remap(Expr& r, Rewriter& rw) {
  if (!r) return false;
  Expr n = rw(r);
  bool changed = !n.same(r);
  r = std::move(n);
  return changed;
}
bool remap(Stmt& r, Rewriter& rw) {
  if (!r) return false;
  Stmt n = rw(r);
  bool changed = !n.same(r);
  r = std::move(n);
  return changed;
}
// Expressions only: a map has variables of its own.
bool remap(Attrs& attrs, Rewriter& rw) {
  bool changed = false;
  for (auto& [name, value] : attrs.entries)
    if (auto* e = std::get_if<Expr>(&value)) changed |= remap(*e, rw);
  return changed;
}
template <class T>
bool remap(T& value, Rewriter& rw) {
  if constexpr (HasFields<T>)
    return std::apply([&](auto&... f) { return (int(remap(f, rw)) + ... + 0) > 0; }, value.fields());
  else
    return false;  // plain data: nothing inside
}
template <class T>
bool remap(std::vector<T>& v, Rewriter& rw) {
  bool changed = false;
  for (auto& x : v) changed |= remap(x, rw);
  return changed;
}
template <class... T>
bool remap(std::variant<T...>& v, Rewriter& rw) {
  return std::visit([&](auto& x) { return remap(x, rw); }, v);
}
template <class K, class V, class C>
bool remap(std::map<K, V, C>& m, Rewriter& rw) {
  bool changed = false;
  for (auto& [key, value] : m) changed |= remap(value, rw);
  return changed;
}

template <class B>
Ref<B> map_children(const Ref<B>& r, Rewriter& rw) {
  poll();
  return dispatch(r, [&](const auto& n) -> Ref<B> {
    auto copy = n;
    bool changed = std::apply([&](auto&... f) { return (int(remap(f, rw)) + ... + 0) > 0; }, copy.fields());
    return changed ? own(new auto(std::move(copy))) : r;
  });
}

// ── reading ───────────────────────────────────────────────────────────────────────────────────────────
// The nodes right below one, in order.  Of attributes, expressions only: a map has variables of its own.
struct Below {
  std::vector<const Node*>& out;

  void add(const Expr& e) {
    if (e) out.push_back(e.get());
  }
  void add(const Stmt& s) {
    if (s) out.push_back(s.get());
  }
  void add(const Attrs& attrs) {
    for (auto& [name, value] : attrs.entries)
      if (auto* e = std::get_if<Expr>(&value)) add(*e);
  }
  void add(const Operand& o) {
    std::visit([&](auto& x) { add(x); }, o);
  }
  template <class T>
  void add(const std::vector<T>& all) {
    for (auto& x : all) add(x);
  }
  template <class T>
  void add(const T& value) {
    if constexpr (HasFields<T>)
      std::apply([&](auto&... f) { (add(f), ...); }, const_cast<T&>(value).fields());
  }
  void below(const Node& node) {
    switch (node.kind) {
#define X(N) \
  case Kind::N: \
    return add<N>(static_cast<const N&>(node));
      TL_EXPRS(X) TL_STMTS(X)
#undef X
    }
  }
};

void visit_all(const Node* root, const std::function<void(const Node&)>& f) {
  std::vector<const Node*> left{root};
  while (!left.empty()) {
    poll();
    const Node* node = left.back();
    left.pop_back();
    f(*node);
    size_t first = left.size();
    Below{left}.below(*node);
    std::reverse(left.begin() + std::ptrdiff_t(first), left.end());
  }
}

// ── comparing ─────────────────────────────────────────────────────────────────────────────────────────
struct Comparison {
  bool renaming = false;
  int64_t nodes = INT64_MAX;  // at most; two that have more are taken for different
  std::map<const ExprNode*, const ExprNode*> forward = {}, backward = {};

  bool vars(const Var& a, const Var& b) {
    if (!renaming) return &a == &b;
    auto [f, new_a] = forward.emplace(&a, &b);
    auto [r, new_b] = backward.emplace(&b, &a);
    return f->second == &b && r->second == &a;
  }
  // A definition gives its variable a new partner: a body that is there twice may define one variable twice.
  void bind(const Expr& a, const Expr& b) {
    if (!renaming || !a || !b) return;
    forward[a.get()] = b.get();
    backward[b.get()] = a.get();
  }
  template <class B>
  bool same(const Ref<B>& a, const Ref<B>& b) {
    attention.steps++;
    if (a.same(b) && !renaming) return true;
    if (--nodes < 0) return false;
    if (!a || !b) return !a && !b;
    if (a->kind != b->kind) return false;
    if constexpr (std::is_same_v<B, ExprNode>)
      if (a->dtype != b->dtype) return false;
    return dispatch(a, [&](const auto& x) {
      using N = std::decay_t<decltype(x)>;
      const N& y = static_cast<const N&>(*b);
      if constexpr (std::is_same_v<N, For> || std::is_same_v<N, Let>) bind(x.var, y.var);
      if constexpr (std::is_same_v<N, Var>)
        return vars(x, y);
      else
        return fields_same(const_cast<N&>(x), const_cast<N&>(y));
    });
  }
  template <class T>
  bool fields_same(T& a, T& b) {
    return each(a.fields(), b.fields(), std::make_index_sequence<std::tuple_size_v<decltype(a.fields())>>());
  }
  template <class A, size_t... I>
  bool each(const A& a, const A& b, std::index_sequence<I...>) {
    return (same(std::get<I>(a), std::get<I>(b)) && ...);
  }
  bool same(const double& a, const double& b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }
  template <class T>
  bool same(const T& a, const T& b) {
    if constexpr (std::is_same_v<T, IndexMap>)
      for (size_t i = 0; i < std::min(a.vars.size(), b.vars.size()); i++) bind(a.vars[i], b.vars[i]);
    if constexpr (HasFields<T>)
      return fields_same(const_cast<T&>(a), const_cast<T&>(b));
    else
      return a == b;
  }
  template <class T>
  bool same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); i++)
      if (!same(a[i], b[i])) return false;
    return true;
  }
  template <class T>
  bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  }
  template <class... T>
  bool same(const std::variant<T...>& a, const std::variant<T...>& b) {
    if (a.index() != b.index()) return false;
    return std::visit([&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
  }
  template <class K, class V, class C>
  bool same(const std::map<K, V, C>& a, const std::map<K, V, C>& b) {
    if (a.size() != b.size()) return false;
    for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j)
      if (i->first != j->first || !same(i->second, j->second)) return false;
    return true;
  }
};

// ── hashing ───────────────────────────────────────────────────────────────────────────────────────────
uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

uint64_t hash_of(int64_t x) { return uint64_t(x); }
uint64_t hash_of(double x) { return std::bit_cast<uint64_t>(x); }
uint64_t hash_of(const Intrinsic* x) { return std::hash<std::string_view>()(x->name); }
uint64_t hash_of(const std::string& x) { return std::hash<std::string>()(x); }
uint64_t hash_of(BufferId x) { return uint64_t(x.value); }
uint64_t hash_of(const Claim&) { return 0; }  // it says the same as the index
uint64_t hash_of(const Expr& x) { return x ? hash(x) : 0; }
template <class T>
  requires std::is_enum_v<T>
uint64_t hash_of(T x) {
  return uint64_t(x);
}
uint64_t hash_of(const std::vector<Expr>& v) {
  uint64_t h = v.size();
  for (auto& x : v) h = mix(h, hash_of(x));
  return h;
}

}  // namespace

Expr Rewriter::children(const Expr& e) { return map_children(e, *this); }
Stmt Rewriter::children(const Stmt& s) { return map_children(s, *this); }

void visit_nodes(const Expr& root, const std::function<void(const Node&)>& f) {
  if (root) visit_all(root.get(), f);
}
void visit_nodes(const Stmt& root, const std::function<void(const Node&)>& f) {
  if (root) visit_all(root.get(), f);
}

void visit_below(const Expr& e, const std::function<void(const Expr&)>& f) {
  std::vector<const Node*> below;
  Below{below}.below(*e);
  for (auto* n : below) f(Expr(static_cast<const ExprNode*>(n)));
}

void visit_below(const Stmt& s, const std::function<void(const Stmt&)>& statements,
                 const std::function<void(const Expr&)>& expressions) {
  std::vector<const Node*> below;
  Below{below}.below(*s);
  for (auto* n : below)
    if (is_statement(n->kind))
      statements(Stmt(static_cast<const StmtNode*>(n)));
    else
      expressions(Expr(static_cast<const ExprNode*>(n)));
}

bool equal(const Expr& a, const Expr& b) { return Comparison{}.same(a, b); }
bool equal_within(int64_t nodes, const Expr& a, const Expr& b) {
  return Comparison{.nodes = nodes}.same(a, b);
}
bool equal(const Stmt& a, const Stmt& b) { return Comparison{}.same(a, b); }
bool equivalent(const Expr& a, const Expr& b) { return Comparison{.renaming = true}.same(a, b); }
bool equivalent(const Stmt& a, const Stmt& b) { return Comparison{.renaming = true}.same(a, b); }

bool equivalent(const Function& a, const Function& b) {
  Comparison c{.renaming = true};
  auto params = [&](const Param& x, const Param& y) {
    return x.name == y.name && x.buffer == y.buffer && c.same(x.var, y.var);
  };
  auto buffers = [&](const BufferInfo& x, const BufferInfo& y) {
    return x.name == y.name && x.dtype == y.dtype && x.scope == y.scope && x.alignment == y.alignment &&
           x.address == y.address && x.elements == y.elements && x.holds == y.holds &&
           x.alias_of == y.alias_of && x.reducer == y.reducer && x.pipeline == y.pipeline &&
           c.same(x.safe_value, y.safe_value) && c.same(x.shape, y.shape) && c.same(x.strides, y.strides) &&
           c.same(x.layout, y.layout);
  };
  auto maps = [&](const TensorMap& x, const TensorMap& y) {
    return x.name == y.name && x.tensor == y.tensor && x.box == y.box && x.swizzle == y.swizzle &&
           x.fetch == y.fetch && c.same(x.shape, y.shape) && c.same(x.strides, y.strides);
  };
  auto kernels = [&](const Kernel& x, const Kernel& y) {
    return x.name == y.name && c.same(x.grid_vars, y.grid_vars) && c.same(x.grid, y.grid) &&
           x.threads == y.threads && c.same(x.thread, y.thread) && x.cluster == y.cluster &&
           c.same(x.attrs, y.attrs) && c.same(x.body, y.body);
  };
  auto checks = [&](const Check& x, const Check& y) {
    return x.message == y.message && x.place == y.place && c.same(x.cond, y.cond);
  };
  return a.name == b.name && c.same(a.facts, b.facts) && a.workspaces == b.workspaces &&
         std::equal(a.checks.begin(), a.checks.end(), b.checks.begin(), b.checks.end(), checks) &&
         std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end(), params) &&
         std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), buffers) &&
         std::equal(a.maps.begin(), a.maps.end(), b.maps.begin(), b.maps.end(), maps) &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(), kernels);
}

uint64_t hash(const Expr& e) {
  uint64_t h =
      mix(uint64_t(e->kind), uint64_t(e->dtype.kind) << 32 | uint64_t(e->dtype.bits) << 16 | e->dtype.lanes);
  return dispatch(e, [&](const auto& n) {
    using N = std::decay_t<decltype(n)>;
    if constexpr (std::is_same_v<N, Var>)
      return mix(h, uint64_t(reinterpret_cast<uintptr_t>(&n)));
    else
      return std::apply([&](auto&... f) { return ((h = mix(h, hash_of(f))), ...); },
                        const_cast<N&>(n).fields());
  });
}

template <class R>
static R substituted(const R& root, const VarMap& values) {
  if (values.empty()) return root;
  return rewrite(root, [&](const Var& v, Rewriter&) {
    auto it = values.find(&v);
    return it == values.end() ? Expr(&v) : it->second;
  });
}
Expr substitute(const Expr& e, const VarMap& values) { return substituted(e, values); }
Stmt substitute(const Stmt& s, const VarMap& values) { return substituted(s, values); }
Stmt renamed(const Stmt& s) {
  VarMap fresh;
  auto rename = [&](const Expr& v) { fresh[v.get()] = var(v.as<Var>()->hint, v->dtype, v->span); };
  visit(s, [&](const For& n) { rename(n.var); }, [&](const Let& n) { rename(n.var); });
  return substitute(s, fresh);
}

bool uses_var(const Expr& e, const Expr& var) {
  return contains(e, [&](const Var& v) { return &v == var.get(); });
}

std::vector<Stmt> statements_of(const Stmt& s) {
  auto* b = s.as<Block>();
  if (!b) return {s};
  std::vector<Stmt> all;
  for (auto& inner : b->stmts)
    for (auto& x : statements_of(inner)) all.push_back(x);
  return all;
}

const Intrinsic* control_of(const Stmt& s) {
  auto* e = s.as<Eval>();
  auto* c = e ? e->value.as<Call>() : nullptr;
  return c && c->intrinsic->effect == Intrinsic::Effect::control ? c->intrinsic : nullptr;
}

bool has_control(const Stmt& s) {
  return s && contains(s, [](const Call& c) { return c.intrinsic->effect == Intrinsic::Effect::control; });
}

bool jumps(const Stmt& s) {
  if (!s || s.as<For>() || s.as<While>()) return false;  // its own loop takes what is inside
  if (auto* b = s.as<Block>()) return std::ranges::any_of(b->stmts, jumps);
  if (auto* i = s.as<If>()) return jumps(i->then_body) || jumps(i->else_body);
  if (auto* g = s.as<Group>()) return jumps(g->body);
  if (auto* t = s.as<Tile>()) return jumps(t->body);
  const Intrinsic* c = control_of(s);
  return c == &break_loop || c == &continue_loop;
}

}  // namespace tl
