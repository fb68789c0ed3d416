// assign_roles: the pipelined loops of a kernel, where products of warpgroups use what the tensor memory
// accelerator loads, are divided among two roles. A warpgroup behind the user's threads only loads: it runs
// ahead by as many turns as tiles have slots. The user's threads compute. A ring of tiles has two barriers in
// memory for each slot: `full` ends a phase when the loads have landed, `empty` when every warp that computes
// has given the slot back. The i-th turn has slot i % slots; it waits for phase i // slots of `full`, the
// loads for the phase before of `empty`.
//
// A product that nothing but later products touches stays in flight until that of the next turn has begun;
// its slot is given back a turn later.
//
// Which loops: role_plan.cpp.  Before plan_schedule, which finds what is left to run ahead.
//
//   for k in pipelined(n) {num_stages=4}:      group(256 : +128):
//     copy(A[i, k], As)                          for k in serial(n):
//     copy(B[k, j], Bs)                            wait(empty[k % 4], (k // 4 + 1) % 2)
//     gemm(As, Bs, Cl)                             tma_load(A[i, k], As[k % 4], full[k % 4])
//                                                  tma_load(B[k, j], Bs[k % 4], full[k % 4])
//                                      ->          arrive(full[k % 4])
//                                              group(0 : +256):
//                                                for k in serial(n):
//                                                  wait(full[k % 4], k // 4 % 2)
//                                                  gemm(As[k % 4], Bs[k % 4], Cl) {in_flight=1}
//                                                  wgmma_wait_group(1)
//                                                  if k > 0:
//                                                    arrive(empty[(k - 1) % 4])
#include <fmt/ranges.h>

#include <algorithm>

#include "arith/prove.h"
#include "base/product.h"
#include "ops/mapping.h"
#include "ops/tma_boxes.h"
#include "pass/barrier_words.h"
#include "pass/passes.h"
#include "pass/resident_blocks.h"
#include "pass/role_plan.h"
#include "pass/slots.h"
#include "pass/store_parts.h"
#include "pass/tile_use.h"
#include "pass/turns.h"
#include "pass/warp_width.h"

namespace tl {
namespace {

// The barriers of a ring's slots. Behind the last slot `empty` may have a word that nobody waits for.
struct RingWords {
  BufferId full, empty;
};

// What both roles share.
struct DividedKernel {
  Function& f;
  Kernel& k;
  const Target& target;
  const RolePlan& plan;
  std::map<const RoleRing*, RingWords> words = {};
  std::map<const RoleLoop*, BufferId> counters = {};  // of turns that do not follow from the loops
  std::vector<StoreParts> stores = {};                // fragments that leave by the accelerator
  std::set<const StmtNode*> clearing = {};  // products that clear their sums in a loop's first turn,
  std::set<const StmtNode*> dropped = {};   // and the statements that they replace

  Stmt instruction(std::string_view name, std::vector<Expr> args, Span span) const {
    return eval(call(*find_instr(name), std::move(args), span), span);
  }
  Expr word(BufferId words, const Expr& slot, Span span) const {
    return address(load(u64, words, {slot}, span), "", span);
  }
  static Expr slot(const RoleLoop& loop, const Expr& turn) { return floormod(turn, loop.slots); }
  Stmt wait(BufferId words, const RoleLoop& loop, const Expr& turn, bool before) const {
    Span span = loop.loop->span;
    Expr phase = floormod(floordiv(turn, loop.slots) + (before ? 1 : 0), 2);
    Expr ended =
        call(*find_instr("mbarrier_try_wait"), {word(words, slot(loop, turn), span), cast(i32, phase)}, span);
    return while_loop(unary(UnaryOp::logical_not, ended), block({}, span), span);
  }
  // One thread of each warp, behind all of them where they have read the slot themselves.
  Stmt arrive(BufferId words, const Expr& slot, bool together, Span span) const {
    std::vector<Stmt> out;
    if (together)
      out.push_back(eval(call(*find_intrinsic("sync_warp"), {whole_warp(target.warp)}, span), span));
    Expr first = eq(floormod(k.thread, int64_t(target.warp)), imm(0));
    out.push_back(if_then(first, instruction("mbarrier_arrive", {word(words, slot, span)}, span), {}, span));
    return block(std::move(out), span);
  }

