#include "pass/footprint.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "arith/simplify.h"
#include "base/interrupt.h"
#include "ir/build.h"
#include "ir/depth.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

constexpr int64_t most_points = 1 << 18;  // of loops and threads; beyond, nothing is known

bool is_of_warp(int16_t owner) { return owner <= Footprint::warp_zero && owner > Footprint::group_zero; }
int warp_of(int16_t owner, int warp) {
  return owner >= 0 ? owner / warp : is_of_warp(owner) ? Footprint::warp_zero - owner : -1;
}
int group_of(int16_t owner, int warp) {
  if (owner <= Footprint::group_zero) return Footprint::group_zero - owner;
  int of = warp_of(owner, warp);
  return of < 0 ? -1 : int(of * warp / Team::group);
}

// The owner of what both own.
int16_t joined(int16_t x, int16_t y, int warp) {
  if (x == Footprint::nobody || x == y) return y;
  if (y == Footprint::nobody) return x;
  int of = warp_of(x, warp), group = group_of(x, warp);
  if (of >= 0 && of == warp_of(y, warp)) return int16_t(Footprint::warp_zero - of);
  return group >= 0 && group == group_of(y, warp) ? int16_t(Footprint::group_zero - group)
                                                  : Footprint::several;
}

// Four owners at a time, as most of a tile is touched by nobody or by the same threads: tiles are large, and
// are compared often.
constexpr uint64_t four_nobodies = ~uint64_t(0), four_signs = 0x8000'8000'8000'8000;
static_assert(Footprint::nobody == -1);

uint64_t four_of(const std::vector<int16_t>& owner, size_t i) {
  uint64_t four = 0;
  std::memcpy(&four, &owner[i], sizeof four);
  return four;
}

// The first lane of an index without loads, calls and vectors under a name.
Expr first_of(const Expr& index) {
  return rewrite(
      index, [](const Ramp& n, Rewriter& self) -> Expr { return self(n.base); },
      [](const Broadcast& n, Rewriter& self) -> Expr { return self(n.value); },
      [](const Cast& n, Rewriter& self) -> Expr { return cast(n.dtype.scalar(), self(n.a), n.span); },
      [](const Unary& n, Rewriter& self) -> Expr { return unary(n.op, self(n.a), n.span); },
      [](const Binary& n, Rewriter& self) -> Expr { return binary(n.op, self(n.a), self(n.b), n.span); },
      [](const Select& n, Rewriter& self) -> Expr {
        return select(self(n.cond), self(n.a), self(n.b), n.span);
      });
}

}  // namespace

void Footprint::add(const Footprint& other, int warp) {
  if (is_unknown()) return;
  if (other.is_unknown() || !moves_like(other)) return owner.clear();
  size_t size = std::min(owner.size(), other.owner.size());
  for (size_t i = 0; i < size; i++) {
    if (i % 4 == 0 && i + 4 <= size) {
      uint64_t others = four_of(other.owner, i), mine = four_of(owner, i);
      if (mine == four_nobodies) std::memcpy(&owner[i], &others, sizeof others);
      if (others == four_nobodies || mine == four_nobodies || mine == others) {
        i += 3;
        continue;
      }
    }
    owner[i] = joined(owner[i], other.owner[i], warp);
  }
}

bool Footprint::moves_like(const Footprint& other) const {
  if (!base || !other.base || base.same(other.base) || equal(base, other.base)) return true;
  return base->dtype == other.base->dtype && as_int(simplify(base - other.base)).has_value();
}

Conflict conflict_of(const Footprint& a, const Footprint& b, int warp) {
  if (a.is_unknown() || b.is_unknown() || !a.moves_like(b)) return Conflict::intra_block;
  Conflict worst = Conflict::none;
  size_t size = std::min(a.owner.size(), b.owner.size());
  for (size_t i = 0; i < size; i++) {
    if (i % 4 == 0 && i + 4 <= size) {
      uint64_t xs = four_of(a.owner, i), ys = four_of(b.owner, i);
      if (xs == four_nobodies || ys == four_nobodies || (xs == ys && !(xs & four_signs))) {
        i += 3;
        continue;
      }
    }
    int16_t x = a.owner[i], y = b.owner[i];
    if (x == Footprint::nobody || y == Footprint::nobody || (x == y && x >= 0)) continue;
    if (warp_of(x, warp) >= 0 && warp_of(x, warp) == warp_of(y, warp))
      worst = std::max(worst, Conflict::intra_warp);
    else if (group_of(x, warp) >= 0 && group_of(x, warp) == group_of(y, warp))
      worst = Conflict::intra_group;
    else
      return Conflict::intra_block;
  }
  return worst;
}

