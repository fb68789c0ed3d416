// fuse_loops: a loop that fills a tile and the next one that reads it become one, and what was just stored is
// used from a register.  So a row is read from memory while it is summed, and written while it is scaled: the
// core computes while it waits.  For CPUs; on a GPU tiles are registers already.  After vectorize, so that
// its few indices show what an iteration touches; before hoist_invariants, which works loop by loop.
//
//   for r in serial(64):                          for c in serial(16):
//     x[ramp(r*16)] = A[ramp(r*16)]                 for p in unrolled(4):
//   for c in serial(16):                      ->      t = A[ramp(c*64 + p*16)]
//     for p in unrolled(4):                           x[ramp(c*64 + p*16)] = t
//       s[ramp(p*16)] += x[ramp(c*64 + p*16)]         s[ramp(p*16)] += t
#include <algorithm>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

constexpr size_t look_ahead = 8;  // statements between two loops
constexpr int largest = 64;       // statements inside one: a product of matrices keeps its loops to itself
constexpr int64_t most_unrolled = 4;  // iterations of a loop that was cut to fit another

struct Touched {
  BufferId buffer;
  Expr first;     // the lowest element
  int64_t lanes;  // how many from there; 0: anywhere
  bool writes;
};

// What a statement touches, if it does no more than load and store, and is small.
struct Summary {
  Stmt of;  // keeps the node, by which this is found, alive
  std::optional<std::vector<Touched>> accesses = {};
};

// A loop cut into parts of `each` iterations: its body, where `at` says which iteration it is.
struct Part {
  Stmt body;
  const std::vector<Touched>& accesses;
  int64_t each;
  Expr inner = {};  // which one of a part; null if it is of one only
  VarMap at = {};
};

struct Fuser {
  const Function& f;

  bool is_tile(BufferId b) const { return f[b].scope != Scope::global; }

  std::map<const Node*, Summary> summaries = {};

  const std::optional<std::vector<Touched>>& touched(const Stmt& s) {
    auto [it, is_new] = summaries.try_emplace(s.get());
    if (is_new) it->second = {s, is_small(s) ? accesses(s) : std::nullopt};
    return it->second.accesses;
  }
  std::optional<std::vector<Touched>> accesses(const Stmt& s) const {
    std::vector<Touched> out;
    bool plain = true;
    auto add = [&](BufferId b, const std::vector<Expr>& index, bool writes) {
      plain &= index.size() == 1 && !f[b].alias_of;
      if (!plain) return;
      auto* r = index[0].as<Ramp>();
      bool row = r && is_int(r->stride, 1);
      if (row || index[0]->dtype.lanes == 1)
        out.push_back({b, row ? r->base : index[0], row ? r->dtype.lanes : 1, writes});
      else
        out.push_back({b, {}, 0, writes});
    };
    visit(
        s, [&](const Load& n) { add(n.buffer, n.index, false); },
        [&](const Store& n) { add(n.buffer, n.index, true); },
        [&](const Call& n) {
          plain &= n.intrinsic->effect == Intrinsic::Effect::pure && n.intrinsic != &address_of;
        },
        [&](const While&) { plain = false; }, [&](const Tile&) { plain = false; });
    if (!plain || has_control(s)) return std::nullopt;
    return out;
  }

  static bool is_small(const Stmt& s) {
    int count = 0;
    walk(s, {}, [&](const Stmt& x, const WalkContext&) {
      count += !x.as<For>() && !x.as<If>() && !x.as<Block>();
      return count <= largest;
    });
    return count <= largest;
  }

  static bool meet(const std::vector<Touched>& a, const std::vector<Touched>& b) {
    for (auto& x : a)
      for (auto& y : b)
        if (x.buffer == y.buffer && (x.writes || y.writes)) return true;
    return false;
  }

  // Do `a` in a later iteration of the loop and `b` in this one never touch the same element?
  static bool apart(const Touched& a, const Touched& b, const Expr& loop, const Facts& facts) {
    if (!a.lanes || !b.lanes) return false;
    auto x = linear_in(a.first, loop, facts), y = linear_in(b.first, loop, facts);
    if (!x || !y || x->stride != y->stride || x->stride < 0) return false;
    Interval distance = interval_of(simplify(x->base - y->base, facts), facts);
    if (distance.min == INT64_MIN || distance.max == INT64_MAX) return false;
    bool above = x->stride + distance.min > b.lanes - 1;
    return above || (x->stride == 0 && distance.max + a.lanes - 1 < 0);
  }

