#include "pass/role_plan.h"

#include <algorithm>

#include "base/product.h"
#include "ops/gemm.h"
#include "ops/mapping.h"
#include "ops/regions.h"
#include "pass/loading_warps.h"
#include "pass/product_plan.h"
#include "pass/schedule.h"
#include "pass/slots.h"
#include "pass/tile_use.h"
#include "pass/turns.h"
#include "target/effects.h"

namespace tl {

std::optional<int64_t> blocks_of_grid(const Kernel& k) {
  int64_t blocks = 1;
  for (auto& e : k.grid) {
    auto extent = as_int(e);
    if (!extent) return std::nullopt;
    blocks *= *extent;
  }
  return blocks;
}
namespace {

constexpr int64_t most_blocks = 2;  // of a multiprocessor

bool is_gemm(const Stmt& s) { return s.as<Tile>() && s.as<Tile>()->op->name == "gemm"; }

// Those that the kernel touches, each memory once.
std::set<BufferId> buffers_of(const Function& f, const Kernel& k) {
  std::set<BufferId> found;
  visit_effects(k.body, [&](const Stmt&, const Effect& e) { found.insert(f.storage(e.buffer)); });
  return found;
}
// Of a block, with all slots.
int64_t shared_bytes(const Function& f, const Kernel& k, const RolePlan& plan) {
  int64_t bytes = 0;
  for (BufferId b : buffers_of(f, k)) {
    const BufferInfo& info = f[b];
    if (info.scope != Scope::shared) continue;
    int64_t slots = 1;
    for (auto& loop : plan.loops)
      for (auto& ring : loop.rings)
        if (std::ranges::count(ring.tiles, b)) slots = loop.slots;
    bytes += product(tile_shape(info)) * info.dtype.bits / 8 * slots;
  }
  return bytes;
}
int64_t fragment_registers(const Function& f, const Kernel& k) {
  int64_t bytes = 0;
  for (BufferId b : buffers_of(f, k))
    if (f[b].scope == Scope::fragment) bytes += product(tile_shape(f[b])) * f[b].dtype.bits / 8;
  return bytes / 4 / thread_count(k);
}
// Registers that one instruction sums in, at most.
int64_t sums_of_product(const RolePlan& plan) {
  int64_t columns = 0;
  for (auto& loop : plan.loops)
    for (auto* s : loop.in_flight) {
      std::vector<int64_t> sums = region_shape(region_of(*static_cast<const Tile*>(s), 2));
      bool transposed = sums.front() % WarpgroupInstr::m != 0;
      columns = std::max(columns, transposed ? sums.front() : sums.back());
    }
  return std::min<int64_t>(256, columns) / 2;
}
// Of a thread, for the fragments of a loop with late products, which all are alive at once.
int64_t registers_of(const Function& f, const RoleLoop& loop, int64_t threads) {
  std::set<BufferId> fragments;
  for (auto& s : loop.body)
    visit_effects(s, [&](const Stmt&, const Effect& e) {
      if (f[e.buffer].scope == Scope::fragment) fragments.insert(e.buffer);
    });
  int64_t bits = 0;
  for (BufferId b : fragments) bits += product(tile_shape(f[b])) * f[b].dtype.bits;
  return bits / 32 / threads;
}
bool is_for_two_turns(const RoleLoop& loop, const RoleRing& ring) {
  auto is_late = [&](size_t place) { return std::ranges::count(loop.late, place) > 0; };
  return std::ranges::any_of(ring.readers, is_late) && !std::ranges::all_of(ring.readers, is_late);
}
// Why the registers, or the slots, do not hold what late products keep alive; or "".
std::string why_too_late(const Function& f, const RolePlan& plan, int64_t registers) {
  constexpr int64_t spare = 28;  // for addresses, what rows have in common, and steps of the threads' work
  for (auto& loop : plan.loops) {
    int64_t needed = loop.late.empty() ? 0 : registers_of(f, loop, plan.consumers);
    if (needed && needed + spare > std::min<int64_t>(255, registers))
      return fmt::format(
          "with products begun a turn late, fragments of {} registers a thread are alive at once, of the {} "
          "that it has",
          needed, registers);
    // One for the product of this turn, one for the late one, and one that is being loaded.
    for (auto& ring : loop.rings)
      if (loop.slots < 3 && is_for_two_turns(loop, ring))
        return fmt::format(
            "{} is used in a turn and, by a product begun late, in the next one: with {} slots "
            "none is left to load ahead",
            f[ring.tiles[0]].name, loop.slots);
  }
  return "";
}
// What fits besides, to store sums from: two parts of 64 bytes a row.
int64_t store_bytes(const Function& f, const Kernel& k) {
  int64_t rows = 0;
  for (BufferId b : buffers_of(f, k))
    if (f[b].scope == Scope::fragment && f[b].shape.size() == 2) rows = std::max(rows, tile_shape(f[b])[0]);
  return 2 * rows * 64;
}
// A product in flight holds a slot, and what lands late is waited for: slots beyond the program's wish cost
// nothing but memory, which nobody else wants. As many as fit where a loop comes once, in blocks that begin
// together with nothing in any cache; else a number that is quick to divide by.
void add_slots(const Function& f, const Kernel& k, RolePlan& plan, int64_t bytes, bool lonely) {
  for (auto& loop : plan.loops)
    for (int64_t slots : {8, 7, 6, 5, 4}) {
      bool once = lonely && loop.most_slots < INT64_MAX;
      if (!once && slots % 4) continue;
      int64_t asked = loop.slots;
      if (slots <= asked || slots > loop.most_slots) continue;
      loop.slots = slots;
      if (shared_bytes(f, k, plan) + store_bytes(f, k) <= bytes) break;
      loop.slots = asked;
    }
}
// Measured on blocks of different lengths that do not walk through the grid: nothing runs beside the
// beginning and the end of the only block of a multiprocessor; two of one role are up to 7 % faster, if they
// fit (bench/results/2026-11-28-launch.md).
std::string why_whole_blocks(const Function& f, const Kernel& k, const Target& target, const RolePlan& plan) {
  constexpr int64_t spare = 40;  // registers of a thread, beside its fragments
  const Multiprocessors& chip = target.multiprocessors;
  bool late = std::ranges::any_of(plan.loops, [](auto& loop) { return !loop.late.empty(); });
  if (late || most_blocks * (shared_bytes(f, k, plan) + chip.reserved_bytes) > chip.shared_bytes ||
      most_blocks * plan.consumers * (fragment_registers(f, k) + spare) > chip.registers)
    return "";
  return "some of its blocks have more to do than others: a multiprocessor runs two of them, which hide more "
         "than one with a role that loads";
}
// How many blocks a multiprocessor runs at once, and what their threads get of its registers and its memory;
// why that is too little, or "".
std::string share_chip(const Function& f, const Kernel& k, const Target& target, RolePlan& plan) {
  constexpr int64_t least = 24, most = 240, unit = 8, spare = 32;
  int64_t threads = plan.consumers + loading_threads;
  auto launched = [&](int64_t blocks) { return target.multiprocessors.launch_registers(threads, blocks); };
  auto share = [&](int64_t blocks) {
    int64_t all = threads * launched(blocks);
    return std::min(most, (all - least * loading_threads) / plan.consumers / unit * unit);
  };
  // Two blocks hide more than one, if each has four slots (three, if no tile of a block hides the end of
  // another) and a place to store from, and an instruction's registers are there at the launch; where the
  // grid has so few that none gets a second one, that memory is for slots.
  std::optional<int64_t> in_grid = blocks_of_grid(k);
  bool lonely = in_grid && *in_grid <= target.multiprocessors.count;
  bool even = has_even_blocks(k, plan);
  RolePlan wished = plan;
  for (auto& loop : wished.loops)
    loop.slots = std::max(loop.slots, std::min<int64_t>(even ? 4 : 3, loop.most_slots));
  int64_t needed = shared_bytes(f, k, wished) + store_bytes(f, k) + 2048;
  bool fits = !lonely && most_blocks * needed <= target.multiprocessors.shared_bytes &&
              fragment_registers(f, k) + spare <= share(most_blocks) &&
              sums_of_product(plan) + spare <= launched(most_blocks);
  int64_t given = k.attrs.get_int("min_blocks_per_sm");
  plan.blocks = given ? given : fits ? most_blocks : 1;
  if (!even && !given && !fits && !lonely)
    if (std::string why = why_whole_blocks(f, k, target, plan); !why.empty()) return why;
  constexpr int64_t between = 2048;  // bytes that barriers and the places of tiles may cost
  int64_t bytes =
      std::min(target.shared_bytes, target.multiprocessors.shared_bytes / plan.blocks - 1024) - between;
  add_slots(f, k, plan, bytes, lonely);
  plan.free_bytes = bytes - shared_bytes(f, k, plan);
  int64_t at_launch = launched(plan.blocks);
  if (sums_of_product(plan) + spare > at_launch)
    return fmt::format(
        "{} threads, {} of them to load, leave {} registers to a thread, too few for a product", threads,
        loading_threads, at_launch);
  bool moves = !k.attrs.find("no_set_max_nreg") && !k.attrs.find("disable_warp_group_reg_alloc");
  if (moves && share(plan.blocks) > at_launch) {
    plan.load_registers = least;
    plan.compute_registers = share(plan.blocks);
  }
  return why_too_late(f, plan, plan.compute_registers ? plan.compute_registers : at_launch);
}

// What keeps all of it in one role; "": nothing does.
std::string why_one_role(const Kernel& k, const Target& target) {
  if (k.attrs.find("own_barriers")) return "the program places its barriers itself";
  if (k.attrs.find("alignment"))
    return "the arrays of a call do not begin at multiples of 16 bytes, or are not known to";
  if (product(k.cluster) > 1) return "its blocks run in clusters";
  if (k.threads.size() > 1 && thread_count(k) != k.threads[0]) return "its threads have several dimensions";
  if (thread_count(k) % 128) return fmt::format("its {} threads are no whole warpgroups", thread_count(k));
  if (thread_count(k) + loading_threads > target.max_block[0]) return "no thread is left for a role";
  if (has_jumps(k.body)) return "its loops or threads end early";
  std::string why;
  visit(
      k.body,
      [&](const Group& n) { why = fmt::format("the program has teams of its own (line {})", n.span.line); },
      [&](const Call& n) {
        using Effect = Intrinsic::Effect;
        auto effect = n.intrinsic->effect;
        // Each role waits at its beginning for the kernel in front (assign_roles), and whoever stores says
        // when the next one may begin.
        bool dependent = n.intrinsic == &pdl_sync || n.intrinsic == &pdl_trigger;
        bool harmless = dependent || n.intrinsic->atomic != Intrinsic::Atomic::none ||
                        n.intrinsic->name == "assume_true" || n.intrinsic->name == "device_assert";
        bool orders = effect == Effect::barrier || effect == Effect::partial_barrier ||
                      (effect == Effect::memory && !harmless);
        if (orders || async_row_of(*n.intrinsic))
          why = fmt::format("the program calls {} itself", n.intrinsic->name);
      });
  if (contains(k.body, [&](const Var& v) { return k.thread && &v == k.thread.get(); }))
    why = "the program names threads";
  return why;
}

// Clocks of the tensor cores that the products of an iteration take.
int64_t clocks_of_products(const Function& f, const Target& target, const Stmt& body) {
  double clocks = 0;
  visit(body, [&](const Tile& t) {
    if (t.op->name != "gemm") return;
    std::vector<int64_t> sums = region_shape(region_of(t, 2)), left = region_shape(region_of(t, 0));
    DType type = f[region_of(t, 0).buffer].dtype;
    int64_t rate = tensor_rate(target, type);
    if (rate > 0) clocks += 2.0 * double(sums.back() * product(left)) / double(rate);
  });
  return int64_t(clocks);
}

// Measured: the accelerator moves rows, and those of 64 bytes at half the rate; then threads are quicker,
// unless a product takes long enough to hide it (f16 128x128x32 loses 5 to 14 %, int8 128x256x64 gains 40 %).
std::string why_too_short(const Function& f, const std::vector<const Early*>& loads, int64_t clocks) {
  constexpr int64_t row = 128, least_row = 64, enough = 512;
  int64_t all = 0, in_rows = 0, shortest = row;
  for (auto* e : loads) {
    int64_t bytes = product(tile_shape(f[e->tile])) * f[e->tile].dtype.bits / 8;
    int64_t own = tile_shape(f[e->tile]).back() * f[e->tile].dtype.bits / 8;
    all += bytes;
    if (own % row == 0) in_rows += bytes;
    shortest = std::min(shortest, own);
  }
  if (2 * in_rows >= all || (clocks >= enough && shortest >= least_row)) return "";
  return fmt::format(
      "most of its tiles have rows of no multiple of 128 bytes, which TMA moves slowly, and its products "
      "take {} clocks of the tensor cores, too few to hide that",
      clocks);
}

struct RolePlanner {
  Function& f;
  const Kernel& k;
  const Target& target;
  Team team = whole_block(k);
  LoadingWarps loading = loading_warps(f, k, target);