Footprints::Footprints(const Function& f, const Kernel& kernel, int warp)
    : f(f),
      threads(size_t(thread_count(kernel))),
      warp(warp) {
  Lanes numbers(threads);
  for (size_t i = 0; i < threads; i++) numbers[i] = int64_t(i);
  if (kernel.thread) fixed[kernel.thread.get()] = std::move(numbers);
  sampled = fixed;
  int64_t next = 3;
  for (auto& v : kernel.grid_vars) sampled[v.get()] = Lanes(threads, next += 2);
  next = 1040;
  auto choose = [&](const Expr& e) {
    if (e && e.as<Var>() && e->dtype.is_int() && !sampled.contains(e.get()))
      sampled[e.get()] = Lanes(threads, next += 16);
  };
  for (auto& p : f.params) {
    choose(p.var);
    if (!p.buffer) continue;
    for (auto* list : {&f[p.buffer].shape, &f[p.buffer].strides})
      for (auto& e : *list) choose(e);
  }
}

void Footprints::enter(const For& loop) {
  auto first = as_int(loop.min), count = as_int(loop.extent);
  if (first && count) loops[loop.var.get()] = {*first, *count};
}
void Footprints::bind(const Let& let) {
  constexpr int64_t most = 4096;  // operations, with names written out: what is longer is not known
  bool number = let.value->dtype.is_int() || let.value->dtype.is_bool();
  int64_t size = number ? written_out(let.value, sizes, most) : most;
  if (size >= most) return;
  sizes[let.var.get()] = size;
  lets[let.var.get()] = let.value;
}

void Footprints::take_turn(const ExprNode* var, int64_t turn, int64_t turns) {
  turned = var;
  if (!var) return;
  multiple = tl::var("q", var->dtype);
  turn_value =
      binary(BinaryOp::add, binary(BinaryOp::mul, multiple, imm(turns, var->dtype)), imm(turn, var->dtype));
}

// The same where only the remainder of the turned variable counts; else with the variable itself.
Expr Footprints::in_turn(const Expr& e) const {
  if (!turned || !uses_var(e, Expr(turned))) return e;
  Facts facts;
  facts.bind(multiple, Interval{0, 1 << 20});
  Expr at = simplify(substitute(e, {{turned, turn_value}}), facts);
  return uses_var(at, multiple) ? e : at;
}

Expr Footprints::resolved(const Expr& e) const {
  if (lets.empty()) return e;
  return rewrite(e, [&](const Var& v, Rewriter& self) -> Expr {
    auto it = lets.find(&v);
    return it == lets.end() ? Expr(&v) : self(it->second);
  });
}

LaneEnv Footprints::of_team(const LaneEnv& env, const Team& team) {
  LaneEnv own;
  for (auto& [var, lanes] : env)
    own[var] = Lanes(lanes.begin() + team.first, lanes.begin() + team.first + team.count);
  return own;
}

void Footprints::touch(Footprint& to, const Expr& index, const Conditions& conditions, const Team& team,
                       const Reach& reach, const LaneEnv& env, const LaneEnv& chosen, bool& known) const {
  auto count = size_t(team.count);
  Lanes part(count, 1);
  for (auto& [condition, holds] : conditions) {
    if (holds) {
      Lanes may = may_hold(condition, env, count);
      for (size_t i = 0; i < count; i++) part[i] = part[i] && may[i];
    } else if (auto is = values_of(condition, env, count)) {
      for (size_t i = 0; i < count; i++) part[i] = part[i] && !(*is)[i];
    }
  }
  for (int e = 0; e < index->dtype.lanes; e++) {
    auto at = values_of(index, chosen, count, e);
    known = known && at;
    if (!known) return;
    auto size = int64_t(to.owner.size());
    for (size_t i = 0; i < count; i++) {
      if (!part[i]) continue;
      int64_t thread = team.first + int64_t(i);
      auto who = int16_t(reach.by_warp ? Footprint::warp_zero - thread / warp : thread);
      for (int64_t place = (*at)[i]; place < (*at)[i] + reach.elements; place++) {
        int64_t element = size == Footprint::tensor_slots && place >= 0 ? place % size : place;
        if (element < 0 || element >= size) continue;
        int16_t& owner = to.owner[size_t(element)];
        owner = joined(owner, who, warp);
      }
    }
  }
}

