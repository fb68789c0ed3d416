// Parallel loops whose extents are known only at run time.  A loop that names a tile's dimension runs over
// that whole dimension, guarded; any other is cut into blocks that the threads fill, in a serial loop around
// the nest.
//
//   for i in parallel(n):        ->   for o in serial(ceildiv(n, 512)):
//     B[i] = A[i]                       for i in parallel(512):
//                                         if o*512 + i < n: B[o*512 + i] = A[o*512 + i]
#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/parallel.h"

namespace tl {
namespace {

// Over which extent of a tile's dimension a loop runs, because no iteration beyond it could do anything: each
// comes to an access that has the variable alone as index there, or stores to nothing else.
struct TileExtent {
  const Function& f;
  const Expr& v;
  int64_t reached = 0,
          stored = 0;  // the smallest of those that every iteration comes to; the largest stored to
  bool stores_elsewhere = false;

  int64_t extent_at(BufferId b, const std::vector<Expr>& index) const {
    int64_t least = 0;
    if (f[b].scope == Scope::global) return 0;
    for (size_t d = 0; d < index.size(); d++)
      if (auto e = as_int(f[b].shape[d]); e && index[d].same(v)) least = least ? std::min(least, *e) : *e;
    return least;
  }
  void reach(BufferId b, const std::vector<Expr>& index) {
    if (int64_t e = extent_at(b, index)) reached = reached ? std::min(reached, e) : e;
  }

  // Accesses of an expression that are computed in any case.
  void value(const Expr& e) {
    if (!e) return;
    if (auto* s = e.as<Select>()) return value(s->cond);
    auto* b = e.as<Binary>();
    if (b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or)) return value(b->a);
    if (auto* l = e.as<Load>()) reach(l->buffer, l->index);
    visit_below(e, [&](const Expr& part) { value(part); });
  }
  void statement(const Stmt& s, bool is_all) {
    if (auto* i = s.as<If>()) {
      value(i->cond);
      if (is_all && !i->else_body) statement(i->then_body, true);
    } else if (auto* st = s.as<Store>()) {
      value(st->value);
      for (auto& i : st->index) value(i);
      reach(st->buffer, st->index);
    } else if (auto* l = s.as<Let>()) {
      value(l->value);
    } else if (auto* e = s.as<Eval>()) {
      value(e->value);
    } else if (auto* loop = s.as<For>()) {
      statement(loop->body, is_all);
    } else if (auto* block = s.as<Block>()) {
      auto acts = std::ranges::count_if(block->stmts, [](auto& x) { return !x.template as<Let>(); });
      for (auto& x : block->stmts) statement(x, is_all && acts == 1);
    }
  }

  int64_t of(const Stmt& body) {
    statement(body, true);
    visit(
        body,
        [&](const Store& n) {
          int64_t e = extent_at(n.buffer, n.index);
          stored = std::max(stored, e);
          stores_elsewhere |= e == 0;
        },
        [&](const Call& n) { stores_elsewhere |= n.intrinsic->effect != Intrinsic::Effect::pure; });
    int64_t all = stores_elsewhere ? 0 : stored;
    return reached && all ? std::min(reached, all) : std::max(reached, all);
  }
};

struct Dimension {
  Expr var, extent;
};

}  // namespace

Stmt with_constant_extents(const Function& f, const For& loop, int64_t threads) {
  std::vector<Dimension> dims;
  Stmt body(&loop);
  int64_t points = 1;
  for (const For* l = &loop; l && l->loop == Loop::parallel; l = body.as<For>()) {
    dims.push_back({l->var, l->extent});
    if (auto e = as_int(l->extent)) points *= std::max<int64_t>(1, *e);
    body = l->body;
  }
  if (std::ranges::all_of(dims, [](auto& d) { return as_int(d.extent).has_value(); })) return Stmt(&loop);
  std::vector<Dimension> around;
  Expr guard;
  for (auto& d : dims) {
    if (as_int(d.extent)) continue;
    Expr limit = d.extent;
    for (auto& other : dims)
      if (uses_var(limit, other.var))
        fail(loop.span,
             "the extent of {} depends on {}, which runs in the same parallel nest; guard the body with a "
             "condition instead",
             d.var.as<Var>()->hint, other.var.as<Var>()->hint);
    if (int64_t whole = TileExtent{f, d.var}.of(body)) {
      guard = both(guard, lt(d.var, limit));
      d.extent = imm(whole, d.var->dtype);
      points *= whole;
      continue;
    }
    int64_t cut = std::max<int64_t>(1, std::max<int64_t>(4 * threads, 256) / points);
    Expr outer = var(d.var.as<Var>()->hint + "o", d.var->dtype);
    Expr whole = outer * imm(cut, d.var->dtype) + d.var;
    body = substitute(body, {{d.var.get(), whole}});
    guard = both(guard, lt(whole, limit));
    around.push_back({outer, ceildiv(limit, imm(cut, limit->dtype))});
    d.extent = imm(cut, d.var->dtype);
    points *= cut;
  }
  body = if_then(guard, body, {}, loop.span);
  auto wrap = [&](const Dimension& d, Loop kind, Attrs attrs) {
    body = for_loop(d.var, zero(d.var->dtype), d.extent, kind, body, loop.span, std::move(attrs));
  };
  for (size_t d = dims.size(); d-- > 0;) wrap(dims[d], Loop::parallel, d == 0 ? loop.attrs : Attrs{});
  for (size_t d = around.size(); d-- > 0;) wrap(around[d], Loop::serial, {});
  return body;
}

}  // namespace tl
