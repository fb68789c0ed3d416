#include "pass/own_work.h"

#include <algorithm>

#include "ir/depth.h"
#include "ops/op.h"
#include "ops/parallel.h"
#include "target/effects.h"

namespace tl {
namespace {

bool is_array(const BufferInfo& b) {
  return b.scope == Scope::local && !b.shape.empty() && b.reducer.empty();
}

bool is_own_tile(const Tile& t, const Function& f, const Varying& varying) {
  bool writes = false, only_local = true, touches = false, differs = false, named = false, fragments = false;
  for (size_t i = 0; i < t.operands.size(); i++) {
    auto* r = std::get_if<Region>(&t.operands[i]);
    if (!r) continue;
    Scope scope = f[r->buffer].scope;
    if (scope == Scope::fragment && !row_of(t).nest) return false;  // its parts are exchanged
    fragments |= scope == Scope::fragment;
    touches |= is_array(f[r->buffer]);
    for (auto& range : r->ranges) differs |= varying.differs(range.min);
    if (t.op->operands[i].access == Access::read) continue;
    writes = true;
    only_local &= is_array(f[r->buffer]);
    for (auto& range : r->ranges) named |= names_thread(range.min, varying);
  }
  return writes && (only_local || (touches && differs) || (row_of(t).nest && named && !fragments));
}

// Every iteration has places of its own, in what the thread's number names.
struct OwnPlaces {
  const Function& f;
  const Varying& varying;
  ParallelNest nest;
  VarMap names = {};  // of integers in the body
  bool any = false, all = true;

  void place(BufferId buffer, const std::vector<Expr>& index) {
    if (f[buffer].scope == Scope::local && f[buffer].reducer.empty()) return;
    any = true;
    bool named = f[buffer].reducer.empty() &&
                 std::ranges::any_of(index, [&](auto& i) { return names_thread(i, varying); });
    for (size_t d = 0; d < nest.vars.size(); d++)
      named = named && (nest.extents[d] == 1 || std::ranges::any_of(index, [&](auto& i) {
                          return uses_var(substitute(i, names), nest.vars[d]);
                        }));
    all = all && named;
  }
  bool found() {
    names = names_written_out(nest.body, [](const Let& n) { return n.var->dtype.is_int(); });
    visit_effects(nest.body, [&](const Stmt&, const Effect& e) {
      if (f[e.buffer].scope == Scope::fragment) all = false;
      if (e.access != Access::read) place(e.buffer, place_of(e));
    });
    return any && all;
  }
};

bool is_own_loop(const For& loop, const Function& f, const Varying& varying) {
  bool writes = false, only_local = true, constant = true;
  visit_effects(loop.body, [&](const Stmt&, const Effect& e) {
    if (e.access == Access::read) return;
    writes = true;
    only_local &= is_array(f[e.buffer]);
  });
  if (writes && only_local) return true;
  for (const For* l = &loop; l && l->loop == Loop::parallel; l = l->body.as<For>())
    constant = constant && as_int(l->extent);
  return constant && OwnPlaces{.f = f, .varying = varying, .nest = read_nest(loop)}.found();
}

}  // namespace

// Whatever a warp or a memory access gives to a thread may be one for all of them; its number is not.
bool names_thread(const Expr& e, const Varying& varying) {
  std::string why = varying.reason(e);
  return why.starts_with("threadIdx.") || why == thread_number_reason;
}

bool is_own_work(const Stmt& s, const Function& f, const Varying& varying) {
  if (auto* t = s.as<Tile>()) return !t->body && is_own_tile(*t, f, varying);
  auto* loop = s.as<For>();
  return loop && loop->loop == Loop::parallel && is_own_loop(*loop, f, varying);
}

Stmt as_own_work(const Stmt& s) {
  auto marked = [](Attrs attrs) {
    attrs.entries["own"] = int64_t(1);
    return attrs;
  };
  if (auto* t = s.as<Tile>()) return tile(*t->op, t->operands, marked(t->attrs), s->span);
  auto* n = s.as<For>();
  return for_loop(n->var, n->min, n->extent, n->loop, n->body, s->span, marked(n->attrs));
}

}  // namespace tl
