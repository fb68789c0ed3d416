// Does a schedule of warps leave the program's results as they are?  What is executed by one role keeps the
// program's order as far as it matters; what two roles exchange goes through a pipeline
// (check_pipeline_uses).
#include <algorithm>

#include "ops/op.h"
#include "ops/own_copies.h"
#include "pass/scheduled_ops.h"
#include "target/effects.h"

namespace tl {
namespace {

using StepKind = WarpStep::Kind;

OpEffects effects_of_op(const Function& f, const Stmt& op) {
  OpEffects out;
  visit_nodes(op, [&](const Node& n) {
    if (!is_statement(n.kind) || n.kind == Kind::Alloc) return;
    Stmt s(static_cast<const StmtNode*>(&n));
    Effects effects = effects_of(s);
    auto* t = s.as<Tile>();
    out.is_ordered |= effects.meets || effects.signals || effects.fences || control_of(s) ||
                      !effects.completes.empty() || !effects.closes.empty() || is_async_copy(s) ||
                      (t && (t->attrs.find("in_flight") || (!t->body && row_of(*t).by_one)));
    for (auto& e : effects.list) {
      out.touched.insert(f.storage(e.buffer));
      if (e.access != Access::read) out.written.insert(f.storage(e.buffer));
      if (e.access != Access::write) out.read.insert(f.storage(e.buffer));
      out.is_ordered |= e.begins != Token::none;
    }
  });
  return out;
}

// Each operation is placed, once, in an order that means the same.
struct StepChecker {
  const ScheduledOps& all;
  const Function& f = all.f;
  const WarpSchedule& s = all.s;

  void check_step(const OpScope& scope, const WarpRole& role, const WarpStep& step) const {
    if (step.kind != StepKind::op) {
      if (s.pipeline(step.name) == s.pipelines.size())
        all.refuse("{} in {} names the pipeline {}, which there is not", role.name, all.where(scope),
                   step.name);
      int64_t slots = s.pipelines[s.pipeline(step.name)].slots;
      if (step.late < 0 || (step.late && step.kind != StepKind::release))
        all.refuse(
            "stage is {} in a sync of the pipeline {}: only consumer_release may be late, by a stage of 1 or "
            "more; the others are about the present use, stage 0",
            step.late, step.name);
      if (step.late >= slots)
        all.refuse(
            "{} releases the pipeline {} {} uses late, but it has {} slot{}: the producer would wait for "
            "ever",
            role.name, step.name, step.late, slots, slots == 1 ? "" : "s");
      return;
    }
    if (scope.place_of(step.name) < scope.body.size()) return;
    for (auto& other : s.scopes)
      if (other.place_of(step.name) < other.body.size())
        all.refuse("{} has the operation {} in {}, but the program has it in {}", role.name, step.name,
                   all.where(scope), all.where(other));
    all.refuse("{} has the operation {} in {}, but the program has no T.ws_op(\"{}\") there", role.name,
               step.name, all.where(scope), step.name);
  }
  void check_placed(const OpScope& scope) const {
    for (auto& op : scope.body) {
      if (op_of(op).empty()) continue;
      std::vector<std::string> by;
      for (auto& role : s.roles) {
        auto steps = s.steps(scope, role);
        auto names = [&](const WarpStep& x) { return x.kind == StepKind::op && x.name == op_of(op); };
        auto times = std::ranges::count_if(steps, names);
        if (times > 1)
          all.refuse("{} has the operation {} {} times in {}", role.name, op_of(op), times, all.where(scope));
        if (times) by.push_back(role.name);
      }
      if (by.empty())
        fail(op->span, "the operation {} is placed by no role of the schedule: let one have it in {}",
             op_of(op), all.where(scope));
      if (by.size() > 1 && !all.inner(op)) check_repeated(op, by);
    }
  }
  // What several roles do each for itself.
  void check_repeated(const Stmt& op, const std::vector<std::string>& by) const {
    for (BufferId b : all.effects.at(op_of(op)).written)
      if (f[b].scope != Scope::local || !f[b].reducer.empty())
        fail(op->span, "the operation {} is placed in the roles {} and {}, but writes {}: one role does that",
             op_of(op), by[0], by[1], f[b].name);
    if (contains(op, [](const Alloc&) { return true; }))
      fail(op->span, "the operation {} is placed in the roles {} and {}, but allocates: move that out of it",
           op_of(op), by[0], by[1]);
  }
  void check_reached(const OpScope& scope) const {
    if (!scope.loop) return;
    const OpScope& around = s.scopes[scope.parent];
    for (auto& role : s.roles) {
      auto steps = s.steps(around, role);
      auto names = [&](const WarpStep& x) { return x.kind == StepKind::op && x.name == scope.id; };
      if (!s.steps(scope, role).empty() && std::ranges::none_of(steps, names))
        all.refuse("{} has steps in {}, but does not have {} itself in {}", role.name, scope.id, scope.id,
                   all.where(around));
    }
  }

