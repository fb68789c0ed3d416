// A fixed point over the variables and registers of a kernel.
#include "pass/varying.h"

#include <algorithm>

#include "ir/build.h"
#include "target/effects.h"

namespace tl {
namespace {

bool in_registers(const BufferInfo& b) { return b.scope == Scope::local || b.scope == Scope::fragment; }

// Calls whose value is one for the whole block, whatever their arguments.
bool agrees(const Call& c) {
  return c.intrinsic == &block_uniform || c.intrinsic->effect == Intrinsic::Effect::barrier;
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

}  // namespace

std::string Varying::source_of(const Call& c) const {
  using Effect = Intrinsic::Effect;
  if (c.intrinsic == &thread_index) {
    auto dim = as_int(c.args[0]);
    return fmt::format("threadIdx.{}", dim && *dim >= 0 && *dim < 3 ? "xyz"[*dim] : 'x');
  }
  if (is_foreign(*c.intrinsic)) return fmt::format("what {} gives to each thread", c.intrinsic->name);
  if (c.intrinsic == &elected || c.intrinsic == &random_sequence || c.intrinsic->effect == Effect::thread)
    return std::string(thread_number_reason);
  if (c.intrinsic->effect == Effect::warp)
    return fmt::format("{}, whose value is that of a warp", c.intrinsic->name);
  const AsyncInstr* row = states_agree ? async_row_of(*c.intrinsic) : nullptr;
  if (row && row->gives_state()) return "";
  if (c.intrinsic->effect == Effect::memory && c.dtype != none_type)
    return fmt::format("what {} gives to each thread", c.intrinsic->name);
  return "";
}

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

// What a statement writes to registers, of which `control` says whether all threads come to it.
void Varying::mark(const Stmt& s, const std::string& control, bool parallel) {
  if (auto* l = s.as<Let>()) {
    if (std::string why = reason(l->value); !why.empty()) changed |= note(vars, l->var.get(), why);
  } else if (auto* st = s.as<Store>(); st && in_registers(f[st->buffer])) {
    std::string why = first_of(control, first_of(reason(st->value), reason(st->mask)));
    for (auto& i : st->index) why = first_of(why, reason(i));
    if (parallel && f[st->buffer].scope == Scope::local) why = first_of(why, of_iteration);
    if (parallel && f[st->buffer].scope == Scope::fragment && why == of_iteration) why.clear();
    if (!why.empty()) add(st->buffer, why);
  } else if (s.as<Eval>()) {  // what an instruction writes to registers is its thread's own
    for (auto& e : effects_of(s).list)
      if (e.is_through_address() && e.writes())
        add(e.buffer,
            fmt::format("what {} gives to each thread", static_cast<const Call&>(*e.by).intrinsic->name));
  } else if (auto* loop = s.as<For>()) {
    std::string head = first_of(reason(loop->min), reason(loop->extent));
    if (!head.empty()) changed |= note(vars, loop->var.get(), head);
  }
}

// Why threads are not all there below the head of the statement; empty where they are.
std::string Varying::divides(const Stmt& s) const {
  if (auto* i = s.as<If>()) return reason(i->cond);
  if (auto* w = s.as<While>()) return first_of(reason(w->cond), parts(w->body));
  if (auto* l = s.as<For>()) return first_of(first_of(reason(l->min), reason(l->extent)), parts(l->body));
  return "";
}

// Every statement with why not all threads come to it; `f` says whether to look below it.
void Varying::walk(const Stmt& body, const Visitor& f) const {
  std::vector<std::string> control{""};
  tl::walk(
      body, {},
      [&](const Stmt& s, const WalkContext& at) {
        if (!f(s, control.back(), at)) return false;
        control.push_back(first_of(control.back(), divides(s)));
        return true;
      },
      [&](const Stmt&, const WalkContext&) { control.pop_back(); });
}

void Varying::find(const Stmt& body) {
  auto is_parallel = [](const For* loop) { return loop->loop == Loop::parallel; };
  do {
    changed = false;
    walk(body, [&](const Stmt& s, const std::string& control, const WalkContext& at) {
      mark(s, control, std::ranges::any_of(at.loops, is_parallel));
      return true;
    });
  } while (changed);
}

std::string Varying::parts(const Stmt& loop_body) const {
  std::string found;
  if (!jumps(loop_body)) return found;
  walk(loop_body, [&](const Stmt& s, const std::string& control, const WalkContext&) {
    const Intrinsic* c = control_of(s);
    if (found.empty() && (c == &break_loop || c == &continue_loop)) found = control;
    return !s.as<For>() && !s.as<While>();
  });
  return found;
}

std::string Varying::returns(const Stmt& body) const {
  std::string found;
  if (!has_control(body)) return found;
  walk(body, [&](const Stmt& s, const std::string& control, const WalkContext&) {
    if (found.empty() && control_of(s) == &thread_return) found = control;
    return true;
  });
  return found;
}

bool Varying::may_diverge(const Stmt& s) const {
  if (auto* i = s.as<If>()) return differs(i->cond);
  if (auto* w = s.as<While>()) return differs(w->cond) || !parts(w->body).empty();
  if (auto* l = s.as<For>())
    return l->attrs.get_int("independent") || differs(l->extent) || !parts(l->body).empty();
  return s.as<Group>() != nullptr;
}

}  // namespace tl
