#include "pass/warp_schedule.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tl {
namespace {

// The parts of a text between these characters, without spaces around.
std::vector<std::string> parts_between(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(separator, at), text.size());
    std::string_view part = text.substr(at, end - at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) out.emplace_back(part);
    at = end + 1;
  }
  return out;
}

struct ScheduleReader {
  const Function& f;
  const Kernel& k;
  WarpSchedule s = {.span = k.schedule_span ? k.schedule_span : k.span};
  std::map<std::string, std::map<std::string, std::vector<WarpStep>>> steps = {};  // by scope and role
  std::map<std::string, Span> ops = {};

  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> format, A&&... args) const {
    fail(s.span, "the schedule of warps: {}", fmt::format(format, std::forward<A>(args)...));
  }
  int64_t number(const std::string& word) const {
    int64_t n = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc() || end != word.data() + word.size()) refuse("`{}` is not a number", word);
    return n;
  }

  WarpStep step(const std::string& word) const {
    size_t open = word.find('(');
    if (open == std::string::npos) return {.name = word};
    constexpr std::string_view names[] = {"acquire", "commit", "wait", "release"};
    auto kind = std::ranges::find(names, word.substr(0, open));
    std::vector<std::string> inside = parts_between(word.substr(open + 1, word.size() - open - 2), ',');
    if (kind == std::end(names) || !word.ends_with(')') || inside.empty() || inside.size() > 2)
      refuse("`{}` is no step; steps are operations, acquire(P), commit(P), wait(P), release(P)", word);
    return {.kind = WarpStep::Kind(kind - std::begin(names) + 1),
            .name = inside[0],
            .late = inside.size() > 1 ? number(inside[1]) : 0};
  }
  void part(const std::string& text) {
    size_t colon = text.find(':');
    std::vector<std::string> words = parts_between(text.substr(0, colon), ' ');
    if (words[0] == "role" && words.size() == 5)
      s.roles.push_back({words[1], number(words[2]), number(words[3]), number(words[4])});
    else if (words[0] == "pipeline" && words.size() == 3)
      s.pipelines.push_back({.name = words[1], .slots = number(words[2])});
    else if (words[0] == "at" && words.size() == 3 && colon != std::string::npos)
      for (auto& word : parts_between(text.substr(colon + 1), ' '))
        steps[words[1]][words[2]].push_back(step(word));
    else
      refuse("`{}` is no part of one", text);
  }

  void check_roles() const {
    int64_t threads = thread_count(k);
    if (s.roles.empty()) refuse("it has no role");
    for (size_t i = 0; i < s.roles.size(); i++) {
      const WarpRole& r = s.roles[i];
      if (r.first < 0 || r.first >= r.last || r.last * scheduled_warp > threads)
        refuse("the role {} has the warps [{}, {}), but the block has {} threads, {} warps of {}", r.name,
               r.first, r.last, threads, threads / scheduled_warp, scheduled_warp);
      for (size_t j = 0; j < i; j++) {
        const WarpRole& other = s.roles[j];
        if (other.name == r.name) refuse("two roles are called {}", r.name);
        if (r.first < other.last && other.first < r.last)
          refuse("the roles {} and {} share warps, [{}, {}) and [{}, {}): each warp has one role", other.name,
                 r.name, other.first, other.last, r.first, r.last);
      }
      if (r.registers && (r.registers < 24 || r.registers > 256 || r.registers % 8))
        refuse("max_nreg of the role {} is {}; it is 24 to 256, a multiple of 8", r.name, r.registers);
      if (r.registers && (r.first % 4 || r.last % 4))
        refuse("max_nreg of the role {} is for whole warpgroups of 4 warps, not for [{}, {})", r.name,
               r.first, r.last);
    }
  }
  void find_tiles() {
    for (size_t i = 0; i < s.pipelines.size(); i++) {
      WarpPipeline& p = s.pipelines[i];
      for (size_t j = 0; j < i; j++)
        if (s.pipelines[j].name == p.name) refuse("two pipelines are called {}", p.name);
      if (p.slots < 1) refuse("the pipeline {} has {} slots; its depth is 1 or more", p.name, p.slots);
      visit(k.body, [&](const Alloc& n) {
        if (f[n.buffer].pipeline == p.name) p.tiles.push_back(n.buffer);
      });
      if (p.tiles.empty()) refuse("the pipeline {} has no tile", p.name);
      for (BufferId b : p.tiles) check_tile(p, b);
    }
  }
  void check_tile(const WarpPipeline& p, BufferId b) const {
    const BufferInfo& info = f[b];
    if (info.scope != Scope::shared)
      refuse("{} is a tile of the pipeline {}, but is not in shared memory: T.alloc_shared", info.name,
             p.name);
    for (size_t i = 0; i < f.buffers.size(); i++)
      if (BufferId other{int(i)}; other != b && f.storage(other) == f.storage(b))
        refuse("{} is a tile of the pipeline {}, and {} is another view of its memory: use one of them alone",
               info.name, p.name, f[other].name);
  }

  // ── the program ─────────────────────────────────────────────────────────────────────────────────────
  void note_op(const Stmt& op) {
    auto [it, is_new] = ops.emplace(op_of(op), op->span);
    if (!is_new)
      fail(op->span, "two operations are called {}: the other one is on line {}", op_of(op), it->second.line);
  }
  // What is in an operation that is a scope: names, and one loop or condition.
  OpScope inside(const Stmt& op, size_t parent) const {
    OpScope scope{.id = op_of(op), .parent = parent};
    for (auto& s : statements_of(op.as<Group>()->body)) {
      auto* loop = s.as<For>();
      auto* branch = s.as<If>();
      bool holds = (loop && loop->loop != Loop::parallel && loop->loop != Loop::vectorized) ||
                   s.as<While>() || (branch && !branch->else_body);
      if (holds && !scope.loop) {
        scope.loop = s;
        scope.body = statements_of(loop ? loop->body : branch ? branch->then_body : s.as<While>()->body);
      } else if (s.as<Let>() && !scope.loop) {
        scope.names.push_back(s);
      } else {
        fail(s->span,
             "the operation {} is a scope of the schedule: it is one loop, or one `if` without `else`, of "
             "operations, and nothing beside it",
             scope.id);
      }
    }
    if (!scope.loop)
      fail(op->span, "the operation {} is a scope of the schedule, but there is no loop in it", scope.id);
    return scope;
  }
  void collect(size_t at) {
    std::vector<Stmt> body = s.scopes[at].body;
    for (auto& stmt : body) {
      if (op_of(stmt).empty()) continue;
      note_op(stmt);
      if (!steps.contains(op_of(stmt))) {
        visit(stmt.as<Group>()->body, [&](const Group& n) {
          if (!op_of(Stmt(&n)).empty()) note_op(Stmt(&n));
        });
        continue;
      }
      s.scopes.push_back(inside(stmt, at));
      collect(s.scopes.size() - 1);
    }
  }
  void find_scopes() {
    s.scopes.push_back({.id = std::string(kernel_scope), .body = statements_of(k.body)});
    collect(0);
    for (auto& [id, by_role] : steps) {
      auto scope = std::ranges::find(s.scopes, id, &OpScope::id);
      if (scope == s.scopes.end())
        refuse("the scope {} is no T.ws_op of the program around other operations", id);
      for (auto& [role, list] : by_role) {
        if (std::ranges::find(s.roles, role, &WarpRole::name) == s.roles.end())
          refuse("the scope {} has steps for the role {}, which there is not", id, role);
        scope->steps[role] = list;
      }
    }
  }

  WarpSchedule run() {
    for (auto& text : parts_between(k.attrs.get_string(schedule_attr), ';')) part(text);
    check_roles();
    find_tiles();
    find_scopes();
    return std::move(s);
  }
};

}  // namespace