  // ── one loop ────────────────────────────────────────────────────────────────────────────────────────
  std::string why_not_loaded(const LoopPlanner& loop, const Early& e) const {
    if (!e.why_not.empty()) return e.why_not;
    if (!e.conditions.empty()) return "it stands under a condition";
    if (std::string why = loop.why_one_slot(e.tile); !why.empty()) return why;
    if (is_used_outside(loop, e.tile))
      return fmt::format("{} is used outside of the loop as well", f[e.tile].name);
    return loading.why_not(e.stmt, e.tensor, e.tile, true);
  }
  bool is_used_outside(const LoopPlanner& loop, BufferId tile) const {
    bool outside = false;
    walk(k.body, {.team = team}, [&](const Stmt& s, const WalkContext&) {
      if (s.same(loop.loop_stmt)) return false;
      for (auto& e : effects_of(s).list) outside |= e.buffer == tile && !s.as<Alloc>();
      return true;
    });
    return outside;
  }
  // The loop's loads, each in the ring of the statement that first uses its tile.
  std::string find_rings(LoopPlanner& loop, RoleLoop& out) const {
    std::vector<const Early*> loads;
    for (auto& e : loop.early)
      if (e.tensor && f[e.tile].scope == Scope::shared) {
        if (std::string why = why_not_loaded(loop, e); !why.empty())
          return fmt::format("the copy of {} to {}: {}", f[e.tensor].name, f[e.tile].name, why);
        loads.push_back(&e);
      }
    if (loads.empty()) return "it copies no tile from a tensor";
    if (std::string why = why_too_short(f, loads, clocks_of_products(f, target, loop.loop.body));
        !why.empty())
      return why;
    for (auto& s : loop.body)
      if (std::ranges::none_of(loads, [&](auto* e) { return e->stmt.same(s); }))
        (s.as<Alloc>() ? out.allocs : out.body).push_back(s);
    for (auto* e : loads) {
      std::vector<size_t> readers;
      bool by_threads = false;
      for (size_t i = 0; i < out.body.size(); i++) {
        if (!use_of(f, out.body[i], e->tile).touched) continue;
        readers.push_back(i);
        by_threads |= !is_gemm(out.body[i]) || !why_no_wgmma(f, k, target, out.body[i], true).empty();
      }
      if (readers.empty()) return fmt::format("it does not use {}", f[e->tile].name);
      auto ring = std::ranges::find_if(out.rings, [&](auto& r) { return r.first == readers[0]; });
      if (ring == out.rings.end()) ring = out.rings.insert(ring, {.first = readers[0]});
      ring->tiles.push_back(e->tile);
      ring->copies.push_back(e->stmt);
      std::vector<size_t> both;
      std::ranges::set_union(ring->readers, readers, std::back_inserter(both));
      ring->readers = std::move(both);
      ring->read_by_threads |= by_threads;
    }
    std::ranges::sort(out.rings, {}, &RoleRing::first);  // as the turns wait for them
    return "";
  }

