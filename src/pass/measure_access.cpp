// measure_access: what each access of a warp to shared and global memory costs, beside the least it could,
// for the report.  Changes nothing else.  After insert_sync, when every access is what the hardware will see;
// before unroll, while loops still say that their accesses are one.
//
//   A_shared    read by ldmatrix_x4: 4 wavefronts, the least
//   B_shared    written 2 bytes a lane: 8 wavefronts, at least 1
//
// An index is computed for all lanes of a warp, at up to 16 points of the loops around the access and in
// different warps; the worst is reported.  What depends on run-time values other than block indices is left
// out.
#include <algorithm>
#include <array>

#include "ir/rewrite.h"
#include "layout/banks.h"
#include "pass/passes.h"

namespace tl {
namespace {

constexpr int points = 16;  // of the loops around an access that are tried

using Lanes = std::vector<int64_t>;  // one value per lane
using Env = std::map<const ExprNode*, Lanes>;

// The value of an integer expression in every lane; nothing if it depends on what is not known here.  Of a
// vector the value of one element.
std::optional<Lanes> value_of(const Expr& e, const Env& env, size_t lanes, int64_t element = 0) {
  if (auto v = as_int(e)) return Lanes(lanes, *v);
  if (auto it = env.find(e.get()); it != env.end()) return it->second;
  auto of = [&](const Expr& part) { return value_of(part, env, lanes, element); };
  if (auto* c = e.as<Cast>(); c && c->a->dtype.is_int()) return of(c->a);
  if (auto* b = e.as<Broadcast>()) return of(b->value);
  if (auto* r = e.as<Ramp>()) {
    auto base = of(r->base), stride = of(r->stride);
    for (size_t i = 0; base && stride && i < lanes; i++) (*base)[i] += element * (*stride)[i];
    return stride ? base : std::nullopt;
  }
  if (auto* u = e.as<Unary>(); u && u->op == UnaryOp::logical_not) {
    auto a = of(u->a);
    for (size_t i = 0; a && i < lanes; i++) (*a)[i] = !(*a)[i];
    return a;
  }
  auto* b = e.as<Binary>();
  if (!b || !(b->a->dtype.is_int() || b->a->dtype.is_bool())) return std::nullopt;
  auto x = of(b->a), y = of(b->b);
  if (!x || !y) return std::nullopt;
  bool divides = b->op == BinaryOp::floordiv || b->op == BinaryOp::floormod || b->op == BinaryOp::truncdiv ||
                 b->op == BinaryOp::truncmod;
  for (size_t i = 0; i < lanes; i++) {
    if (divides && (*y)[i] == 0) return std::nullopt;
    (*x)[i] = fold_int(b->op, (*x)[i], (*y)[i], b->a->dtype.with_lanes(1));
  }
  return x;
}

struct Around {  // what stands around an access
  std::vector<std::pair<Expr, int64_t>> loops;
  std::vector<std::pair<Expr, bool>> conditions;  // and whether they hold
  std::vector<std::pair<Expr, Expr>> lets;
};

struct Site {
  BufferId buffer;
  Expr index, mask;            // the index of one element or a vector
  std::string verb;            // "read", "written", "read by ldmatrix_x4"
  int width = 0, takers = 32;  // bytes; lanes whose addresses count
  Span span;
};

struct Measurer {
  Function& f;
  const Kernel& kernel;
  const Target& target;
  Around around = {};
  std::vector<Note> notes = {};

  // The environment of one warp at one point of the loops.
  Env at(int point) const {
    Env env;
    size_t lanes = size_t(target.warp);
    int64_t threads = thread_count(kernel), warps = std::max<int64_t>(1, threads / target.warp);
    Lanes thread(lanes);
    for (size_t i = 0; i < lanes; i++) thread[i] = point * 5 % warps * target.warp + int64_t(i);
    env[kernel.thread.get()] = thread;
    for (auto& v : kernel.grid_vars) env[v.get()] = Lanes(lanes, 0);
    for (size_t i = 0; i < around.loops.size(); i++) {  // all 0, all last, then points in between
      int64_t n = around.loops[i].second;
      int64_t v = point == 0 ? 0 : point == 1 ? n - 1 : point * int64_t(2 * i + 1) % n;
      env[around.loops[i].first.get()] = Lanes(lanes, v);
    }
    for (auto& [var, value] : around.lets)
      if (auto v = value->dtype.is_int() ? value_of(value, env, lanes) : std::nullopt) env[var.get()] = *v;
    return env;
  }

  // Which lanes take part: those in the block whose conditions hold, as far as these are known.
  std::vector<bool> taking_part(const Site& s, const Env& env) const {
    size_t lanes = size_t(target.warp);
    std::vector<bool> part(lanes);
    for (size_t i = 0; i < lanes; i++)
      part[i] = env.at(kernel.thread.get())[i] < thread_count(kernel) && int(i) < s.takers;
    auto require = [&](const Expr& cond, bool holds) {
      auto v = cond->dtype.lanes == 1 ? value_of(cond, env, lanes) : std::nullopt;
      for (size_t i = 0; v && i < lanes; i++) part[i] = part[i] && ((*v)[i] != 0) == holds;
    };
    for (auto& [cond, holds] : around.conditions) require(cond, holds);
    if (s.mask) require(s.mask, true);
    return part;
  }

  // How many accesses the hardware makes of this one: lanes of a vector that do not lie together, or whose
  // masks differ, are accessed one by one.
  int parts(const Site& s) const {
    auto* r = s.index.as<Ramp>();
    bool together = r && is_int(r->stride, 1) && (!s.mask || s.mask->dtype.lanes == 1);
    return together ? 1 : s.index->dtype.lanes;
  }

