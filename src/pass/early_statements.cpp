// Which statements of a pipelined loop may run ahead, and by which engine.
#include "pass/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/product.h"
#include "base/round.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "ops/own_copies.h"
#include "pass/tile_use.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr int64_t most_register_bytes = 256;  // of a thread, for one tile on its way to shared memory

}  // namespace

void LoopPlanner::read_body() {
  visit_effects(loop.body, [&](const Stmt&, const Effect& e) {
    if (e.writes() || e.access == Access::value) written.insert(f.storage(e.buffer));
  });
  for (BufferId b : written) writes_tensors |= f[b].scope == Scope::global;
  visit(loop.body, [&](const Let& n) { lets.emplace(n.var.get(), n.value); });
}

bool LoopPlanner::is_constant(BufferId tensor) const {
  return f[tensor].scope == Scope::global && !written.contains(f.storage(tensor)) &&
         !(writes_tensors && may_alias(kernel, tensor));
}

std::string LoopPlanner::why_late(const Expr& e) const {
  std::string why;
  visit(
      e,
      [&](const Load& n) {
        bool known = is_constant(n.buffer) ||
                     (f[n.buffer].scope == Scope::local && !written.contains(f.storage(n.buffer)));
        if (!known) why = fmt::format("it depends on {}, which the loop computes", f[n.buffer].name);
      },
      [&](const Call& n) {
        if (n.intrinsic->effect != Intrinsic::Effect::pure)
          why = fmt::format("it depends on {}", n.intrinsic->name);
      },
      [&](const Var& n) {
        auto it = lets.find(&n);
        if (it == lets.end()) return;
        if (std::string below = why_late(it->second); !below.empty()) why = below;
      });
  return why;
}

// ── which statements ────────────────────────────────────────────────────────────────────────────────
void LoopPlanner::collect(const Stmt& s, std::vector<std::pair<Expr, bool>>& conditions) {
  if (auto* n = s.as<Block>()) {
    for (auto& inner : n->stmts) collect(inner, conditions);
  } else if (auto* branch = s.as<If>()) {
    for (bool holds : {true, false}) {
      conditions.emplace_back(branch->cond, holds);
      if (Stmt arm = holds ? branch->then_body : branch->else_body) collect(arm, conditions);
      conditions.pop_back();
    }
  } else if (auto nest = nest_of(s, f); nest && !is_async_copy(s)) {
    consider(s, *nest, conditions);
  }
}

void LoopPlanner::consider(const Stmt& s, const ParallelNest& nest,
                           const std::vector<std::pair<Expr, bool>>& conditions) {
  Early e{.stmt = s, .nest = nest, .conditions = conditions};
  std::set<BufferId> fills, reads;
  bool plain = true;
  visit_effects(nest.body, [&](const Stmt&, const Effect& x) {
    plain &= x.access == Access::read || x.access == Access::write;
    plain &= !x.is_through_address();
    (x.writes() ? fills : reads).insert(x.buffer);
  });
  if (!plain || fills.size() != 1) return;
  e.tile = *fills.begin();
  Scope scope = f[e.tile].scope;
  if (scope != Scope::shared && scope != Scope::fragment) return;
  if (scope == Scope::fragment && nest.attrs.find("loop_layout")) return;
  for (BufferId b : reads)
    if (f[b].scope == Scope::global) e.tensor = b;
  if (!e.tensor && (scope == Scope::fragment || !reads.empty())) return;
  for (auto& [condition, holds] : conditions)
    if (std::string why = why_late(condition); !why.empty() && e.why_not.empty())
      e.why_not = "it stands under a condition: " + why;
  visit_nodes(nest.body, [&](const Node& node) {
    if (is_statement(node.kind) || !e.why_not.empty()) return;
    if (node.kind == Kind::Load || node.kind == Kind::Var)
      e.why_not = why_late(Expr(static_cast<const ExprNode*>(&node)));
  });
  for (BufferId b : reads)
    if (e.why_not.empty() && f[b].scope == Scope::global && !is_constant(b))
      e.why_not = written.contains(f.storage(b))
                      ? fmt::format("the loop writes to {}", f[b].name)
                      : fmt::format("the loop writes to a tensor that may overlap {}", f[b].name);
  early.push_back(std::move(e));
}