  // Are there more turns than those of one run of the loop: for another tile of this block, or, as blocks
  // walk through the grid, of another one?
  bool is_repeated(const Stmt& loop) const {
    bool nested = false;
    walk(k.body, {.team = team}, [&](const Stmt& s, const WalkContext& at) {
      if (s.same(loop)) nested = !at.loops.empty();
      return true;
    });
    int64_t most = most_blocks * target.multiprocessors.count;
    return nested || blocks_of_grid(k).value_or(most + 1) > most;
  }

  std::string plan(const Stmt& s, RoleLoop& out) const {
    auto& loop = *s.as<For>();
    LoopPlanner planner{.f = f, .kernel = k, .target = target, .loop_stmt = s, .team = team};
    out.loop = s;
    out.slots = loop.attrs.get_int("num_stages");
    out.most_slots = as_int(loop.extent) && !is_repeated(s) ? *as_int(loop.extent) : INT64_MAX;
    if (k.attrs.find("most_stages")) out.most_slots = k.attrs.get_int("most_stages");
    out.slots = std::min(out.slots, out.most_slots);
    if (out.slots < 2) return "its tiles have one slot";
    if (has_given_schedule(planner.loop)) return "the program gives its order and stages";
    planner.read_body();
    if (std::string why = planner.why_in_order(); !why.empty()) return why;
    std::vector<std::pair<Expr, bool>> conditions;
    for (auto& inner : planner.body) planner.collect(inner, conditions);
    if (std::string why = find_rings(planner, out); !why.empty()) return why;
    std::string why = "it has no product";
    bool any = false;
    for (auto& inner : out.body)
      visit_nodes(inner, [&](const Node& n) {
        Stmt gemm(n.kind == Kind::Tile ? static_cast<const StmtNode*>(&n) : nullptr);
        if (!gemm || !is_gemm(gemm)) return;
        std::string no = why_no_wgmma(f, k, target, gemm, true);
        if (!no.empty()) why = "its product is not by wgmma: " + no;
        any |= no.empty();
      });
    if (!any) return why;
    // Measured: where threads look at each product at once, two blocks beside each other hide more than a
    // role that only loads (bench/results/2026-11-27-roles.md).
    if (std::string not_beside = plan_products(f, k, target, out); !not_beside.empty())
      return "its products would have to end where they stand: " + not_beside;
    return "";
  }

