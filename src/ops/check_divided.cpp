// The iterations of a T.Parallel loop that writes to shared data are divided among the threads. A thread's
// variable or array then holds what that thread's own iterations stored: no iteration may read what another
// one left there, and nothing may read it after the loop. A loop that changes only data of the thread is run
// by each thread as a whole, and leaves the same value in all.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/depth.h"
#include "ir/rewrite.h"
#include "ops/op.h"
#include "target/effects.h"

namespace tl {
namespace {

using Buffers = std::set<BufferId>;

bool is_own_array(const Function& f, BufferId b) {
  return f[b].scope == Scope::local && f[f.storage(b)].reducer.empty();
}

bool is_effect(const Call& c) { return c.intrinsic->effect == Intrinsic::Effect::memory; }

// ── a nest ──────────────────────────────────────────────────────────────────────────────────────────────
struct Nest {
  std::vector<Expr> loops = {}, turning = {};  // the second: those of several iterations
  int64_t iterations = 1;
  Facts facts = {};
  Stmt body = {};
  VarMap names = {};  // of integers in the body

  explicit Nest(const For& outermost, Facts outer) : facts(std::move(outer)), body(&outermost) {
    for (auto* n = &outermost; n && n->loop == Loop::parallel; n = body.as<For>()) {
      loops.push_back(n->var);
      auto extent = as_int(n->extent);
      if (extent != 1) turning.push_back(n->var);
      iterations *= std::clamp<int64_t>(extent.value_or(2), 0, 2);
      if (extent) facts.bind(n->var, Interval{0, *extent - 1});
      body = n->body;
    }
    names = names_written_out(body, [](const Let& n) { return n.var->dtype.is_int(); });
  }
  std::vector<Expr> resolved(const std::vector<Expr>& index) const {
    std::vector<Expr> out;
    for (auto& i : index) out.push_back(substitute(i, names));
    return out;
  }

  // May one iteration store the element that another one reads?
  bool meet(const std::vector<Expr>& store, const std::vector<Expr>& read) const {
    if (iterations < 2) return false;
    bool own = std::ranges::all_of(loops, [&](auto& v) {
      for (size_t d = 0; d < store.size(); d++)
        if (store[d].same(v) && read[d].same(v)) return true;
      return false;
    });
    if (own) return false;
    VarMap others;
    Facts all = facts;
    auto other = [&](const Expr& v, const Expr& extent) {
      Expr twin = var(v.as<Var>()->hint, v->dtype);
      others.emplace(v.get(), twin);
      auto n = extent ? as_int(extent) : std::nullopt;
      if (n)
        all.bind(v, Interval{0, *n - 1}), all.bind(twin, Interval{0, *n - 1});
      else if (auto it = facts.ranges.find(v.get()); it != facts.ranges.end())
        all.bind(twin, it->second);
    };
    for (auto& v : loops) other(v, {});
    visit(body, [&](const For& n) { other(n.var, n.extent); });
    for (size_t d = 0; d < store.size(); d++)
      if (can_prove(binary(BinaryOp::ne, store[d], substitute(read[d], others)), all)) return false;
    return true;
  }
};

// ── one iteration ───────────────────────────────────────────────────────────────────────────────────────
struct Read {
  BufferId buffer;
  std::vector<Expr> index;
  Span span;
};

// What an iteration reads of the thread's own before it has assigned to it, in the order of its statements.
struct Iteration {
  const Function& f;
  const Nest& nest;
  Buffers inner = {}, stored = {};  // allocated in the body; assigned to in the body, of whatever scope
  struct Place {
    BufferId buffer;
    std::vector<Expr> index;  // of an array's element that the iteration's number says; else empty: all of it
  };
  using Places = std::vector<Place>;
  Places assigned = {};
  std::vector<std::pair<Expr, Places>> where = {};  // what has been assigned where a condition held
  std::vector<Read> open = {};
  Span statement = {};

  explicit Iteration(const Function& f, const Nest& nest) : f(f), nest(nest) {
    visit(nest.body, [&](const Alloc& n) { inner.insert(f.storage(n.buffer)); });
    for (BufferId b : written_buffers(nest.body)) stored.insert(f.storage(b));
    walk(nest.body);
  }

