// Statements and whole kernels.
#include "sim/translate.h"

#include <algorithm>

#include "base/error.h"
#include "ir/affine_form.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "sim/steps.h"
#include "sim/wrapped.h"
#include "target/limits.h"

namespace tl::sim {

void Translator::open() { scopes.push_back({}); }

// The innermost scope's code, its head first.
std::vector<Operation> Translator::close() {
  CodeScope scope = std::move(scopes.back());
  scopes.pop_back();
  scope.head.insert(scope.head.end(), scope.code.begin(), scope.code.end());
  return std::move(scope.head);
}

void Translator::close_into() {
  std::vector<Operation> inner = close();
  now().insert(now().end(), inner.begin(), inner.end());
}

// ── masks ─────────────────────────────────────────────────────────────────────────────────────────────
size_t Translator::begin_narrow(int32_t slot, int32_t count) {
  emit({.run = narrow, .a = slot, .count = count});
  return now().size() - 1;
}
size_t Translator::begin_else(size_t narrowed) {
  now()[narrowed].jump = int32_t(now().size() - narrowed);
  emit({.run = narrow_else});
  return now().size() - 1;
}
void Translator::end_narrow(size_t narrowed, bool may_be_empty) {
  now()[narrowed].jump = int32_t(now().size() - narrowed);
  if (may_be_empty)
    emit({.run = widen_or_go, .row = exit});
  else
    emit({.run = widen});
}

// ── jumps ─────────────────────────────────────────────────────────────────────────────────────────────
void Translator::end_jumping() {
  emit({.run = leave_jumping});
  if (exit >= 0) emit({.run = go_if_empty, .row = exit});
}

void Translator::put_label(int32_t l) { emit({.run = label, .row = l}); }

void Translator::control(const Intrinsic& row) {
  emit({.run = &row == &break_loop      ? break_threads
               : &row == &continue_loop ? continue_threads
                                        : return_threads});
}

// ── statements ────────────────────────────────────────────────────────────────────────────────────────
void Translator::stmt(const Stmt& s) {
  Span outer = span;
  Stmt around = statement;
  if (s->span) span = s->span;
  if (s->kind != Kind::Block) statement = s;
  next_temporary = 0;
  dispatch(s, overloads{
                  [&](const Store& n) { store_statement(n); },
                  [&](const Let& n) { let_statement(n); },
                  [&](const For& n) { for_statement(n); },
                  [&](const If& n) { if_statement(n); },
                  [&](const While& n) { while_statement(n); },
                  [&](const tl::Block& n) { block_statement(n); },
                  [&](const Group& n) { group_statement(n); },
                  [&](const Alloc& n) { alloc_statement(n); },
                  [&](const Tile& n) {
                    internal_error("a tile operator at level machine: " + std::string(n.op->name));
                  },
                  [&](const Eval& n) {
                    if (const Intrinsic* row = control_of(s)) return control(*row);
                    value(n.value);
                  },
              });
  span = outer;
  statement = around;
}

// A variable that holds what was loaded opens a scope, for the statements after it; it ends with the body.
void Translator::body(const Stmt& s) {
  size_t outside = scopes.size();
  bool may_jump = has_control(s);
  int32_t around = exit;
  if (may_jump) exit = labels++;
  stmt(s);
  while (scopes.size() > outside) close_into();
  if (may_jump) put_label(exit);
  exit = around;
}

// What follows a jump does not run.
void Translator::block_statement(const tl::Block& n) {
  size_t outside = scopes.size();
  for (auto& s : n.stmts) {
    stmt(s);
    if (control_of(s)) break;
  }
  while (scopes.size() > outside) close_into();
}

// A tensor made from an address keeps it, for each lane.
void Translator::alloc_statement(const Alloc& n) {
  int place = place_of(n.buffer);
  if (f[n.buffer].scope != Scope::global) {
    emit({.run = begin_buffer, .row = place});
    return;
  }
  int32_t slot = code.places[size_t(place)].made_at = lasting(code.warp);
  Value base = spread(value(std::get<Expr>(*n.attrs.find("base"))));
  emit({.run = copy, .to = slot, .a = base.slot, .count = code.warp});
}

// A variable has that value from here on.
void Translator::keep(const Expr& var, Value v) {
  if (!v.pure) {
    int32_t count = v.uniform ? 1 : code.warp * v.width, slot = lasting(count);
    emit({.run = copy, .to = slot, .a = v.slot, .count = count});
    open();
    v.slot = slot;
    v.depth = int(scopes.size()) - 1;
    v.pure = true;
  }
  vars[var.get()] = v;
  kept.push_back(var);
}

void Translator::let_statement(const Let& n) {
  learn(facts, n.var, n.value);
  keep(n.var, value(n.value));
}

void Translator::for_statement(const For& n) {
  Value min = value(n.min), extent = value(n.extent);
  bool uniform = min.uniform && extent.uniform;
  if (!uniform) min = spread(min), extent = spread(extent);
  int32_t count = uniform ? 1 : code.warp;
  Value v{.slot = lasting(count), .depth = int(scopes.size()), .uniform = uniform};
  int32_t end = lasting(count), done = -1;
  bool may_jump = has_control(n.body);
  if (may_jump) {
    done = labels++;
    emit({.run = enter_jumping});
  }
  emit({.run = uniform ? for_begin : lanes_begin, .to = v.slot, .a = min.slot, .b = extent.slot, .c = end});
  size_t begin = now().size() - 1;
  open();
  vars[n.var.get()] = v;
  Interval first = interval_of(n.min, facts), trips = interval_of(n.extent, facts);
  bool known = first.bounded() && trips.bounded();
  facts.bind(n.var, known ? Interval{first.min, first.max + std::max<int64_t>(trips.max, 1) - 1}
                          : Interval{first.min, INT64_MAX});
  if (may_jump) emit({.run = begin_trip});
  body(n.body);
  if (may_jump) emit({.run = end_trip, .row = done});
  std::vector<Operation> trip = close();
  now().insert(now().end(), trip.begin(), trip.end());
  emit({.run = uniform ? for_next : lanes_next, .to = v.slot, .c = end, .jump = -int32_t(trip.size())});
  now()[begin].jump = int32_t(now().size() - begin);
  if (may_jump) put_label(done);
  if (!uniform) emit({.run = widen});
  if (may_jump) end_jumping();
}

void Translator::if_statement(const If& n) {
  Value cond = value(n.cond);
  size_t narrowed = begin_narrow(cond.slot, cond.uniform ? 1 : code.warp);
  Facts outside = facts;
  facts.assume(n.cond);
  body(n.then_body);
  facts = std::move(outside);
  if (n.else_body) {
    narrowed = begin_else(narrowed);
    body(n.else_body);
  }
  end_narrow(narrowed, has_control(n.then_body) || has_control(n.else_body));
}

namespace {

// Does it change memory that others see?  A loop that does not waits for others, or computes: see
// Launch::wake.
bool changes_memory(const Function& f, const Stmt& body) {
  return contains(
      body, [&](const Store& s) { return f[s.buffer].scope != Scope::local; },
      [](const Call& c) {
        return c.intrinsic->atomic != Intrinsic::Atomic::none || is_foreign(*c.intrinsic);
      });
}

}  // namespace

void Translator::while_statement(const While& n) {
  bool may_jump = has_control(n.body);
  if (may_jump) emit({.run = enter_jumping});
  Scalar number = scalar(changes_memory(f, n.body) ? code.loops++ : int64_t(0));
  emit({.run = enter_while, .value = number});
  emit({.run = save});
  size_t begin = now().size();
  next_temporary = 0;
  Value cond = value(n.cond);
  emit({.run = narrow_on, .a = cond.slot, .count = cond.uniform ? 1 : code.warp, .value = number});
  size_t test = now().size() - 1;
  int32_t done = may_jump ? labels++ : -1;
  if (may_jump) emit({.run = begin_trip});
  body(n.body);
  if (may_jump) emit({.run = end_trip, .row = done});
  emit({.run = jump, .jump = int32_t(begin) - int32_t(now().size())});
  if (may_jump) put_label(done);
  end_narrow(test);
  if (may_jump) end_jumping();
}

void Translator::group_statement(const Group& n) {
  emit({.run = narrow_group, .count = int32_t(n.count), .value = scalar(n.first)});
  size_t narrowed = now().size() - 1;
  Team outer = std::exchange(team, team_of(n));
  body(n.body);
  team = outer;
  end_narrow(narrowed, has_control(n.body));
}

// ── kernels ───────────────────────────────────────────────────────────────────────────────────────────
namespace {

// Temporaries come after the slots that last.
void place_temporaries(Code& code, int32_t begin) {
  auto place = [&](int32_t& slot) {
    if (slot >= first_temporary) slot += begin - first_temporary;
  };
  for (auto& o : code.operations)
    for (auto* slot : {&o.to, &o.a, &o.b, &o.c}) place(*slot);
  for (auto& c : code.calls) {
    place(c.to);
    for (auto& a : c.args) place(a.slot);
  }
  for (auto& c : code.claims) {
    place(c.where);
    for (auto& d : c.dims)
      for (auto* slot : {&d.first, &d.last, &d.extent}) place(*slot);
  }
}

// Atomic accesses, barriers of some warps, asynchronous operations, and foreign code.
bool is_meeting(const CallSite& site) {
  const Intrinsic& c = *site.intrinsic;
  return c.atomic != Intrinsic::Atomic::none || c.effect == Intrinsic::Effect::partial_barrier ||
         is_foreign(c) || site.is_async;
}

// Of operations that no operator makes.
void set_follow(Operation& o) {
  using Follow = Operation::Follow;
  if (o.run == copy) o.follow = Follow::convert;
  if (o.run == splat) o.follow = Follow::splat;
  if (o.run == repeat) o.follow = Follow::repeat;
  if (o.run == ramp) o.follow = Follow::ramp;
  if (o.run == select) o.follow = Follow::select;
  if (o.run == address) o.follow = Follow::address;
}

void find_effects(std::vector<Operation>& operations, const std::vector<CallSite>& calls) {
  using Effect = Operation::Effect;
  for (auto& o : operations) {
    o.meets = o.run == call && is_meeting(calls[size_t(o.row)]);
    if (o.effect != Effect::none) continue;
    set_follow(o);
    bool branches = o.run == narrow || o.run == narrow_on || o.run == lanes_begin;
    bool counts = o.run == for_begin || o.run == for_next || o.run == lanes_next;
    o.effect = o.run == call          ? Effect::call
               : branches             ? Effect::branch
               : o.to >= 0 && !counts ? Effect::compute
                                      : Effect::none;
  }
}

// An operation that goes to a label gets the distance.
void place_labels(std::vector<Operation>& operations, int32_t labels) {
  std::vector<size_t> places(size_t(labels), 0);
  for (size_t i = 0; i < operations.size(); i++)
    if (operations[i].run == label) places[size_t(operations[i].row)] = i;
  for (size_t i = 0; i < operations.size(); i++) {
    Operation& o = operations[i];
    if (o.run == widen_or_go || o.run == end_trip || o.run == go_if_empty)
      o.jump = int32_t(int64_t(places[size_t(o.row)]) - int64_t(i));
  }
}

}  // namespace

Code translate(const Function& f, const Kernel& k, const Target& target) {
  internal_check(target.warp % lane_group == 0 && target.warp <= max_lanes, "warps of 32 or 64 threads");
  Translator t{.f = f, .target = target, .facts = facts_of(f, k)};
  Code& code = t.code;
  code.warp = target.warp;
  code.function = &f;
  code.kernel = &k;
  code.number = &k - f.kernels.data();
  code.vector_bytes = target.vector_bytes;
  code.banks = target.shared_banks;
  if (auto* lines = k.attrs.find("parallel_lines"))
    for (int64_t line : std::get<std::vector<int64_t>>(*lines)) code.parallel_lines.insert(line);
  code.chip = target.name;
  code.max_grid = target.max_grid;
  check_limits(k, target);
  if (k.threads.empty()) code.threads[0] = target.default_threads;
  for (size_t d = 0; d < k.threads.size(); d++) code.threads[d] = k.threads[d];
  code.launch_registers = target.multiprocessors.launch_registers(
      code.thread_count(), std::max<int64_t>(1, k.attrs.get_int("min_blocks_per_sm")));
  for (size_t d = 0; d < k.cluster.size(); d++) code.cluster[d] = k.cluster[d];
  t.span = k.span;
  t.open();
  auto input = [&](const Expr& v) {
    if (t.vars.contains(v.get())) return;
    t.vars[v.get()] = {.slot = t.lasting(1)};
    code.inputs.emplace_back(v, t.vars[v.get()].slot);
  };
  for (auto& v : k.grid_vars) input(v);
  for (auto& p : f.params)
    if (p.var) input(p.var);
  for (auto& p : f.params)
    if (p.buffer)
      for (auto* list : {&f[p.buffer].shape, &f[p.buffer].strides})
        for (auto& e : *list)
          if (auto form = affine_form_of(e)) input(form->var);
  code.thread = t.lasting(code.warp);
  if (k.thread) t.vars[k.thread.get()] = {.slot = code.thread, .uniform = false};
  t.body(k.body);
  t.emit({.run = end});
  code.operations = t.close();
  place_labels(code.operations, t.labels);
  find_effects(code.operations, code.calls);
  place_temporaries(code, t.last_slot);
  code.slots = t.last_slot + t.most_temporaries;
  mark_wrapping(code);
  code.most_residents = target.multiprocessors.residents(code.thread_count(), code.shared_bytes, code.warp);
  code.lane_bytes += 64;  // lanes do not fall into the same cache sets
  return std::move(t.code);
}

}  // namespace tl::sim
