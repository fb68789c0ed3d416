// Does a schedule of warps hand over its tiles as the program does, and does it end?  Uses of a pipeline are
// in one scope, equally many in each role, come in the program's order, and nothing of a slot's content is
// left from one use to the next.
#include <algorithm>
#include <optional>

#include "pass/scheduled_ops.h"
#include "pass/tile_use.h"

namespace tl {
namespace {

using StepKind = WarpStep::Kind;

// One use of a pipeline by a role: from acquire to commit, or from wait to release.
struct PipelineUse {
  std::vector<size_t> ops = {};      // places of the operations in the scope that touch its tiles
  std::optional<int64_t> late = {};  // of a release: by so many uses
};
struct UsesByRole {
  const OpScope* scope = nullptr;
  std::vector<PipelineUse> uses = {};
};

struct PipelineChecker {
  const ScheduledOps& all;
  const Function& f = all.f;
  const WarpSchedule& s = all.s;
  std::map<std::pair<size_t, std::string>, UsesByRole> producers = {}, consumers = {};  // by pipeline, role

  std::set<size_t> pipelines_of(const Stmt& op, const WarpRole& role) const {
    std::set<size_t> out;
    if (const OpScope* scope = all.inner(op)) {
      for (auto& step : s.steps(*scope, role))
        if (step.kind == StepKind::op) out.merge(pipelines_of(scope->body[scope->place_of(step.name)], role));
      return out;
    }
    for (BufferId b : all.effects.at(op_of(op)).touched)
      if (auto it = all.pipeline_of.find(b); it != all.pipeline_of.end()) out.insert(it->second);
    return out;
  }

  struct Held {
    bool produced = false;
    size_t use = 0;  // in the present scope
    bool is_here = false;
  };
  void walk(const OpScope& scope, const WarpRole& role, std::map<size_t, Held> held) {
    for (auto& [p, h] : held) h.is_here = false;
    for (auto& step : s.steps(scope, role)) {
      if (step.kind != StepKind::op) {
        sync(scope, role, step, held);
        continue;
      }
      size_t place = scope.place_of(step.name);
      const Stmt& op = scope.body[place];
      for (size_t p : pipelines_of(op, role)) {
        auto it = held.find(p);
        if (it != held.end() && it->second.is_here)
          (it->second.produced ? producers : consumers)[{p, role.name}].uses[it->second.use].ops.push_back(
              place);
        if (it == held.end() && !all.inner(op))
          fail(op->span,
               "{} uses a tile of the pipeline {} here, in the operation {}, but has neither acquired nor "
               "waited for a slot: the schedule places {} between the two",
               role.name, s.pipelines[p].name, step.name, step.name);
      }
      if (const OpScope* in = all.inner(op)) walk(*in, role, held);
    }
    for (auto& [p, h] : held) {
      if (!h.is_here) continue;
      if (!h.produced && consumers[{p, role.name}].uses[h.use].late) continue;
      all.refuse("{} {} a slot of the pipeline {} in {} and does not {} it there", role.name,
                 h.produced ? "acquires" : "waits for", s.pipelines[p].name, all.where(scope),
                 h.produced ? "commit" : "release");
    }
  }
  void sync(const OpScope& scope, const WarpRole& role, const WarpStep& step, std::map<size_t, Held>& held) {
    size_t p = s.pipeline(step.name);
    auto it = held.find(p);
    constexpr std::string_view words[] = {"", "producer_acquire", "producer_commit", "consumer_wait",
                                          "consumer_release"};
    std::string_view word = words[size_t(step.kind)], before = words[size_t(step.kind) - 1];
    if (step.begins()) {
      if (it != held.end())
        all.refuse("{} has {}({}) in {}, but holds a slot of that pipeline already", role.name, word,
                   step.name, all.where(scope));
      UsesByRole& uses = (step.produces() ? producers : consumers)[{p, role.name}];
      if (uses.scope && uses.scope != &scope)
        all.refuse("{} uses the pipeline {} both in {} and in {}: a pipeline has one scope", role.name,
                   step.name, all.where(*uses.scope), all.where(scope));
      uses.scope = &scope;
      uses.uses.emplace_back();
      held[p] = {.produced = step.produces(), .use = uses.uses.size() - 1, .is_here = true};
      return;
    }
    if (it == held.end() || it->second.produced != step.produces() || !it->second.is_here)
      all.refuse("{} has {}({}) in {} without {} before it, in the same scope", role.name, word, step.name,
                 all.where(scope), before);
    if (step.kind == StepKind::release) {
      auto& late = consumers[{p, role.name}].uses[it->second.use].late;
      if (late)
        all.refuse("{} releases the pipeline {} twice for one use in {}", role.name, step.name,
                   all.where(scope));
      late = step.late;
    }
    if (!step.late) held.erase(it);
  }

