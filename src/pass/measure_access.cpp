// measure_access: what each access to shared and global memory costs, beside the least possible. Run on the
// Function after insert_sync, when every access is what the hardware will see, and before unroll, while the
// accesses of a loop are still one access.
//
//   A_shared    read by ldmatrix_x4: 4 bank cycles, the least
//   B_shared    written 2 bytes a lane: 8 bank cycles, at least 1
//
// An index is computed for all lanes of a warp, at up to 16 points of the loops around the access and in
// different warps; the worst is reported.  Where it depends on data, the report says so.
#include "pass/measure_access.h"

#include <algorithm>

#include "ir/rewrite.h"
#include "pass/thread_values.h"
#include "pass/walk.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr int points = 16;  // of the loops around an access that are tried

struct Site {
  BufferId buffer;
  Expr index, mask = {};  // the index of one element or a vector
  bool writes = false;
  std::string_view instruction = {};
  int bytes = 0, takers = 32;  // of all the elements; lanes whose addresses count
  Span span;
};

bool is_worse(const WarpCost& a, const WarpCost& b) {
  return std::pair(a.excess(), a.count) > std::pair(b.excess(), b.count);
}

bool same_line(const Span& a, const Span& b) { return a.file == b.file && a.line == b.line; }

int64_t turns_of(const For& loop) { return std::max<int64_t>(1, as_int(loop.extent).value_or(points)); }

struct Measurer {
  const Function& f;
  const Kernel& kernel;
  const Target& target;
  size_t number;  // of the kernel
  std::vector<AccessCost>& found;
  LaneEnv arguments = {};  // integers of the function's signature
  WalkContext around = {};
  Span here = {};  // of the statement

  // The environment of one warp at one point of the loops.
  LaneEnv at(int point) const {
    LaneEnv env = arguments;
    size_t lanes = size_t(target.warp);
    int64_t warps = std::max<int64_t>(1, around.team.count / target.warp);
    Lanes thread(lanes);
    for (size_t i = 0; i < lanes; i++)
      thread[i] = around.team.first + point * 5 % warps * target.warp + int64_t(i);
    env[kernel.thread.get()] = thread;
    for (auto& v : kernel.grid_vars) env[v.get()] = Lanes(lanes, 0);
    for (size_t i = 0; i < around.loops.size(); i++) {  // all 0, all last, then points in between
      int64_t n = turns_of(*around.loops[i]);
      int64_t v = point == 0 ? 0 : point == 1 ? n - 1 : point * int64_t(2 * i + 1) % n;
      env[around.loops[i]->var.get()] = Lanes(lanes, v);
    }
    for (auto* let : around.lets)
      if (let->value->dtype.is_int())
        if (auto v = values_of(let->value, env, lanes)) env[let->var.get()] = *v;
    return env;
  }

  // Which lanes take part: those in the block whose conditions hold, as far as these are known.
  std::vector<bool> taking_part(const Site& s, const LaneEnv& env) const {
    size_t lanes = size_t(target.warp);
    std::vector<bool> part(lanes);
    int64_t end = around.team.first + around.team.count;
    for (size_t i = 0; i < lanes; i++) part[i] = env.at(kernel.thread.get())[i] < end && int(i) < s.takers;
    auto require = [&](const Expr& cond, bool holds) {
      auto v = cond->dtype.lanes == 1 ? values_of(cond, env, lanes) : std::nullopt;
      for (size_t i = 0; v && i < lanes; i++) part[i] = part[i] && ((*v)[i] != 0) == holds;
    };
    for (auto& [cond, holds] : around.conditions) require(cond, holds);
    if (s.mask) require(s.mask, true);
    return part;
  }

  // How many accesses the hardware makes of this one: lanes of a vector that do not lie together, or whose
  // masks differ, are accessed one by one.
  int parts_of(const Site& s) const {
    auto* r = s.index.as<Ramp>();
    bool whole = !s.mask || s.mask->dtype.lanes == 1 || target.masked_vectors;
    return r && is_int(r->stride, 1) && whole ? 1 : s.index->dtype.lanes;
  }

  std::optional<WarpCost> cost_at(const Site& s, int parts, int point) const {
    LaneEnv env = at(point);
    size_t lanes = size_t(target.warp);
    std::vector<bool> part = taking_part(s, env);
    const BufferInfo& info = f[s.buffer];
    int width = s.bytes / parts;
    WarpCost total;
    for (int e = 0; e < parts; e++) {
      auto elements = values_of(s.index, env, lanes, e);
      if (!elements) return std::nullopt;
      std::vector<int64_t> addresses(lanes, -1);
      for (size_t i = 0; i < lanes; i++)
        if (part[i]) addresses[i] = std::max<int64_t>(0, info.address) + (*elements)[i] * info.dtype.bits / 8;
      WarpCost one = info.scope == Scope::shared
                         ? shared_bank_cycles(addresses, width, target.shared_banks, s.writes)
                         : global_sectors(addresses, width);
      total.count += one.count;
      total.least += one.least;
    }
    return total;
  }

  std::string why_unknown(const Expr& index) const {
    std::string name;
    visit(index, [&](const Load& n) {
      if (name.empty()) name = f[n.buffer].name;
    });
    return name.empty() ? "its address depends on values that only a call brings"
                        : "its address is read from " + name;
  }

