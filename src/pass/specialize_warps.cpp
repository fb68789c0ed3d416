// specialize_warps, the beginning of canonicalize: a schedule of warps that the program gives becomes a team
// for each role, which executes its part of the program.  A tile of a pipeline gets its slots, and a slot two
// barriers: `full` ends a phase when its producer has filled it, `empty` when all readers have released it.
// The i-th use of a pipeline has slot i % slots; readers wait for phase i // slots of `full`, the producer
// for the one before that of `empty`.  i counts on across all loops: in closed form where their extents allow
// it, else in a variable of each thread.
//
// First of all, so that everything behind it sees what a program would have that places its teams by hand.
// Where the target has no copies of boxes, the program runs as it is written.
//
//   for k in serial(n):                  group(256 : +128):               group(0 : +256):
//     group(…) {op="load"}: copy(A, As)    for k in serial(n):              for k in serial(n):
//     group(…) {op="mma"}: gemm(As, …)       wait(empty[k % 3], …)            wait(full[k % 3], …)
//                                   ->       tma_load(A, As[k % 3], full[…])   gemm(As[k % 3], …)
//                                            arrive(full[k % 3])              arrive(empty[k % 3])
#include "pass/specialize_warps.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "ops/op.h"
#include "ops/tma_boxes.h"
#include "pass/barrier_words.h"
#include "pass/slots.h"
#include "pass/warp_width.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

using StepKind = WarpStep::Kind;

// The barriers of a pipeline's slots.
struct SlotBarriers {
  BufferId full, empty;
};

// What the roles of one kernel share.
struct ScheduledKernel {
  Function& f;
  Kernel& k;
  const Target& target;
  WarpSchedule s;
  std::vector<SlotBarriers> barriers = {};  // by pipeline
  std::map<BufferId, size_t> pipeline_of = {};
  std::vector<std::string> by_threads = {};  // copies that the accelerator does not do, and why
};

struct RoleProgram {
  ScheduledKernel& all;
  const WarpRole& role;
  const WarpSchedule& s = all.s;
  Function& f = all.f;
  std::vector<const OpScope*> around = {};  // scopes, the kernel first
  std::map<size_t, Expr> use = {};          // number of the present use, of pipelines that it holds
  std::set<size_t> produced = {};           // of those, the ones it fills
  std::set<size_t> by_threads = {};         // that its threads have written to in this use
  std::map<size_t, BufferId> counters = {};

  Span span() const { return s.span; }
  int64_t slots(size_t p) const { return s.pipelines[p].slots; }
  Stmt instruction(std::string_view name, std::vector<Expr> args) const {
    return eval(call(*find_instr(name), std::move(args), span()), span());
  }

  // ── which use it is ─────────────────────────────────────────────────────────────────────────────────
  // The number of this turn of the loops around, where it follows from their variables; null: it does not.
  Expr turn() const {
    Expr number = imm(0);
    std::set<const ExprNode*> inside;  // names that the outer loops give
    for (const OpScope* scope : around) {
      if (!scope->loop) continue;
      auto* loop = scope->loop.as<For>();
      if (!loop) return {};
      for (auto& name : scope->names)
        if (around.size() > 1 && scope != around[1]) inside.insert(name.as<Let>()->var.get());
      bool outermost = scope == around[1];
      if (!outermost && (reads_any(loop->extent, inside) || reads_memory(loop->extent))) return {};
      number = number * cast(i64, loop->extent) + cast(i64, binary(BinaryOp::sub, loop->var, loop->min));
      if (outermost) number = cast(i64, binary(BinaryOp::sub, loop->var, loop->min));
      inside.insert(loop->var.get());
      for (auto& stmt : scope->body)
        if (auto* n = stmt.as<Let>()) inside.insert(n->var.get());
    }
    return number;
  }
  static bool reads_any(const Expr& e, const std::set<const ExprNode*>& names) {
    return contains(e, [&](const Var& v) { return names.contains(&v); });
  }
  static bool reads_memory(const Expr& e) {
    return contains(e, [](const Load&) { return true; });
  }
  Expr counter(size_t p) {
    auto it = counters.find(p);
    if (it == counters.end()) {
      BufferId id = f.add({.name = fmt::format("{}_uses", s.pipelines[p].name),
                           .dtype = i32,
                           .scope = Scope::local,
                           .span = span()});
      it = counters.emplace(p, id).first;
    }
    return load(i32, it->second, {}, span());
  }

