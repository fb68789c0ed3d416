// A walk with the conditions around each statement.
#include "pass/check_convergence.h"

#include <algorithm>
#include <numeric>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ops/op.h"
#include "pass/form_teams.h"
#include "pass/own_work.h"
#include "pass/thread_values.h"

namespace tl {
namespace {

bool needs_all_threads(const Stmt& s) {
  auto* loop = s.as<For>();
  return (s.as<Tile>() && !s.as<Tile>()->body) || (loop && loop->loop == Loop::parallel);
}

// Is it of any matter to the statement which threads are there?
bool matters(const Stmt& s) {
  return s && contains(
                  s, [](const Tile&) { return true; }, [](const For& n) { return n.loop == Loop::parallel; },
                  [](const Call& n) { return n.intrinsic->effect == Intrinsic::Effect::control; });
}

struct Condition {
  std::string why;        // what makes it differ; empty: it does not
  Span span = {};         // of the statement
  std::string_view word;  // "if"
};

struct Flow final : Rewriter {
  const Function& f;
  const Varying& varying;
  const std::function<Expr(const Expr&)>& resolve;
  Facts facts;
  std::set<const ExprNode*> from_registers = {};  // variables bound to what was read from registers
  Condition under = {};
  Condition gone = {};  // the return after which not all threads are there
  Expr thread;          // the block's thread index
  Team team;            // whose statements these are
  VarMap names = {};    // of integers

  Flow(const Function& f, const Varying& varying, const std::function<Expr(const Expr&)>& resolve,
       const Kernel& k)
      : f(f),
        varying(varying),
        resolve(resolve),
        facts(facts_of(f, k)),
        thread(k.thread),
        team(whole_block(k)) {}

  bool reads_registers(const Expr& e) const {
    auto from_register = [&](const Load& n) {
      return f[n.buffer].scope == Scope::local || f[n.buffer].scope == Scope::fragment;
    };
    return contains(e, from_register, [&](const Var& n) { return from_registers.contains(&n); });
  }

  bool reads_fragment(const Expr& e) const {
    return contains(e, [&](const Load& n) { return f[n.buffer].scope == Scope::fragment; });
  }

  // What makes a condition (or a trip count) differ, unless it has one value in all threads after all.
  std::string reason(const Expr& e) const {
    std::string why = varying.reason(e);
    if (!why.empty() && is_const(simplify(resolve(e), facts))) why.clear();
    return why;
  }

  Expr promised(const Expr& e, const Stmt& body, const Stmt& other = {}) const {
    if (!reads_registers(e) || !(matters(body) || matters(other)) || varying.differs(e)) return e;
    return call(block_uniform, {e}, e->span);
  }

  [[noreturn]] void refuse(const Stmt& s) const {
    auto* t = s.as<Tile>();
    std::string what = t ? fmt::format("the tile operator {}", t->op->name) : "this parallel loop";
    if (!under.why.empty())
      fail(s->span,
           "{} needs all threads of the block, but the `{}` on line {} depends on {}, so some threads do not "
           "reach this statement: move it out, or write to single elements by thread index",
           what, under.word, under.span.line, under.why);
    fail(s->span,
         "{} needs all threads of the block, but some have left it by the {} on line {}, which depends on "
         "{}: put what follows under the opposite condition, or return from the whole block",
         what, gone.word, gone.span.line, gone.why);
  }

  void check_conditions(const Tile& t) const {
    for (auto& [name, value] : t.attrs.entries)
      if (auto* e = std::get_if<Expr>(&value))
        if (std::string why = reason(*e); !why.empty())
          fail(t.span,
               "{}: {} depends on {}, but all threads of the block work on the tile together: it must be the "
               "same in all of them",
               t.op->name, name, why);
  }

  // What all threads of the team move together is one part, which none names by its own number.
  void check_parts(const Tile& t) const {
    for (auto& operand : t.operands) {
      auto* r = std::get_if<Region>(&operand);
      for (auto& range : r ? r->ranges : std::vector<Range>{}) {
        check_extent(range.extent, t.span);
        if (names_thread(range.min, varying) &&
            differs_in_team(resolve(written_out(range.min))).value_or(false))
          fail(t.span,
               "{}: all threads of the block work on one part of {} together, but where this one begins "
               "depends on {}: give each thread an array of its own for it (T.alloc_local), or move "
               "the part that all threads have",
               t.op->said(), f[r->buffer].name, varying.reason(range.min));
      }
    }
  }
  void check_extent(const Expr& extent, Span span) const {
    if (names_thread(extent, varying) && differs_in_team(resolve(written_out(extent))).value_or(true))
      fail(
          span,
          "the extent depends on {}, but the elements are divided among all threads of the block, which must "
          "agree on how many there are: take an extent that they share, and a condition on the index",
          varying.reason(extent));
  }
  void check_extents(const Stmt& nest) const {
    for (const For* l = nest.as<For>(); l && l->loop == Loop::parallel; l = l->body.as<For>())
      check_extent(l->extent, l->span);
  }
  // With names of names, as far as users go.
  Expr written_out(Expr e) const {
    constexpr int steps = 8;
    for (int i = 0; i < steps; i++) e = substitute(e, names);
    return e;
  }
  std::optional<bool> differs_in_team(const Expr& e) const {  // nullopt: it is not known
    auto n = size_t(team.count);
    LaneEnv env;
    visit(e, [&](const Var& v) { env.emplace(&v, Lanes(n, 0)); });
    if (thread) {
      Lanes& numbers = env[thread.get()] = Lanes(n);
      std::iota(numbers.begin(), numbers.end(), team.first);
    }
    auto values = values_of(e, env, n);
    if (!values) return std::nullopt;
    return std::ranges::adjacent_find(*values, std::not_equal_to()) != values->end();
  }

