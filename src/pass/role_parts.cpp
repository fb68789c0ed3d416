#include "pass/role_parts.h"

#include <algorithm>

#include "ops/regions.h"
#include "pass/turns.h"
#include "pass/warp_width.h"

namespace tl {

Stmt DividedKernel::instruction(std::string_view name, std::vector<Expr> args, Span span) const {
  return eval(call(*find_instr(name), std::move(args), span), span);
}
Expr DividedKernel::word(BufferId words, const Expr& slot, Span span) const {
  return address(load(u64, words, {slot}, span), "", span);
}

Stmt DividedKernel::wait_for(BufferId words, const Expr& slot, const Expr& phase, Span span) const {
  Expr ended = call(*find_instr("mbarrier_try_wait"), {word(words, slot, span), cast(i32, phase)}, span);
  Stmt wait = while_loop(unary(UnaryOp::logical_not, ended), block({}, span), span);
  return stamps ? stamps->around("wait " + f[words].name, wait) : wait;
}
Stmt DividedKernel::wait_for_products(int64_t left, Span span) const {
  Stmt wait = instruction("wgmma_wait_group", {imm(left, i32)}, span);
  return stamps ? stamps->around("products", wait) : wait;
}
void DividedKernel::stamp(const RoleLoop& loop, RoleStamps::Edge edge, std::vector<Stmt>& out) const {
  if (!stamps) return;
  out.push_back(stamps->stamp("turn " + loop.loop.as<For>()->var.as<Var>()->hint, edge, loop.loop->span));
}

Stmt DividedKernel::wait_full(const RoleLoop& loop, const RoleRing& ring, const Expr& turn) const {
  Span span = loop.loop->span;
  Expr phase = floormod(floordiv(turn, loop.slots), 2);
  return wait_for(words.at(&ring).full, slot(loop, turn), phase, span);
}

Stmt DividedKernel::wait_empty(const RoleLoop& loop, const RoleRing& ring, const Expr& turn) const {
  Span span = loop.loop->span;
  Expr phase = floormod(floordiv(turn, loop.slots) + 1, 2);
  return wait_for(words.at(&ring).empty, slot(loop, turn), phase, span);
}

Stmt DividedKernel::wait_full(const RoleLoad& load, const Expr& turn) const {
  Expr phase = floormod(floordiv(turn, slots(load)), 2);
  return wait_for(words.at(&load).full, slot(load, turn), phase, load.copy->span);
}

Stmt DividedKernel::wait_empty(const RoleLoad& load, const Expr& turn) const {
  Expr phase = floormod(floordiv(turn, slots(load)) + 1, 2);
  return wait_for(words.at(&load).empty, slot(load, turn), phase, load.copy->span);
}

Stmt DividedKernel::arrive(BufferId words, const Expr& slot, bool together, Span span) const {
  std::vector<Stmt> out;
  if (together)
    out.push_back(eval(call(*find_intrinsic("sync_warp"), {whole_warp(target.warp)}, span), span));
  Expr first = eq(floormod(k.thread, int64_t(target.warp)), imm(0));
  out.push_back(if_then(first, instruction("mbarrier_arrive", {word(words, slot, span)}, span), {}, span));
  return block(std::move(out), span);
}

// Else the number is a product that 32 bits may not hold: 3 to 4 % of a GEMM
// (bench/results/2026-11-28-dynamic.md).
static bool has_constant_lengths(const WalkContext& at) {
  return std::ranges::all_of(at.loops,
                             [&](auto* loop) { return loop == at.loops.front() || as_int(loop->extent); });
}

Expr DividedKernel::turn(const void* of, const Stmt& s, const WalkContext& at) {
  if (Expr number = turn_of(at); number && has_constant_lengths(at)) return number;
  auto it = counters.find(of);
  if (it == counters.end()) {
    auto* loop = s.as<For>();
    std::string name = loop ? loop->var.as<Var>()->hint : f[region_of(*s.as<Tile>(), 1).buffer].name;
    BufferId id = f.add({.name = name + "_turns", .dtype = i32, .scope = Scope::local, .span = s->span});
    it = counters.emplace(of, id).first;
  }
  return cast(i64, load(i32, it->second, {}, s->span));
}

Stmt DividedKernel::count(const void* of, const Expr& turns, Span span) const {
  BufferId id = counters.at(of);
  return store(id, {}, binary(BinaryOp::add, load(i32, id, {}, span), cast(i32, turns)), span);
}

Expr DividedKernel::named_turn(const RoleLoop& loop, const WalkContext& at, std::vector<Stmt>& out) {
  Expr number = turn(&loop, loop.loop, at);
  if (!is_counted(&loop)) return number;
  Expr name = var("turn");
  out.push_back(let(name, number, loop.loop->span));
  return name;
}

}  // namespace tl