// ── which tiles ─────────────────────────────────────────────────────────────────────────────────────
bool LoopPlanner::is_early(const Stmt& s, BufferId tile) const {
  return std::ranges::any_of(early, [&](auto& e) { return e.tile == tile && e.stmt.same(s); });
}

void LoopPlanner::follow(const Stmt& s, BufferId tile, Order& order) const {
  if (!s || order.broken) return;
  if (is_early(s, tile)) {
    order.broken |= order.filled || order.used;
    order.filled = true;
  } else if (auto* n = s.as<Block>()) {
    for (auto& inner : n->stmts) follow(inner, tile, order);
  } else if (auto* branch = s.as<If>()) {
    Order other = order;
    follow(branch->then_body, tile, order);
    follow(branch->else_body, tile, other);
    order = {order.filled || other.filled, order.used || other.used, order.broken || other.broken};
  } else if (!s.as<Alloc>()) {
    order.used |= use_of(f, s, tile).touched;
  }
}

std::string LoopPlanner::why_not_own(BufferId tile) const {
  const std::string& name = f[tile].name;
  for (auto& b : f.buffers)
    if (f[tile].alias_of || (b.alias_of && b.alias_of == tile)) return name + " has another view";
  bool address = false, elsewhere = false, by_hand = false;
  walk(kernel.body, {.team = whole_block(kernel)}, [&](const Stmt& s, const WalkContext& at) {
    for (auto& e : effects_of(s).list) {
      if (e.buffer != tile) continue;
      address |= e.access == Access::value || e.is_through_address();
      elsewhere |= !(at.team == team);
      by_hand |= is_async_copy(s);
    }
    return true;
  });
  if (address) return fmt::format("the address of {} is taken", name);
  if (by_hand) return fmt::format("T.async_copy fills {} as well", name);
  if (elsewhere) return fmt::format("other threads use {} as well", name);
  if (use_of(f, loop.body, tile).reads_earlier)
    return fmt::format("{} is read before all of it is written in an iteration", name);
  if (use_after(f, kernel.body, loop_stmt.get(), tile).reads_earlier)
    return fmt::format("{} is read after the loop", name);
  return "";
}

std::string LoopPlanner::why_one_slot(BufferId tile) const {
  if (std::string why = why_not_own(tile); !why.empty()) return why;
  Order order;
  follow(loop.body, tile, order);
  if (order.broken) return fmt::format("{} is written more than once in an iteration", f[tile].name);
  return "";
}

// ── by which engine ─────────────────────────────────────────────────────────────────────────────────
std::string why_not_async(const ParallelNest& nest, const LayoutContext& at) {
  const Function& f = at.function;
  if (!at.target.group_row(AsyncInstr::AsyncKind::copy))
    return said(at.target) + " has no asynchronous copies";
  auto* store = nest.body.as<Store>();
  auto* load = store ? store->value.as<Load>() : nullptr;
  if (!load || store->mask || load->mask) {
    std::optional<DType> from;  // of the last tensor that it reads
    visit(nest.body, [&](const Load& n) {
      if (f[n.buffer].scope == Scope::global) from = f[n.buffer].dtype;
    });
    if (store && from && f[store->buffer].dtype != *from)
      return fmt::format("{} is cast to {} on the way", to_string(*from), to_string(f[store->buffer].dtype));
    return "its elements are computed, not moved";
  }
  if (f[load->buffer].safe_value) return fmt::format("{} has a safe value", f[load->buffer].name);
  ParallelNest begun = nest;
  begun.attrs.entries["engine"] = "cp_async";
  int64_t bits = moved_together(begun, at) * f[store->buffer].dtype.bits;
  if (bits < least_async_bits)
    return fmt::format("only {} bytes at a time are contiguous and aligned in {} and {}, and 4 are needed",
                       bits / 8, f[load->buffer].name, f[store->buffer].name);
  return "";
}