  void check_order(const OpScope& scope, const WarpRole& role) const {
    auto steps = s.steps(scope, role);
    std::erase_if(steps, [](auto& x) { return x.kind != StepKind::op; });
    bool assigns = std::ranges::any_of(scope.body, [](auto& x) { return bool(x.template as<Store>()); });
    for (size_t i = 0; i < steps.size(); i++)
      for (size_t j = i + 1; j < steps.size(); j++) {
        if (scope.place_of(steps[i].name) < scope.place_of(steps[j].name)) continue;
        const OpEffects &a = all.effects.at(steps[i].name), &b = all.effects.at(steps[j].name);
        auto meets = [&](BufferId x, const OpEffects& other) { return other.touched.contains(x); };
        bool matters = assigns || a.is_ordered || b.is_ordered ||
                       std::ranges::any_of(a.written, [&](BufferId x) { return meets(x, b); }) ||
                       std::ranges::any_of(b.written, [&](BufferId x) { return meets(x, a); });
        if (matters)
          all.refuse("{} has {} before {} in {}, but the program has {} first, and the order matters",
                     role.name, steps[i].name, steps[j].name, all.where(scope), steps[j].name);
      }
  }

  void run() const {
    for (auto& scope : s.scopes) {
      for (auto& role : s.roles)
        for (auto& step : s.steps(scope, role)) check_step(scope, role, step);
      check_placed(scope);
      check_reached(scope);
    }
    for (auto& role : s.roles)
      for (auto& scope : s.scopes) check_order(scope, role);
  }
};

// What no operation is, every role executes: it has the same value in all of them.
struct OthersChecker {
  const ScheduledOps& all;
  const Function& f = all.f;
  const WarpSchedule& s = all.s;
  std::set<BufferId> written = written_buffers(all.k.body);

  // Has every role the same value of it?
  bool is_common(const Expr& e) const {
    auto reads = [&](const Load& n) {
      const BufferInfo& info = f[n.buffer];
      bool variable = info.scope == Scope::local && info.shape.empty() && info.reducer.empty();
      return !variable && (info.scope != Scope::global || written.contains(n.buffer));
    };
    return !e ||
           !contains(e, reads, [](const Call& c) { return c.intrinsic->effect != Intrinsic::Effect::pure; });
  }
  bool is_beginning(const Stmt& stmt) const {  // of barriers of the program's own
    auto* branch = stmt.as<If>();
    auto* call = branch ? branch->cond.as<Call>() : nullptr;
    auto* eval = stmt.as<Eval>();
    auto* sync = eval ? eval->value.as<Call>() : nullptr;
    return (call && call->intrinsic == &elected) || (sync && sync->intrinsic == &sync_threads);
  }
  bool is_for_all(const Stmt& stmt) const {
    if (stmt.as<Alloc>()) return true;
    if (auto* n = stmt.as<Let>()) return is_common(n->value);
    if (auto* n = stmt.as<Store>())
      return f[n->buffer].scope == Scope::local && f[n->buffer].shape.empty() && is_common(n->value);
    auto* n = stmt.as<Eval>();
    auto* call = n ? n->value.as<Call>() : nullptr;
    if (!call) return false;
    bool says = call->intrinsic == &assume_function || call->intrinsic == &print_row ||
                call->intrinsic == &device_assert;
    return says && std::ranges::all_of(call->args, [&](auto& e) { return is_common(e); });
  }
  void check_others(const OpScope& scope) const {
    bool begun = bool(scope.loop);
    for (auto& stmt : scope.body) {
      begun |= !op_of(stmt).empty();
      if (!op_of(stmt).empty() || is_for_all(stmt) || (!begun && is_beginning(stmt))) continue;
      bool around = contains(stmt, [](const Group& n) { return !op_of(Stmt(&n)).empty(); });
      if (around)
        fail(stmt->span,
             "there are operations of the schedule in this statement: make it one as well, `with "
             "T.ws_op(id):` around it, and a WSScope of that id");
      fail(stmt->span,
           "no role of the schedule executes this statement: put it into a `with T.ws_op(id):`; what stands "
           "outside may compute numbers of parameters, loops and variables alone, as every role does it");
    }
    for (auto& name : scope.names)
      if (!is_for_all(name))
        fail(name->span, "this name reads what the kernel writes: move it into an operation");
    Expr head = scope.loop ? head_of(scope.loop) : Expr();
    if (!is_common(head))
      fail(scope.loop->span, "the operation {} depends on what the kernel writes, which not all roles see",
           scope.id);
  }
  static Expr head_of(const Stmt& loop) {
    if (auto* n = loop.as<For>()) return n->min + n->extent;
    return loop.as<If>() ? loop.as<If>()->cond : loop.as<While>()->cond;
  }
  // The numbers of threads are others in a role, and its jumps are its own.
  void check_threads(const Stmt& op) const {
    if (jumps(op) || contains(op, [](const Call& c) { return c.intrinsic == &thread_return; }))
      fail(op->span,
           "the operation {} of the schedule leaves the loop around it, or the kernel: one role alone "
           "would do so",
           op_of(op));
    visit(op.as<Group>()->body, [&](const Group& n) {
      if (op_of(Stmt(&n)).empty())
        fail(n.span, "the operation {} of the schedule has a team of its own, but its role is one already",
             op_of(op));
    });
    visit(op, [&](const Call& c) {
      bool names = c.intrinsic->effect == Intrinsic::Effect::thread || c.intrinsic == &elected ||
                   c.intrinsic == &random_sequence;
      bool meets = c.intrinsic->effect == Intrinsic::Effect::barrier ||
                   c.intrinsic->effect == Intrinsic::Effect::partial_barrier;
      if (names || meets)
        fail(c.span ? c.span : op->span,
             "{} is part of the operation {} of the schedule, which the threads of a role execute: {}",
             c.intrinsic->name, op_of(op),
             names ? "their numbers are others than in the whole block; use T.Parallel"
                   : "leave barriers out, the compiler places those of the role");
    });
  }