  static bool same_index(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return equal(x, y); });
  }
  bool covered(BufferId b, const std::vector<Expr>& index) const {
    return std::ranges::any_of(assigned, [&](const Place& p) {
      return p.buffer == f.storage(b) && (p.index.empty() || same_index(p.index, index));
    });
  }
  // Each place once: what was assigned before an `if` is assigned behind both its branches.
  void add(const Place& place) {
    bool known = std::ranges::any_of(assigned, [&](const Place& p) {
      return p.buffer == place.buffer && same_index(p.index, place.index);
    });
    if (!known) assigned.push_back(place);
  }
  void assign(BufferId b, const std::vector<Expr>& at) {
    Place place{f.storage(b), {}};
    std::vector<Expr> index = nest.resolved(at);
    for (auto& i : index)
      for (auto& v : nest.loops)
        if (uses_var(i, v)) place.index = index;
    add(place);
  }

  // Does the condition keep its value through the iteration?
  bool is_steady(const Expr& cond) const {
    return !contains(
        cond, [&](const Load& n) { return stored.contains(f.storage(n.buffer)); },
        [](const Call& n) { return n.intrinsic->effect != Intrinsic::Effect::pure; });
  }
  template <class F>
  Places under(const Expr& cond, F walk) {
    Places before = assigned;
    for (auto& [known, places] : where)
      if (equal(known, cond)) std::ranges::for_each(places, [&](auto& p) { add(p); });
    walk();
    std::swap(before, assigned);
    if (is_steady(cond)) where.emplace_back(cond, before);
    return before;
  }
  static Expr no(const Expr& cond) { return unary(UnaryOp::logical_not, cond); }

  void value(const Expr& e) {
    if (!e) return;
    if (auto* s = e.as<Select>()) {
      value(s->cond);
      under(s->cond, [&] { value(s->a); });
      under(no(s->cond), [&] { value(s->b); });
    } else if (auto* b = e.as<Binary>(); b && is_logical(b->op)) {
      value(b->a);
      under(b->op == BinaryOp::logical_and ? b->a : no(b->a), [&] { value(b->b); });
    } else if (auto* l = e.as<Load>()) {
      for (auto& i : l->index) value(i);
      value(l->mask);
      if (!is_own_array(f, l->buffer) || inner.contains(f.storage(l->buffer))) return;
      if (std::vector<Expr> index = nest.resolved(l->index); !covered(l->buffer, index))
        open.push_back({l->buffer, index, l->span ? l->span : statement});
    } else if (auto* c = e.as<Call>()) {
      for (size_t i = 0; i < c->args.size(); i++) {
        auto* at = place_of(c->args[i]);
        if (!at)
          value(c->args[i]);
        else
          for (auto& x : at->index) value(x);
      }
      for (size_t i = 0; i < c->args.size(); i++)
        if (auto* at = place_of(c->args[i]); at && access_of(*c, i) != 'r') assign(at->buffer, at->index);
    } else {
      visit_below(e, [&](const Expr& x) { value(x); });
    }
  }
  void branch(const If& n) {
    value(n.cond);
    Places then = under(n.cond, [&] { walk(n.then_body); });
    Places other = under(no(n.cond), [&] { walk(n.else_body); });
    for (auto& a : then)
      for (auto& b : other)
        if (a.buffer == b.buffer && same_index(a.index, b.index)) {
          add(a);
          break;
        }
  }
  void loop(const Stmt& body, bool runs) {
    Places before = assigned;
    walk(body);
    if (runs) return;
    std::erase_if(assigned,
                  [&](auto& p) { return f[p.buffer].shape.empty(); });  // an array's elements are not counted
    std::ranges::for_each(before, [&](auto& p) { add(p); });
  }
  void walk(const Stmt& s) {
    if (!s) return;
    if (s->span) statement = s->span;
    if (auto* b = s.as<Block>()) {
      for (auto& x : b->stmts) walk(x);
    } else if (auto* i = s.as<If>()) {
      branch(*i);
    } else if (auto* n = s.as<For>()) {
      value(n->min);
      value(n->extent);
      loop(n->body, as_int(n->extent).value_or(0) > 0);
    } else if (auto* w = s.as<While>()) {
      value(w->cond);
      loop(w->body, false);
    } else if (auto* st = s.as<Store>()) {
      for (auto& x : st->index) value(x);
      value(st->value);
      value(st->mask);
      assign(st->buffer, st->index);
    } else if (auto* l = s.as<Let>()) {
      value(l->value);
    } else if (auto* e = s.as<Eval>()) {
      value(e->value);
    }
  }
};