  void check_pipeline(size_t p) const {
    const WarpPipeline& pipe = s.pipelines[p];
    const std::pair<const std::pair<size_t, std::string>, UsesByRole>* producer = nullptr;
    for (auto& made : producers) {
      if (made.first.first != p) continue;
      if (producer)
        all.refuse("{} and {} both fill the pipeline {}: one role does", producer->first.second,
                   made.first.second, pipe.name);
      producer = &made;
    }
    if (!producer) all.refuse("no role fills the pipeline {}: one acquires and commits its slots", pipe.name);
    size_t readers = 0;
    for (auto& [key, uses] : consumers) {
      if (key.first != p) continue;
      readers++;
      if (key.second == producer->first.second)
        all.refuse("{} both fills and reads the pipeline {}: these are two roles", key.second, pipe.name);
      check_uses(pipe, producer->first.second, producer->second, key.second, uses);
    }
    if (!readers)
      all.refuse("no role reads the pipeline {}: others wait for its slots and release them", pipe.name);
    if (pipe.slots > 1)
      for (auto& use : producer->second.uses) check_filled(pipe, *producer->second.scope, use);
    for (auto& role : s.roles)
      if (role.name != producer->first.second && readers > 1) check_readers(p, role);
  }
  void check_uses(const WarpPipeline& pipe, const std::string& producer, const UsesByRole& fills,
                  const std::string& consumer, const UsesByRole& reads) const {
    if (fills.scope != reads.scope)
      all.refuse("{} fills the pipeline {} in {}, but {} reads it in {}: they do so equally often", producer,
                 pipe.name, all.where(*fills.scope), consumer, all.where(*reads.scope));
    if (fills.uses.size() != reads.uses.size())
      all.refuse("{} fills the pipeline {} {} times in {}, but {} reads it {} times", producer, pipe.name,
                 fills.uses.size(), all.where(*fills.scope), consumer, reads.uses.size());
    for (auto& use : reads.uses)
      if (use.late != reads.uses[0].late)
        all.refuse("{} releases the pipeline {} by different stages in {}: all releases are equally late",
                   consumer, pipe.name, all.where(*reads.scope));
    size_t last = 0;  // behind the last operation so far
    for (size_t i = 0; i < fills.uses.size(); i++)
      for (auto* ops : {&fills.uses[i].ops, &reads.uses[i].ops}) {
        if (ops->empty()) continue;
        auto [first, end] = std::ranges::minmax(*ops);
        if (first < last)
          all.refuse(
              "the program does not fill and read the pipeline {} in the order of its uses in {}: {} stands "
              "before {}",
              pipe.name, all.where(*fills.scope), op_of(fills.scope->body[first]),
              op_of(fills.scope->body[last - 1]));
        last = end + 1;
      }
  }
  // A slot holds nothing of the use before.
  void check_filled(const WarpPipeline& pipe, const OpScope& scope, const PipelineUse& use) const {
    std::vector<Stmt> ops;
    for (size_t place : std::set<size_t>(use.ops.begin(), use.ops.end())) ops.push_back(scope.body[place]);
    for (BufferId tile : pipe.tiles) {
      TileUse filling = use_of(f, without_ops(block(ops)), tile);
      if (filling.touched && filling.overwrites && !filling.reads_earlier) continue;
      fail(
          ops.empty() ? s.span : ops[0]->span,
          "not every element of {} is written anew in each use of the pipeline {}, and another slot does not "
          "have those of the use before: fill the tile, or give the pipeline the depth 1",
          f[tile].name, pipe.name);
    }
  }
  void check_readers(size_t p, const WarpRole& role) const {
    for (auto& scope : s.scopes)
      for (auto& step : s.steps(scope, role)) {
        if (step.kind != StepKind::op || s.scope(step.name)) continue;
        for (BufferId b : s.pipelines[p].tiles)
          if (all.effects.at(step.name).written.contains(b))
            fail(scope.body[scope.place_of(step.name)]->span,
                 "the operation {} writes {}, which several roles read from the pipeline {}", step.name,
                 f[b].name, s.pipelines[p].name);
      }
  }
};

// Runs the syncs of all roles, each as far as it comes, with more turns of each loop than slots: what they
// wait for depends on counts alone, so that they come as far in any other order.
struct ProgressChecker {
  const ScheduledOps& all;
  const WarpSchedule& s = all.s;
  int64_t turns = 0;  // of each loop
  struct Runner {
    const WarpRole* role = nullptr;
    std::vector<const WarpStep*> steps = {};
    size_t at = 0;
    std::map<std::string, int64_t> begun = {};     // uses of a pipeline
    std::map<std::string, int64_t> released = {};  // of those, that it reads
  };
  std::vector<Runner> runners = {};
  std::map<std::string, int64_t> filled = {};

