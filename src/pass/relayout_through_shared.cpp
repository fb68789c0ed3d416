// Copies through shared memory beside a statement.  The statement reads the shared tile itself, and a nest
// writes it; an operator that can only write to a fragment gets one of its own.
//
//   for i, j in parallel(64, 64):      ->   T = shared f32[64, 64]
//     B[i, j] = C[j, i]                     copy(C, T)
//                                           for i, j in parallel(64, 64): B[i, j] = T[j, i]
#include "pass/relayout_through_shared.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "ops/regions.h"

namespace tl {
namespace {

struct Relayout {
  Function& f;
  const std::string& subject;
  Span span;
  std::vector<Stmt> before = {}, after = {};

  BufferId twin(BufferId fragment, Scope scope, const char* suffix) {
    const BufferInfo& info = f[fragment];
    BufferInfo made{.name = info.name + suffix,
                    .dtype = info.dtype,
                    .shape = info.shape,
                    .scope = scope,
                    .span = info.span,
                    .stands_for = info.stands_for ? info.stands_for : fragment};
    BufferId b = f.add(std::move(made));
    before.push_back(alloc(b, span));
    return b;
  }

  void copy(std::vector<Stmt>& to, BufferId from, BufferId into) {
    to.push_back(make_tile(f, *find_op("copy"), {whole(f, from), whole(f, into)}, {}, span));
  }

