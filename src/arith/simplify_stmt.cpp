// The walk over statements.  On the way down it learns the range of each loop variable, the value of each Let
// and each condition taken; what a scope learned is forgotten at its end.
#include <algorithm>

#include "arith/prove.h"
#include "arith/simplifier.h"

namespace tl {
namespace {

bool is_jump(const Call& c) { return c.intrinsic == &break_loop || c.intrinsic == &continue_loop; }

bool has_jump(const Stmt& s) {
  return contains(s, [](const Call& c) { return is_jump(c); });
}

bool has_call(const Expr& e) {
  return contains(e, [](const Call&) { return true; });
}

bool is_assumption(const Stmt& s) {
  auto* e = s.as<Eval>();
  auto* c = e ? e->value.as<Call>() : nullptr;
  return c && c->intrinsic == &assume_function;
}

template <class N>
Stmt with(const N& n, auto change) {
  auto copy = n;
  change(copy);
  return own(new N(std::move(copy)));
}

// The statement is the whole body of a parallel loop; of one in a nest with attributes.
enum class Nest { none, parallel, settled };

// Loops of one iteration go, except those that a jump leaves, that name an engine or that roles may divide,
// and among parallel ones the last around a statement (it is what spreads the statement over threads) and
// those of a nest with attributes (a layout has a dimension for each).
bool removable(const For& n, const Stmt& body, Nest around) {
  bool planned = n.attrs.find("engine") || n.attrs.find("stage") || n.attrs.find("stages") ||
                 n.attrs.find("may_divide") || n.attrs.find("nest");
  if (has_jump(body) || planned) return false;
  if (n.loop != Loop::parallel) return true;
  if (!n.attrs.entries.empty() || around == Nest::settled) return false;
  auto* inner = body.as<For>();
  bool nested = around == Nest::parallel || (inner && inner->loop == Loop::parallel);
  for (; inner && inner->loop == Loop::parallel; inner = inner->body.as<For>())
    if (!inner->attrs.entries.empty()) return false;
  return nested;
}
Nest nest_of(const For& n, Nest around) {
  if (n.loop != Loop::parallel) return Nest::none;
  return !n.attrs.entries.empty() || around == Nest::settled ? Nest::settled : Nest::parallel;
}

struct Walker {
  Simplifier s;
  const Expr thread = {};  // of the kernel; may be null
  Nest nest = Nest::none;

  Expr walk(const Expr& e) { return e ? s.run(e) : e; }
  bool walk_all(std::vector<Expr>& list) {
    bool changed = false;
    for (auto& e : list) {
      Expr r = walk(e);
      changed |= !r.same(e);
      e = std::move(r);
    }
    return changed;
  }
  bool walk_attrs(Attrs& attrs) {  // expressions only: an IndexMap has variables of its own
    bool changed = false;
    for (auto& [name, value] : attrs.entries)
      if (auto* e = std::get_if<Expr>(&value)) {
        Expr r = walk(*e);
        changed |= !r.same(*e);
        *e = std::move(r);
      }
    return changed;
  }
  // Runs f with what it learns; the facts from before hold again after it.
  template <class F>
  Stmt scoped(F f) {
    Facts before = s.facts;
    std::vector<Sum> bounds = s.bounds;  // among them such as no expression can tell, for it might wrap
    Stmt r = f();
    s.set_facts(std::move(before));
    s.bounds = std::move(bounds);
    return r;
  }
  Stmt under(const Expr& condition, const Stmt& body) {
    if (!body) return body;
    return scoped([&] {
      s.learn(condition);
      return walk(body);
    });
  }

  // The range of a variable that runs over [min, min + extent).
  void learn_loop(const Expr& v, const Expr& min, const Expr& extent) {
    s.facts.ranges.erase(v.get());
    s.facts.divisibility.erase(v.get());
    s.known.forget();
    if (!is_scalar_int(v)) return;
    Interval first = s.known.range(min), count = s.known.range(extent);
    WideRange last = add(add(widen(first), widen(count)), {-1, -1});
    if (v->dtype != i64 && !fits({last.max, last.max}, v->dtype)) return;
    s.learn_range(v, narrow({first.min, last.max}));
    if (v->dtype != i64 || (is_const(min) && is_const(extent))) return;
    s.learn(s.run(le(min, v)));
    s.learn(s.run(lt(v, min + extent)));
  }