  // The number of the turn that `at` stands in, all loops around counted.
  Expr turn(const RoleLoop& loop, const WalkContext& at) {
    if (Expr number = turn_of(at)) return number;
    auto it = counters.find(&loop);
    if (it == counters.end()) {
      std::string name = loop.loop.as<For>()->var.as<Var>()->hint + "_turns";
      BufferId id = f.add({.name = name, .dtype = i32, .scope = Scope::local, .span = loop.loop->span});
      it = counters.emplace(&loop, id).first;
    }
    return cast(i64, load(i32, it->second, {}, loop.loop->span));
  }
  bool is_counted(const RoleLoop& loop) const { return counters.contains(&loop); }
  Stmt count(const RoleLoop& loop) const {
    BufferId id = counters.at(&loop);
    Span span = loop.loop->span;
    return store(id, {}, binary(BinaryOp::add, load(i32, id, {}, span), imm(1, i32)), span);
  }
  // The turn by a name, so that regions do not read memory.
  Expr named_turn(const RoleLoop& loop, const WalkContext& at, std::vector<Stmt>& out) {
    Expr number = turn(loop, at);
    if (!is_counted(loop)) return number;
    Expr name = var("turn");
    out.push_back(let(name, number, loop.loop->span));
    return name;
  }
};

// ── the role that loads ─────────────────────────────────────────────────────────────────────────────────
struct Loader {
  DividedKernel& all;
  WalkContext at = {};

  std::vector<Stmt> loads(const RoleLoop& loop) {
    std::vector<Stmt> out;
    for (auto& s : loop.body)
      if (s.as<Let>()) out.push_back(s);
    Expr turn = all.named_turn(loop, at, out);
    for (auto& ring : loop.rings) {
      const RingWords& words = all.words.at(&ring);
      out.push_back(all.wait(words.empty, loop, turn, true));
      Expr slot = all.slot(loop, turn);
      for (auto& copy : ring.copies) {
        auto& t = *copy.as<Tile>();
        Region to = region_of(t, 1), word{words.full, {{.min = slot, .extent = imm(1), .point = true}}};
        to.ranges.insert(to.ranges.begin(), Range{.min = slot, .extent = imm(1), .point = true});
        std::string why_not;
        Stmt made = tma_copy_of(all.f, all.k, all.target, {region_of(t, 0), to, word}, t.span, why_not);
        internal_check(why_not.empty(), "a load that was possible without slots");
        out.push_back(made);
      }
      out.push_back(all.arrive(words.full, slot, false, loop.loop->span));
    }
    if (all.is_counted(loop)) out.push_back(all.count(loop));
    return out;
  }
  // What of the statement says when loads happen, and the loads.
  std::vector<Stmt> part(const Stmt& s) {
    if (!s) return {};
    if (auto* n = s.as<Block>()) {
      Inside inside(at);
      std::vector<Stmt> out;
      for (auto& inner : n->stmts) {
        for (auto& made : part(inner)) out.push_back(made);
        note_statement(at, inner);
      }
      return out;
    }
    if (s.as<Let>()) return {s};
    if (auto* n = s.as<For>()) {
      Inside inside(at, *n);
      const RoleLoop* loop = all.plan.find(s);
      return around(loop ? loads(*loop) : part(n->body), [&](const Stmt& body) {
        Loop kind = n->loop == Loop::pipelined ? Loop::serial : n->loop;
        return for_loop(n->var, n->min, n->extent, kind, body, n->span);
      });
    }
    if (auto* n = s.as<If>()) {
      std::vector<Stmt> yes = arm(*n, true), no = arm(*n, false);
      if (without_names(yes).empty() && without_names(no).empty()) return {};
      return {if_then(n->cond, block(yes, n->span), no.empty() ? Stmt() : block(no, n->span), n->span)};
    }
    return {};
  }
  std::vector<Stmt> arm(const If& n, bool holds) {
    Inside inside(at, n.cond, holds);
    return part(holds ? n.then_body : n.else_body);
  }
  static std::vector<Stmt> without_names(std::vector<Stmt> stmts) {
    std::erase_if(stmts, [](auto& s) { return s.template as<Let>() != nullptr; });
    return stmts;
  }
  static std::vector<Stmt> around(const std::vector<Stmt>& stmts,
                                  const std::function<Stmt(const Stmt&)>& make) {
    if (without_names(stmts).empty()) return {};
    return {make(block(stmts, stmts.back()->span))};
  }
  // Names that nothing uses may stand for what only the other role can know.
  static Stmt without_unused(Stmt body) {
    for (;;) {
      std::set<const ExprNode*> used;
      visit(body, [&](const Var& v) { used.insert(&v); });
      bool dropped = false;
      body = rewrite(body, [&](const Let& n, Rewriter& self) -> Stmt {
        if (used.contains(n.var.get())) return self.children(n);
        dropped = true;
        return block({}, n.span);
      });
      if (!dropped) return body;
    }
  }
};

// ── the role that computes ──────────────────────────────────────────────────────────────────────────────
struct Computer : ScopedRewriter {
  DividedKernel& all;
  explicit Computer(DividedKernel& all) : all(all) { enter(all.f, all.k); }