// Why a nest's iterations are divided: what it does beside what is the thread's own.
struct Reason {
  std::string what = {};
  Span span = {}, loop = {};
  explicit operator bool() const { return !what.empty(); }
};

// ── a kernel ────────────────────────────────────────────────────────────────────────────────────────────
struct Divided {
  const Function& f;
  Facts facts;
  std::map<BufferId, Reason> parts = {};     // of which each thread has its own part
  Buffers streams = {};                      // of random numbers, of which each thread has its own
  std::set<const ExprNode*> by_thread = {};  // names that the thread's number is in
  Span statement = {};

  bool names_thread(const Expr& e) const {
    return contains(
        e, [](const Call& n) { return n.intrinsic == &thread_index || n.intrinsic == &thread_number; },
        [&](const Var& n) { return by_thread.contains(&n); });
  }

  // The same choice as those of parallel.cpp (is_thread_local) and own_work.cpp.
  Reason reason(const Nest& nest, const Buffers& inner, Span loop) const {
    Reason found{.loop = loop};
    bool writes = false, touches = false, by_name = false, own_places = true;
    auto take = [&](std::string what, Span span) {
      if (!found) found.what = std::move(what), found.span = span;
    };
    auto index = [&](BufferId b, const std::vector<Expr>& at) {
      for (auto& i : nest.resolved(at)) {
        by_name |= names_thread(i);
        for (auto& v : nest.loops) touches |= is_own_array(f, b) && uses_var(i, v);
      }
    };
    visit(
        nest.body, [&](const Load& n) { index(n.buffer, n.index); },
        [&](const Store& n) {
          if (inner.contains(f.storage(n.buffer))) return;
          index(n.buffer, n.index);
          writes = true;
          if (is_own_array(f, n.buffer)) return;
          own_places = own_places && is_own_place(nest, n);
          take((f[n.buffer].reducer.empty() ? "stores to " : "contributes to ") + f[n.buffer].name, n.span);
        },
        [&](const Call& n) {
          if (is_effect(n) && n.dtype != none_type)
            own_places = false, take(fmt::format("asks for what {} gives", n.intrinsic->name), n.span);
        });
    return writes && ((touches && by_name) || own_places) ? Reason{} : found;
  }
  // Does the thread's number name it, and has every iteration one of its own there?
  bool is_own_place(const Nest& nest, const Store& n) const {
    std::vector<Expr> at = nest.resolved(n.index);
    return f[n.buffer].reducer.empty() && f[n.buffer].scope != Scope::fragment &&
           std::ranges::any_of(at, [&](auto& i) { return names_thread(i); }) &&
           std::ranges::all_of(nest.turning, [&](auto& v) {
             return std::ranges::any_of(at, [&](auto& i) { return uses_var(i, v); });
           });
  }

  // `who` has done `what` to it, in the loop.
  [[noreturn]] void refuse(const Read& r, const Reason& why, std::string_view who,
                           std::string_view what) const {
    std::string loop = why.loop.line == r.span.line ? "" : fmt::format(" on line {}", why.loop.line);
    std::string line = why.span.line == r.span.line ? "" : fmt::format(", on line {}", why.span.line);
    fail(r.span,
         "{0} is read here {1} the T.Parallel loop{2} has {3}, but the loop also {4}{5}, so its iterations "
         "are divided among the threads, each of which keeps {0} as its own iterations leave it: change {0} "
         "in a loop of its own, which every thread runs as a whole, use T.reduce_sum (T.reduce_max, …) or a "
         "T.alloc_reducer, or make the loop T.serial",
         f[r.buffer].name, who, loop, what, why.what, line);
  }
  void read(const Read& r) const {
    auto it = parts.find(f.storage(r.buffer));
    if (it != parts.end()) refuse(r, it->second, "after", "assigned to it");
  }
  void value(const Expr& e, Span span) const {
    if (e) visit(e, [&](const Load& n) { read({n.buffer, n.index, n.span ? n.span : span}); });
  }