  Stmt loop_with(const For& n, const Expr& min, const Expr& extent, const Stmt& body) {
    if (is_empty(body)) return block({}, n.span);
    Attrs attrs = n.attrs;
    bool changed = walk_attrs(attrs);
    if (!changed && min.same(n.min) && extent.same(n.extent) && body.same(n.body)) return Stmt(&n);
    return with(n, [&](For& c) { c.min = min, c.extent = extent, c.attrs = attrs, c.body = body; });
  }

  // Where only a parallel loop is left of the body, it is a part of this nest, which it did not know.
  Stmt walk_body(const Stmt& stmt, Nest inside) {
    nest = inside;
    Stmt body = walk(stmt);
    auto* inner = body.as<For>();
    if (stmt.as<For>() || !inner || !is_int(inner->extent, 1) || !removable(*inner, inner->body, inside))
      return body;
    nest = inside;
    return walk(body);
  }

  // What stops the loop from going may itself go when the body is simplified, hence the second question.
  Stmt walk_once(const For& n, const Expr& min, const Expr& extent, Nest around) {
    bool goes = removable(n, n.body, around);
    s.replaced[n.var.get()] = min;
    s.known.forget();
    Stmt body = walk_body(n.body, goes ? around : nest_of(n, around));
    s.replaced.erase(n.var.get());
    s.known.forget();
    return goes || removable(n, body, around) ? body : loop_with(n, min, extent, body);
  }

  Stmt walk_for(const For& n, Nest around) {
    Expr min = walk(n.min), extent = walk(n.extent);
    if (s.known.range(extent).max <= 0 && !s.known.of(extent).impure) return block({}, n.span);
    // A first value that is read from memory is read once, before the body may write there.
    if (is_int(extent, 1) && !s.known.of(min).loads) return walk_once(n, min, extent, around);
    return scoped([&] {
      learn_loop(n.var, min, extent);
      return loop_with(n, min, extent, walk_body(n.body, nest_of(n, around)));
    });
  }

  Stmt walk_if(const If& n) {
    Expr cond = walk(n.cond);
    if (auto c = as_int(cond))
      return *c ? walk(n.then_body) : n.else_body ? walk(n.else_body) : block({}, n.span);
    Expr otherwise = s.make_unary(UnaryOp::logical_not, cond);
    Stmt then_body = under(cond, n.then_body), else_body = under(otherwise, n.else_body);
    if (is_empty(else_body)) else_body = {};
    if (is_empty(then_body)) {
      if (!else_body) return s.known.of(cond).impure ? eval(cond, n.span) : block({}, n.span);
      Expr negated = walk(otherwise);
      if (auto c = as_int(negated)) return *c ? else_body : block({}, n.span);
      return if_then(negated, else_body, {}, n.span);
    }
    if (cond.same(n.cond) && then_body.same(n.then_body) && else_body.same(n.else_body)) return Stmt(&n);
    return with(n, [&](If& c) { c.cond = cond, c.then_body = then_body, c.else_body = else_body; });
  }

  Stmt walk_while(const While& n) {
    Expr cond = walk(n.cond);
    if (is_int(cond, 0)) return block({}, n.span);
    Stmt body = under(cond, n.body);
    if (cond.same(n.cond) && body.same(n.body)) return Stmt(&n);
    return with(n, [&](While& c) { c.cond = cond, c.body = body; });
  }

  // A Let of a constant or of a variable is that; any other gives its range to the statements behind it.
  Stmt walk_let(const Let& n) {
    Expr value = walk(n.value);
    if (is_const(value) || value.as<Var>()) {
      s.replaced[n.var.get()] = value;
      s.known.forget();
      return block({}, n.span);
    }
    Info info = s.known.of(value);
    if (n.var->dtype.is_int() || n.var->dtype.is_bool()) {
      s.facts.bind(n.var, info.range);
      s.facts.bind(n.var, info.modular);
      if (info.data) s.facts.data.insert(n.var.get());
      s.known.forget();
    }
    return value.same(n.value) ? Stmt(&n) : let(n.var, value, n.span);
  }

  Stmt walk_block(const Block& n) {
    VarMap replaced = s.replaced;
    bool binds =
        std::ranges::any_of(n.stmts, [](auto& x) { return x.template as<Let>() || is_assumption(x); });
    auto each = [&] {
      std::vector<Stmt> out;
      bool changed = false;
      for (auto& stmt : n.stmts) {
        nest = Nest::none;
        Stmt r = walk(stmt);
        changed |= !r.same(stmt);
        if (!is_empty(r)) out.push_back(std::move(r));
      }
      while (!out.empty() && out.back().as<Let>() && !s.known.of(out.back().as<Let>()->value).impure) {
        out.pop_back();  // nothing follows that could see it
        changed = true;
      }
      changed |= out.size() != n.stmts.size();
      return changed ? block(std::move(out), n.span) : Stmt(&n);
    };
    if (!binds) return each();
    Stmt r = scoped(each);
    s.replaced = std::move(replaced);
    return r;
  }