size_t OpScope::place_of(const std::string& op) const {
  return size_t(std::ranges::find_if(body, [&](auto& s) { return op_of(s) == op; }) - body.begin());
}

size_t WarpSchedule::pipeline(const std::string& name) const {
  return size_t(std::ranges::find(pipelines, name, &WarpPipeline::name) - pipelines.begin());
}
const OpScope* WarpSchedule::scope(const std::string& id) const {
  auto it = std::ranges::find(scopes, id, &OpScope::id);
  return it == scopes.end() ? nullptr : &*it;
}
std::vector<WarpStep> WarpSchedule::steps(const OpScope& scope, const WarpRole& role) const {
  auto it = scope.steps.find(role.name);
  return it == scope.steps.end() ? std::vector<WarpStep>() : it->second;
}

std::string op_of(const Stmt& s) {
  auto* group = s ? s.as<Group>() : nullptr;
  return group ? group->attrs.get_string("op") : "";
}

Stmt without_ops(const Stmt& body) {
  return rewrite(body, [](const Group& n, Rewriter& self) -> Stmt {
    return op_of(Stmt(&n)).empty() ? self.children(n) : self(n.body);
  });
}

WarpSchedule read_warp_schedule(const Function& f, const Kernel& k) {
  WarpSchedule s = ScheduleReader{.f = f, .k = k}.run();
  check_warp_schedule(f, k, s);
  return s;
}

void check_warp_schedules(const Function& f) {
  for (const Kernel& k : f.kernels)
    if (k.attrs.find(schedule_attr)) read_warp_schedule(f, k);
}

}  // namespace tl