  using ScopedRewriter::operator();
  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Block>()) find_cleared(*n);
    if (all.dropped.contains(s.get())) return block({}, s->span);
    if (const RoleLoop* loop = all.plan.find(s)) return turns(*loop);
    for (auto& store : all.stores)
      if (store.copy.same(s)) return store_in_parts(all.f, all.k, all.target, store);
    return children(s);
  }
  // Sums that are cleared in front of a loop whose first turn certainly comes: its first product may clear
  // them, which costs nothing.
  void find_cleared(const Block& b) {
    for (size_t i = 0; i < b.stmts.size(); i++) {
      auto* t = b.stmts[i].as<Tile>();
      if (!t || t->op->name != "clear" || !is_whole(region_of(*t, 0), all.f)) continue;
      BufferId sums = region_of(*t, 0).buffer;
      size_t next = i + 1;
      while (next < b.stmts.size() && !use_of(all.f, b.stmts[next], sums).touched) next++;
      const RoleLoop* loop = next < b.stmts.size() ? all.plan.find(b.stmts[next]) : nullptr;
      if (!loop || !can_prove(le(imm(1), cast(i64, loop->loop.as<For>()->extent)), facts)) continue;
      for (auto& s : loop->body)
        if (loop->in_flight.contains(s.get()) && region_of(*s.as<Tile>(), 2).buffer == sums &&
            !s.as<Tile>()->attrs.find("clear_accum")) {
          all.clearing.insert(s.get());
          all.dropped.insert(t);
        }
    }
  }
  Stmt with_slot(const RoleLoop& loop, const Stmt& s, const Expr& turn) const {
    return with_slots(s, [&](BufferId b, size_t) -> Expr {
      bool in_ring =
          std::ranges::any_of(loop.rings, [&](auto& r) { return std::ranges::count(r.tiles, b) > 0; });
      return in_ring ? all.slot(loop, turn) : Expr();
    });
  }
  static Stmt in_flight(const Stmt& s, const Expr& clears) {
    auto& t = *s.as<Tile>();
    Attrs attrs = t.attrs;
    attrs.entries["in_flight"] = int64_t(1);
    if (clears) attrs.entries["clear_accum"] = clears;
    return tile(*t.op, t.operands, std::move(attrs), t.span, t.body);
  }
  Stmt wait_for_products(int64_t left, Span span) const {
    return all.instruction("wgmma_wait_group", {imm(left, i32)}, span);
  }