  void note(BufferId fragment, BufferId shared) {
    int64_t bytes = f[shared].dtype.bytes() * element_count(f[shared]);
    f.notes.push_back(
        {"infer_layouts", f[fragment].name,
         fmt::format("goes through shared memory ({} bytes): {} needs its elements on other threads", bytes,
                     subject),
         span, true, fragment});
    f.notes.push_back(
        {"infer_layouts", f[shared].name,
         fmt::format("holds {} for {}, which needs its elements on other threads", f[fragment].name, subject),
         span, false, shared});
  }
};

// Does the nest store every element of the buffer, whatever the data?
bool stores_all(const ParallelNest& nest, const Function& f, BufferId b) {
  for (auto& s : statements_of(nest.body)) {
    auto* store = s.as<Store>();
    if (!store || store->buffer != b || store->mask) continue;
    std::set<size_t> loops;
    bool all = true;
    for (size_t d = 0; d < store->index.size(); d++) {
      auto l = loop_of(nest, store->index[d]);
      all &= (l && loops.insert(*l).second && nest.extents[*l] == *as_int(f[b].shape[d])) ||
             (is_int(store->index[d], 0) && is_int(f[b].shape[d], 1));
    }
    if (all) return true;
  }
  return false;
}

Stmt replace_buffer(const Stmt& s, BufferId from, BufferId to) {
  return rewrite(
      s,
      [&](const Load& n, Rewriter& self) -> Expr {
        Expr e = self.children(n);
        auto* l = e.as<Load>();
        return l->buffer == from ? load(l->dtype, to, l->index, l->span, l->mask) : e;
      },
      [&](const Store& n, Rewriter& self) -> Stmt {
        Stmt e = self.children(n);
        auto* st = e.as<Store>();
        return st->buffer == from ? store(to, st->index, st->value, st->span, st->mask) : e;
      });
}

Stmt relayout_nest(Relayout& relayout, const For& loop, BufferId fragment) {
  ParallelNest nest = read_nest(loop);
  bool loads = false, stores = false;
  for (auto& a : accesses_of(nest))
    if (a.buffer == fragment) (a.is_store ? stores : loads) = true;
  BufferId shared = relayout.twin(fragment, Scope::shared, "_shared");
  relayout.note(fragment, shared);
  if (loads || !stores_all(nest, relayout.f, fragment)) relayout.copy(relayout.before, fragment, shared);
  if (stores) relayout.copy(relayout.after, shared, fragment);
  return replace_buffer(Stmt(&loop), fragment, shared);
}

Stmt relayout_operand(Relayout& relayout, const Tile& t, BufferId fragment) {
  bool reads = false, writes = false;
  for (size_t i = 0; i < t.operands.size(); i++) {
    auto* r = std::get_if<Region>(&t.operands[i]);
    if (!r || r->buffer != fragment) continue;
    Access access = t.op->operands[i].access;
    reads |= access != Access::write || !is_whole(*r, relayout.f);
    writes |= access != Access::read;
  }
  BufferId shared = relayout.twin(fragment, Scope::shared, "_shared"), own = shared;
  relayout.note(fragment, shared);
  if (reads) relayout.copy(relayout.before, fragment, shared);
  if (writes && (row_of(t).nest || row_of(t).takes_shared)) {
    relayout.copy(relayout.after, shared, fragment);
  } else if (writes) {
    own = relayout.twin(fragment, Scope::fragment, "_own");
    if (reads) relayout.copy(relayout.before, shared, own);
    relayout.copy(relayout.after, own, shared);
    relayout.copy(relayout.after, shared, fragment);
  }
  std::vector<Operand> operands = t.operands;
  for (auto& operand : operands)
    if (auto* r = std::get_if<Region>(&operand); r && r->buffer == fragment) r->buffer = own;
  return tile(*t.op, std::move(operands), t.attrs, t.span);
}

bool loads_from(const Expr& e, BufferId b) {
  return contains(e, [&](const Load& l) { return l.buffer == b; });
}

// A statement outside of nests: its own expressions, not the statements inside it.  One thread stores for
// all, unless each names an element of its own.
Stmt relayout_head(Relayout& relayout, const Stmt& s, const Expr& thread, const Team& team,
                   const ThreadLocalAccesses& own, BufferId fragment) {
  BufferId shared = relayout.twin(fragment, Scope::shared, "_shared");
  relayout.note(fragment, shared);
  auto* target = s.as<Store>();
  bool replaces = target && target->buffer == fragment && !loads_from(target->value, fragment) &&
                  (element_count(relayout.f[fragment]) == 1 ||
                   own.cover(tile_shape(relayout.f[fragment]), target->index, team));
  if (!replaces) relayout.copy(relayout.before, fragment, shared);
  auto moved = [&](const Expr& e) {
    return rewrite(e, [&](const Load& n, Rewriter& self) -> Expr {
      Expr out = self.children(n);
      auto* l = out.as<Load>();
      return l->buffer == fragment ? load(l->dtype, shared, l->index, l->span, l->mask) : out;
    });
  };
  if (auto* l = s.as<Let>()) return let(l->var, moved(l->value), l->span);
  if (auto* e = s.as<Eval>()) return eval(moved(e->value), e->span);
  if (auto* i = s.as<If>()) return if_then(moved(i->cond), i->then_body, i->else_body, i->span);
  if (auto* l = s.as<For>())
    return for_loop(l->var, moved(l->min), moved(l->extent), l->loop, l->body, l->span, l->attrs);
  auto* st = s.as<Store>();
  if (!st)
    fail(s->span,
         "{} is a fragment whose elements are on different threads, so the condition of a while loop cannot "
         "read one: copy it to a T.alloc_var first",
         relayout.f[fragment].name);
  if (st->buffer != fragment) return replace_buffer(s, fragment, shared);
  if (std::string why = own.own_numbers(fragment); !why.empty() && !own.differ(st->index))
    fail(s->span,
         "each thread may store a different value here, because of {}, but the elements of {} are on "
         "different threads; keep values of a single thread in a T.alloc_local or a T.alloc_var",
         why, relayout.f[fragment].name);
  relayout.copy(relayout.after, shared, fragment);
  Stmt stored = replace_buffer(s, fragment, shared);
  return own.differ(st->index) ? stored : if_then(eq(thread, imm(team.first)), stored, {}, s->span);
}

}  // namespace

std::vector<Stmt> relayout_through_shared(Function& f, const Expr& thread, const Team& team,
                                          const ThreadLocalAccesses& own, const Stmt& stmt,
                                          const std::set<BufferId>& fragments, const std::string& subject) {
  Relayout relayout{.f = f, .subject = subject, .span = stmt->span};
  Stmt s = stmt;
  auto* target = stmt.as<Store>();
  std::vector<BufferId> order(fragments.begin(), fragments.end());
  if (target)
    std::ranges::sort(order, [&](BufferId a, BufferId b) {
      return std::pair(a == target->buffer, a) < std::pair(b == target->buffer, b);
    });
  for (BufferId b : order) {
    if (auto* t = s.as<Tile>()) {
      s = relayout_operand(relayout, *t, b);
    } else if (auto* loop = s.as<For>(); loop && loop->loop == Loop::parallel) {
      s = relayout_nest(relayout, *loop, b);
    } else {
      s = relayout_head(relayout, s, thread, team, own, b);
    }
  }
  std::vector<Stmt> all = std::move(relayout.before);
  all.push_back(std::move(s));
  all.insert(all.end(), relayout.after.begin(), relayout.after.end());
  return all;
}

}  // namespace tl