  // ── tiles beside the loops ──────────────────────────────────────────────────────────────────────────
  // The copies of a block with divided loops in it, whose tiles are used behind them there and nowhere else.
  void find_loads(const Stmt& s, RolePlan& plan) const {
    if (!s || plan.find(s)) return;
    if (auto* n = s.as<Block>()) {
      bool has_loops = contains(s, [&](const For& loop) { return plan.find(Stmt(&loop)) != nullptr; });
      for (size_t i = 0; i < n->stmts.size(); i++) {
        if (!has_loops) continue;
        if (auto load = load_of(*n, i)) plan.loads.push_back(*load);
      }
      for (auto& inner : n->stmts) find_loads(inner, plan);
    } else if (auto* loop = s.as<For>()) {
      find_loads(loop->body, plan);
    } else if (auto* branch = s.as<If>()) {
      find_loads(branch->then_body, plan);
      find_loads(branch->else_body, plan);
    }
  }
  std::optional<RoleLoad> load_of(const Block& b, size_t place) const {
    auto* t = b.stmts[place].as<Tile>();
    if (!t || t->op->name != "copy") return {};
    const Region &from = region_of(*t, 0), &to = region_of(*t, 1);
    if (f[from.buffer].scope != Scope::global || f[to.buffer].scope != Scope::shared || !is_whole(to, f))
      return {};
    constexpr int64_t row = 128;  // in bytes: TMA moves shorter ones slowly
    if (tile_shape(f[to.buffer]).back() * f[to.buffer].dtype.bits / 8 % row) return {};
    for (size_t i = 0; i < f.buffers.size(); i++)
      if (BufferId other{int(i)}; other != to.buffer && f.storage(other) == f.storage(to.buffer)) return {};
    RoleLoad load{.copy = b.stmts[place], .tile = to.buffer, .last = {}};
    int64_t uses = 0, behind = 0;
    bool writes = false;
    visit_effects(k.body, [&](const Stmt& s, const Effect& e) {
      if (e.buffer != to.buffer || s.as<Alloc>() || s.same(load.copy)) return;
      uses++;
      writes |= e.access != Access::read;
      // A divided loop's product with C transposed counts as read by threads, too: that costs one sync_warp.
      load.read_by_threads |= !is_gemm(s) || !why_no_wgmma(f, k, target, s).empty();
    });
    for (size_t i = place + 1; i < b.stmts.size(); i++) {
      int64_t before = behind;
      visit_effects(b.stmts[i], [&](const Stmt&, const Effect& e) { behind += e.buffer == to.buffer; });
      if (behind > before) load.last = b.stmts[i];
    }
    bool own = uses > 0 && uses == behind && !writes;
    if (!own || !loading.why_not(load.copy, from.buffer, to.buffer, false).empty()) return {};
    load.may_have_slots = loading.why_not(load.copy, from.buffer, to.buffer, true).empty();
    return load;
  }

