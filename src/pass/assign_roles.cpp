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
#include <optional>

#include "base/error.h"
#include "base/product.h"
#include "ops/gemm.h"
#include "ops/mapping.h"
#include "pass/barrier_words.h"
#include "pass/block_order.h"
#include "pass/passes.h"
#include "pass/role_parts.h"
#include "pass/slots.h"
#include "pass/tile_lists.h"
#include "pass/turns.h"
#include "target/said.h"

namespace tl {
namespace {

// Behind a loop of unknown length, whose last products are in flight at its end, what gives their slots back
// needs a word even where there was no turn.
bool has_spare(const RoleLoop& loop) { return loop.late.empty() && !as_int(loop.loop.as<For>()->extent); }

// Are the first loads, for which slots are free, begun by the thread that makes the barriers, while the
// block's others still come?  Measured: 1 to 3 % of a kernel of 6 us, nothing of a long one
// (bench/results/2026-11-28-launch.md). A grid that only the call knows may be as small.
bool may_load_ahead(const DividedKernel& all) {
  if (all.target.early_turns == 0) return false;
  std::optional<int64_t> blocks = blocks_of_grid(all.k);
  if ((blocks && *blocks > all.target.multiprocessors.count) || wants_timeline(all.k)) return false;
  if (all.plan.loops.size() > 1 || !all.plan.loads.empty()) return false;
  const RoleLoop& loop = all.plan.loops[0];
  std::optional<int64_t> turns = as_int(loop.loop.as<For>()->extent);
  bool reached = false;
  walk(all.k.body, {.team = whole_block(all.k)}, [&](const Stmt& s, const WalkContext& at) {
    if (s.same(loop.loop))
      reached = at.loops.size() <= (blocks ? 0 : 1) && at.whiles.empty() && at.conditions.empty();
    return true;
  });
  return reached && (turns ? *turns > loop.slots : !blocks);
}

void make_words(DividedKernel& all, std::vector<Stmt>& out) {
  std::vector<BarrierWords> made;
  int64_t warp = all.target.warp;
  for (auto& loop : all.plan.loops)
    for (auto& ring : loop.rings) {
      Span span = loop.loop->span;
      size_t slots = size_t(loop.slots), spare = has_spare(loop) ? 1 : 0;
      const std::string& name = all.f[ring.tiles[0]].name;
      RingWords words{add_barrier_words(all.f, name + "_full", slots, span),
                      add_barrier_words(all.f, name + "_empty", slots + spare, span)};
      made.push_back({words.full, std::vector<int64_t>(slots, warps_that_load)});
      made.push_back({words.empty, std::vector<int64_t>(slots + spare, all.plan.consumers / warp)});
      all.words.emplace(&ring, words);
    }
  for (auto& load : all.plan.loads) {
    const std::string name = all.f[load.tile].name;
    auto slots = size_t(all.slots(load));
    RingWords words{add_barrier_words(all.f, name + "_full", slots, load.copy->span),
                    add_barrier_words(all.f, name + "_empty", slots, load.copy->span)};
    made.push_back({words.full, std::vector<int64_t>(slots, warps_that_load)});
    made.push_back({words.empty, std::vector<int64_t>(slots, all.plan.consumers / warp)});
    all.words.emplace(&load, words);
  }
  Expr first = eq(all.k.thread, imm(all.loads_ahead ? all.plan.consumers : 0));
  for (auto& stmt : initialised(all.f, made, all.k.body->span, first)) out.push_back(stmt);
}

std::string how_products_run(const Function& f, const RoleLoop& loop) {
  if (loop.late.empty()) return "products stay in flight until the next have begun";
  std::vector<std::string> sums;
  for (size_t place : loop.late) sums.push_back(f[region_of(*loop.body[place].as<Tile>(), 2).buffer].name);
  return fmt::format(
      "the products that {} sums up are begun a turn late, and run while threads compute the "
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
    std::string first =
        all.loads_ahead
            ? fmt::format("; the first {} turns' loads begin while the block's threads still come",
                          all.early_turns(loop))
            : "";
    all.f.notes.push_back(
        {"assign_roles", "loop " + loop.loop.as<For>()->var.as<Var>()->hint,
         fmt::format("the threads [{}, {}) load {} by TMA, the threads [0, {}) compute{}; {}{}", p.consumers,
                     p.consumers + loading_threads, fmt::join(rings, ", "), p.consumers, registers,
                     how_products_run(all.f, loop), first),
         loop.loop->span, false});
  }
  for (auto& load : p.loads) {
    std::string_view slots =
        all.two_slots.contains(&load)     ? "2 slots: the next one lands while this one is in use"
        : all.kept_to_one.contains(&load) ? "one slot, as there is no memory for a second one"
                                          : "one slot";
    all.f.notes.push_back({"assign_roles", all.f[load.tile].name,
                           fmt::format("loaded by the same warps beside the loops, in {}", slots),
                           load.copy->span});
  }
}

// How blocks share the grid.
struct GridPlan {
  BlockOrder order;
  int64_t resident;                     // blocks that run at once
  bool walks;                           // do they go through the grid, from tile to tile?
  std::optional<TileLists> lists = {};  // where tiles differ in length
};
GridPlan plan_grid(const Function& f, const Kernel& k, const Target& target, const RolePlan& plan) {
  std::vector<Stmt> loads;
  for (auto& loop : plan.loops)
    for (auto& ring : loop.rings) loads.insert(loads.end(), ring.copies.begin(), ring.copies.end());
  int64_t resident = target.multiprocessors.count * plan.blocks;
  GridPlan grid{.order = plan_block_order(f, k, loads, resident),
                .resident = resident,
                .walks = blocks_of_grid(k).value_or(resident + 1) > resident};
  if (grid.walks && !has_even_blocks(k, plan)) {
    grid.lists = plan_tile_lists(k, plan, grid.order, resident);
    grid.walks = grid.lists.has_value();
  }
  return grid;
}

int64_t bytes_of(const BufferInfo& tile) { return product(tile_shape(tile)) * tile.dtype.bits / 8; }

// What leaves behind the loops leaves beside the loads of the next tile.  Gives the bytes that are still
// free.
int64_t plan_stores(DividedKernel& all, bool walks) {
  int64_t left = all.plan.free_bytes;
  std::vector<std::pair<Stmt, bool>> copies;  // whether the program comes there in a loop
  walk(all.k.body, {.team = whole_block(all.k)}, [&](const Stmt& s, const WalkContext& at) {
    if (s.as<Tile>()) copies.push_back({s, !at.loops.empty() || !at.whiles.empty()});
    return !all.plan.find(s);
  });
  for (auto& [s, in_loop] : copies)
    if (auto store = plan_parts(all.f, all.k, all.target, s, left, !walks && !in_loop)) {
      store->again = in_loop;
      left -= bytes_of(all.f[store->stage]);
      all.stores.push_back(*store);
    }
  return left;
}

// Tiles beside the loops have two slots where they are loaded again and again, and there is memory: the next
// one then is there before what is at work on this one has ended, and with it the first tiles of the loop
// behind.
void plan_loads(DividedKernel& all, int64_t left) {
  bool short_of_memory = all.k.attrs.find("one_slot_beside");  // there was none, once all scratch was known
  walk(all.k.body, {.team = whole_block(all.k)}, [&](const Stmt& s, const WalkContext& at) {
    const RoleLoad* load = all.plan.find_load(s);
    bool again = load && load->may_have_slots && !at.loops.empty() && turn_of(at);
    if (!again) return true;
    if (short_of_memory || bytes_of(all.f[load->tile]) > left) {
      all.kept_to_one.insert(load);
      return true;
    }
    left -= bytes_of(all.f[load->tile]);
    all.two_slots.insert(load);
    all.k.attrs.entries.insert_or_assign("two_slots_beside", int64_t(1));  // for plan_memory
    return true;
  });
}

// Those that the role that loads fills, which both roles see, and what keeps work beside products.
std::set<BufferId> make_tiles(DividedKernel& all, std::vector<Stmt>& out) {
  Function& f = all.f;
  std::set<BufferId> tiles;
  for (auto& loop : all.plan.loops)
    for (auto& ring : loop.rings)
      for (BufferId b : ring.tiles) {
        tiles.insert(b);
        f[b].slots = loop.slots;
        give_slots(f[b]);
        out.push_back(alloc(b, f[b].span));
      }
  for (auto& load : all.plan.loads) {
    tiles.insert(load.tile);
    f[load.tile].slots = all.slots(load);
    give_slots(f[load.tile]);
    out.push_back(alloc(load.tile, f[load.tile].span));
  }
  for (auto& loop : all.plan.loops)
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
  return tiles;
}

void order_blocks(Function& f, Kernel& k, const GridPlan& grid) {
  if (grid.walks)
    walk_grid(f, k, grid.resident, grid.order, grid.lists);
  else
    reorder_grid(f, k, grid.resident, grid.order);
}

// Each role's statements, with stamps where they are asked for.
std::pair<Stmt, Stmt> parts_of(DividedKernel& all, RoleStamps* stamps) {
  all.stamps = stamps;
  if (!stamps) return {loading_part(all, all.loads_ahead ? Turns::later : Turns::all), computing_part(all)};
  stamps->begin_role(0, all.plan.consumers);
  Stmt loading = stamps->whole_role(loading_part(all));
  stamps->begin_role(1, 0);
  return {loading, computing_part(all)};
}

// Do the warpgroups go through the tiles together?  Measured: where all they do is products of operands that
// both lie along K, they are up to 1 % slower apart, as their slots are then held longer; with B along N, and
// with work of threads in between, up to 1 % faster (bench/results/2026-11-28-groups.md). But apart in loops
// of 128 turns with such work they are 6 % slower, and their times vary (2026-11-28-launch.md); not so where
// blocks walk from tile to tile of different lengths (0.2 to 2 % faster; 2026-11-28-uniform.md).
bool keeps_step(const Function& f, const RolePlan& plan, bool uneven_walk) {
  constexpr int64_t most_turns_apart = 64;
  bool along_K = true;
  for (auto& loop : plan.loops) {
    std::optional<int64_t> turns = as_int(loop.loop.as<For>()->extent);
    bool many = turns ? *turns > most_turns_apart : !uneven_walk;
    if (!loop.late.empty() && many) return true;
    along_K &= loop.late.empty();
    for (auto* s : loop.in_flight) {
      Gemm g = read_gemm(*static_cast<const Tile*>(s), f);
      along_K &= !g.trans_a && g.trans_b;
    }
  }
  return along_K;
}

constexpr auto waits_for_kernel = [](const Call& n) { return n.intrinsic == &pdl_sync; };
// What has found its place in front of both roles: the tiles, and the program's wait for the kernel in front
// of it, which is as right before anything else.
Stmt without(const Stmt& computing, const std::set<BufferId>& tiles) {
  return rewrite(
      computing,
      [&](const Alloc& n, Rewriter&) -> Stmt {
        return tiles.contains(n.buffer) ? block({}, n.span) : Stmt(&n);
      },
      [&](const Eval& n, Rewriter&) -> Stmt {
        auto* called = n.value.as<Call>();
        return called && waits_for_kernel(*called) ? block({}, n.span) : Stmt(&n);
      });
}

void wait_first(DividedKernel& all, std::vector<Stmt>& out) {
  out.push_back(eval(call(pdl_sync, {}, all.k.span), all.k.span));
  all.f.notes.push_back({"assign_roles", all.k.name,
                         "all threads wait for the kernel in front of it before anything else, wherever the "
                         "program's pdl_sync stands",
                         all.k.span});
}

void begin_counters(const DividedKernel& all, std::vector<Stmt>& out) {
  for (auto& [loop, counter] : all.counters) {
    out.push_back(alloc(counter, all.k.span));
    out.push_back(store(counter, {}, imm(0, i32), all.k.span));
  }
}

void divide(Function& f, size_t kernel, const Target& target, const RolePlan& plan) {
  Kernel& k = f.kernels[kernel];
  Span span = k.body->span;
  DividedKernel all{.f = f, .k = k, .target = target, .plan = plan};
  std::vector<Stmt> out;
  GridPlan grid = plan_grid(f, k, target, plan);
  int64_t left = plan_stores(all, grid.walks);
  order_blocks(f, k, grid);
  plan_loads(all, left);
  for (auto& store : all.stores) out.push_back(alloc(store.stage, store.copy->span));
  all.loads_ahead = may_load_ahead(all);
  make_words(all, out);
  std::vector<Stmt> made(out.end() - 2, out.end());  // the barriers are initialised, and all threads come
  if (all.loads_ahead) out.resize(out.size() - made.size());
  std::set<BufferId> tiles = make_tiles(all, out);
  std::optional<RoleStamps> stamps;
  if (wants_timeline(k)) stamps.emplace(f, kernel, out);
  auto [loading, computing] = parts_of(all, stamps ? &*stamps : nullptr);
  if (contains(computing, waits_for_kernel)) wait_first(all, out);
  computing = without(computing, tiles);
  if (!all.stores.empty())
    computing =
        block({computing, all.instruction("cp_async_bulk_wait_group_read", {imm(0, i32)}, span)}, span);
  if (stamps) {
    computing = stamps->whole_role(computing);
    stamps->describe();
  }
  auto by_warps = [&](const Stmt& loads, Attrs attrs) {
    return group(plan.consumers, warps_that_load * target.warp, renamed(loads), span, 0, std::move(attrs));
  };
  Stmt first = all.loads_ahead ? loading_part(all, Turns::first) : Stmt();
  begin_counters(all, out);
  if (first) {
    Attrs role;
    role.entries["role"] = "first loads";
    out.push_back(by_warps(block({made[0], first}, span), std::move(role)));
    out.push_back(made[1]);
  }
  auto with_registers = [&](const Stmt& part, std::string_view row, int64_t registers) {
    if (!registers) return part;
    return block({all.instruction(row, {imm(registers, i32)}, span), part}, span);
  };
  auto team = [&](int64_t first, int64_t count, int64_t barrier, const Stmt& part) {
    Attrs attrs;
    attrs.entries["barrier"] = barrier;
    if (count > Team::group && !keeps_step(f, plan, grid.lists.has_value()))
      attrs.entries["group_barriers"] = barrier + 2;
    attrs.entries["role"] = first ? "load" : "compute";
    out.push_back(group(first, count, part, span, 0, std::move(attrs)));
  };
  team(plan.consumers, loading_threads, 2,
       with_registers(by_warps(loading, {}), "setmaxnreg_dec", plan.load_registers));
  team(0, plan.consumers, 1, with_registers(computing, "setmaxnreg_inc", plan.compute_registers));
  report(all);
  k.threads = {plan.consumers + loading_threads};
  if (plan.load_registers || plan.blocks > 1) k.attrs.entries["min_blocks_per_sm"] = plan.blocks;
  k.body = block(std::move(out), span);
}

// A timeline is that of roles: without any there is nothing to measure.
void refuse_timeline(const Function& f, const Target& target) {
  std::vector<std::string> why;
  for (const Note& n : f.notes)
    if (n.pass == "assign_roles")  // of kernels without roles it says nothing else
      why.push_back(fmt::format("{} (line {}): {}", n.subject, n.span.line, n.text));
  if (target.warpgroup.empty())
    why = {fmt::format("{} has no products of warpgroups, which roles are for", said(target))};
  else if (why.empty())
    why = {"none is a T.Pipelined loop of several stages and turns"};
  fail(f.span, "{} has no timeline to measure, because its loops are not divided among roles: {}", f.name,
       fmt::join(why, "; "));
}

}  // namespace

Function assign_roles(Function f, const Target& target) {
  bool divided = false, asked = std::ranges::any_of(f.kernels, wants_timeline);
  if (target.warpgroup.empty()) {
    if (asked) refuse_timeline(f, target);
    return f;
  }
  for (size_t i = 0; i < f.kernels.size(); i++) {
    RolePlan plan = plan_roles(f, f.kernels[i], target);
    divided |= !plan.loops.empty();
    if (!plan.loops.empty())
      divide(f, i, target, plan);
    else
      f.kernels[i].attrs.entries.erase(std::string(role_record::called));
    f.kernels[i].body = rewrite(f.kernels[i].body, [](const For& n, Rewriter& self) -> Stmt {
      if (!n.attrs.find("may_divide")) return self.children(n);
      Attrs attrs = n.attrs;
      attrs.entries.erase("may_divide");
      return for_loop(n.var, n.min, n.extent, n.loop, self(n.body), n.span, std::move(attrs));
    });
    for (std::string hint : {"no_set_max_nreg", "disable_warp_group_reg_alloc", "one_slot_beside"})
      f.kernels[i].attrs.entries.erase(hint);
  }
  if (asked && !divided) refuse_timeline(f, target);
  return f;
}

}  // namespace tl