  Expr slot(size_t p, const Expr& number) const { return floormod(number, slots(p)); }
  Expr word(BufferId words, size_t p, const Expr& number) const {
    return address(load(u64, words, {slot(p, number)}, span()), "", span());
  }

  // ── signals ─────────────────────────────────────────────────────────────────────────────────────────
  // Until the phase of this use, or of the one of the same slot before it, has ended.
  Stmt wait(BufferId words, size_t p, bool before) const {
    const Expr& number = use.at(p);
    Expr phase = floormod(floordiv(number, slots(p)) + (before ? 1 : 0), 2);
    Expr ended = call(*find_instr("mbarrier_try_wait"), {word(words, p, number), cast(i32, phase)}, span());
    return while_loop(unary(UnaryOp::logical_not, ended), block({}, span()), span());
  }
  // One thread of each warp, when all of them are there.
  Stmt arrive(BufferId words, size_t p, const Expr& number, bool together) const {
    std::vector<Stmt> out;
    if (by_threads.contains(p)) out.push_back(instruction("fence_proxy_async_shared", {}));
    if (together)
      out.push_back(
          eval(call(*find_intrinsic("sync_warp"), {whole_warp(int(scheduled_warp))}, span()), span()));
    Expr first = eq(floormod(call(thread_number, {}, span()), scheduled_warp), imm(0));
    out.push_back(if_then(first, instruction("mbarrier_arrive", {word(words, p, number)}), {}, span()));
    return block(std::move(out), span());
  }
  void sync(const WarpStep& step, std::map<size_t, int64_t>& uses, std::vector<Stmt>& out) {
    size_t p = s.pipeline(step.name);
    const SlotBarriers& b = all.barriers[p];
    if (step.begins()) {
      Expr number = turn();
      int64_t in_turn = uses[p]++;
      if (number) {
        use[p] = number * uses_in_scope(p) + in_turn;
      } else {  // a name, so that regions do not read memory
        use[p] = var(fmt::format("{}_use", step.name));
        out.push_back(let(use[p], cast(i64, counter(p)) + in_turn, span()));
      }
      by_threads.erase(p);
      if (step.produces()) produced.insert(p);
      out.push_back(step.produces() ? wait(b.empty, p, true) : wait(b.full, p, false));
    } else if (step.produces()) {
      out.push_back(arrive(b.full, p, use.at(p), by_threads.contains(p)));
    } else {
      Expr released = use.at(p) - step.late;
      Stmt arrives = arrive(b.empty, p, released, true);
      out.push_back(step.late ? if_then(le(imm(0), released), arrives, {}, span()) : arrives);
    }
  }
  int64_t uses_in_scope(size_t p) const {
    return std::ranges::count_if(s.steps(*around.back(), role),
                                 [&](auto& step) { return step.begins() && s.pipeline(step.name) == p; });
  }

  // ── operations ──────────────────────────────────────────────────────────────────────────────────────
  Stmt operation(const Stmt& op) {
    Stmt body = with_slots(without_ops(op.as<Group>()->body), [&](BufferId b, size_t) -> Expr {
      auto it = all.pipeline_of.find(b);
      return it == all.pipeline_of.end() || slots(it->second) < 2 ? Expr()
                                                                  : slot(it->second, use.at(it->second));
    });
    body = rewrite(body, [&](const Tile& n, Rewriter& self) -> Stmt {
      Stmt by_boxes = n.op->name == "copy" ? boxes(n) : Stmt();
      return by_boxes ? by_boxes : self.children(n);
    });
    visit_effects(body, [&](const Stmt& stmt, const Effect& e) {
      auto it = all.pipeline_of.find(e.buffer);
      auto* t = stmt.as<Tile>();
      bool boxes = t && t->op->name == "tma_load";
      if (it != all.pipeline_of.end() && e.access != Access::read && !boxes) by_threads.insert(it->second);
    });
    return body;
  }
  // A copy into a slot that this role fills, by the accelerator; null where that is not certain to do it.
  Stmt boxes(const Tile& copy) {
    const Region &from = region_of(copy, 0), &to = region_of(copy, 1);
    auto it = all.pipeline_of.find(to.buffer);
    if (it == all.pipeline_of.end() || !produced.contains(it->second) || copy.attrs.find("disable_tma"))
      return {};
    if (f[from.buffer].scope != Scope::global) return {};
    size_t p = it->second;
    Region barrier{all.barriers[p].full, {{.min = slot(p, use.at(p)), .extent = imm(1), .point = true}}};
    std::string why_not;
    Stmt made = tma_copy_of(f, all.k, all.target, {from, to, barrier}, copy.span, why_not);
    if (why_not.empty()) return made;
    all.by_threads.push_back(fmt::format("{} is filled by threads: {}", f[to.buffer].name, why_not));
    return {};
  }