  std::optional<WarpCost> cost_at(const Site& s, int point) const {
    Env env = at(point);
    const BufferInfo& info = f[s.buffer];
    std::vector<bool> part = taking_part(s, env);
    int n = parts(s), width = s.width / n;
    WarpCost total;
    for (int e = 0; e < n; e++) {
      auto elements = value_of(s.index, env, size_t(target.warp), e);
      if (!elements) return std::nullopt;
      std::vector<int64_t> addresses;
      for (size_t i = 0; i < part.size(); i++)
        addresses.push_back(
            part[i] ? std::max<int64_t>(0, info.address) + (*elements)[i] * info.dtype.bits / 8 : -1);
      WarpCost one = info.scope == Scope::shared ? shared_wavefronts(addresses, width)
                                                 : global_sectors(addresses, width);
      total.count += one.count;
      total.least += one.least;
    }
    return total;
  }

  void measure(const Site& s) {
    Scope scope = f[s.buffer].scope;
    if ((scope != Scope::shared && scope != Scope::global) || s.width / parts(s) > 16 || s.width < parts(s))
      return;
    std::optional<WarpCost> worst;
    int tried = around.loops.empty() && thread_count(kernel) <= target.warp ? 1 : points;
    for (int point = 0; point < tried; point++)
      if (auto c = cost_at(s, point);
          c && (!worst || std::pair(c->excess(), c->count) > std::pair(worst->excess(), worst->count)))
        worst = c;
    if (!worst || worst->count == 0) return;
    std::string several = parts(s) > 1 ? fmt::format(" in {} accesses", parts(s)) : "";
    std::string text =
        fmt::format("{}{}: {} {}{}", s.verb, several, worst->count,
                    scope == Scope::shared ? "wavefront" : "sector", worst->count == 1 ? "" : "s");
    text += worst->excess() ? fmt::format(", at least {}", worst->least) : ", the least";
    notes.push_back({"measure_access", f[s.buffer].name, text, s.span});
  }

  void expression(const Expr& e) {
    if (!e) return;
    visit(e, [&](const Load& n) { load(n); }, [&](const Call& c) { call(c); });
  }

  void load(const Load& n) {
    if (places.contains(&n)) return;
    int bytes = std::max(1, f[n.buffer].dtype.bits * n.dtype.lanes / 8);
    measure({.buffer = n.buffer,
             .index = n.index[0],
             .mask = n.mask,
             .verb = fmt::format("read {} bytes a lane", bytes),
             .width = bytes,
             .takers = target.warp,
             .span = n.span});
  }

  // A warp-wide copy: as many lanes as its blocks have rows give the address of 16 bytes.
  void call(const Call& c) {
    for (auto& a : c.args)
      if (auto* place = a.as<Call>(); place && place->callee == &address_of)
        places.insert(place->args[0].get());
    for (auto* row : target.copies) {
      if (c.callee != &row->callee) continue;
      for (size_t i = 0; i < c.args.size(); i++) {
        auto* place = c.args[i].as<Call>();
        auto* at = place && place->callee == &address_of ? place->args[0].as<Load>() : nullptr;
        if (!at || f[at->buffer].scope != Scope::shared) continue;
        std::string verb = row->callee.access[i] == 'r' ? "read" : "written";
        measure({.buffer = at->buffer,
                 .index = at->index[0],
                 .mask = {},
                 .verb = fmt::format("{} by {}", verb, row->callee.name),
                 .width = 16,
                 .takers = 8 * row->matrices,
                 .span = here});
      }
    }
  }

  void walk(const Stmt& s) {
    if (!s) return;
    if (auto* b = s.as<Block>()) {
      size_t lets = around.lets.size();
      for (auto& inner : b->stmts) walk(inner);
      around.lets.resize(lets);
    } else if (auto* l = s.as<Let>()) {
      expression(l->value);
      around.lets.emplace_back(l->var, l->value);
    } else if (auto* loop = s.as<For>()) {
      around.loops.emplace_back(loop->var, std::max<int64_t>(1, as_int(loop->extent).value_or(points)));
      walk(loop->body);
      around.loops.pop_back();
    } else if (auto* i = s.as<If>()) {
      expression(i->cond);
      around.conditions.emplace_back(i->cond, true);
      walk(i->then_body);
      around.conditions.back().second = false;
      walk(i->else_body);
      around.conditions.pop_back();
    } else if (auto* w = s.as<While>()) {
      walk(w->body);
    } else if (auto* g = s.as<Group>()) {
      walk(g->body);
    } else if (auto* st = s.as<Store>()) {
      expression(st->value);
      int bytes = std::max(1, f[st->buffer].dtype.bits * st->index[0]->dtype.lanes / 8);
      measure({.buffer = st->buffer,
               .index = st->index[0],
               .mask = st->mask,
               .verb = fmt::format("written {} bytes a lane", bytes),
               .width = bytes,
               .takers = target.warp,
               .span = st->span});
    } else if (auto* e = s.as<Eval>()) {
      here = e->span;
      expression(e->value);
    }
  }

  Span here = {};                     // of the statement
  std::set<const Node*> places = {};  // loads that only name a place
};

}  // namespace

Function measure_access(Function f, const Target& target) {
  if (!target.has_threads()) return f;
  for (Kernel& k : f.kernels) {
    Measurer m{.f = f, .kernel = k, .target = target};
    m.walk(k.body);
    f.notes.insert(f.notes.end(), m.notes.begin(), m.notes.end());
  }
  return f;
}

}  // namespace tl