  void parallel(const For& loop) {
    Nest nest(loop, facts);
    Iteration one(f, nest);
    Reason why = reason(nest, one.inner, loop.span);
    if (!why) return turns(nest.body, nest.iterations > 0);
    value(loop.extent, loop.span);
    for (auto& r : one.open) {
      if (streams.contains(f.storage(r.buffer))) continue;
      auto carries = [&](const Store& n) {
        if (f.storage(n.buffer) != f.storage(r.buffer)) return false;
        return n.buffer == r.buffer ? nest.meet(nest.resolved(n.index), r.index) : nest.iterations > 1;
      };
      if (contains(nest.body, carries)) refuse(r, why, "as another iteration of", "left it");
      read(r);
    }
    for (BufferId b : one.stored)
      if (is_own_array(f, b) && !one.inner.contains(b) && !streams.contains(b)) parts[b] = why;
  }
  // A loop that every thread runs as a whole.
  void turns(const Stmt& body, bool runs) {
    auto before = parts;
    walk(body);
    for (auto& p : before) parts.insert(p);
    walk(body);
    if (!runs)
      for (auto& p : before) parts.insert(p);
  }
  void operate(const Tile& t) {
    for (size_t i = 0; i < t.operands.size(); i++) {
      if (auto* x = std::get_if<Expr>(&t.operands[i])) value(*x, t.span);
      auto* r = std::get_if<Region>(&t.operands[i]);
      if (!r) continue;
      for (auto& range : r->ranges) value(range.min, t.span);
      Access access = t.op->operands[i].access;
      if (!t.body && access != Access::write) read({r->buffer, {}, t.span});
    }
    if (t.body) return walk(t.body);
    for (size_t i = 0; i < t.operands.size(); i++)
      if (auto* r = std::get_if<Region>(&t.operands[i]); r && t.op->operands[i].access != Access::read)
        parts.erase(f.storage(r->buffer));
  }
  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* b = s.as<Block>()) {
      for (auto& x : b->stmts) walk(x);
    } else if (auto* a = s.as<Alloc>()) {
      parts.erase(a->buffer);
    } else if (auto* st = s.as<Store>()) {
      for (auto& x : st->index) value(x, s->span);
      value(st->value, s->span);
      parts.erase(f.storage(st->buffer));
    } else if (auto* t = s.as<Tile>()) {
      operate(*t);
    } else if (auto* n = s.as<For>()) {
      if (n->loop == Loop::parallel) return parallel(*n);
      value(n->min, s->span);
      value(n->extent, s->span);
      turns(n->body, as_int(n->extent).value_or(0) > 0);
    } else if (auto* w = s.as<While>()) {
      value(w->cond, s->span);
      turns(w->body, false);
      value(w->cond, s->span);
    } else if (auto* i = s.as<If>()) {
      value(i->cond, s->span);
      auto before = parts;
      walk(i->then_body);
      std::swap(before, parts);
      walk(i->else_body);
      for (auto& p : before) parts.insert(p);
    } else if (auto* g = s.as<Group>()) {
      walk(g->body);
    } else if (auto* l = s.as<Let>()) {
      value(l->value, s->span);
      if (names_thread(l->value)) by_thread.insert(l->var.get());
    } else if (auto* e = s.as<Eval>()) {
      value(e->value, s->span);
    }
  }
};

// The variables of each T.rng_init: those that its generator begins with, and others that it makes.
Buffers streams_of(const Function& f, const Kernel& k) {
  Buffers streams;
  visit(k.body, [&](const Store& s) {
    bool begins = contains(s.value, [](const Call& c) { return c.intrinsic->name == "random_state"; });
    if (!begins) return;
    streams.insert(f.storage(s.buffer));
    for (size_t i = 0; i < f.buffers.size(); i++) {
      const BufferInfo& other = f.buffers[i];
      bool together = other.span && other.span == f[s.buffer].span;
      if (together && other.scope == Scope::local && other.shape.empty()) streams.insert(BufferId{int(i)});
    }
  });
  return streams;
}

bool divides(const Function& f, const Kernel& k) {
  bool any = false;
  for (size_t i = 0; i < f.buffers.size(); i++) any |= is_own_array(f, BufferId{int(i)});
  return any && (k.threads.empty() || thread_count(k) > 1);
}

}  // namespace

void check_divided(const Function& f) {
  on_stack_for(f, [&] {
    for (auto& k : f.kernels)
      if (divides(f, k)) Divided{.f = f, .facts = facts_of(f, k), .streams = streams_of(f, k)}.walk(k.body);
  });
}

}  // namespace tl