  // ── scopes ──────────────────────────────────────────────────────────────────────────────────────────
  // A loop with what this role does in it.
  std::vector<Stmt> loop(const OpScope& scope) {
    around.push_back(&scope);
    Stmt body = block(steps_of(scope, 0), scope.loop->span);
    around.pop_back();
    std::vector<Stmt> out = scope.names;
    if (auto* n = scope.loop.as<For>()) {
      Loop kind = n->loop == Loop::unrolled ? Loop::unrolled : Loop::serial;
      out.push_back(for_loop(n->var, n->min, n->extent, kind, body, n->span));
    } else if (auto* n = scope.loop.as<While>()) {
      out.push_back(while_loop(n->cond, body, n->span));
    } else {
      out.push_back(if_then(scope.loop.as<If>()->cond, body, {}, scope.loop->span));
    }
    return out;
  }
  // From that place of the body on: the steps, and what every role does.
  std::vector<Stmt> steps_of(const OpScope& scope, size_t at) {
    std::vector<Stmt> out;
    auto up_to = [&](size_t place) {
      for (; at < place; at++)
        if (op_of(scope.body[at]).empty() && !scope.body[at].as<Alloc>()) out.push_back(scope.body[at]);
    };
    std::map<size_t, int64_t> uses;
    for (auto& step : s.steps(scope, role)) {
      if (step.kind != StepKind::op) {
        sync(step, uses, out);
        continue;
      }
      size_t place = scope.place_of(step.name);
      up_to(place);
      const OpScope* inner = s.scope(step.name);
      std::vector<Stmt> made = inner ? loop(*inner) : std::vector<Stmt>{operation(scope.body[place])};
      out.push_back(block(std::move(made), scope.body[place]->span));
    }
    up_to(scope.body.size());
    for (auto& [p, count] : uses)
      if (auto it = counters.find(p); it != counters.end())
        out.push_back(
            store(it->second, {}, binary(BinaryOp::add, load(i32, it->second, {}), imm(count, i32)), span()));
    return out;
  }

  // `at`: the place of the kernel's first operation.
  Stmt run(size_t at) {
    around.push_back(&s.scopes[0]);
    std::vector<Stmt> body = steps_of(s.scopes[0], at), out;
    if (Stmt registers = own_registers()) out.push_back(registers);
    for (auto& [p, counter] : counters) {
      out.push_back(alloc(counter, span()));
      out.push_back(store(counter, {}, imm(0, i32), span()));
    }
    out.insert(out.end(), body.begin(), body.end());
    return group(role.first * scheduled_warp, (role.last - role.first) * scheduled_warp,
                 renamed(block(std::move(out), span())), span());
  }
  Stmt own_registers() const {
    int64_t before = std::min<int64_t>(255, launch_registers(all));
    const Intrinsic* row = find_instr(role.registers > before ? "setmaxnreg_inc" : "setmaxnreg_dec");
    if (!role.registers || role.registers == before || all.target.lacks(*row)) return {};
    return instruction(row->name, {imm(role.registers, i32)});
  }
  static int64_t launch_registers(const ScheduledKernel& all) {
    int64_t blocks = std::max<int64_t>(1, all.k.attrs.get_int("min_blocks_per_sm"));
    return all.target.multiprocessors.launch_registers(thread_count(all.k), blocks);
  }
};

// More registers are there only where others give them back.
void check_registers(const ScheduledKernel& all) {
  int64_t at_launch = RoleProgram::launch_registers(all), before = std::min<int64_t>(255, at_launch);
  int64_t of_block = thread_count(all.k) * at_launch, sum = thread_count(all.k) * before;
  for (auto& role : all.s.roles)
    if (role.registers) sum += (role.last - role.first) * scheduled_warp * (role.registers - before);
  if (sum > of_block)
    fail(all.s.span,
         "the schedule of warps: its roles want {} registers together, max_nreg of each thread, but a block "
         "has "
         "{}; let a role that copies have 24 or 40",
         sum, of_block);
}