  // Iteration by iteration, the first body and then the second: is it the same as all of the first before?
  static bool may_interleave(const Part& first, const Part& second, const Expr& loop, Facts facts) {
    for (const Part* part : {&first, &second})
      visit(part->body, [&](const For& n) {
        if (auto extent = as_int(n.extent)) facts.bind(n.var, Interval{0, *extent - 1});
      });
    auto placed = [&](Touched x, const Part& part) {
      if (x.first) x.first = simplify(substitute(x.first, part.at), facts);
      return x;
    };
    for (auto& x : first.accesses)
      for (auto& y : second.accesses)
        if (x.buffer == y.buffer && (x.writes || y.writes))
          if (!apart(placed(x, first), placed(y, second), loop, facts)) return false;
    return true;
  }

  // The second reads a tile that the first fills.
  bool is_worth_it(const std::vector<Touched>& first, const std::vector<Touched>& second) const {
    for (auto& x : first)
      for (auto& y : second)
        if (x.writes && !y.writes && x.buffer == y.buffer && is_tile(x.buffer)) return true;
    return false;
  }

  static std::optional<int64_t> trips(const For& loop) {
    bool counted = is_int(loop.min, 0) && (loop.loop == Loop::serial || loop.loop == Loop::unrolled);
    return counted ? as_int(loop.extent) : std::nullopt;
  }

  // Do the iterations of one come in whole numbers on those of the other?
  static bool fit(const For& a, const Stmt& s) {
    auto* b = s.as<For>();
    auto n = trips(a), m = b ? trips(*b) : std::nullopt;
    return n && m && *n > 1 && *m > 1 && (*n % *m == 0 || *m % *n == 0);
  }

  // A loop cut into `count` parts.
  Part cut(const For& loop, int64_t count, const Expr& at, Facts& facts) {
    Part part{.body = loop.body, .accesses = *touched(Stmt(&loop)), .each = *as_int(loop.extent) / count};
    Expr whole = at;
    if (part.each > 1) {
      part.inner = var(loop.var.as<Var>()->hint);
      facts.bind(part.inner, Interval{0, part.each - 1});
      whole = at * part.each + part.inner;
    }
    part.at.emplace(loop.var.get(), whole);
    return part;
  }
  static Stmt written(const Part& part, const Facts& facts, Span span) {
    Stmt body = simplify(substitute(part.body, part.at), facts);
    Loop kind = part.each <= most_unrolled ? Loop::unrolled : Loop::serial;
    return part.each > 1 ? for_loop(part.inner, part.each, kind, body, span) : body;
  }

  Stmt fused(const For& a, const For& b, const Facts& facts) {
    if (!is_worth_it(*touched(Stmt(&a)), *touched(Stmt(&b)))) return {};
    int64_t count = std::min(*trips(a), *trips(b));
    Expr at = var((*trips(a) < *trips(b) ? a : b).var.as<Var>()->hint);
    Facts inside = facts;
    inside.bind(at, Interval{0, count - 1});
    Part first = cut(a, count, at, inside), second = cut(b, count, at, inside);
    if (!may_interleave(first, second, at, inside)) return {};
    Loop kind = a.loop == Loop::unrolled && b.loop == Loop::unrolled ? Loop::unrolled : Loop::serial;
    Stmt both = block({written(first, inside, a.span), written(second, inside, b.span)});
    return for_loop(at, count, kind, statement(both, inside), b.span);
  }

  // Fuses stmts[i] with a loop behind it; what stands between, and has nothing to do with it, comes first.
  bool fuse_at(std::vector<Stmt>& stmts, size_t i, const Facts& facts) {
    auto* a = stmts[i].as<For>();
    if (!a || !trips(*a) || !touched(stmts[i])) return false;
    for (size_t j = i + 1; j < std::min(stmts.size(), i + 1 + look_ahead); j++) {
      if (!touched(stmts[j])) return false;
      if (fit(*a, stmts[j]))
        if (Stmt both = fused(*a, *stmts[j].as<For>(), facts)) {
          stmts[j] = both;
          stmts.erase(stmts.begin() + long(i));
          return true;
        }
      if (meet(*touched(stmts[i]), *touched(stmts[j]))) return false;
    }
    return false;
  }

