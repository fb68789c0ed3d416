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

// The smallest extent of a tile's dimension that the variable alone indexes; 0 if there is none.
int64_t tile_extent(const Function& f, const Stmt& body, const Expr& v) {
  int64_t least = 0;
  auto look = [&](BufferId b, const std::vector<Expr>& index) {
    if (f[b].scope == Scope::global) return;
    for (size_t d = 0; d < index.size(); d++)
      if (index[d].same(v))
        if (auto e = as_int(f[b].shape[d])) least = least ? std::min(least, *e) : *e;
  };
  visit(
      body, [&](const Load& n) { look(n.buffer, n.index); },
      [&](const Store& n) { look(n.buffer, n.index); });
  return least;
}

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
    if (int64_t whole = tile_extent(f, body, d.var)) {
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