void make_barriers(ScheduledKernel& all, std::vector<Stmt>& out) {
  std::vector<BarrierWords> words;
  for (size_t p = 0; p < all.s.pipelines.size(); p++) {
    const WarpPipeline& pipe = all.s.pipelines[p];
    int64_t fill = 0, read = 0;  // warps
    for (auto& role : all.s.roles) {
      bool fills = false, reads = false;
      for (auto& scope : all.s.scopes)
        for (auto& step : all.s.steps(scope, role)) {
          bool here = step.begins() && step.name == pipe.name;
          (step.produces() ? fills : reads) |= here;
        }
      fill += fills ? role.last - role.first : 0;
      read += reads ? role.last - role.first : 0;
    }
    size_t slots = size_t(pipe.slots);
    SlotBarriers made{add_barrier_words(all.f, "full_" + pipe.name, slots, all.s.span),
                      add_barrier_words(all.f, "empty_" + pipe.name, slots, all.s.span)};
    words.push_back({made.full, std::vector<int64_t>(slots, fill)});
    words.push_back({made.empty, std::vector<int64_t>(slots, read)});
    all.barriers.push_back(made);
  }
  if (words.empty()) return;
  for (auto& stmt : initialised(all.f, words, all.s.span)) out.push_back(stmt);
}

void report(const ScheduledKernel& all) {
  auto note = [&](std::string text, bool refusal) {
    all.f.notes.push_back(
        {"specialize_warps", std::string(schedule_attr), std::move(text), all.s.span, refusal});
  };
  std::vector<std::string> parts;
  for (auto& role : all.s.roles)
    parts.push_back(fmt::format("{} is the warps [{}, {})", role.name, role.first, role.last));
  for (auto& pipe : all.s.pipelines) {
    std::vector<std::string> tiles;
    for (BufferId b : pipe.tiles) tiles.push_back(all.f[b].name);
    parts.push_back(fmt::format("the pipeline {} has {} slot{} of {}", pipe.name, pipe.slots,
                                pipe.slots == 1 ? "" : "s", fmt::join(tiles, " and ")));
  }
  note(fmt::format("{}", fmt::join(parts, ", ")), false);
  bool wishes = std::ranges::any_of(all.s.roles, [](auto& role) { return role.registers != 0; });
  if (wishes && all.target.lacks(*find_instr("setmaxnreg_inc")))
    note(fmt::format("max_nreg changes nothing: {} moves no registers between warps", said(all.target)),
         true);
  for (auto& text : all.by_threads) note(text, true);
}

void carry_out(Function& f, Kernel& k, const Target& target) {
  ScheduledKernel all{.f = f, .k = k, .target = target, .s = read_warp_schedule(f, k)};
  check_registers(all);
  for (size_t p = 0; p < all.s.pipelines.size(); p++)
    for (BufferId b : all.s.pipelines[p].tiles) {
      all.pipeline_of[b] = p;
      f[b].slots = all.s.pipelines[p].slots;
      give_slots(f[b]);
    }
  const std::vector<Stmt>& body = all.s.scopes[0].body;
  size_t first = size_t(std::ranges::find_if(body, [](auto& x) { return !op_of(x).empty(); }) - body.begin());
  std::vector<Stmt> out(body.begin(), body.begin() + std::ptrdiff_t(first));
  for (auto& scope : all.s.scopes)
    for (size_t i = scope.loop ? 0 : first; i < scope.body.size(); i++)
      if (scope.body[i].as<Alloc>()) out.push_back(scope.body[i]);
  make_barriers(all, out);
  for (auto& role : all.s.roles) out.push_back(RoleProgram{.all = all, .role = role}.run(first));
  k.body = block(std::move(out), k.body->span);
  report(all);
}

bool can_carry_out(const Target& target) {
  return target.has_threads() && target.warp == scheduled_warp &&
         !target.lacks(*find_instr("cp_async_bulk_tensor_2d_load"));
}

}  // namespace

Function specialize_warps(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    if (k.attrs.find(schedule_attr) && can_carry_out(target)) {
      carry_out(f, k, target);
    } else if (k.attrs.find(schedule_attr)) {
      f.notes.push_back(
          {.pass = "specialize_warps",
           .subject = std::string(schedule_attr),
           .text = fmt::format("all warps execute the program as it is written: {} has no copies of "
                               "boxes (TMA), which roles of warps are for",
                               said(target)),
           .span = k.schedule_span,
           .refusal = true,
           .asked = true});
    }
    k.body = without_ops(k.body);
    k.attrs.entries.erase(std::string(schedule_attr));
  }
  for (BufferInfo& info : f.buffers) info.pipeline.clear();
  return f;
}

}  // namespace tl
