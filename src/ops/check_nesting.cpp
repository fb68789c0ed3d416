// What may stand in a loop whose iterations are independent: T.Parallel runs each on one thread, T.vectorized
// in lanes of one thread. A statement that needs all threads of the block cannot be part of one.
#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/op.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

std::string_view python_name(Loop loop) {
  switch (loop) {
    case Loop::serial:
      return "T.serial";
    case Loop::parallel:
      return "T.Parallel";
    case Loop::pipelined:
      return "T.Pipelined";
    case Loop::unrolled:
      return "T.unroll";
    case Loop::vectorized:
      return "T.vectorized";
  }
  return "a loop";
}

// Names of indices, which canonicalize puts where they are used, and then a loop?
bool names_alone(const Block& b) {
  for (auto& s : b.stmts) {
    if (&s == &b.stmts.back()) return s.as<For>();
    auto* n = s.as<Let>();
    bool plain = n && n->var->dtype.is_int();
    if (n) visit(n->value, [&](const Load&) { plain = false; }, [&](const Call&) { plain = false; });
    if (!plain) return false;
  }
  return false;
}

struct Nesting {
  const Function& f;
  const For *parallel = nullptr, *vectorized = nullptr;  // the innermost ones around
  bool heads = false;  // is this the body of a parallel loop, where the nest may go on?

  const For* around() const { return vectorized ? vectorized : parallel; }

  [[noreturn]] void refuse(Span span, std::string_view what, std::string_view instead) const {
    const For& n = *around();
    fail(span, "{} in the {} loop on line {}, {}: {}", what, python_name(n.loop), n.span.line,
         n.loop == Loop::parallel ? "each of whose iterations runs on one thread"
                                  : "whose iterations are lanes of one thread",
         instead);
  }

  void barriers(const Stmt& s) const {
    auto look = [&](const Expr& e, Span span) {
      visit(e, [&](const Call& c) {
        using Effect = Intrinsic::Effect;
        const AsyncInstr* row = async_row_of(*c.intrinsic);
        bool of_memory = row && row->token == Token::phase && !row->begins();
        if (of_memory || c.intrinsic->effect == Effect::barrier ||
            c.intrinsic->effect == Effect::partial_barrier)
          refuse(c.span ? c.span : span, fmt::format("{} is called", said(*c.intrinsic).name),
                 "the threads of the block do not reach it together; end the loop before it and begin "
                 "another one after it");
      });
    };
    if (auto* n = s.as<Eval>()) look(n->value, s->span);
    if (auto* n = s.as<Let>()) look(n->value, s->span);
    if (auto* n = s.as<Store>()) look(n->value, s->span);
    if (auto* n = s.as<If>()) look(n->cond, s->span);
    if (auto* n = s.as<While>()) look(n->cond, s->span);
  }

  void loop(const For& n) {
    if (n.loop == Loop::pipelined && around())
      refuse(n.span, "T.Pipelined is used",
             "one thread has no copies to overlap; use T.serial, or put T.Pipelined around");
    if (n.loop == Loop::vectorized && vectorized)
      refuse(n.span, "T.vectorized is used",
             "a lane cannot be vectorized again; make one of the two loops T.serial");
    if (n.loop == Loop::parallel && vectorized)
      refuse(n.span, "T.Parallel is used", "use T.serial here, or T.Parallel for both");
    if (n.loop == Loop::parallel && parallel && !heads)
      refuse(n.span, "T.Parallel is used", "give all extents to one T.Parallel(m, n), or use T.serial here");
    Nesting inner = *this;
    if (n.loop == Loop::parallel) inner.parallel = &n;
    if (n.loop == Loop::vectorized) inner.vectorized = &n;
    inner.heads = n.loop == Loop::parallel;
    inner.walk(n.body);
  }

  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* n = s.as<For>()) return loop(*n);
    if (auto* n = s.as<Block>()) {
      bool head = heads && names_alone(*n);
      for (auto& inner : n->stmts) heads = head, walk(inner);
      return;
    }
    heads = false;
    if (auto* n = s.as<Tile>()) {
      if (around())
        refuse(s->span, fmt::format("the tile operator {} is used", n->op->said()),
               "all threads of the block carry it out together; move it out of the loop, or write its "
               "elements in the loop");
      walk(n->body);
    } else if (auto* n = s.as<Group>()) {
      if (around()) refuse(s->span, "a group of threads is formed", "move it out of the loop");
      walk(n->body);
    }
    if (!around()) {
      if (auto* n = s.as<If>()) walk(n->then_body), walk(n->else_body);
      if (auto* n = s.as<While>()) walk(n->body);
      return;
    }
    barriers(s);
    if (auto* n = s.as<Alloc>()) {
      Scope scope = f[n->buffer].scope;
      if (scope == Scope::shared || scope == Scope::fragment)
        refuse(
            s->span, fmt::format("{} is allocated", f[n->buffer].name),
            "a tile belongs to all threads of the block; allocate it before the loop, or use T.alloc_local");
    } else if (auto* n = s.as<If>()) {
      walk(n->then_body);
      walk(n->else_body);
    } else if (auto* n = s.as<While>()) {
      walk(n->body);
    }
  }
};

}  // namespace

void check_nesting(const Function& f) {
  for (auto& k : f.kernels) Nesting{.f = f}.walk(k.body);
}

}  // namespace tl