  void measure(const Site& s) {
    Scope scope = f[s.buffer].scope;
    bool tile = !target.has_threads() && scope == Scope::fragment;  // there, fragments lie in memory
    if (scope != Scope::shared && scope != Scope::global && !tile) return;
    AccessCost row{.kernel = number,
                   .buffer = s.buffer,
                   .span = s.span ? s.span : here,
                   .writes = s.writes,
                   .instruction = s.instruction,
                   .parts = parts_of(s)};
    row.bytes = std::max(1, s.bytes / row.parts);
    bool counted = around.whiles.empty();
    for (auto* loop : around.loops) {
      row.times *= turns_of(*loop);
      counted &= as_int(loop->extent).has_value();
    }
    row.times *= counted;
    if (target.has_threads() && row.bytes > 16)
      row.unknown = "it is wider than one access of a thread";
    else if (target.has_threads())
      for (int point = 0; point < points; point++)
        if (auto c = cost_at(s, row.parts, point); c && (!row.cost || is_worse(*c, *row.cost))) row.cost = c;
    if (row.cost && row.cost->count == 0) return;  // no lane of the warps looked at takes part
    if (target.has_threads() && !row.cost && row.unknown.empty()) row.unknown = why_unknown(s.index);
    add(std::move(row));
  }

  void add(AccessCost row) {
    for (AccessCost& r : found) {
      bool same_cost = r.cost.has_value() == row.cost.has_value() &&
                       (!r.cost || (r.cost->count == row.cost->count && r.cost->least == row.cost->least));
      if (!same_cost || r.kernel != row.kernel || r.buffer != row.buffer || !same_line(r.span, row.span) ||
          r.writes != row.writes || r.instruction != row.instruction || r.bytes != row.bytes ||
          r.parts != row.parts || r.unknown != row.unknown)
        continue;
      r.sites += row.sites;
      r.times = r.times && row.times ? r.times + row.times : 0;
      return;
    }
    found.push_back(std::move(row));
  }

  void statement(const Stmt& s, const WalkContext& at) {
    around = at;
    here = s->span;
    for (auto& e : effects_of(s).list) effect(s, e);
  }

  void effect(const Stmt& s, const Effect& e) {
    if (!e.by || e.by->kind == Kind::Load) return element(s, e);
    auto& call = static_cast<const Call&>(*e.by);
    if (e.bytes == 0 || (e.by_warp && f[e.buffer].scope != Scope::shared)) return;
    auto* warp_wide = copy_row_of(*call.intrinsic);  // as many lanes as its blocks have rows give an address
    measure({.buffer = e.buffer,
             .index = place_of(call.args[e.argument])->index[0],
             .writes = e.writes(),
             .instruction = call.intrinsic->name,
             .bytes = int(e.bytes),
             .takers = warp_wide ? 8 * warp_wide->matrices : target.warp,
             .span = here});
  }

  void element(const Stmt& s, const Effect& e) {
    auto* load = static_cast<const Load*>(e.by);
    measure({.buffer = e.buffer,
             .index = e.index[0],
             .mask = load ? load->mask : s.as<Store>()->mask,
             .writes = e.writes(),
             .bytes = std::max(1, f[e.buffer].dtype.bits * e.index[0]->dtype.lanes / 8),
             .takers = target.warp,
             .span = load ? load->span : s->span});
  }
};

}  // namespace

std::vector<AccessCost> measure_access(const Function& machine, const Target& target) {
  std::vector<AccessCost> found;
  for (size_t k = 0; k < machine.kernels.size(); k++) {
    const Kernel& kernel = machine.kernels[k];
    Measurer m{.f = machine, .kernel = kernel, .target = target, .number = k, .found = found};
    for (auto& p : machine.params)
      if (p.var && p.var->dtype.is_int()) m.arguments[p.var.get()] = Lanes(size_t(target.warp), usual_extent);
    for (auto& b : machine.buffers)
      for (auto* list : {&b.shape, &b.strides})
        for (auto& e : *list)
          if (b.scope == Scope::global)
            visit(e, [&](const Var& v) { m.arguments[&v] = Lanes(size_t(target.warp), usual_extent); });
    Team team = target.has_threads() ? whole_block(kernel) : Team{.count = 1};
    walk(kernel.body, {.team = team}, [&](const Stmt& s, const WalkContext& at) {
      m.statement(s, at);
      return true;
    });
  }
  return found;
}

std::string to_string(const AccessCost& a, Scope scope) {
  std::string text(a.writes ? "written" : "read");
  if (a.instruction.empty())
    text += fmt::format(" {} bytes a lane", a.bytes * a.parts);
  else
    text += fmt::format(" by {}", a.instruction);
  if (a.parts > 1) text += fmt::format(" in {} accesses", a.parts);
  if (!a.cost) return a.unknown.empty() ? text : text + ": " + a.unknown;
  text += fmt::format(": {} {}{}", a.cost->count, scope == Scope::shared ? "bank cycle" : "sector",
                      a.cost->count == 1 ? "" : "s");
  return text + (a.cost->excess() ? fmt::format(", at least {}", a.cost->least) : ", the least");
}

}  // namespace tl
