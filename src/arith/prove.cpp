// Proofs by simplification.
#include "arith/prove.h"

#include "arith/simplifier.h"
#include "ir/rewrite.h"

namespace tl {

bool can_prove(const Expr& condition, const Facts& facts) {
  return !condition || is_int(simplify(condition, facts), 1);
}

std::optional<Linear> linear_in(const Expr& e, const Expr& v, const Facts& facts) {
  if (!is_scalar_int(e)) return std::nullopt;
  Simplifier s(facts);
  Sum sum = s.parse(s.run(e));
  if (!sum.ok) return std::nullopt;
  Linear result;
  Sum base = sum;  // of the same arithmetic: whole numbers, or modulo 2^n
  base.terms.clear();
  for (auto& t : sum.terms) {
    if (t.e.same(v))
      result.stride = t.factor;
    else if (uses_var(t.e, v))
      return std::nullopt;
    else
      add_term(base, t, 1, s.known);
  }
  if (!base.ok) return std::nullopt;
  result.base = emit(base, e->span);
  return result;
}

// Scalar parameters that no shape and no grid is made of: numbers like those of a tensor.
static std::set<const ExprNode*> numbers_of(const Function& f) {
  std::set<const ExprNode*> numbers;
  for (auto& p : f.params)
    if (p.var && p.var->dtype.is_int()) numbers.insert(p.var.get());
  auto drop = [&](const Expr& e) {
    if (!numbers.empty()) visit(e, [&](const Var& v) { numbers.erase(&v); });
  };
  for (auto& b : f.buffers) {
    for (auto& extent : b.shape) drop(extent);
    for (auto& stride : b.strides) drop(stride);
  }
  for (auto& k : f.kernels)
    for (auto& extent : k.grid) drop(extent);
  return numbers;
}

bool is_inside(const BufferInfo& b, const Expr& index, const Facts& facts) {
  Interval at = interval_of(index, facts);
  return at.min >= 0 && at.max < (b.elements >= 0 ? b.elements : element_count(b));
}

namespace {

// What the values of a kernel's names say of them: `x = bx * 64` is a multiple of 64 wherever it is used.
// Nothing, where a body that stands twice gives a name two values.
struct NamesOf {
  Facts facts;
  std::map<const ExprNode*, Expr> values = {};
  bool is_unique = true;

  void collect(const Stmt& s) {
    if (auto* n = s.as<Block>())
      for (auto& inner : n->stmts) collect(inner);
    if (auto* n = s.as<For>()) collect(n->body);
    if (auto* n = s.as<While>()) collect(n->body);
    if (auto* n = s.as<Group>()) collect(n->body);
    if (auto* n = s.as<If>()) {
      collect(n->then_body);
      if (n->else_body) collect(n->else_body);
    }
    auto* n = s.as<Let>();
    if (!n || !is_scalar_int(n->var)) return;
    auto [it, is_new] = values.emplace(n->var.get(), n->value);
    if (is_new)
      learn(facts, n->var, n->value);
    else
      is_unique &= equal(it->second, n->value);
  }
};

}  // namespace

Facts facts_of(const Function& f, const Kernel& k) {
  Facts initial;
  initial.data = numbers_of(f);
  Simplifier s(initial);
  for (auto& b : f.buffers)
    for (auto& extent : b.shape) s.learn_range(extent, {0, INT64_MAX});
  for (auto& condition : f.facts) s.learn(s.run(condition));
  for (size_t i = 0; i < k.grid_vars.size(); i++) {
    s.learn_range(k.grid_vars[i], {0, INT64_MAX});
    s.learn(s.run(lt(k.grid_vars[i], k.grid[i])));
  }
  int64_t threads = thread_count(k);
  if (k.thread) s.facts.bind(k.thread, Interval{0, threads > 0 ? threads - 1 : INT64_MAX});
  NamesOf names{s.facts};
  names.collect(k.body);
  return names.is_unique ? names.facts : s.facts;
}

}  // namespace tl
