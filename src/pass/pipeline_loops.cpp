// pipeline_loops: carries out what plan_schedule decided.  Statements that run ahead are begun before the
// loop and then in each iteration for a later one, under the condition that there is such an iteration; tiles
// with slots get a leading dimension, of which iteration i uses number i % slots.  Copies by cp.async are
// closed in one group an iteration, also where there is nothing left to copy, so that the waits count right.
// Other pipelined loops become serial ones.  Before layouts, which need the final order of statements.
//
//   for k in pipelined(n) {stages=2}:                       for j in unrolled(2):
//     copy(A[k*32:], As) {engine="cp_async", stage=0}         if j < n:
//     gemm(As, …)                                               copy(A[j*32:], As[j % 3]) {engine="cp_async"}
//                                                     ->      cp_async_commit_group()
//                                                           for k in serial(n):
//                                                             cp_async_wait_group(1)
//                                                             if k + 2 < n:
//                                                               copy(A[(k + 2)*32:], As[(k + 2) % 3]) {…}
//                                                             cp_async_commit_group()
//                                                             gemm(As[k % 3], …)
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/own_copies.h"
#include "pass/passes.h"
#include "pass/slots.h"
#include "target/effects.h"

namespace tl {
namespace {

// Of what the plan may mark: operators, parallel loops, and loops of one iteration around anything else.
bool is_marker(const For& n) { return n.loop == Loop::serial && n.attrs.find("stage"); }
const Attrs* attrs_of(const Stmt& s) {
  if (auto* n = s.as<Tile>()) return &n->attrs;
  if (auto* n = s.as<For>(); n && (n->loop == Loop::parallel || is_marker(*n))) return &n->attrs;
  return nullptr;
}
bool ends_iteration(const Intrinsic& i) { return &i == &break_loop || &i == &continue_loop; }
bool runs_ahead(const Stmt& s) {
  auto* attrs = attrs_of(s);
  return attrs && attrs->find("stage");
}

// Where in an iteration something that runs ahead stands, and for which iteration.
struct Place {
  int64_t order = 0, rank = 0, later = 0;  // later: less the stage, so that later iterations come last
  auto operator<=>(const Place&) const = default;
  int64_t stage() const { return -later; }
};
Place place_of(const Stmt& s) {
  auto* attrs = attrs_of(s);
  return {attrs->get_int("order"), attrs->get_int("rank"), -attrs->get_int("stage")};
}
Stmt unmarked(const Stmt& s) {
  auto without = [](Attrs attrs) {
    attrs.entries.erase("stage");
    attrs.entries.erase("order");
    attrs.entries.erase("rank");
    return attrs;
  };
  if (auto* n = s.as<Tile>()) return tile(*n->op, n->operands, without(n->attrs), n->span, n->body);
  auto* n = s.as<For>();
  if (is_marker(*n)) return n->body;
  return for_loop(n->var, n->min, n->extent, n->loop, n->body, n->span, without(n->attrs));
}

// Accesses to tiles with slots name one: that of the iteration for the tiles that this loop fills ahead, else
// the first one.  Those that name one already have an index more than the tile has dimensions.
Stmt with_slot(const Function& f, const Stmt& body, const std::set<BufferId>& ahead, const Expr& iteration) {
  return with_slots(body, [&](BufferId b, size_t rank) -> Expr {
    const BufferInfo& info = f[b];
    if (info.slots < 2 || rank != info.shape.size()) return {};
    return ahead.contains(b) ? floormod(iteration, info.slots) : imm(0);
  });
}

// A part of the body that runs as one: of one stage, at one place of the iteration.
struct Piece {
  int64_t order, stage;
  Stmt stmt;
  std::set<BufferId> copied = {};  // asynchronously
  bool is_async() const { return !copied.empty(); }
};

struct LoopPipeliner {
  const Function& f;
  const Target& target;
  const For& loop;
  int64_t stages = loop.attrs.get_int("stages");
  std::vector<Stmt> body = statements_of(loop.body);
  std::vector<Piece> pieces = {};        // that run ahead, in the order of their places
  std::set<BufferId> filled_ahead = {};  // tiles that a piece fills
  std::vector<Stmt> allocs = {};         // of tiles that several iterations use at once
  std::set<BufferId> awaited = {};       // tiles of which no copy is under way behind the loop