  Stmt walk_group(const Group& n) {
    Stmt body = scoped([&] {
      if (thread) s.facts.bind(thread, Interval{n.first, n.first + n.count - 1});
      s.known.forget();
      return walk(n.body);
    });
    if (is_empty(body)) return block({}, n.span);
    Attrs attrs = n.attrs;
    if (!walk_attrs(attrs) && body.same(n.body)) return Stmt(&n);
    return with(n, [&](Group& c) { c.attrs = attrs, c.body = body; });
  }

  Stmt walk_store(const Store& n) {
    std::vector<Expr> index = n.index;
    Claim claim = n.claim;
    bool changed = walk_all(index);
    changed |= s.walk_claim(claim);
    Expr mask = walk(n.mask);
    if (mask && is_int(mask, 0)) return block({}, n.span);
    if (mask && is_int(mask, 1)) mask = {};
    Expr value = walk(n.value);
    if (!changed && mask.same(n.mask) && value.same(n.value)) return Stmt(&n);
    return with(n, [&](Store& c) { c.index = index, c.mask = mask, c.value = value, c.claim = claim; });
  }

  Stmt walk_tile(const Tile& n) {
    Attrs attrs = n.attrs;
    std::vector<Operand> operands = n.operands;
    bool changed = walk_attrs(attrs);
    auto set = [&](Expr& e) {
      Expr r = walk(e);
      changed |= !r.same(e);
      e = std::move(r);
    };
    for (auto& operand : operands) {
      if (auto* e = std::get_if<Expr>(&operand)) set(*e);
      if (auto* region = std::get_if<Region>(&operand))
        for (auto& r : region->ranges) set(r.min), set(r.extent);
    }
    Stmt body = n.body ? walk(n.body) : n.body;
    if (!changed && body.same(n.body)) return Stmt(&n);
    return with(n, [&](Tile& c) { c.attrs = attrs, c.operands = operands, c.body = body; });
  }

  Stmt walk_alloc(const Alloc& n) {
    Attrs attrs = n.attrs;
    return walk_attrs(attrs) ? with(n, [&](Alloc& c) { c.attrs = attrs; }) : Stmt(&n);
  }

  Stmt walk_eval(const Eval& n) {
    Expr value = walk(n.value);
    if (!has_call(value)) return block({}, n.span);
    if (auto* c = value.as<Call>(); c && c->intrinsic == &assume_function) {
      if (is_int(c->args[0], 1)) return block({}, n.span);
      s.learn(c->args[0]);
    }
    return value.same(n.value) ? Stmt(&n) : eval(value, n.span);
  }

  Stmt walk(const Stmt& stmt) {
    Nest around = std::exchange(nest, Nest::none);
    Span outer = std::exchange(s.here, stmt->span);
    Stmt r = dispatch(stmt, overloads{
                                [&](const Store& n) { return walk_store(n); },
                                [&](const Let& n) { return walk_let(n); },
                                [&](const For& n) { return walk_for(n, around); },
                                [&](const If& n) { return walk_if(n); },
                                [&](const While& n) { return walk_while(n); },
                                [&](const Block& n) { return walk_block(n); },
                                [&](const Group& n) { return walk_group(n); },
                                [&](const Alloc& n) { return walk_alloc(n); },
                                [&](const Tile& n) { return walk_tile(n); },
                                [&](const Eval& n) { return walk_eval(n); },
                            });
    s.here = outer;
    return r;
  }
};

}  // namespace

Stmt simplify(const Stmt& stmt, const Facts& facts) {
  if (!stmt) return stmt;
  Walker w{.s = Simplifier(facts)};
  return w.walk(stmt);
}

Function simplify(const Function& f) {
  Function out = f;
  Facts outside;
  for (auto& condition : f.facts) outside.assume(condition);
  for (auto& k : out.kernels) {
    for (auto& extent : k.grid) extent = simplify(extent, outside);
    Walker w{.s = Simplifier(facts_of(f, k)), .thread = k.thread};
    if (k.body) k.body = w.walk(k.body);
  }
  return out;
}

}  // namespace tl