  Stmt turns(const RoleLoop& loop) {
    auto& n = *loop.loop.as<For>();
    std::vector<Stmt> out, in_turn;
    Expr turn = all.named_turn(loop, context, in_turn);
    bool late = !loop.in_flight.empty();
    for (size_t i = 0; i < loop.body.size(); i++) {
      const Stmt& s = loop.body[i];
      for (auto& ring : loop.rings)
        if (ring.first == i) in_turn.push_back(all.wait(all.words.at(&ring).full, loop, turn, false));
      Stmt made = with_slot(loop, s, turn);
      Expr clears = all.clearing.contains(s.get()) ? eq(n.var, n.min) : Expr();
      in_turn.push_back(loop.in_flight.contains(s.get()) ? in_flight(made, clears) : made);
      for (auto& ring : loop.rings)
        if (ring.last == i && !late)
          in_turn.push_back(
              all.arrive(all.words.at(&ring).empty, all.slot(loop, turn), ring.read_by_threads, s->span));
    }
    if (late) release_late(loop, turn, in_turn);
    if (all.is_counted(loop)) in_turn.push_back(all.count(loop));
    out.push_back(for_loop(n.var, n.min, n.extent, Loop::serial, block(std::move(in_turn), n.span), n.span));
    if (late) drain(loop, turn, out);
    return block(std::move(out), n.span);
  }
  // The products of the turn before are done: their slots are free.
  void release_late(const RoleLoop& loop, const Expr& turn, std::vector<Stmt>& out) const {
    auto& n = *loop.loop.as<For>();
    out.push_back(wait_for_products(int64_t(loop.in_flight.size()), n.span));
    std::vector<Stmt> released;
    for (auto& ring : loop.rings)
      released.push_back(
          all.arrive(all.words.at(&ring).empty, all.slot(loop, turn - 1), ring.read_by_threads, n.span));
    out.push_back(if_then(lt(n.min, n.var), block(std::move(released), n.span), {}, n.span));
  }
  // Behind the loop. Its last slots are given back where it may be reached again; where it had no turn, at a
  // word that nobody waits for: a condition would keep the device compiler from letting products run.
  void drain(const RoleLoop& loop, const Expr& turn, std::vector<Stmt>& out) {
    auto& n = *loop.loop.as<For>();
    out.push_back(wait_for_products(0, n.span));
    if (context.loops.size() < 2 && context.whiles.empty()) return;
    Expr last = all.is_counted(loop)
                    ? cast(i64, load(i32, all.counters.at(&loop), {}, n.span)) - 1
                    : substitute(turn, {{n.var.get(), n.min + n.extent - imm(1, n.extent->dtype)}});
    Expr slot = all.slot(loop, last);
    if (!as_int(n.extent)) slot = select(lt(imm(0, n.extent->dtype), n.extent), slot, imm(loop.slots));
    for (auto& ring : loop.rings)
      out.push_back(all.arrive(all.words.at(&ring).empty, slot, ring.read_by_threads, n.span));
  }
};

// ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────
void make_words(DividedKernel& all, std::vector<Stmt>& out) {
  std::vector<BarrierWords> made;
  int64_t warp = all.target.warp;
  for (auto& loop : all.plan.loops)
    for (auto& ring : loop.rings) {
      Span span = loop.loop->span;
      size_t slots = size_t(loop.slots), spare = as_int(loop.loop.as<For>()->extent) ? 0 : 1;
      const std::string& name = all.f[ring.tiles[0]].name;
      RingWords words{add_barrier_words(all.f, name + "_full", slots, span),
                      add_barrier_words(all.f, name + "_empty", slots + spare, span)};
      made.push_back({words.full, std::vector<int64_t>(slots, loading_threads / warp)});
      made.push_back({words.empty, std::vector<int64_t>(slots + spare, all.plan.consumers / warp)});
      all.words.emplace(&ring, words);
    }
  for (auto& stmt : initialised(all.f, made, all.k.body->span, eq(all.k.thread, imm(0)))) out.push_back(stmt);
}

void report(DividedKernel& all) {
  const RolePlan& p = all.plan;
  for (auto& loop : p.loops) {
    std::vector<std::string> rings;
    for (auto& ring : loop.rings) {
      std::vector<std::string> names;
      for (BufferId b : ring.tiles) names.push_back(all.f[b].name);
      rings.push_back(fmt::format("{} in {} slots", fmt::join(names, " and "), loop.slots));
    }
    std::string registers =
        p.load_registers ? fmt::format(" ({} and {} registers)", p.load_registers, p.compute_registers) : "";
    all.f.notes.push_back(
        {"assign_roles", "loop " + loop.loop.as<For>()->var.as<Var>()->hint,
         fmt::format("the threads [{}, {}) load {} by TMA, the threads [0, {}) compute{}; {}", p.consumers,
                     p.consumers + loading_threads, fmt::join(rings, ", "), p.consumers, registers,
                     loop.in_flight.empty() ? "each product is waited for at once"
                                            : "products stay in flight until the next have begun"),
         loop.loop->span, false});
  }
}

