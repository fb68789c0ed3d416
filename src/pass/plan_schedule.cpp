// plan_schedule: what of a pipelined loop runs ahead of the rest, by which engine, and how many slots its
// tiles get.  Nothing moves: the plan stands in attributes of the loop and of the statements that run ahead,
// and in `slots` of their tiles; pipeline_loops carries it out.
//
// A statement may run ahead if it only moves elements of tensors that the loop does not write into a tile of
// its own: one that every iteration overwrites before it reads it, and that nobody reads after the loop.  A
// statement of stage s works on the iteration (stages - s) later than the one at hand.
//   engine "cp_async"   the copy is begun that early, and every slot but one is in flight
//   otherwise           what cp.async cannot move goes through registers: one statement loads a fragment, one
//                       iteration later another one stores it, cast if need be, into one of two slots
//   a fragment          is loaded for the next iteration as soon as nobody needs it in this one
//
//   for k in pipelined(16) {num_stages=3}:    ->  for k in pipelined(16) {num_stages=3, stages=2}:
//     copy(A[k*32:], As)                            copy(A[k*32:], As) {engine="cp_async", stage=0}   As:
//     slots(3) gemm(As, …)                                   gemm(As, …)
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/mapping.h"
#include "pass/passes.h"
#include "pass/splice.h"
#include "pass/tile_use.h"
#include "pass/walk.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr int64_t address_registers = 24;     // that a loop needs beside its fragments
constexpr int64_t most_register_bytes = 256;  // of a thread, for one tile on its way to shared memory

// A statement that may run ahead, and the tile that it fills.
struct Early {
  Stmt stmt;
  ParallelNest nest;
  size_t top = 0;  // the statement of the body that it is, or is part of
  std::vector<std::pair<Expr, bool>> conditions = {};
  BufferId tile = {};
  BufferId tensor = {};  // that it reads; none: it fills the tile with what it computes
  std::string engine = "";
  bool splits = false;  // a load into a fragment, and a store
  std::string why_not = "";
};

struct LoopPlanner {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  Stmt loop_stmt;
  Team team;
  const For& loop = *loop_stmt.as<For>();
  std::vector<Stmt> body = statements_of(loop.body);
  std::set<BufferId> written = {};  // in the loop
  bool writes_tensors = false;
  std::map<const ExprNode*, Expr> lets = {};  // of the body
  std::vector<Early> early = {};

  void note(std::string text, bool refusal, Span span = {}, BufferId buffer = {}) {
    f.notes.push_back({.pass = "plan_schedule",
                       .subject = "loop " + loop.var.as<Var>()->hint,
                       .text = std::move(text),
                       .span = span ? span : loop.span,
                       .refusal = refusal,
                       .buffer = buffer});
  }

  void read_body() {
    visit_effects(loop.body, [&](const Stmt&, const Effect& e) {
      if (e.writes() || e.access == Access::value) written.insert(f.storage(e.buffer));
    });
    for (BufferId b : written) writes_tensors |= f[b].scope == Scope::global;
    visit(loop.body, [&](const Let& n) { lets.emplace(n.var.get(), n.value); });
  }
  bool is_constant(BufferId tensor) const {
    return f[tensor].scope == Scope::global && !written.contains(f.storage(tensor)) &&
           !(writes_tensors && may_alias(kernel, tensor));
  }

