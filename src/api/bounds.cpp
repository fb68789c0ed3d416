// Indices that leave a tile whatever happens: the access is reached in any case, and its index takes every
// value that its loops give it.  Accesses under a condition are not checked, because it may be there to keep
// the index inside; accesses to tensors are guarded. Indices that depend on threads are left to the
// simulator.
#include "api/bounds.h"

#include <optional>
#include <set>

#include "arith/affine.h"
#include "base/error.h"
#include "ir/intrinsic.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct Bounds {
  const Function& f;
  Facts facts = {};  // ranges of the variables that take all of their values
  VarMap lets = {};

  Expr plain(const Expr& e) const {
    return rewrite(e, [&](const Var& v, Rewriter& self) -> Expr {
      auto it = lets.find(&v);
      return it == lets.end() ? Expr(&v) : self(it->second);
    });
  }

  // A variable, or one divided by a number, or its remainder: does it take all values of its range?
  bool takes_all(const Expr& e, std::set<const ExprNode*>& seen) const {
    auto* b = e.as<Binary>();
    bool part = b && (b->op == BinaryOp::floordiv || b->op == BinaryOp::floormod) && as_int(b->b);
    const Expr& v = part ? b->a : e;
    auto it = facts.ranges.find(v.get());
    if (!v.as<Var>() || it == facts.ranges.end() || !seen.insert(v.get()).second) return false;
    return !part || b->op == BinaryOp::floordiv || it->second.max - it->second.min + 1 >= *as_int(b->b);
  }

  // The least and the greatest value of an index, where it takes both.
  std::optional<Interval> reached(const Expr& index) {
    Expr e = plain(index);
    Analysis known(facts);
    Sum sum = parse_sum(e, known);
    std::set<const ExprNode*> seen;
    for (auto& t : sum.terms)
      if (!takes_all(t.e, seen)) return std::nullopt;
    Interval found = narrow(range(sum));
    return sum.ok && found.bounded() ? std::optional(found) : std::nullopt;
  }

  void check(BufferId buffer, size_t d, const Expr& index, const Expr& extent, Span span) {
    const BufferInfo& info = f[buffer];
    auto size = as_int(info.shape[d]), many = as_int(extent);
    if (info.scope == Scope::global || !size || !many) return;
    auto found = reached(index);
    if (!found || (found->min >= 0 && found->max + *many <= *size)) return;
    bool below = found->min < 0;
    fail(span, "the index {} of dimension {} of {} becomes {}, but {}: {}", print(index, &f), d, info.name,
         below ? found->min : found->max + *many - 1,
         below ? "indices begin at 0" : fmt::format("its extent is {}", *size),
         "change the tile or the loop, or guard the access by `if`");
  }

  void place(BufferId buffer, const std::vector<Expr>& index, Span span) {
    for (size_t d = 0; d < index.size(); d++) {
      value(index[d]);
      check(buffer, d, index[d], imm(1), span);
    }
  }

  // What is computed whenever the expression is.
  void value(const Expr& e) {
    if (!e) return;
    if (auto* s = e.as<Select>()) return value(s->cond);
    if (auto* b = e.as<Binary>()) {
      value(b->a);
      if (b->op != BinaryOp::logical_and && b->op != BinaryOp::logical_or) value(b->b);
    } else if (auto* l = e.as<Load>()) {
      if (!l->mask) place(l->buffer, l->index, e->span);
    } else if (auto* c = e.as<Cast>()) {
      value(c->a);
    } else if (auto* u = e.as<Unary>()) {
      value(u->a);
    } else if (auto* c = e.as<Call>()) {
      for (auto& a : c->args) {
        auto* at = place_of(a);
        if (at && c->intrinsic->atomic != Intrinsic::Atomic::none && !at->mask)
          place(at->buffer, at->index, e->span);
        if (!at) value(a);
      }
    }
  }

  void tile(const Tile& t) {
    for (auto& o : t.operands)
      if (auto* r = std::get_if<Region>(&o))
        for (size_t d = 0; d < r->ranges.size(); d++)
          check(r->buffer, d, r->ranges[d].min, r->ranges[d].extent, t.span);
  }

  // Whether what stands below is reached in any case, and its indices take every value of their loops.
  bool statement(const Stmt& s) {
    if (auto* loop = s.as<For>()) {
      auto first = as_int(loop->min), count = as_int(loop->extent);
      if (!first || !count || *count < 1 || has_control(loop->body)) return false;
      facts.bind(loop->var, Interval{*first, *first + *count - 1});
    } else if (auto* i = s.as<If>()) {
      value(i->cond);
    } else if (auto* st = s.as<Store>()) {
      value(st->value);
      if (!st->mask) place(st->buffer, st->index, s->span);
    } else if (auto* l = s.as<Let>()) {
      value(l->value);
      if (l->var->dtype.is_int()) lets.emplace(l->var.get(), l->value);
    } else if (auto* e = s.as<Eval>()) {
      value(e->value);
    } else if (auto* t = s.as<Tile>()) {
      tile(*t);
    }
    return s.as<Block>() || s.as<For>();
  }
};

}  // namespace

void check_bounds_of_tiles(const Function& f) {
  for (auto& k : f.kernels) {
    if (contains(k.body, [](const Call& c) { return c.intrinsic == &thread_return; })) continue;
    Bounds bounds{.f = f};
    bool runs = true;
    for (size_t d = 0; d < k.grid.size(); d++)
      if (auto n = as_int(k.grid[d])) bounds.facts.bind(k.grid_vars[d], Interval{0, *n - 1}), runs &= *n > 0;
    if (runs) walk(k.body, {}, [&](const Stmt& s, const WalkContext&) { return bounds.statement(s); });
  }
}

}  // namespace tl
