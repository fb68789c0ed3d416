// The iterations of T.Parallel and T.vectorized run together, in any order: none may read what another
// writes.  Where indices and conditions depend only on the loops and on what all iterations share, every
// iteration's elements are computed and compared; other cases are found by the simulator.
#include <algorithm>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/op.h"

namespace tl {
namespace {

constexpr int64_t most_points = 1 << 16;  // iterations that are looked at

struct Counter {
  Expr var;
  int64_t extent;
};

// An access in every iteration in which its conditions hold.
struct IterationAccess {
  bool is_store;
  BufferId buffer;
  std::vector<Expr> index = {}, conditions;
  std::vector<Counter> inner;  // loops of the body around it
  Span span;
};

using Values = std::map<const ExprNode*, int64_t>;

// Nothing where it depends on more than these values.
std::optional<int64_t> value_under(const Expr& e, const Values& values) {
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

// ── what an iteration touches ───────────────────────────────────────────────────────────────────────────
struct IterationAccesses {
  std::vector<IterationAccess> found = {};
  std::vector<Expr> conditions = {};
  std::vector<Counter> inner = {};
  VarMap names = {};
  bool by_thread = false;  // each thread may have iterations of its own

  void add(bool is_store, BufferId buffer, const std::vector<Expr>& index, const Expr& mask, Span span) {
    IterationAccess a{
        .is_store = is_store, .buffer = buffer, .conditions = conditions, .inner = inner, .span = span};
    for (auto& i : index) a.index.push_back(substitute(i, names));
    if (mask) a.conditions.push_back(substitute(mask, names));
    found.push_back(std::move(a));
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
      by_thread |= c->intrinsic == &thread_index || c->intrinsic == &thread_number;
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
    } else if (auto* l = s.as<Let>()) {
      value(l->value, s->span);
      if (l->var->dtype.is_int()) names.emplace(l->var.get(), substitute(l->value, names));
    } else if (auto* e = s.as<Eval>()) {
      value(e->value, s->span);
    }
  }
};

// ── which iterations touch an element ─────────────────────────────────────────────────────────────────
struct Iterations {
  const Function& f;
  Loop kind = Loop::parallel;
  std::vector<Counter> loops = {};

  // Calls visit(number of the iteration, element) for all, as far as the indices depend on the loops; other
  // variables of the indices go to `shared`. False where that is unknown.
  template <class F>
  bool points(const IterationAccess& a, std::vector<Expr>& shared, F visit) const {
    std::vector<Counter> counters = loops;
    counters.insert(counters.end(), a.inner.begin(), a.inner.end());
    VarMap zeros;
    int64_t count = 1, inner = 1;
    for (auto& c : counters)
      zeros.emplace(c.var.get(), zero(c.var->dtype)), count *= std::min<int64_t>(c.extent, most_points + 1);
    for (auto& c : a.inner) inner *= c.extent;
    if (count > most_points || count == 0) return false;
    std::vector<Expr> own;
    for (auto& i : a.index) {
      shared.push_back(simplify(substitute(i, zeros)));
      own.push_back(simplify(i - shared.back()));
    }
    Values values;
    std::vector<int64_t> element(own.size());
    for (int64_t n = 0; n < count; n++) {
      int64_t rest = n;
      for (size_t c = counters.size(); c-- > 0; rest /= counters[c].extent)
        values[counters[c].var.get()] = rest % counters[c].extent;
      bool happens = true;
      for (auto& c : a.conditions) {
        auto holds = value_under(c, values);
        if (!holds) return false;
        happens &= *holds != 0;
      }
      for (size_t d = 0; d < own.size(); d++) {
        auto at = value_under(own[d], values);
        if (!at) return false;
        element[d] = *at;
      }
      if (happens) visit(n / inner, element);
    }
    return true;
  }

  // The same element, named by all loops: each iteration's own.
  bool is_own(const IterationAccess& a, const IterationAccess& b) const {
    for (size_t d = 0; d < a.index.size(); d++)
      if (!equal(a.index[d], b.index[d])) return false;
    if (kind == Loop::vectorized) return true;  // lanes that add to one element do so one after the other
    return std::ranges::all_of(
        loops, [&](auto& l) { return std::ranges::any_of(a.index, [&](auto& i) { return i.same(l.var); }); });
  }

  std::string name_of(int64_t iteration) const {
    std::string s;
    for (size_t d = loops.size(); d-- > 0; iteration /= loops[d].extent)
      s = fmt::format("{} = {}{}", loops[d].var.template as<Var>()->hint, iteration % loops[d].extent,
                      s.empty() ? "" : ", " + s);
    return s;
  }

  void compare(const IterationAccess& store, const IterationAccess& load) const {
    if (is_own(store, load)) return;
    std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>> writers;  // the first and the last iteration
    std::vector<Expr> there, here;
    bool known = points(store, there, [&](int64_t n, const std::vector<int64_t>& element) {
      auto [it, is_new] = writers.emplace(element, std::pair(n, n));
      if (!is_new) it->second.second = n;
    });
    if (!known) return;
    std::vector<int64_t> behind;
    int64_t reader = -1, writer = -1;
    known = points(load, here, [&](int64_t n, const std::vector<int64_t>& element) {
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
    bool gathers = kind == Loop::parallel && store.span.line == load.span.line;
    for (size_t d = 0; d < store.index.size() && gathers; d++) gathers = equal(store.index[d], load.index[d]);
    constexpr std::string_view sum_up =
        "several iterations update one element; sum up with T.reduce_sum (T.reduce_max, …), contribute to a "
        "T.alloc_reducer, or let the loop that is summed over be T.serial";
    fail(load.span,
         "the iterations of {} run in any order, but iteration {} reads an element of {} that iteration {} "
         "writes{}: {}",
         kind == Loop::parallel ? "T.Parallel" : "T.vectorized", name_of(reader), f[load.buffer].name,
         name_of(writer), line, gathers ? sum_up : "read from another buffer, or use T.serial");
  }

  void check(const For& outermost) {
    Stmt body(&outermost);
    IterationAccesses accesses;
    for (const For* n = &outermost; n && n->loop == kind; n = body.as<For>()) {
      auto first = as_int(n->min), extent = as_int(n->extent);
      if (first != 0 || !extent) return;
      loops.push_back({n->var, *extent});
      body = n->body;
    }
    accesses.statement(body);
    if (accesses.by_thread && kind == Loop::parallel) return;
    for (auto& store : accesses.found) {
      bool threads_own = f[store.buffer].scope == Scope::local && kind == Loop::parallel;
      if (!store.is_store || threads_own || !f[store.buffer].reducer.empty()) continue;
      for (auto& load : accesses.found)
        if (!load.is_store && load.buffer == store.buffer) compare(store, load);
    }
  }
};

void check_nests(const Function& f, const Stmt& s) {
  if (!s) return;
  if (auto* n = s.as<For>()) {
    bool together = n->loop == Loop::parallel || n->loop == Loop::vectorized;
    if (together) Iterations{.f = f, .kind = n->loop}.check(*n);
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