  void collect(const OpScope& scope, const WarpRole& role, std::vector<const WarpStep*>& out) const {
    auto it = scope.steps.find(role.name);
    if (it == scope.steps.end()) return;
    for (int64_t turn = 0; turn < (scope.loop && !scope.loop.as<If>() ? turns : 1); turn++)
      for (auto& step : it->second) {
        if (step.kind != StepKind::op) out.push_back(&step);
        const OpScope* inner = step.kind == StepKind::op ? s.scope(step.name) : nullptr;
        if (inner) collect(*inner, role, out);
      }
  }
  bool may_go_on(const Runner& r, const WarpStep& step) const {
    auto of = [](auto& counts, const std::string& name) {
      auto it = counts.find(name);
      return it == counts.end() ? 0 : it->second;
    };
    int64_t number = of(r.begun, step.name);
    if (step.kind == StepKind::wait) return of(filled, step.name) > number;
    if (step.kind != StepKind::acquire) return true;
    int64_t slots = s.pipelines[s.pipeline(step.name)].slots;
    return std::ranges::all_of(runners, [&](const Runner& other) {
      auto it = other.released.find(step.name);
      return it == other.released.end() || number < it->second + slots;
    });
  }
  void take(Runner& r, const WarpStep& step) {
    if (step.begins()) r.begun[step.name]++;
    if (step.kind == StepKind::commit) filled[step.name]++;
    if (step.kind == StepKind::release)
      r.released[step.name] = std::max<int64_t>(0, r.begun[step.name] - step.late);
  }

  void run() {
    for (auto& pipe : s.pipelines) turns = std::max(turns, pipe.slots + 2);
    for (auto& role : s.roles) {
      Runner r{.role = &role};
      collect(s.scopes[0], role, r.steps);
      for (auto* step : r.steps)
        if (step->kind == StepKind::wait) r.released[step->name] = 0;
      runners.push_back(std::move(r));
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Runner& r : runners)
        for (; r.at < r.steps.size() && may_go_on(r, *r.steps[r.at]); r.at++, moved = true)
          take(r, *r.steps[r.at]);
    }
    std::string stuck;
    for (Runner& r : runners)
      if (r.at < r.steps.size())
        stuck +=
            fmt::format("{}{} {} of the pipeline {}", stuck.empty() ? "" : ", ", r.role->name,
                        r.steps[r.at]->produces() ? "for a slot" : "for what is in one", r.steps[r.at]->name);
    if (!stuck.empty()) all.refuse("roles wait for each other for ever: {}", stuck);
  }
};

}  // namespace

void check_pipeline_uses(const ScheduledOps& all) {
  PipelineChecker checker{.all = all};
  for (auto& role : all.s.roles) checker.walk(all.s.scopes[0], role, {});
  for (size_t p = 0; p < all.s.pipelines.size(); p++) checker.check_pipeline(p);
  ProgressChecker{.all = all}.run();
}

}  // namespace tl