  // What was stored is used by name as long as it stands in the tile.
  void use_names(std::vector<Stmt>& stmts) const {
    for (size_t i = 0; i < stmts.size(); i++) {
      auto* s = stmts[i].as<Store>();
      if (!s || s->mask || !is_tile(s->buffer) || f[s->buffer].alias_of || s->index.size() != 1) continue;
      auto same = [&](const Load& n) {
        return n.buffer == s->buffer && !n.mask && n.dtype == s->value->dtype &&
               equal(n.index[0], s->index[0]);
      };
      size_t end = i + 1;
      bool used = false;
      for (; end < stmts.size() && (stmts[end].as<Store>() || stmts[end].as<Let>()); end++) {
        visit(stmts[end], [&](const Load& n) { used |= same(n); });
        auto* other = stmts[end].as<Store>();
        if (other && other->buffer == s->buffer) break;
      }
      if (!used) continue;
      Stmt kept = stmts[i];
      Expr name = var("t", s->value->dtype);
      auto named = [&](const Load& n, Rewriter& self) -> Expr { return same(n) ? name : self.children(n); };
      for (size_t j = i + 1; j < stmts.size() && j <= end; j++)
        if (stmts[j].as<Store>() || stmts[j].as<Let>()) stmts[j] = rewrite(stmts[j], named);
      stmts[i] = store(s->buffer, s->index, name, s->span);
      stmts.insert(stmts.begin() + long(i), let(name, s->value, s->span));
      i++;
    }
  }

  Stmt statement(const Stmt& s, const Facts& facts) {
    if (auto* n = s.as<If>()) {
      Facts yes = facts;
      yes.assume(n->cond);
      Stmt then_body = statement(n->then_body, yes);
      Stmt no = n->else_body ? statement(n->else_body, facts) : Stmt();
      return then_body.same(n->then_body) && no.same(n->else_body) ? s
                                                                   : if_then(n->cond, then_body, no, n->span);
    }
    if (auto* n = s.as<For>()) {
      Facts inside = facts;
      if (auto extent = as_int(n->extent); extent && is_int(n->min, 0))
        inside.bind(n->var, Interval{0, *extent - 1});
      Stmt body = statement(n->body, inside);
      return body.same(n->body) ? s : for_loop(n->var, n->min, n->extent, n->loop, body, n->span, n->attrs);
    }
    if (!s.as<Block>()) return s;
    std::vector<Stmt> stmts = statements_of(s), before = stmts;
    auto loops = std::ranges::count_if(stmts, [](auto& x) { return x.template as<For>(); });
    for (size_t i = 0; loops > 1 && i < stmts.size();)
      if (!fuse_at(stmts, i, facts)) i++;
    for (Stmt& inner : stmts) inner = statement(inner, facts);
    if (!loops) use_names(stmts);
    bool same = std::equal(stmts.begin(), stmts.end(), before.begin(), before.end(),
                           [](auto& x, auto& y) { return x.same(y); });
    return same ? s : block(std::move(stmts), s->span);
  }
};

// Tiles that are not read any more are not filled.
Stmt without_unread(const Function& f, const Stmt& body) {
  std::set<BufferId> read;
  visit(body, [&](const Load& n) { read.insert(n.buffer); });
  auto unread = [&](BufferId b) {
    return f[b].scope != Scope::global && !f[b].alias_of && !read.contains(b);
  };
  return rewrite(
      body, [&](const Store& n, Rewriter&) -> Stmt { return unread(n.buffer) ? block({}) : Stmt(&n); },
      [&](const Alloc& n, Rewriter&) -> Stmt { return unread(n.buffer) ? block({}) : Stmt(&n); });
}

}  // namespace

Function fuse_loops(Function f, const Target& target) {
  if (target.has_threads()) return f;
  std::set<BufferId> shared_storage;
  for (auto& b : f.buffers)
    if (b.alias_of) shared_storage.insert(b.alias_of);
  for (Kernel& k : f.kernels) {
    bool own_tensors = may_alias(k, {});  // or made from addresses: any tensor may be part of them
    visit(k.body, [&](const Alloc& n) {
      own_tensors |= f[n.buffer].scope == Scope::global || shared_storage.contains(n.buffer);
    });
    if (own_tensors) continue;
    Fuser fuser{.f = f};
    k.body = without_unread(f, fuser.statement(k.body, facts_of(f, k)));
  }
  return f;
}

}  // namespace tl