  // What of a statement has this place; without one, what does not run ahead.
  Stmt projected(const Stmt& s, std::optional<Place> place) const {
    if (!s) return s;
    if (runs_ahead(s)) return place == place_of(s) ? unmarked(s) : block({});
    if (attrs_of(s)) return place ? block({}) : s;
    if (auto* n = s.as<Block>()) {
      std::vector<Stmt> out;
      for (auto& inner : n->stmts) out.push_back(projected(inner, place));
      return block(std::move(out), n->span);
    }
    if (auto* n = s.as<If>()) {
      Stmt yes = projected(n->then_body, place), no = projected(n->else_body, place);
      if ((!yes || is_empty(yes)) && (!no || is_empty(no))) return block({});
      return if_then(n->cond, yes, no && is_empty(no) ? Stmt{} : no, n->span);
    }
    return place ? block({}) : s;
  }

  // A part of the body with the names that it uses, which the body gives.
  Stmt with_names(const Stmt& part) const {
    std::vector<Stmt> lets, out{part};
    std::set<const Let*> own;
    visit(part, [&](const Let& n) { own.insert(&n); });
    visit(loop.body, [&](const Let& n) {
      if (!own.contains(&n)) lets.push_back(Stmt(&n));
    });
    for (size_t i = lets.size(); i-- > 0;) {
      const Expr& name = lets[i].as<Let>()->var;
      bool used = std::ranges::any_of(
          out, [&](auto& s) { return contains(s, [&](const Var& v) { return &v == name.get(); }); });
      if (used) out.insert(out.begin(), lets[i]);
    }
    return block(std::move(out), part->span);
  }

  void find_pieces() {
    std::set<Place> places;
    for (auto& s : body)
      visit_nodes(s, [&](const Node& n) {
        if (n.kind != Kind::Tile && n.kind != Kind::For) return;
        Stmt x(static_cast<const StmtNode*>(&n));
        if (runs_ahead(x)) places.insert(place_of(x));
      });
    for (auto& place : places) {
      Stmt part = projected(loop.body, place);
      Piece piece{place.order, place.stage(), with_names(part)};
      visit_nodes(part, [&](const Node& n) {
        if (n.kind != Kind::Tile && n.kind != Kind::For) return;
        Stmt x(static_cast<const StmtNode*>(&n));
        auto* attrs = attrs_of(x);
        if (!attrs || attrs->get_string("engine") != "cp_async") return;
        visit_effects(x, [&](const Stmt&, const Effect& e) {
          if (e.writes()) piece.copied.insert(e.buffer);
        });
      });
      pieces.push_back(std::move(piece));
    }
  }

  // What several iterations use at once exists outside of them.
  void hoist_allocs() {
    std::set<BufferId> shared_by_iterations;
    for (auto& p : pieces)
      visit_effects(p.stmt, [&](const Stmt&, const Effect& e) {
        shared_by_iterations.insert(e.buffer);
        if (e.writes()) filled_ahead.insert(e.buffer);
      });
    for (auto& p : pieces)
      p.stmt = rewrite(p.stmt, [](const Alloc& n, Rewriter&) -> Stmt { return block({}, n.span); });
    for (Stmt& s : body)
      s = rewrite(s, [&](const Alloc& n, Rewriter&) -> Stmt {
        if (!shared_by_iterations.contains(n.buffer)) return Stmt(&n);
        allocs.push_back(Stmt(&n));
        return block({});
      });
  }

  // Copies are begun for iterations that come, and each of those waits for what its readers need; only where
  // an iteration may end before its waits, or nobody reads a tile, something is left.
  void find_awaited() {
    if (contains(loop.body, [](const Call& c) { return ends_iteration(*c.intrinsic); })) return;
    std::set<BufferId> copied;
    for (auto& p : pieces) copied.insert(p.copied.begin(), p.copied.end());
    auto read_by = [&](const Stmt& reader) {
      visit_effects(reader, [&](const Stmt&, const Effect& e) {
        if (copied.contains(e.buffer) && e.reads()) awaited.insert(e.buffer);
      });
    };
    for (auto& p : pieces)
      if (!p.is_async()) read_by(p.stmt);
    for (auto& s : body)
      if (!runs_ahead(s)) read_by(projected(s, {}));
  }