std::optional<bool> Footprints::known(const Expr& condition) const {
  if (!turned) return std::nullopt;
  auto value = as_int(in_turn(resolved(condition)));
  return value ? std::optional(*value != 0) : std::nullopt;
}

// What must hold as parts of which each is about all lanes of a vector: an index counts where they all may.
void Footprints::split(const Expr& condition, bool holds, Conditions& to) const {
  auto* b = condition.as<Binary>();
  if (holds && b && (b->op == BinaryOp::logical_and || b->op == BinaryOp::bit_and)) {
    split(b->a, true, to);
    split(b->b, true, to);
  } else if (auto* wide = condition.as<Broadcast>()) {
    split(wide->value, holds, to);
  } else if (condition->dtype.lanes == 1) {
    to.emplace_back(condition, holds);
  }
}

// The place of the first thread in the first turns of loops; of a vector that of its first element. Null: it
// is not known, or the block or a number of the call moves other threads and turns differently.
Expr Footprints::base_of(BufferId buffer, const Expr& index) const {
  bool computed = contains(
      index, [](const Load&) { return true; }, [](const Call&) { return true; },
      [](const Var& n) { return n.dtype.lanes > 1; });
  if (computed) return {};
  Expr first = first_of(index);
  auto moves = [&](const Var& v) { return sampled.contains(&v) && !fixed.contains(&v); };
  Expr base = simplify(
      rewrite(first, [&](const Var& v, Rewriter&) -> Expr { return moves(v) ? Expr(&v) : zero(v.dtype); }));
  std::set<const ExprNode*> own;  // sizes of the tensor, by which its rows lie apart
  for (auto* list : {&f[buffer].shape, &f[buffer].strides})
    for (auto& e : *list) visit(e, [&](const Var& v) { own.insert(&v); });
  Expr rest = simplify(first - base);
  return contains(rest, [&](const Var& v) { return moves(v) && !own.contains(&v); }) ? Expr() : base;
}

Footprint Footprints::of(BufferId buffer, std::span<const Expr> index, const Conditions& conditions,
                         const Team& team, const Reach& reach) const {
  bool tensor = f[buffer].scope == Scope::global;
  int64_t elements = tensor ? Footprint::tensor_slots : f[buffer].elements;
  if (index.size() != 1 || elements <= 0) return {};
  Footprint found{.owner = std::vector<int16_t>(size_t(elements), Footprint::nobody)};
  Expr at = in_turn(resolved(index[0]));
  if (tensor && !(found.base = base_of(buffer, at))) return {};
  Conditions where;
  for (auto& [condition, holds] : conditions) split(in_turn(resolved(condition)), holds, where);
  // What depends on more than the turn may hold.
  if (turned && !uses_var(at, Expr(turned)))
    std::erase_if(where, [&](auto& c) { return uses_var(c.first, Expr(turned)); });
  std::vector<std::pair<const ExprNode*, Range>> around;  // the loops that it depends on
  auto depend = [&](const Expr& e) {
    visit(e, [&](const Var& v) {
      auto it = loops.find(&v);
      bool is_new = std::ranges::none_of(around, [&](auto& a) { return a.first == &v; });
      if (it != loops.end() && is_new) around.push_back(*it);
    });
  };
  depend(at);
  for (auto& [condition, holds] : where) depend(condition);
  int64_t points = 1;
  for (auto& [var, range] : around) points = points > most_points ? points : points * range.count;
  if (points * int64_t(threads) > most_points) return {};
  const LaneEnv own = of_team(fixed, team), own_sampled = tensor ? of_team(sampled, team) : LaneEnv();
  bool known = true;
  for (int64_t p = 0; p < points && known; p++) {
    poll();
    LaneEnv env = own, chosen = own_sampled;
    int64_t rest = p;
    for (auto& [var, range] : around) {
      env[var] = Lanes(size_t(team.count), range.first + rest % range.count);
      if (tensor) chosen[var] = env[var];
      rest /= range.count;
    }
    touch(found, at, where, team, reach, env, tensor ? chosen : env, known);
  }
  return known ? found : Footprint();
}

}  // namespace tl
