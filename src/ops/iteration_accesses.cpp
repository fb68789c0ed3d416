#include "ops/iteration_accesses.h"

#include "arith/simplify.h"
#include "ir/rewrite.h"

namespace tl {

std::optional<int64_t> value_under(const Expr& e, const CounterValues& values) {
  if (auto n = as_int(e)) return n;
  auto it = values.find(e.get());
  if (it != values.end()) return it->second;
  auto whole = [](DType t) { return t.lanes == 1 && (t.is_int() || t.is_bool()); };
  if (auto* c = e.as<Cast>(); c && whole(c->dtype) && whole(c->a->dtype)) {
    auto a = value_under(c->a, values);
    return a ? std::optional(c->dtype.is_bool() ? *a != 0 : wrap_int(*a, c->dtype)) : std::nullopt;
  }
  if (auto* u = e.as<Unary>(); u && whole(u->dtype) && u->op != UnaryOp::bit_not) {
    auto a = value_under(u->a, values);
    return a ? std::optional<int64_t>(u->op == UnaryOp::neg ? fold_int(BinaryOp::sub, 0, *a, u->dtype) : !*a)
             : std::nullopt;
  }
  auto* b = e.as<Binary>();
  if (!b || !whole(b->a->dtype)) return std::nullopt;
  auto x = value_under(b->a, values), y = value_under(b->b, values);
  if (!x || !y || (is_division(b->op) && *y == 0)) return std::nullopt;
  return fold_int(b->op, *x, *y, b->a->dtype);
}

namespace {

struct Walk {
  IterationAccesses out = {};
  std::vector<Expr> conditions = {};
  std::vector<LoopCounter> inner = {};
  VarMap names = {};

  void add(bool is_store, BufferId buffer, const std::vector<Expr>& index, const Expr& mask, Span span) {
    IterationAccess a{
        .is_store = is_store, .buffer = buffer, .conditions = conditions, .inner = inner, .span = span};
    for (auto& i : index) a.index.push_back(substitute(i, names));
    if (mask) a.conditions.push_back(substitute(mask, names));
    out.found.push_back(std::move(a));
  }
  template <class F>
  void under(const Expr& cond, F walk) {
    conditions.push_back(substitute(cond, names));
    walk();
    conditions.pop_back();
  }
  Expr no(const Expr& cond) const { return unary(UnaryOp::logical_not, cond); }

  void value(const Expr& e, Span span) {
    if (!e) return;
    if (auto* s = e.as<Select>()) {
      value(s->cond, span);
      under(s->cond, [&] { value(s->a, span); });
      under(no(s->cond), [&] { value(s->b, span); });
    } else if (auto* b = e.as<Binary>()) {
      value(b->a, span);
      if (is_logical(b->op))
        under(b->op == BinaryOp::logical_and ? b->a : no(b->a), [&] { value(b->b, span); });
      else
        value(b->b, span);
    } else if (auto* l = e.as<Load>()) {
      for (auto& i : l->index) value(i, span);
      add(false, l->buffer, l->index, l->mask, span);
    } else if (auto* c = e.as<Cast>()) {
      value(c->a, span);
    } else if (auto* u = e.as<Unary>()) {
      value(u->a, span);
    } else if (auto* c = e.as<Call>()) {
      out.by_thread |= c->intrinsic == &thread_index || c->intrinsic == &thread_number;
      for (auto& a : c->args)
        if (!place_of(a)) value(a, span);
    }
  }
  void statement(const Stmt& s) {
    if (!s) return;
    if (auto* b = s.as<Block>()) {
      for (auto& inner_statement : b->stmts) statement(inner_statement);
    } else if (auto* n = s.as<For>()) {
      auto first = as_int(n->min), count = as_int(n->extent);
      if (first != 0 || !count || has_control(n->body)) return;
      inner.push_back({n->var, *count});
      statement(n->body);
      inner.pop_back();
    } else if (auto* i = s.as<If>()) {
      value(i->cond, s->span);
      under(i->cond, [&] { statement(i->then_body); });
      under(no(i->cond), [&] { statement(i->else_body); });
    } else if (auto* st = s.as<Store>()) {
      for (auto& i : st->index) value(i, s->span);
      value(st->value, s->span);
      add(true, st->buffer, st->index, st->mask, s->span);
      out.found.back().value = substitute(st->value, names);
    } else if (auto* l = s.as<Let>()) {
      value(l->value, s->span);
      out.lets.emplace(l->var.get(), l->value);
      if (l->var->dtype.is_int()) names.emplace(l->var.get(), substitute(l->value, names));
    } else if (auto* e = s.as<Eval>()) {
      value(e->value, s->span);
    }
  }
};

}  // namespace

IterationAccesses accesses_of(const Stmt& body) {
  Walk walk;
  walk.statement(body);
  return std::move(walk.out);
}

std::vector<LoopCounter> Iterations::counters_of(const IterationAccess& a) const {
  std::vector<LoopCounter> counters = loops;
  counters.insert(counters.end(), a.inner.begin(), a.inner.end());
  return counters;
}

std::vector<Expr> Iterations::own_parts(const IterationAccess& a, std::vector<Expr>& shared) const {
  VarMap zeros;
  for (auto& c : counters_of(a)) zeros.emplace(c.var.get(), zero(c.var->dtype));
  std::vector<Expr> own;
  for (auto& i : a.index) {
    shared.push_back(simplify(substitute(i, zeros)));
    own.push_back(simplify(i - shared.back()));
  }
  return own;
}

std::string Iterations::name_of(int64_t iteration) const {
  std::string s;
  for (size_t d = loops.size(); d-- > 0; iteration /= loops[d].extent)
    s = fmt::format("{} = {}{}", loops[d].var.template as<Var>()->hint, iteration % loops[d].extent,
                    s.empty() ? "" : ", " + s);
  return s;
}

}  // namespace tl