  // A piece for an iteration, if there is one of that number.
  Stmt at(const Piece& piece, const Expr& iteration, const Expr& exists) const {
    Stmt s = renamed(substitute(piece.stmt, {{loop.var.get(), iteration}}));
    return if_then(exists, with_slot(f, s, filled_ahead, cast(i64, iteration)), {}, loop.span);
  }
  Stmt of_groups(AsyncInstr::AsyncKind does, std::vector<Expr> args) const {
    return eval(call(target.group_row(does)->intrinsic, std::move(args)), loop.span);
  }

  // ── groups ──────────────────────────────────────────────────────────────────────────────────────────
  // Each piece that copies closes a group in every step.  A statement of stage r that reads what the q-th of
  // them, of stage s, has copied needs a group that was closed r - s steps before: so many may still be open.
  // `passed`: the groups that this step has closed already.
  std::optional<int64_t> may_be_open(const Stmt& reader, int64_t stage, int64_t passed) const {
    std::optional<int64_t> least;
    int64_t groups = std::ranges::count_if(pieces, [](auto& p) { return p.is_async(); }), number = 0;
    for (auto& p : pieces) {
      if (!p.is_async()) continue;
      bool reads = false;
      visit_effects(reader, [&](const Stmt&, const Effect& e) { reads |= p.copied.contains(e.buffer); });
      int64_t left = (stage - p.stage) * groups + passed - ++number;
      if (reads) least = std::min(left, least.value_or(left));
    }
    internal_check(!least || *least >= 0, "a copy is read before it is begun");
    return least;
  }

  // Groups that may be open at this place, at most; waits stand only where they are too many.
  struct Open {
    int64_t most = 0, passed = 0;
  };
  static constexpr int64_t unknown = 1 << 20;
  void need(const Stmt& reader, int64_t stage, Open& open, std::vector<Stmt>& out) const {
    auto left = may_be_open(reader, stage, open.passed);
    if (!left || *left >= open.most) return;
    out.push_back(of_groups(AsyncInstr::AsyncKind::wait_groups, {imm(*left, i32)}));
    open.most = *left;
  }

  // The pieces of one place, each for its own iteration, if there is one of that number.
  void ahead(size_t first, size_t last, const Expr& step, bool in_prologue, Open& open,
             std::vector<Stmt>& out) const {
    DType type = loop.var->dtype;
    for (size_t i = first; i < last; i++) {
      const Piece& p = pieces[i];
      Expr later = binary(BinaryOp::add, step, imm(in_prologue ? -p.stage : stages - p.stage, type));
      Expr exists = binary(BinaryOp::lt, later, loop.extent);
      if (in_prologue && p.stage > 0) exists = both(binary(BinaryOp::ge, step, imm(p.stage, type)), exists);
      if (!p.is_async()) need(p.stmt, p.stage, open, out);
      out.push_back(at(p, later, exists));
      if (!p.is_async()) continue;
      out.push_back(of_groups(AsyncInstr::AsyncKind::commit, {}));
      open.most++, open.passed++;
    }
  }
  // Of the whole iteration; what is open at its beginning becomes what is at its end.
  Stmt turn(Open& open) const {
    std::vector<Stmt> out;
    size_t next = 0;
    auto up_to = [&](int64_t order) {
      size_t first = next;
      while (next < pieces.size() && pieces[next].order <= order) next++;
      ahead(first, next, loop.var, false, open, out);
    };
    std::vector<Stmt> rest;
    for (auto& s : body)
      if (!runs_ahead(s)) rest.push_back(projected(s, {}));
    // In front of the copies that are begun at this place, so that one barrier is for both: what has landed
    // becomes known to all, and the slot that is filled next has been read by all.
    auto need_here = [&](size_t place) {
      bool begins = place == 0 || (next < pieces.size() && pieces[next].order <= int64_t(place));
      if (!begins) return;
      int64_t until = INT64_MAX;  // the next place that begins copies
      for (auto& p : pieces)
        if (p.order > int64_t(place)) until = std::min(until, p.order);
      for (size_t i = place; i < rest.size() && int64_t(i) < until; i++) need(rest[i], stages, open, out);
    };
    open.passed = 0;
    for (size_t place = 0; place < rest.size(); place++) {
      need_here(place);
      up_to(int64_t(place));
      out.push_back(with_slot(f, rest[place], filled_ahead, cast(i64, loop.var)));
    }
    up_to(INT64_MAX);
    return block(std::move(out), loop.body->span);
  }