std::string LoopPlanner::why_not_split(const Early& e) const {
  auto* store = e.nest.body.as<Store>();
  if (!store || store->mask) return "it does not store one element in each of its iterations";
  bool conditional = contains(store->value, [](const Select&) { return true; });
  if (conditional) return "some of its loads are conditional";
  int64_t bytes = 0;
  bool packed = f[e.tile].dtype.is_packed();
  for (auto& load : loads_of(e)) {
    packed |= load.as<Load>()->dtype.is_packed();
    bytes += load->dtype.bytes();
  }
  if (packed) return "elements of 4 bits are stored in pairs";
  int64_t per_thread = ceil_of(product(e.nest.extents), std::max<int64_t>(1, team.count)) * bytes;
  if (per_thread > most_register_bytes)
    return fmt::format("{} bytes a thread are too many to be kept in registers", per_thread);
  return "";
}

std::vector<Expr> LoopPlanner::loads_of(const Early& e) const {
  std::vector<Expr> found;
  visit(e.nest.body.as<Store>()->value, [&](const Load& n) {
    bool is_new = std::ranges::none_of(found, [&](auto& x) { return equal(x, Expr(&n)); });
    if (f[n.buffer].scope == Scope::global && is_new) found.push_back(Expr(&n));
  });
  return found;
}

void LoopPlanner::choose_engine(Early& e) const {
  LayoutDecisions none;
  std::string not_async = why_not_async(e.nest, {f, kernel, target, team, none});
  if (not_async.empty()) {
    e.engine = "cp_async";
    return;
  }
  std::string not_split = why_not_split(e);
  e.splits = not_split.empty();
  if (!e.splits)
    e.why_not = fmt::format("not by cp.async, as {}; nor through registers, as {}", not_async, not_split);
}

// ── the plan ────────────────────────────────────────────────────────────────────────────────────────
std::optional<int64_t> LoopPlanner::free_after(BufferId fragment) const {
  int64_t count = 0, last = 0;
  bool works = false;
  for (auto& s : rest_of_body()) {
    count++;
    works |= s.as<Tile>() || s.as<For>() || s.as<If>();
    if (use_of(f, s, fragment).touched) last = count, works = false;
  }
  return works ? std::optional(last) : std::nullopt;
}

void LoopPlanner::drop(BufferId tile, const std::string& why) {
  for (auto& e : early)
    if (e.tile == tile && e.why_not.empty()) e.why_not = why;
}

void LoopPlanner::choose_tiles() {
  std::set<BufferId> tiles;
  for (auto& e : early) tiles.insert(e.tile);
  for (BufferId tile : tiles) {
    std::string why = why_one_slot(tile);
    for (auto& e : early)
      if (e.tile == tile && why.empty()) why = e.why_not;
    if (!why.empty()) {
      drop(tile, why);
      continue;
    }
    bool shared = f[tile].scope == Scope::shared;
    std::set<bool> ways;
    bool moves = false;
    for (auto& e : early) {
      if (e.tile != tile) continue;
      moves |= bool(e.tensor);
      if (!shared || !e.tensor) continue;
      choose_engine(e);
      if (!e.why_not.empty()) why = e.why_not;
      ways.insert(e.splits);
    }
    if (!shared && (!free_after(tile) || !early_at_top(tile)))
      why = fmt::format("{} is needed until the iteration ends", f[tile].name);
    if (why.empty() && ways.size() > 1) why = "another copy fills the tile in another way";
    if (why.empty() && !moves) why = "nothing is copied into it";
    if (why.empty() && !is_used(tile)) why = "the loop does not use it";
    if (!why.empty()) drop(tile, why);
    for (auto& e : early)  // what is computed is stored when the copies in the other arms are
      if (e.tile == tile && !e.tensor) e.splits = ways.contains(true);
  }
}

bool LoopPlanner::is_used(BufferId tile) const {
  bool used = false;
  visit_effects(loop.body, [&](const Stmt&, const Effect& e) { used |= e.buffer == tile && e.reads(); });
  return used;
}

bool LoopPlanner::early_at_top(BufferId tile) const {
  return std::ranges::all_of(early, [&](auto& e) { return e.tile != tile || e.conditions.empty(); });
}

}  // namespace tl
