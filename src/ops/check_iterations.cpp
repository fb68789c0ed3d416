// The iterations of T.Parallel and T.vectorized run together, in any order: none may read what another
// writes, and no two may write different values to one element (check_writes.cpp).  Where indices and
// conditions depend only on the loops and on what all iterations share, every iteration's elements are
// computed and compared; other cases are found by the simulator.
#include <algorithm>

#include "arith/simplify.h"
#include "base/error.h"
#include "ops/iteration_accesses.h"

namespace tl {
namespace {

// The same element, named by all loops: each iteration's own.
bool is_own(const Iterations& nest, const IterationAccess& a, const IterationAccess& b) {
  for (size_t d = 0; d < a.index.size(); d++)
    if (!equal(a.index[d], b.index[d])) return false;
  if (nest.kind == Loop::vectorized) return true;  // lanes that add to one element do so one after the other
  return std::ranges::all_of(nest.loops, [&](auto& l) {
    return std::ranges::any_of(a.index, [&](auto& i) { return i.same(l.var); });
  });
}

void compare(const Iterations& nest, const IterationAccess& store, const IterationAccess& load) {
  if (is_own(nest, store, load)) return;
  std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>> writers;  // the first and the last iteration
  std::vector<Expr> there, here;
  bool known = nest.points(store, there, [&](int64_t n, const std::vector<int64_t>& element, int64_t) {
    auto [it, is_new] = writers.emplace(element, std::pair(n, n));
    if (!is_new) it->second.second = n;
  });
  if (!known) return;
  std::vector<int64_t> behind;
  int64_t reader = -1, writer = -1;
  known = nest.points(load, here, [&](int64_t n, const std::vector<int64_t>& element, int64_t) {
    if (behind.empty())
      for (size_t d = 0; d < here.size(); d++) {
        auto apart = as_int(simplify(here[d] - there[d]));
        if (!apart) return;
        behind.push_back(*apart);
      }
    std::vector<int64_t> at = element;
    for (size_t d = 0; d < at.size(); d++) at[d] += behind[d];
    auto it = writers.find(at);
    if (reader >= 0 || it == writers.end()) return;
    auto [first, last] = it->second;
    if (first == n && last == n) return;
    reader = n;
    writer = first == n ? last : first;
  });
  if (!known || reader < 0) return;
  std::string line = store.span.line == load.span.line ? "" : fmt::format(" on line {}", store.span.line);
  bool gathers = nest.kind == Loop::parallel && store.span.line == load.span.line;
  for (size_t d = 0; d < store.index.size() && gathers; d++) gathers = equal(store.index[d], load.index[d]);
  constexpr std::string_view sum_up =
      "several iterations update one element; sum up with T.reduce_sum (T.reduce_max, …), contribute to a "
      "T.alloc_reducer, or let the loop that is summed over be T.serial";
  fail(load.span,
       "the iterations of {} run in any order, but iteration {} reads an element of {} that iteration {} "
       "writes{}: {}",
       nest.kind == Loop::parallel ? "T.Parallel" : "T.vectorized", nest.name_of(reader),
       nest.f[load.buffer].name, nest.name_of(writer), line,
       gathers ? sum_up : "read from another buffer, or use T.serial");
}

void check(const Function& f, const For& outermost) {
  Stmt body(&outermost);
  Iterations nest{.f = f, .kind = outermost.loop};
  for (const For* n = &outermost; n && n->loop == nest.kind; n = body.as<For>()) {
    auto first = as_int(n->min), extent = as_int(n->extent);
    if (first != 0 || !extent) return;
    nest.loops.push_back({n->var, *extent});
    body = n->body;
  }
  IterationAccesses accesses = accesses_of(body);
  if (accesses.by_thread && nest.kind == Loop::parallel) return;
  for (auto& store : accesses.found) {
    bool threads_own = f[store.buffer].scope == Scope::local && nest.kind == Loop::parallel;
    if (!store.is_store || threads_own || !f[store.buffer].reducer.empty()) continue;
    for (auto& load : accesses.found)
      if (!load.is_store && load.buffer == store.buffer) compare(nest, store, load);
  }
  if (nest.kind == Loop::parallel) check_writes(nest, accesses);
}

void check_nests(const Function& f, const Stmt& s) {
  if (!s) return;
  if (auto* n = s.as<For>()) {
    bool together = n->loop == Loop::parallel || n->loop == Loop::vectorized;
    if (together) check(f, *n);
    const Stmt* body = &n->body;
    for (auto* l = body->as<For>(); together && l && l->loop == n->loop; l = body->as<For>()) body = &l->body;
    return check_nests(f, *body);
  }
  if (auto* n = s.as<While>()) check_nests(f, n->body);
  if (auto* n = s.as<Group>()) check_nests(f, n->body);
  if (auto* n = s.as<Tile>()) check_nests(f, n->body);
  if (auto* n = s.as<If>()) check_nests(f, n->then_body), check_nests(f, n->else_body);
  if (auto* n = s.as<Block>())
    for (auto& inner : n->stmts) check_nests(f, inner);
}

}  // namespace

void check_iterations(const Function& f) {
  for (auto& k : f.kernels) check_nests(f, k.body);
}

}  // namespace tl
