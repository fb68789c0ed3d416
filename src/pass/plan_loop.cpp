// What of a pipelined loop is done when: the stages of its statements, the slots of its tiles.
#include "pass/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/product.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "ops/own_copies.h"
#include "pass/splice.h"
#include "pass/tile_use.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {

void LoopPlanner::note(std::string text, bool refusal, Span span, BufferId buffer) {
  f.notes.push_back({.pass = "plan_schedule",
                     .subject = "loop " + loop.var.as<Var>()->hint,
                     .text = std::move(text),
                     .span = span ? span : loop.span,
                     .refusal = refusal,
                     .buffer = buffer,
                     .asked = refusal && target.has_threads()});
}

// ── the plan ────────────────────────────────────────────────────────────────────────────────────────
Stmt LoopPlanner::marked(const Stmt& s, std::string engine, int64_t stage, int64_t order,
                         int64_t rank) const {
  auto with = [&](Attrs attrs) {
    if (!engine.empty()) attrs.entries.insert_or_assign("engine", engine);
    attrs.entries.insert_or_assign("stage", stage);
    if (order) attrs.entries.insert_or_assign("order", order);
    if (rank) attrs.entries.insert_or_assign("rank", rank);
    return attrs;
  };
  if (auto* n = s.as<Tile>()) return tile(*n->op, n->operands, with(n->attrs), n->span, n->body);
  auto* n = s.as<For>();
  if (!n || n->loop != Loop::parallel)  // has no place for attributes: a loop of one iteration has
    return for_loop(var("once"), imm(0), imm(1), Loop::serial, s, s->span, with({}));
  return for_loop(n->var, n->min, n->extent, n->loop, n->body, n->span, with(n->attrs));
}

