// A fix point over the variables and registers of a kernel.
#include "pass/varying.h"

#include "ir/build.h"

namespace tl {
namespace {

bool in_registers(const BufferInfo& b) { return b.scope == Scope::local || b.scope == Scope::fragment; }

// Calls whose value is one for the whole block, whatever their arguments.
bool agrees(const Call& c) {
  return c.callee == &block_uniform || c.callee->effect == Callee::Effect::barrier;
}

// Why what is assigned in a parallel loop differs: each iteration has its own.  For elements of a tile that
// is no difference among threads; so a reason that is one comes first.
const std::string of_iteration = "the iteration of a parallel loop";

std::string first_of(const std::string& a, const std::string& b) {
  return a.empty() || (a == of_iteration && !b.empty()) ? b : a;
}

// Is there something new to know?
template <class Map, class Key>
bool note(Map& map, Key key, const std::string& why) {
  auto [it, is_new] = map.emplace(key, why);
  bool is_worse = !is_new && it->second == of_iteration && why != of_iteration;
  if (is_worse) it->second = why;
  return is_new || is_worse;
}

std::string source_of(const Call& c) {
  using Effect = Callee::Effect;
  if (c.callee == &thread_index) {
    auto dim = as_int(c.args[0]);
    return fmt::format("threadIdx.{}", dim && *dim >= 0 && *dim < 3 ? "xyz"[*dim] : 'x');
  }
  if (is_foreign(*c.callee)) return fmt::format("what {} gives to each thread", c.callee->name);
  if (c.callee == &elected || c.callee == &random_sequence || c.callee->effect == Effect::thread)
    return "the thread's number in its block";
  if (c.callee->effect == Effect::warp)
    return fmt::format("{}, whose value is that of a warp", c.callee->name);
  if (c.callee->effect == Effect::memory && c.dtype != none_type)
    return fmt::format("what {} gives to each thread", c.callee->name);
  return "";
}

}  // namespace

std::string Varying::reason(const Expr& e) const {
  if (!e) return "";
  if (auto* u = e.as<Unary>()) return reason(u->a);
  std::string found;
  bool has_agreement = false;
  visit_nodes(e, [&](const Node& n) {
    if (n.kind == Kind::Call) has_agreement |= agrees(static_cast<const Call&>(n));
    if (!found.empty() && found != of_iteration) return;
    if (n.kind == Kind::Var) {
      if (auto it = vars.find(static_cast<const ExprNode*>(&n)); it != vars.end())
        found = first_of(found, it->second);
    } else if (n.kind == Kind::Load) {
      auto it = buffers.find(static_cast<const Load&>(n).buffer);
      if (it != buffers.end()) found = first_of(found, it->second);
    } else if (n.kind == Kind::Call) {
      found = first_of(found, source_of(static_cast<const Call&>(n)));
    }
  });
  if (found.empty() || !has_agreement) return found;
  // Once more without what stands inside such a call.
  Expr rest = rewrite(e, [&](const Call& c, Rewriter& self) -> Expr {
    return agrees(c) ? zero(c.dtype == none_type ? boolean : c.dtype) : self.children(c);
  });
  return rest.same(e) ? found : reason(rest);
}

void Varying::add(BufferId b, const std::string& why) {
  if (in_registers(f[b])) changed |= note(buffers, b, why);
}

// What an instruction writes to registers is its thread's own.
void Varying::mark_handles(const Call& c) {
  if (c.callee->effect != Callee::Effect::memory) return;
  for (size_t i = 0; i < c.args.size(); i++) {
    auto* at = place_of(c.args[i]);
    if (at && access_of(c, i) != 'r')
      add(at->buffer, fmt::format("what {} gives to each thread", c.callee->name));
  }
}

void Varying::mark(const Stmt& s, const std::string& control, bool parallel) {
  if (!s) return;
  if (auto* l = s.as<Let>()) {
    if (std::string why = reason(l->value); !why.empty()) changed |= note(vars, l->var.get(), why);
  } else if (auto* st = s.as<Store>(); st && in_registers(f[st->buffer])) {
    std::string why = first_of(control, first_of(reason(st->value), reason(st->mask)));
    for (auto& i : st->index) why = first_of(why, reason(i));
    if (parallel && f[st->buffer].scope == Scope::local) why = first_of(why, of_iteration);
    if (parallel && f[st->buffer].scope == Scope::fragment && why == of_iteration) why.clear();
    if (!why.empty()) add(st->buffer, why);
  } else if (auto* e = s.as<Eval>()) {
    visit(e->value, [&](const Call& c) { mark_handles(c); });
  } else if (auto* b = s.as<Block>()) {
    for (auto& inner : b->stmts) mark(inner, control, parallel);
  } else if (auto* t = s.as<Tile>()) {
    mark(t->body, control, parallel);
  } else if (auto* loop = s.as<For>()) {
    std::string head = first_of(reason(loop->min), reason(loop->extent));
    if (!head.empty()) changed |= note(vars, loop->var.get(), head);
    mark(loop->body, first_of(control, first_of(head, parts(loop->body))),
         parallel || loop->loop == Loop::parallel);
  } else if (auto* w = s.as<While>()) {
    mark(w->body, first_of(control, first_of(reason(w->cond), parts(w->body))), parallel);
  } else if (auto* i = s.as<If>()) {
    std::string inside = first_of(control, reason(i->cond));
    mark(i->then_body, inside, parallel);
    mark(i->else_body, inside, parallel);
  } else if (auto* g = s.as<Group>()) {
    mark(g->body, control, parallel);
  }
}

void Varying::find(const Stmt& body) {
  do {
    changed = false;
    mark(body, "", false);
  } while (changed);
}

std::string Varying::parts(const Stmt& loop_body) const {
  return jumps(loop_body) ? parts(loop_body, "") : "";
}

std::string Varying::parts(const Stmt& s, const std::string& under) const {
  if (!s || s.as<For>() || s.as<While>()) return "";
  if (auto* b = s.as<Block>()) {
    for (auto& inner : b->stmts)
      if (std::string why = parts(inner, under); !why.empty()) return why;
    return "";
  }
  if (auto* i = s.as<If>()) {
    std::string inside = first_of(under, reason(i->cond));
    return first_of(parts(i->then_body, inside), parts(i->else_body, inside));
  }
  if (auto* g = s.as<Group>()) return parts(g->body, under);
  const Callee* c = control_of(s);
  return c == &break_loop || c == &continue_loop ? under : "";
}

bool Varying::separates(const Stmt& s) const {
  if (auto* i = s.as<If>()) return differs(i->cond);
  if (auto* w = s.as<While>()) return differs(w->cond) || !parts(w->body).empty();
  if (auto* l = s.as<For>())
    return l->attrs.get_int("independent") || differs(l->extent) || !parts(l->body).empty();
  return s.as<Group>() != nullptr;
}

std::string Varying::returns(const Stmt& s) const { return has_control(s) ? returns(s, "") : ""; }

std::string Varying::returns(const Stmt& s, const std::string& under) const {
  if (!s) return "";
  if (auto* b = s.as<Block>()) {
    for (auto& inner : b->stmts)
      if (std::string why = returns(inner, under); !why.empty()) return why;
    return "";
  }
  if (auto* i = s.as<If>()) {
    std::string inside = first_of(under, reason(i->cond));
    return first_of(returns(i->then_body, inside), returns(i->else_body, inside));
  }
  if (auto* l = s.as<For>())
    return returns(l->body, first_of(under, first_of(reason(l->extent), parts(l->body))));
  if (auto* w = s.as<While>())
    return returns(w->body, first_of(under, first_of(reason(w->cond), parts(w->body))));
  if (auto* g = s.as<Group>()) return returns(g->body, under);
  return control_of(s) == &thread_return ? under : "";
}

}  // namespace tl
