// peel_loops: where the condition that peel_blocks left is false only in the last iterations of a loop, the
// loop is split in two: the iterations wholly inside, without the condition, and the rest. For chips whose
// device compiler keeps the addresses of both branches in registers as long as they share a loop.  Right
// after peel_blocks.
//
//   for k in serial((K + 31) // 32):                       whole = bx*128 + 128 <= M ? min(K // 32, (K + 31)
//   // 32) : 0
//     if bx*128 + 128 <= M and k*32 + 32 <= K:             for k in serial(whole):
//       copy without guards                         ->       copy without guards
//     else:                                                  gemm
//       copy with guards                                   for k in serial(whole, (K + 31) // 32):
//     gemm                                                   copy with guards
//                                                            gemm
#include <algorithm>
#include <set>

#include "arith/simplifier.h"
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

bool reads(const Expr& e) {
  return contains(e, [](const Load&) { return true; }, [](const Call&) { return true; });
}

struct LoopSplitter final : ScopedRewriter {
  using ScopedRewriter::operator();

  // When the answers are yes: in all turns before `end` (null: in all), if `inside` holds (null: it does).
  struct Question {
    Expr inside = {}, end = {};
  };

  // Reads one condition of the turn `v`; false if it may hold in later turns, having failed in one.
  bool read(Question& q, const Expr& v, const std::set<const ExprNode*>& own, const Expr& cond) const {
    if (auto* n = cond.as<Binary>(); n && n->op == BinaryOp::logical_and)
      return read(q, v, own, n->a) && read(q, v, own, n->b);
    if (reads(cond) || contains(cond, [&](const Var& n) { return own.contains(&n); })) return false;
    if (!uses_var(cond, v)) {
      q.inside = both(q.inside, cond);
      return true;
    }
    Simplifier s(facts);
    auto constraint = s.as_constraint(cond);
    if (!constraint || constraint->first != BinaryOp::le) return false;
    Sum room = integer_sum(i64);  // factor * v <= room
    int64_t factor = 0;
    add_constant(room, constraint->second.constant, -1);
    for (const SumTerm& t : constraint->second.terms) {
      auto* wide = t.e.as<Cast>();
      bool is_turn = t.e.same(v) || (wide && wide->a.same(v));
      if (is_turn)
        factor += t.factor;
      else if (uses_var(t.e, v))
        return false;
      else
        add_term(room, t, -1, s.known);
    }
    if (factor <= 0 || !room.ok || (wraps(room) && !fits(range(room), i64))) return false;
    Expr end = floordiv(cast(i64, emit(room, cond->span)), factor) + 1;
    q.end = q.end ? min(q.end, end) : end;
    return true;
  }

  // The conditions that peel_blocks asked in the body of `loop`, as one; the Ifs, in `asked`.
  bool find(const For& loop, Question& q, std::vector<const If*>& asked) const {
    std::set<const ExprNode*> own;
    visit(
        loop.body, [&](const For& n) { own.insert(n.var.get()); },
        [&](const Let& n) { own.insert(n.var.get()); });
    for (auto& s : statements_of(loop.body))
      if (auto* n = s.as<If>(); n && n->else_body && equivalent(n->then_body, n->else_body)) {
        if (!read(q, loop.var, own, n->cond)) return false;
        asked.push_back(n);
      }
    return !asked.empty();
  }

  static Stmt answered(const Stmt& body, const std::vector<const If*>& asked, bool inside) {
    return rewrite(body, [&](const If& n, Rewriter& self) -> Stmt {
      if (std::ranges::find(asked, &n) == asked.end()) return self.children(n);
      if (inside) return block({eval(call(assume_function, {n.cond}, n.span), n.span), n.then_body}, n.span);
      return asked.size() == 1 ? n.else_body : Stmt(&n);  // of several, some may still lie inside
    });
  }

  Stmt at(const Stmt& s) override {
    Stmt inner = children(s);
    auto* n = inner.as<For>();
    if (!n || n->loop != Loop::serial || jumps(n->body) || n->attrs.find("turns")) return inner;
    Question q;
    std::vector<const If*> asked;
    if (!find(*n, q, asked)) return inner;
    DType type = n->var->dtype;
    std::string hint = n->var.as<Var>()->hint;
    std::vector<Stmt> before;
    auto fixed = [&](const Expr& e,
                     const char* what) {  // a bound is read once, whatever the body does to what it reads
      Expr bound = simplify(cast(type, e), facts);
      if (!reads(bound)) return bound;
      before.push_back(let(var(hint + what, type, n->span), bound, n->span));
      return before.back().as<Let>()->var;
    };
    Expr begin = fixed(n->min, "_first"), all = fixed(cast(type, n->min) + cast(type, n->extent), "_end");
    Expr end = cast(i64, all);
    if (q.end) end = max(min(q.end, end), cast(i64, begin));
    if (q.inside) end = select(q.inside, end, cast(i64, begin));
    Expr whole = var(hint + "_whole", type, n->span), turn = var(hint, type, n->span);
    // What the loop's bounds say of its turns, though not to who looks at their ranges alone.
    Stmt below = eval(call(assume_function, {lt(turn, all)}, n->span), n->span);
    Stmt rest = substitute(renamed(answered(n->body, asked, false)), {{n->var.get(), turn}});
    before.insert(before.end(), {let(whole, simplify(cast(type, end), facts), n->span),
                                 for_loop(n->var, begin, whole - begin, Loop::serial,
                                          answered(n->body, asked, true), n->span, n->attrs),
                                 for_loop(turn, whole, all - whole, Loop::serial,
                                          block({below, rest}, n->span), n->span, n->attrs)});
    return block(std::move(before), n->span);
  }
};

}  // namespace

Function peel_loops(Function f, const Target& target) {
  if (!target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    LoopSplitter splitter;
    splitter.enter(f, k);
    k.body = splitter(k.body);
  }
  return f;
}

}  // namespace tl