  int64_t turns() const {  // after how many iterations the slots repeat
    int64_t n = 1;
    for (BufferId b : filled_ahead) n = std::lcm(n, f[b].slots);
    return n;
  }

  Stmt run() {
    find_pieces();
    hoist_allocs();
    find_awaited();
    Expr j = var("j", loop.var->dtype, loop.span);
    std::vector<Stmt> steps;
    Open open{.most = unknown};
    ahead(0, pieces.size(), j, true, open, steps);
    // Each step closes its groups; what waits in one of them leaves no more open than in the others.
    int64_t groups = open.passed;
    open.most = std::min(open.most, stages * groups);
    Attrs attrs;
    if (int64_t n = turns(); n > 1) attrs.entries["turns"] = n;
    Stmt prologue = for_loop(j, imm(0, j->dtype), imm(stages, j->dtype), Loop::unrolled,
                             block(std::move(steps), loop.span), loop.span, attrs);
    int64_t rounds = 0;
    for (int64_t before = -1; before < open.most; rounds++) {
      before = open.most;
      Open end = open;
      turn(end);
      open.most = rounds > stages ? unknown : std::max(open.most, end.most);
    }
    Stmt inside = turn(open);
    std::vector<Stmt> out = allocs;
    out.push_back(prologue);
    out.push_back(
        for_loop(loop.var, loop.min, loop.extent, Loop::serial, inside, loop.span, std::move(attrs)));
    return block(std::move(out), loop.span);
  }
};

// Tiles that the program copies into asynchronously itself: what it waits for, it alone knows.
std::set<BufferId> own_copies(const Stmt& body) {
  std::set<BufferId> into;
  visit_effects(body, [&](const Stmt& s, const Effect& e) {
    if (e.writes() && (e.begins != Token::none || is_async_copy(s))) into.insert(e.buffer);
  });
  return into;
}

// For plan_memory: nothing fills this tile behind the loops that do.
Attrs with_awaited(Attrs attrs) {
  attrs.entries.insert_or_assign("awaited", int64_t(1));
  return attrs;
}

}  // namespace

Function pipeline_loops(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    std::set<BufferId> awaited, not_awaited = own_copies(k.body);  // tiles that are copied into
    Stmt body = rewrite(k.body, [&](const For& n, Rewriter& self) -> Stmt {
      if (n.loop != Loop::pipelined) return self.children(n);
      if (n.attrs.find("stages")) {
        Stmt inner = self.children(n);  // loops in it run in order
        LoopPipeliner loop{.f = f, .target = target, .loop = *inner.as<For>()};
        Stmt s = loop.run();
        for (auto& p : loop.pieces)
          for (BufferId b : p.copied) (loop.awaited.contains(b) ? awaited : not_awaited).insert(b);
        return s;
      }
      return for_loop(n.var, n.min, n.extent, Loop::serial, self(n.body), n.span);
    });
    body = rewrite(body, [&](const Alloc& n, Rewriter&) -> Stmt {
      if (!awaited.contains(n.buffer) || not_awaited.contains(n.buffer)) return Stmt(&n);
      return alloc(n.buffer, n.span, with_awaited(n.attrs));
    });
    k.body = with_slot(f, body, {}, {});
  }
  for (BufferInfo& info : f.buffers) give_slots(info);
  return f;
}

}  // namespace tl