  void say_whole(const Stmt& loop, const std::string& why, bool refusal) const {
    f.notes.push_back({"assign_roles", "loop " + loop.as<For>()->var.as<Var>()->hint,
                       "no warps of its own load its tiles: " + why, loop->span, refusal});
  }
  void refuse(const Stmt& loop, const std::string& why) const { say_whole(loop, why, true); }
  // Those that may be divided at all.
  std::vector<Stmt> find_loops() const {
    std::vector<Stmt> loops;
    visit(k.body, [&](const For& n) {
      if (n.loop != Loop::pipelined) return;
      Stmt s(&n);
      bool multiplies = contains(n.body, [](const Tile& t) { return t.op->name == "gemm"; });
      std::string why_whole;
      if (contains(n.body, [](const For& inner) { return inner.loop == Loop::pipelined; }))
        why_whole = "it has a pipelined loop in it";
      else if (n.attrs.get_int("num_stages") < 2)
        why_whole = "its tiles have one slot (num_stages is below 2)";
      else if (n.attrs.find("may_divide") && !is_repeated(s))
        why_whole = "it has one turn, and its block no other tile";
      if (why_whole.empty()) loops.push_back(s);
      // The program has not asked for it, so this is no refusal.
      if (!why_whole.empty() && multiplies) say_whole(s, why_whole, false);
    });
    return loops;
  }
  RolePlan run() {
    RolePlan out{.consumers = thread_count(k)};
    std::vector<Stmt> loops = find_loops();
    if (loops.empty()) return out;
    std::string why = why_one_role(k, target);
    for (auto& s : loops) {
      RoleLoop loop;
      std::string not_this = why.empty() ? plan(s, loop) : why;
      if (not_this.empty())
        out.loops.push_back(std::move(loop));
      else
        refuse(s, not_this);
    }
    if (out.loops.empty()) return out;
    if (std::string few = share_chip(f, k, target, out); !few.empty()) {
      for (auto& loop : out.loops) refuse(loop.loop, few);
      out.loops.clear();
    }
    if (!out.loops.empty()) find_loads(k.body, out);
    return out;
  }
};

}  // namespace

const RoleLoop* RolePlan::find(const StmtNode* loop) const {
  auto it = std::ranges::find_if(loops, [&](auto& l) { return l.loop.get() == loop; });
  return it == loops.end() ? nullptr : &*it;
}
const RoleLoad* RolePlan::find_load(const Stmt& copy) const {
  auto it = std::ranges::find_if(loads, [&](auto& l) { return l.copy.same(copy); });
  return it == loads.end() ? nullptr : &*it;
}
const RoleLoop* RolePlan::find(const Stmt& loop) const { return find(loop.get()); }

RolePlan plan_roles(Function& f, const Kernel& k, const Target& target) {
  return RolePlanner{.f = f, .k = k, .target = target}.run();
}

}  // namespace tl