std::vector<Stmt> LoopPlanner::split(const Early& e, int64_t stages, std::vector<Stmt>& allocs) {
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

// ── where copies are begun ──────────────────────────────────────────────────────────────────────────
std::vector<Stmt> LoopPlanner::rest_of_body() const {
  std::vector<Stmt> rest;
  for (auto& s : body)
    if (std::ranges::none_of(early, [&](auto& e) { return is_planned(e) && e.stmt.same(s); }))
      rest.push_back(s);
  return rest;
}

void LoopPlanner::choose_places() {
  struct Reads {
    int64_t first = 0, end = 0;  // the first reader, and behind the last one
    int64_t product = 0;         // in front of which the first reader stands
  };
  std::map<BufferId, Reads> reads;
  for (auto& e : early)
    if (is_planned(e) && e.engine == "cp_async") reads[e.tile];
  int64_t place = 0, products = 0;
  for (auto& s : rest_of_body()) {
    for (auto& [tile, r] : reads) {
      if (!use_of(f, s, tile).touched) continue;
      if (r.end == 0) r.first = place, r.product = products;
      r.end = place + 1;
    }
    products += contains(s, [](const Tile& t) { return row_of(t).steps != nullptr; });
    place++;
  }
  std::set<int64_t> needed_by;
  for (auto& [tile, r] : reads) needed_by.insert(r.product);
  if (needed_by.size() < 2) return;
  for (auto& e : early) {
    if (!reads.contains(e.tile)) continue;
    auto& own = reads[e.tile];
    bool waits_later = std::ranges::any_of(reads, [&](auto& r) { return r.second.first >= own.end; });
    e.place = waits_later ? own.end : own.first;
  }
}

Stmt LoopPlanner::planned(int64_t slots) {
  int64_t stages = 0;
  stepped = find_stepped();
  choose_places();
  for (auto& e : early)
    if (is_planned(e))
      stages = std::max<int64_t>(stages, f[e.tile].scope == Scope::fragment ? 1 : e.splits ? 2 : slots - 1);
  if (stages == 0) return loop_stmt;
  std::vector<Stmt> allocs;
  std::map<const StmtNode*, std::vector<Stmt>> instead;
  int64_t ahead = slots - 1;
  auto flight = stepped ? std::nullopt : find_in_flight(slots);
  if (flight) keep_in_flight(*flight, stages, instead);
  if (stepped) {
    stages = ahead = slots;
    for (auto& e : early) e.place = stepped->place_of_last();
    instead[stepped->op] = in_steps(*stepped, stages, allocs);
    for (auto& filler : stepped->fillers) instead[filler.stmt.get()] = {};
  }
  for (auto& e : early) {
    if (!is_planned(e)) continue;
    BufferInfo& info = f[e.tile];
    auto& to = instead[e.stmt.get()];
    if (info.scope == Scope::fragment) {
      to = {marked(e.stmt, "", stages - 1, free_after(e.tile).value())};
    } else if (e.splits) {
      info.slots = std::max<int64_t>(info.slots, 2);
      to = e.tensor ? split(e, stages, allocs) : std::vector<Stmt>{marked(e.stmt, "", stages - 1, 0)};
    } else {
      info.slots = std::max<int64_t>(info.slots, slots);
      to = {marked(e.stmt, e.engine, stages - ahead, e.place)};
    }
  }
  Stmt inside = splice(loop.body, [&](const Stmt& original, const Stmt& walked) {
    auto it = instead.find(original.get());
    return it == instead.end() ? std::vector<Stmt>{walked} : it->second;
  });
  Attrs attrs = loop.attrs;
  attrs.entries.insert_or_assign("num_stages", slots);
  attrs.entries.insert_or_assign("stages", stages);
  Stmt made = for_loop(loop.var, loop.min, loop.extent, loop.loop, inside, loop.span, attrs);
  allocs.push_back(flight && flight->ahead.empty() ? ended(made) : made);
  return block(std::move(allocs), loop.span);
}

// ── the whole loop ──────────────────────────────────────────────────────────────────────────────────
std::string LoopPlanner::why_in_order() const {
  if (!target.has_threads()) return said(target) + " runs one thread a block";
  std::string why;
  visit(
      loop.body,
      [&](const For& n) {
        if (n.loop == Loop::pipelined && n.attrs.find("stages"))
          why = fmt::format("the loop on line {} in it is pipelined", n.span.line);
      },
      [&](const Tile& n) {
        if (has_given_schedule(loop) && (is_async_copy(Stmt(&n)) || row_of(n).by_one))
          why = fmt::format("nothing moves across the {} on line {}", n.op->said(), n.span.line);
      },
      [&](const Call& n) {
        // Groups of copies are counted, so that the order of what begins, closes and awaits them matters.
        bool in_groups = has_given_schedule(loop) && async_row_of(*n.intrinsic);
        if (in_groups || n.intrinsic == &pdl_sync || n.intrinsic->effect == Intrinsic::Effect::barrier ||
            n.intrinsic->effect == Intrinsic::Effect::partial_barrier)
          why = fmt::format("nothing moves across the {} in it", n.intrinsic->name);
      });
  return why;
}

Stmt LoopPlanner::run() {
  int64_t asked = loop.attrs.get_int("num_stages"), slots = asked;
  bool given = has_given_schedule(loop);
  if (asked < 2 && !given) return loop_stmt;
  read_body();
  if (std::string why = why_in_order(); !why.empty()) {
    std::string idle = given ? "its order and stage have" : fmt::format("num_stages={} has", asked);
    note(fmt::format("runs in order, {} no effect: {}", idle, why), true);
    return loop_stmt;
  }
  auto extent = as_int(loop.extent);
  if (given && extent && *extent < 2) return loop_stmt;  // nothing runs beside its only iteration
  if (extent) slots = std::min(slots, *extent);
  slots = std::min(slots, kernel.attrs.get_int("most_stages", slots));
  if (slots < 2 && !given) {
    if (slots < asked && !(extent && *extent < 2))
      note(fmt::format("runs in order, num_stages={} has no effect: {} KB of shared memory hold no second "
                       "slot of its tiles",
                       asked, target.shared_bytes / 1024),
           true);
    return loop_stmt;
  }
  std::vector<std::pair<Expr, bool>> conditions;
  for (auto& s : body) collect(s, conditions);
  choose_tiles();
  if (given) {
    report_fewer(asked, slots);
    return as_given(slots);
  }
  Stmt s = planned(slots);
  report(asked, slots, !s.same(loop_stmt));
  return s;
}

void LoopPlanner::report_fewer(int64_t asked, int64_t slots) {
  if (slots < asked && kernel.attrs.find("most_stages"))
    note(fmt::format("num_stages={} was asked for, {} fit into the {} KB of shared memory of a block", asked,
                     slots, target.shared_bytes / 1024),
         true);
}

void LoopPlanner::report_own_waits(int64_t slots) {
  std::set<int64_t> places;  // each begins one group of copies an iteration
  for (auto& e : early)
    if (is_planned(e) && e.engine == "cp_async") places.insert(e.place);
  int64_t ahead = (slots - 1) * int64_t(places.size());
  visit(loop.body, [&](const Call& n) {
    const AsyncInstr* row = async_row_of(*n.intrinsic);
    bool waits = row && row->token == Token::copies && row->completes();
    int64_t left = waits && !n.args.empty() ? as_int(n.args[0]).value_or(0) : 0;
    if (waits && left < ahead)
      note(fmt::format(
               "{}, also for the up to {} groups of copies that run ahead in this loop, as a thread's "
               "groups are counted together: less is under way; copy these tiles by T.async_copy, too, "
               "or leave all of them to the loop",
               left ? fmt::format("this waits for all but {} groups of copies", left)
                    : "this waits for all groups of copies",
               ahead),
           true, n.span);
  });
}

void LoopPlanner::report(int64_t asked, int64_t slots, bool pipelined) {
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
  report_fewer(asked, slots);
  report_own_waits(slots);
  std::vector<std::string> ways;
  for (auto& e : early)
    if (is_planned(e) && e.tensor)
      ways.push_back(fmt::format("{} {}", f[e.tile].name,
                                 f[e.tile].scope == Scope::fragment ? "loaded one iteration ahead"
                                 : e.splits                         ? "through registers, 2 slots"
                                            : fmt::format("by cp.async, {} slots", slots)));
  if (stepped)
    for (auto& [operand, computed] : stepped->computed)
      ways.push_back(fmt::format("{} computed one of {} steps ahead", f[computed.filler.tile].name,
                                 stepped->steps.count));
  note(fmt::format("pipelined: {}", fmt::join(ways, "; ")), false);
}

}  // namespace tl