  void run() const {
    for (auto& scope : s.scopes) {
      check_others(scope);
      for (auto& op : scope.body)
        if (!op_of(op).empty() && !all.inner(op)) check_threads(op);
    }
  }
};

// What is in no pipeline belongs to the role that writes it; but of a tensor that nobody reads, each role may
// write elements of its own.
struct ExchangeChecker {
  const ScheduledOps& all;
  const Function& f = all.f;
  const WarpSchedule& s = all.s;

  struct Owner {
    const WarpRole* role = nullptr;
    std::string op = {};
    bool is_written = false, is_written_only = false;
  };
  // Does each role that uses the threads' own array write to it in the same operations?
  static bool is_own(const std::vector<Owner>& users) {
    std::map<const WarpRole*, std::set<std::string>> writers;
    for (auto& x : users) writers[x.role];
    for (auto& x : users)
      if (x.is_written) writers[x.role].insert(x.op);
    return std::ranges::all_of(writers, [&](auto& x) { return x.second == writers.begin()->second; });
  }
  // What is in no pipeline belongs to the role that writes it; but of a tensor that nobody reads, each role
  // may write elements of its own.
  void check_exchange() const {
    std::map<BufferId, std::vector<Owner>> users;
    for (auto& scope : s.scopes)
      for (auto& role : s.roles)
        for (auto& step : s.steps(scope, role)) {
          if (step.kind != StepKind::op || s.scope(step.name)) continue;
          const OpEffects& e = all.effects.at(step.name);
          for (BufferId b : e.touched)
            users[b].push_back({&role, step.name, e.written.contains(b), !e.read.contains(b)});
        }
    for (auto& [b, its] : users) {
      if (all.pipeline_of.contains(b)) continue;
      auto writer = std::ranges::find_if(its, &Owner::is_written);
      if (writer == its.end()) continue;
      for (auto& scope : s.scopes) check_unowned(scope, b, writer->op);
      bool apart = f[b].scope == Scope::local    ? is_own(its)
                   : f[b].scope == Scope::global ? std::ranges::all_of(its, &Owner::is_written_only)
                                                 : false;
      for (auto& other : its)
        if (other.role != writer->role && !apart)
          all.refuse(
              "{} writes {} in {}, and {} uses it in {}: let one role do both, or make {} a tile of a "
              "pipeline",
              writer->role->name, f[b].name, writer->op, other.role->name, other.op, f[b].name);
    }
  }
  void check_unowned(const OpScope& scope, BufferId b, const std::string& op) const {
    auto check = [&](const Stmt& stmt) {
      OpEffects e;
      for (auto& x : effects_of(stmt).list) e.touched.insert(f.storage(x.buffer));
      if (!stmt.as<Alloc>() && e.touched.contains(b))
        fail(stmt->span,
             "every role executes this statement, but {} is written in the operation {} of one role",
             f[b].name, op);
    };
    bool begun = bool(scope.loop);  // what the kernel begins with is there for all roles
    for (auto& stmt : scope.body) {
      begun |= !op_of(stmt).empty();
      if (begun && op_of(stmt).empty()) check(stmt);
    }
    for (auto& name : scope.names) check(name);
    if (scope.loop) check(scope.loop);
  }
};

}  // namespace

ScheduledOps::ScheduledOps(const Function& f, const Kernel& k, const WarpSchedule& s) : f(f), k(k), s(s) {
  for (size_t p = 0; p < s.pipelines.size(); p++)
    for (BufferId b : s.pipelines[p].tiles) pipeline_of[f.storage(b)] = p;
  for (auto& scope : s.scopes)
    for (auto& op : scope.body)
      if (!op_of(op).empty()) effects[op_of(op)] = effects_of_op(f, op);
}

void check_warp_schedule(const Function& f, const Kernel& k, const WarpSchedule& s) {
  ScheduledOps all(f, k, s);
  StepChecker{.all = all}.run();
  OthersChecker{.all = all}.run();
  check_pipeline_uses(all);
  ExchangeChecker{.all = all}.check_exchange();
}

}  // namespace tl