  Stmt inside(const Stmt& body, const std::string& why, Span span, std::string_view word) {
    if (!body) return body;
    Condition outer = under;
    if (under.why.empty() && !why.empty()) under = {.why = why, .span = span, .word = word};
    Stmt out = (*this)(body);
    under = outer;
    return out;
  }

  using Rewriter::operator();
  Stmt operator()(const Stmt& s) override {
    if (needs_all_threads(s)) {
      if ((!under.why.empty() || !gone.why.empty()) && is_collective(s, f, varying)) refuse(s);
      auto* t = s.as<Tile>();
      if (t) check_conditions(*t);
      bool divided = !t || row_of(*t).nest;
      if (divided && is_own_work(s, f, varying)) return as_own_work(s);
      if (divided && t) check_parts(*t);
      if (!t) check_extents(s);
      return s;
    }
    if (auto* n = s.as<For>()) return loop(*n);
    if (auto* n = s.as<While>()) return loop(*n);
    if (auto* n = s.as<If>()) {
      std::string why = reason(n->cond);
      Stmt then_body = inside(n->then_body, why, n->span, "if"),
           else_body = inside(n->else_body, why, n->span, "if");
      return if_then(promised(n->cond, n->then_body, n->else_body), then_body, else_body, n->span);
    }
    if (auto* n = s.as<Group>()) {
      Team outer = std::exchange(team, team_of(*n));
      Stmt out = children(s);
      team = outer;
      return out;
    }
    auto* let = s.as<Let>();
    if (let && let->var->dtype.is_int()) names.emplace(let->var.get(), let->value);
    if (let && reads_registers(let->value)) from_registers.insert(let->var.get());
    if (control_of(s) == &thread_return && !under.why.empty() && gone.why.empty())
      gone = {.why = under.why, .span = s->span, .word = "return"};
    return children(s);
  }

  Stmt loop(const For& n) {
    std::string why = reason(n.extent);
    std::string_view word = why.empty() ? "break or continue of the loop" : "for";
    if (why.empty()) why = varying.parts(n.body);
    Expr extent = promised(n.extent, n.body);
    Stmt body = inside(n.body, why, n.span, word);
    if (extent.same(n.extent) && body.same(n.body)) return Stmt(&n);
    return for_loop(n.var, n.min, extent, n.loop, body, n.span, n.attrs);
  }

  Stmt loop(const While& n) {
    std::string why = reason(n.cond);
    std::string_view word = why.empty() ? "break or continue of the loop" : "while";
    Stmt body = inside(n.body, why.empty() ? varying.parts(n.body) : why, n.span, word);
    if (!reads_fragment(n.cond)) return while_loop(promised(n.cond, n.body), body, n.span);
    // A statement, beside which copies of the fragment may stand.
    Stmt leave = eval(call(break_loop, {}), n.span);
    Expr over = unary(UnaryOp::logical_not, promised(n.cond, leave), n.span);
    return while_loop(imm(1, boolean), block({if_then(over, leave, {}, n.span), body}, n.span), n.span);
  }
};

// A repeated maximum changes nothing, unless its previous value is used.
bool may_repeat(const Call& c, bool is_used) {
  using Atomic = Intrinsic::Atomic;
  Atomic a = c.intrinsic->atomic;
  bool idempotent = a == Atomic::max || a == Atomic::min || a == Atomic::bit_or;
  return a == Atomic::none || a == Atomic::load || a == Atomic::store || (idempotent && !is_used);
}

}  // namespace

void check_repeated_updates(const Function& f, const Kernel& k, std::string_view who) {
  if (!k.threads.empty() && thread_count(k) == 1) return;
  auto check = [&](const Call& c, bool is_used) {
    const Load* at = c.intrinsic->atomic == Intrinsic::Atomic::none ? nullptr : place_of(c.args[0]);
    if (!at || may_repeat(c, is_used) || f[at->buffer].scope == Scope::local) return;
    fail(c.span,
         "{} is not in a T.Parallel loop, so each thread of the block would do it: this is thread-level "
         "code, and {} runs one thread per block; put it into a loop over T.Parallel(1) to do it once per "
         "block, or compile it for a GPU target or the simulator of one (target='sim:…')",
         c.intrinsic->name, who);
  };
  rewrite(
      k.body,
      [&](const For& n, Rewriter& self) -> Stmt {
        return n.loop == Loop::parallel ? Stmt(&n) : self.children(n);
      },
      [&](const Tile& n, Rewriter& self) -> Stmt { return n.body ? self.children(n) : Stmt(&n); },
      [&](const Eval& n, Rewriter& self) -> Stmt {
        auto* c = n.value.as<Call>();
        if (!c || c->intrinsic->atomic == Intrinsic::Atomic::none) return self.children(n);
        check(*c, false);
        return Stmt(&n);
      },
      [&](const Call& n, Rewriter& self) -> Expr {
        check(n, true);
        return self.children(n);
      });
}

Stmt check_convergence(const Function& f, const Kernel& k, const std::function<Expr(const Expr&)>& resolve) {
  Varying varying{.f = f};
  varying.find(k.body);
  return Flow(f, varying, resolve, k)(k.body);
}

}  // namespace tl