// What leaves behind the loops leaves beside the loads of the next tile.
void plan_stores(DividedKernel& all) {
  int64_t left = all.plan.free_bytes;
  std::vector<Stmt> copies;
  walk(all.k.body, {.team = whole_block(all.k)}, [&](const Stmt& s, const WalkContext&) {
    if (s.as<Tile>()) copies.push_back(s);
    return !all.plan.find(s);
  });
  for (auto& s : copies)
    if (auto store = plan_parts(all.f, all.k, all.target, s, left)) {
      const BufferInfo& stage = all.f[store->stage];
      left -= product(tile_shape(stage)) * stage.dtype.bits / 8;
      all.stores.push_back(*store);
    }
}

void divide(Function& f, Kernel& k, const Target& target, const RolePlan& plan) {
  DividedKernel all{.f = f, .k = k, .target = target, .plan = plan};
  std::vector<Stmt> out;
  plan_stores(all);
  walk_grid(f, k, target.multiprocessors.count * plan.blocks);
  for (auto& store : all.stores) out.push_back(alloc(store.stage, store.copy->span));
  make_words(all, out);
  std::set<BufferId> tiles;
  for (auto& loop : plan.loops)
    for (auto& ring : loop.rings)
      for (BufferId b : ring.tiles) {
        tiles.insert(b);
        f[b].slots = loop.slots;
        give_slots(f[b]);
        out.push_back(alloc(b, f[b].span));
      }
  Span span = k.body->span;
  Stmt loading =
      Loader::without_unused(block(Loader{.all = all, .at = {.team = whole_block(k)}}.part(k.body), span));
  Stmt computing = Computer(all)(k.body);
  computing = rewrite(computing, [&](const Alloc& n, Rewriter&) -> Stmt {
    return tiles.contains(n.buffer) ? block({}, n.span) : Stmt(&n);
  });
  if (!all.stores.empty())
    computing =
        block({computing, all.instruction("cp_async_bulk_wait_group_read", {imm(0, i32)}, span)}, span);
  auto with_registers = [&](const Stmt& part, std::string_view row, int64_t registers) {
    if (!registers) return part;
    return block({all.instruction(row, {imm(registers, i32)}, span), part}, span);
  };
  for (auto& [loop, counter] : all.counters) {
    out.push_back(alloc(counter, span));
    out.push_back(store(counter, {}, imm(0, i32), span));
  }
  auto team = [&](int64_t first, int64_t count, int64_t barrier, const Stmt& part) {
    Attrs attrs;
    attrs.entries["barrier"] = barrier;
    attrs.entries["role"] = first ? "load" : "compute";
    out.push_back(group(first, count, part, span, 0, std::move(attrs)));
  };
  team(plan.consumers, loading_threads, 2,
       renamed(with_registers(loading, "setmaxnreg_dec", plan.load_registers)));
  team(0, plan.consumers, 1, with_registers(computing, "setmaxnreg_inc", plan.compute_registers));
  report(all);
  k.threads = {plan.consumers + loading_threads};
  if (plan.load_registers || plan.blocks > 1) k.attrs.entries["min_blocks_per_sm"] = plan.blocks;
  k.body = block(std::move(out), span);
}

}  // namespace

Function assign_roles(Function f, const Target& target) {
  if (target.warpgroup.empty()) return f;
  for (size_t i = 0; i < f.kernels.size(); i++) {
    RolePlan plan = plan_roles(f, f.kernels[i], target);
    if (!plan.loops.empty()) divide(f, f.kernels[i], target, plan);
    for (std::string hint : {"no_set_max_nreg", "disable_warp_group_reg_alloc"})
      f.kernels[i].attrs.entries.erase(hint);
  }
  return f;
}

}  // namespace tl
