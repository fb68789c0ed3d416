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

#include "base/product.h"
#include "ops/mapping.h"
#include "pass/barrier_words.h"
#include "pass/passes.h"
#include "pass/resident_blocks.h"
#include "pass/role_parts.h"
#include "pass/slots.h"

namespace tl {
namespace {

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

std::string how_products_run(const Function& f, const RoleLoop& loop) {
  if (loop.late.empty()) return "products stay in flight until the next have begun";
  std::vector<std::string> sums;
  for (size_t place : loop.late) sums.push_back(f[region_of(*loop.body[place].as<Tile>(), 2).buffer].name);
  return fmt::format("the products that {} sums up are begun a turn late, and run while threads compute the "
                     "next turn's factors",
                     fmt::join(sums, " and "));
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
                     how_products_run(all.f, loop)),
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
  Span span = k.body->span;
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
  for (auto& loop : plan.loops)
    if (loop.anchored) {
      const BufferInfo& kept = f[loop.anchor];
      BufferId id = f.add({.name = kept.name + "_kept",
                           .dtype = kept.dtype,
                           .shape = kept.shape,
                           .scope = Scope::shared,
                           .span = kept.span});
      all.anchors.emplace(&loop, id);
      out.push_back(alloc(id, kept.span));
    }
  Stmt loading = loading_part(all), computing = computing_part(all);
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