  // Is it known iterations before? Else the reason.
  std::string why_late(const Expr& e) const {
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
  void collect(const Stmt& s, size_t top, std::vector<std::pair<Expr, bool>>& conditions) {
    if (auto* n = s.as<Block>()) {
      for (auto& inner : n->stmts) collect(inner, top, conditions);
    } else if (auto* branch = s.as<If>()) {
      for (bool holds : {true, false}) {
        conditions.emplace_back(branch->cond, holds);
        if (Stmt arm = holds ? branch->then_body : branch->else_body) collect(arm, top, conditions);
        conditions.pop_back();
      }
    } else if (auto nest = nest_of(s, f)) {
      consider(s, *nest, top, conditions);
    }
  }

  void consider(const Stmt& s, const ParallelNest& nest, size_t top,
                const std::vector<std::pair<Expr, bool>>& conditions) {
    Early e{.stmt = s, .nest = nest, .top = top, .conditions = conditions};
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
  bool is_early(const Stmt& s, BufferId tile) const {
    return std::ranges::any_of(early, [&](auto& e) { return e.tile == tile && e.stmt.same(s); });
  }

  // Walks the body in order: nothing may fill the tile once it has been used, or filled twice.
  struct Order {
    bool filled = false, used = false, broken = false;
  };
  void follow(const Stmt& s, BufferId tile, Order& order) const {
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

  std::string why_one_slot(BufferId tile) const {
    const std::string& name = f[tile].name;
    for (auto& b : f.buffers)
      if (f[tile].alias_of || (b.alias_of && b.alias_of == tile)) return name + " has another view";
    bool address = false, elsewhere = false;
    walk(kernel.body, {.team = whole_block(kernel)}, [&](const Stmt& s, const WalkContext& at) {
      for (auto& e : effects_of(s).list) {
        if (e.buffer != tile) continue;
        address |= e.access == Access::value || e.is_through_address();
        elsewhere |= !(at.team == team);
      }
      return true;
    });
    if (address) return fmt::format("the address of {} is taken", name);
    if (elsewhere) return fmt::format("other threads use {} as well", name);
    if (use_of(f, loop.body, tile).reads_earlier)
      return fmt::format("{} is read before all of it is written in an iteration", name);
    if (use_after(f, kernel.body, loop_stmt.get(), tile).reads_earlier)
      return fmt::format("{} is read after the loop", name);
    Order order;
    follow(loop.body, tile, order);
    if (order.broken) return fmt::format("{} is written more than once in an iteration", name);
    return "";
  }

  // ── by which engine ─────────────────────────────────────────────────────────────────────────────────
  std::string why_not_async(const Early& e) const {
    bool has = std::ranges::any_of(target.async, [](auto& row) {
      return row.does == AsyncInstr::AsyncKind::copy && row.token == Token::copies;
    });
    if (!has) return fmt::format("{} has no asynchronous copies", target.name);
    auto* store = e.nest.body.as<Store>();
    auto* load = store ? store->value.as<Load>() : nullptr;
    if (!load || store->mask || load->mask) {
      if (store && f[store->buffer].dtype != f[e.tensor].dtype)
        return fmt::format("{} is cast to {} on the way", to_string(f[e.tensor].dtype),
                           to_string(f[store->buffer].dtype));
      return "its elements are computed, not moved";
    }
    if (f[load->buffer].safe_value) return fmt::format("{} has a safe value", f[load->buffer].name);
    LayoutDecisions none;
    int64_t lanes = vector_width(e.nest, {f, kernel, target, team, none});
    int64_t bits = lanes * f[e.tile].dtype.bits;
    if (bits < 32)
      return fmt::format("only {} bytes at a time are contiguous and aligned in {} and {}, and 4 are needed",
                         bits / 8, f[load->buffer].name, f[e.tile].name);
    return "";
  }

  // May its loads go first, into fragments?  Each happens in every iteration of the nest.
  std::string why_not_split(const Early& e) const {
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
    int64_t per_thread = ceil_div(product(e.nest.extents), std::max<int64_t>(1, team.count)) * bytes;
    if (per_thread > most_register_bytes)
      return fmt::format("{} bytes a thread are too many to be kept in registers", per_thread);
    return "";
  }
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // The distinct loads of tensors of a nest's value.
  std::vector<Expr> loads_of(const Early& e) const {
    std::vector<Expr> found;
    visit(e.nest.body.as<Store>()->value, [&](const Load& n) {
      bool is_new = std::ranges::none_of(found, [&](auto& x) { return equal(x, Expr(&n)); });
      if (f[n.buffer].scope == Scope::global && is_new) found.push_back(Expr(&n));
    });
    return found;
  }

  void choose_engine(Early& e) const {
    std::string not_async = why_not_async(e);
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
  // How many statements that do not run ahead stand up to the last use of a fragment; nullopt: nothing that
  // takes time comes after it.
  std::optional<int64_t> free_after(BufferId fragment) const {
    int64_t count = 0, last = 0;
    bool works = false;
    for (auto& s : body) {
      bool ahead = std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.stmt.same(s); });
      if (ahead) continue;
      count++;
      works |= s.as<Tile>() || s.as<For>() || s.as<If>();
      if (use_of(f, s, fragment).touched) last = count, works = false;
    }
    return works ? std::optional(last) : std::nullopt;
  }

  void drop(BufferId tile, const std::string& why) {
    for (auto& e : early)
      if (e.tile == tile && e.why_not.empty()) e.why_not = why;
  }

  void choose_tiles() {
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
  bool is_used(BufferId tile) const {
    bool used = false;
    visit_effects(loop.body, [&](const Stmt&, const Effect& e) { used |= e.buffer == tile && e.reads(); });
    return used;
  }
  bool early_at_top(BufferId tile) const {
    return std::ranges::all_of(early, [&](auto& e) { return e.tile != tile || e.conditions.empty(); });
  }

  bool is_planned(const Early& e) const { return e.why_not.empty(); }

  Stmt marked(const Stmt& s, std::string engine, int64_t stage, int64_t order) const {
    auto with = [&](Attrs attrs) {
      if (!engine.empty()) attrs.entries.insert_or_assign("engine", engine);
      attrs.entries.insert_or_assign("stage", stage);
      if (order) attrs.entries.insert_or_assign("order", order);
      return attrs;
    };
    if (auto* n = s.as<Tile>()) return tile(*n->op, n->operands, with(n->attrs), n->span);
    auto* n = s.as<For>();
    return for_loop(n->var, n->min, n->extent, n->loop, n->body, n->span, with(n->attrs));
  }

  // The loads of a nest into fragments, and the nest that reads those instead.
  std::vector<Stmt> split(const Early& e, int64_t stages, std::vector<Stmt>& allocs) {
    auto* store = e.nest.body.as<Store>();
    ParallelNest loads = e.nest, rest = e.nest;
    std::vector<std::pair<Expr, BufferId>> held;
    std::vector<Expr> shape;
    for (int64_t extent : e.nest.extents) shape.push_back(imm(extent));
    std::vector<Stmt> out;
    for (auto& value : loads_of(e)) {
      BufferId tensor = value.as<Load>()->buffer;
      BufferId fragment = f.add({.name = f[tensor].name + "_ahead",
                                 .dtype = f[tensor].dtype,
                                 .shape = shape,
                                 .scope = Scope::fragment,
                                 .span = e.stmt->span});
      held.emplace_back(value, fragment);
      allocs.push_back(alloc(fragment, e.stmt->span));
      loads.body = tl::store(fragment, e.nest.vars, value, e.stmt->span);
      out.push_back(marked(renamed(make_nest(loads)), "", stages - 2, 0));
    }
    Expr value = rewrite(store->value, [&](const Load& n, Rewriter& self) -> Expr {
      for (auto& [what, fragment] : held)
        if (equal(what, Expr(&n))) return tl::load(f, fragment, e.nest.vars, n.span);
      return self.children(n);
    });
    rest.body = tl::store(store->buffer, store->index, value, store->span);
    out.push_back(marked(make_nest(rest), "", stages - 1, 0));
    return out;
  }

  // ── an operator in steps ────────────────────────────────────────────────────────────────────────────
  // The operator that all of the loop's copies are for, where it can load a step's operands while the step
  // before runs, also across iterations; nullopt where it cannot.
  struct Stepped {
    const Tile* op;
    Steps steps;
    int64_t before;  // statements that do not run ahead
  };
  std::optional<Stepped> find_stepped() const {
    std::optional<Stepped> found;
    int64_t count = 0;
    for (auto& e : early)
      if (is_planned(e) && e.tensor && e.engine != "cp_async") return std::nullopt;
    for (auto& s : body) {
      bool ahead = std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.stmt.same(s); });
      bool only_names = s.as<Let>() || s.as<Alloc>();
      if (ahead) continue;
      auto* t = s.as<Tile>();
      if (!only_names && (found || !t || !row_of(*t).steps)) return std::nullopt;
      if (!only_names) {
        LayoutDecisions none;
        auto steps = row_of(*t).steps(*t, {f, kernel, target, team, none});
        if (!steps) return std::nullopt;
        found = Stepped{t, *steps, count};
      }
      count++;
    }
    if (!found || found->steps.count < 2 || found->steps.count % 2) return std::nullopt;
    if (found->steps.registers > target.registers - address_registers) return std::nullopt;
    for (size_t operand : found->steps.operands) {
      BufferId b = region_of(*found->op, operand).buffer;
      if (std::ranges::none_of(early, [&](auto& e) { return is_planned(e) && e.tile == b; }))
        return std::nullopt;
    }
    return found;
  }

  // The place of the last step: behind all loads of this iteration and all other steps.
  static int64_t place_of_last(const Stepped& op) {
    int64_t loads = int64_t(op.steps.operands.size()) * (op.steps.count - 1);
    return op.before + loads + op.steps.count - 1;
  }

  // Loads of a step's operands stand before the step before; those of the first step run one iteration ahead,
  // and the copies take the slot that they leave.
  std::vector<Stmt> in_steps(const Stepped& op, int64_t stages, std::vector<Stmt>& allocs) {
    const Steps& steps = op.steps;
    Span span = op.op->span;
    std::map<size_t, std::array<BufferId, 2>> held;
    for (size_t operand : steps.operands) {
      Region part = steps.part(operand, 0);
      std::vector<Expr> shape;
      for (auto& range : part.ranges)
        if (!range.point) shape.push_back(range.extent);
      for (int parity : {0, 1}) {
        BufferId b = f.add({.name = fmt::format("{}_{}", f[part.buffer].name, parity),
                            .dtype = f[part.buffer].dtype,
                            .shape = shape,
                            .scope = Scope::fragment,
                            .span = span});
        held[operand][size_t(parity)] = b;
        allocs.push_back(alloc(b, span));
      }
    }
    std::vector<Stmt> out;
    int64_t place = place_of_last(op);
    auto load_step = [&](int64_t step) {
      for (size_t operand : steps.operands) {
        BufferId fragment = held[operand][size_t(step % 2)];
        Stmt s = make_tile(f, *find_op("copy"), {steps.part(operand, step), whole(f, fragment)}, {}, span);
        out.push_back(step ? s : marked(s, "", stages - 1, place));
      }
    };
    load_step(0);
    for (int64_t step = 0; step < steps.count; step++) {
      if (step + 1 < steps.count) load_step(step + 1);
      std::vector<Operand> operands = op.op->operands;
      for (size_t operand : steps.operands) operands[operand] = whole(f, held[operand][size_t(step % 2)]);
      out.push_back(make_tile(f, row_of(*op.op), operands, steps.attrs(step), span));
    }
    return out;
  }

  // Stages are counted so that the rest of the body has the last one.
  Stmt planned(int64_t slots) {
    int64_t stages = 0;
    std::optional<Stepped> stepped = find_stepped();
    for (auto& e : early)
      if (is_planned(e))
        stages = std::max<int64_t>(stages, f[e.tile].scope == Scope::fragment ? 1 : e.splits ? 2 : slots - 1);
    if (stages == 0) return loop_stmt;
    std::vector<Stmt> allocs;
    std::map<const StmtNode*, std::vector<Stmt>> instead;
    int64_t ahead = slots - 1, place = 0;
    if (stepped) {
      stages = ahead = slots;
      place = place_of_last(*stepped);
      instead[stepped->op] = in_steps(*stepped, stages, allocs);
    }
    for (auto& e : early) {
      if (!is_planned(e)) continue;
      BufferInfo& info = f[e.tile];
      auto& to = instead[e.stmt.get()];
      if (info.scope == Scope::fragment) {
        to = {marked(e.stmt, "", stages - 1, free_after(e.tile).value_or(0))};
      } else if (e.splits) {
        info.slots = std::max<int64_t>(info.slots, 2);
        to = e.tensor ? split(e, stages, allocs) : std::vector<Stmt>{marked(e.stmt, "", stages - 1, 0)};
      } else {
        info.slots = std::max<int64_t>(info.slots, slots);
        to = {marked(e.stmt, e.engine, stages - ahead, place)};
      }
    }
    Stmt inside = splice(loop.body, [&](const Stmt& original, const Stmt& walked) {
      auto it = instead.find(original.get());
      return it == instead.end() ? std::vector<Stmt>{walked} : it->second;
    });
    Attrs attrs = loop.attrs;
    attrs.entries.insert_or_assign("num_stages", slots);
    attrs.entries.insert_or_assign("stages", stages);
    allocs.push_back(for_loop(loop.var, loop.min, loop.extent, loop.loop, inside, loop.span, attrs));
    return block(std::move(allocs), loop.span);
  }

  // ── the whole loop ──────────────────────────────────────────────────────────────────────────────────
  std::string why_in_order() const {
    if (!target.has_threads()) return fmt::format("{} runs one thread a block", target.name);
    std::string why;
    visit(
        loop.body,
        [&](const For& n) {
          if (n.loop == Loop::pipelined && n.attrs.find("stages"))
            why = fmt::format("the loop on line {} in it is pipelined", n.span.line);
        },
        [&](const Call& n) {
          if (n.intrinsic->effect == Intrinsic::Effect::barrier ||
              n.intrinsic->effect == Intrinsic::Effect::partial_barrier)
            why = fmt::format("nothing moves across the {} in it", n.intrinsic->name);
        });
    return why;
  }

  Stmt run() {
    int64_t asked = loop.attrs.get_int("num_stages"), slots = asked;
    if (asked < 2) return loop_stmt;
    if (std::string why = why_in_order(); !why.empty()) {
      note(fmt::format("runs in order, num_stages={} has no effect: {}", asked, why), true);
      return loop_stmt;
    }
    auto extent = as_int(loop.extent);
    if (extent) slots = std::min(slots, *extent);
    slots = std::min(slots, kernel.attrs.get_int("most_stages", slots));
    if (slots < 2) {
      if (slots < asked && !(extent && *extent < 2))
        note(fmt::format("runs in order, num_stages={} has no effect: {} KB of shared memory hold no second "
                         "slot of its tiles",
                         asked, target.shared_bytes / 1024),
             true);
      return loop_stmt;
    }
    read_body();
    std::vector<std::pair<Expr, bool>> conditions;
    for (size_t i = 0; i < body.size(); i++) collect(body[i], i, conditions);
    choose_tiles();
    Stmt s = planned(slots);
    report(asked, slots, !s.same(loop_stmt));
    return s;
  }

  void report(int64_t asked, int64_t slots, bool pipelined) {
    std::set<BufferId> told;
    for (auto& e : early)
      if (!is_planned(e) && e.tensor && f[e.tile].scope == Scope::shared && told.insert(e.tile).second)
        note(fmt::format("the copy of {} to {} does not run ahead: {}", f[e.tensor].name, f[e.tile].name,
                         e.why_not),
             true, e.stmt->span, e.tile);
    if (!pipelined) {
      if (told.empty())
        note(fmt::format("runs in order, num_stages={} has no effect: it has no copy from a tensor to a tile "
                         "that could run ahead",
                         asked),
             true);
      return;
    }
    if (slots < asked && kernel.attrs.find("most_stages"))
      note(fmt::format("num_stages={} was asked for, {} fit into the {} KB of shared memory of a block",
                       asked, slots, target.shared_bytes / 1024),
           true);
    std::vector<std::string> ways;
    for (auto& e : early)
      if (is_planned(e) && e.tensor)
        ways.push_back(fmt::format("{} {}", f[e.tile].name,
                                   f[e.tile].scope == Scope::fragment ? "loaded one iteration ahead"
                                   : e.splits                         ? "through registers, 2 slots"
                                              : fmt::format("by cp.async, {} slots", slots)));
    note(fmt::format("pipelined: {}", fmt::join(ways, "; ")), false);
  }
};

struct Scheduler {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  Team team = whole_block(kernel);

  Stmt run(const Stmt& body) {
    return rewrite(
        body,
        [&](const Group& n, Rewriter& self) -> Stmt {
          Team outer = std::exchange(team, team_of(n));
          Stmt s = self.children(n);
          team = outer;
          return s;
        },
        [&](const For& n, Rewriter& self) -> Stmt {
          if (n.loop == Loop::parallel) return Stmt(&n);
          Stmt s = self.children(n);
          if (n.loop != Loop::pipelined) return s;
          LoopPlanner planner{.f = f, .kernel = kernel, .target = target, .loop_stmt = s, .team = team};
          return planner.run();
        });
  }
};

}  // namespace

Function plan_schedule(Function f, const Target& target) {
  for (Kernel& k : f.kernels) k.body = Scheduler{.f = f, .kernel = k, .target = target}.run(k.body);
  return f;
}

}  // namespace tl
