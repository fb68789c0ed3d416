#include "pass/role_parts.h"

#include "pass/turns.h"
#include "pass/warp_width.h"

namespace tl {

Stmt DividedKernel::instruction(std::string_view name, std::vector<Expr> args, Span span) const {
  return eval(call(*find_instr(name), std::move(args), span), span);
}
static Expr word(BufferId words, const Expr& slot, Span span) {
  return address(load(u64, words, {slot}, span), "", span);
}

Stmt DividedKernel::wait(BufferId words, const RoleLoop& loop, const Expr& turn, bool before) const {
  Span span = loop.loop->span;
  Expr phase = floormod(floordiv(turn, loop.slots) + (before ? 1 : 0), 2);
  Expr ended =
      call(*find_instr("mbarrier_try_wait"), {word(words, slot(loop, turn), span), cast(i32, phase)}, span);
  return while_loop(unary(UnaryOp::logical_not, ended), block({}, span), span);
}

Stmt DividedKernel::arrive(BufferId words, const Expr& slot, bool together, Span span) const {
  std::vector<Stmt> out;
  if (together)
    out.push_back(eval(call(*find_intrinsic("sync_warp"), {whole_warp(target.warp)}, span), span));
  Expr first = eq(floormod(k.thread, int64_t(target.warp)), imm(0));
  out.push_back(if_then(first, instruction("mbarrier_arrive", {word(words, slot, span)}, span), {}, span));
  return block(std::move(out), span);
}

Expr DividedKernel::turn(const RoleLoop& loop, const WalkContext& at) {
  if (Expr number = turn_of(at)) return number;
  auto it = counters.find(&loop);
  if (it == counters.end()) {
    std::string name = loop.loop.as<For>()->var.as<Var>()->hint + "_turns";
    BufferId id = f.add({.name = name, .dtype = i32, .scope = Scope::local, .span = loop.loop->span});
    it = counters.emplace(&loop, id).first;
  }
  return cast(i64, load(i32, it->second, {}, loop.loop->span));
}

Stmt DividedKernel::count(const RoleLoop& loop) const {
  BufferId id = counters.at(&loop);
  Span span = loop.loop->span;
  return store(id, {}, binary(BinaryOp::add, load(i32, id, {}, span), imm(1, i32)), span);
}

Expr DividedKernel::named_turn(const RoleLoop& loop, const WalkContext& at, std::vector<Stmt>& out) {
  Expr number = turn(loop, at);
  if (!is_counted(loop)) return number;
  Expr name = var("turn");
  out.push_back(let(name, number, loop.loop->span));
  return name;
}

}  // namespace tl
