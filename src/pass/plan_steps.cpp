// An operator that runs in steps: while one runs, the operands of the next are made ready, in fragments of
// which there are two each.  A step's part of an operand is loaded from a tile that copies fill, or computed
// by a nest of the body, such as one that unpacks weights; of such a nest each step runs its part of one
// loop.
//
//   for n, k in parallel(64, 32):           ->   copy(As[:, 16:], As_1)
//     Bf[n, k] = cast<f16>(Bs[n, k])             for n, k in parallel(64, 16): Bf_1[n, k] = cast<f16>(Bs[n,
//     16 + k])
//   gemm(As, Bf, C)                              gemm(As_0, Bf_0, C)
//                                                … the same for step 0 of the next iteration: As_0, Bf_0
//                                                gemm(As_1, Bf_1, C)
#include <algorithm>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "pass/schedule.h"
#include "pass/tile_use.h"
#include "target/effects.h"

namespace tl {
namespace {

constexpr int64_t address_registers = 24;  // that a loop needs beside its fragments

// The dimension of an operand of which each step has a part.
size_t dimension_along(const Steps& steps, size_t operand) {
  Region first = steps.part(operand, 0), second = steps.part(operand, 1);
  size_t d = 0;
  while (equal(first.ranges[d].min, second.ranges[d].min)) d++;
  return d;
}

// Reads of a fragment that `from` fills become what it puts there.
void read_through(Filler& reader, const Filler& from) {
  auto* s = from.nest.body.as<Store>();
  reader.nest.body = rewrite(reader.nest.body, [&](const Load& n, Rewriter& self) -> Expr {
    if (n.buffer != from.tile) return self.children(n);
    VarMap at;
    for (size_t d = 0; d < s->index.size(); d++) at.emplace(s->index[d].get(), self(n.index[d]));
    return substitute(s->value, at);
  });
}

// Does the nest do nothing but store one value in each element, which its variables name?
bool is_elementwise(const Filler& filler) {
  auto* s = filler.nest.body.as<Store>();
  std::set<size_t> used;
  if (!s || s->mask) return false;
  return std::ranges::all_of(s->index, [&](auto& i) {
    auto loop = loop_of(filler.nest, i);
    return loop && used.insert(*loop).second;
  });
}

bool reads(const Filler& filler, BufferId tile) {
  return contains(filler.nest.body, [&](const Load& n) { return n.buffer == tile; });
}

}  // namespace

// Behind all loads of this iteration and all other steps.
int64_t Stepped::place_of_last() const {
  int64_t loads = int64_t(steps.operands.size()) * (steps.count - 1);
  return before + loads + steps.count - 1;
}

// ── finding one ─────────────────────────────────────────────────────────────────────────────────────
bool LoopPlanner::is_known_ahead(const ParallelNest& nest) const {
  std::set<const ExprNode*> own;
  visit(nest.body, [&](const Let& n) { own.insert(n.var.get()); });
  bool known = !contains(nest.body, [](const Alloc&) { return true; });
  visit(
      nest.body,
      [&](const Load& n) {
        bool copied =
            std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.tile == n.buffer; });
        known &= copied || (f[n.buffer].scope == Scope::global ? is_constant(n.buffer)
                                                               : !written.contains(f.storage(n.buffer)));
      },
      [&](const Call& n) { known &= n.intrinsic->effect == Intrinsic::Effect::pure; },
      [&](const Var& n) {
        auto it = lets.find(&n);
        known &= it == lets.end() || own.contains(&n) || why_late(it->second).empty();
      });
  return known;
}

std::optional<Filler> LoopPlanner::filler_of(const Stmt& s) const {
  auto nest = nest_of(s, f);
  if (!nest || nest->attrs.find("loop_layout")) return std::nullopt;
  std::set<BufferId> fills, uses;
  bool plain = true;
  visit_effects(nest->body, [&](const Stmt&, const Effect& e) {
    plain &= (e.access == Access::read || e.access == Access::write) && !e.is_through_address();
    (e.writes() ? fills : uses).insert(e.buffer);
  });
  if (!plain || fills.size() != 1 || uses.contains(*fills.begin())) return std::nullopt;
  Filler filler{.stmt = s, .nest = *nest, .tile = *fills.begin()};
  const BufferInfo& info = f[filler.tile];
  if (info.scope != Scope::fragment || info.layout || !why_not_own(filler.tile).empty()) return std::nullopt;
  return filler;
}

std::optional<size_t> LoopPlanner::loop_along(const Filler& filler, const Stepped& op, size_t operand) const {
  size_t dimension = dimension_along(op.steps, operand);
  const ParallelNest& nest = filler.nest;
  Facts facts = nest_facts(nest, f, kernel);
  std::set<const ExprNode*> counted;
  for (auto& v : nest.vars) counted.insert(v.get());
  visit(nest.body, [&](const For& n) {
    counted.insert(n.var.get());
    if (auto extent = as_int(n.extent)) facts.bind(n.var, Interval{0, *extent - 1});
  });
  for (size_t l = 0; l < nest.vars.size(); l++) {
    bool along = nest.extents[l] % op.steps.count == 0;
    visit(nest.body, [&](const Store& n) {
      const Expr& at = n.index[dimension];
      auto linear = linear_in(at, nest.vars[l], facts);
      along &= linear && linear->stride * nest.extents[l] == as_int(f[filler.tile].shape[dimension]) &&
               !contains(at, [&](const Var& v) { return !counted.contains(&v); });
      if (!along) return;
      Interval rest = interval_of(linear->base, facts);
      along &= rest.min >= 0 && rest.max < linear->stride;
    });
    if (along) return l;
  }
  return std::nullopt;
}

bool LoopPlanner::find_operands(Stepped& op, std::vector<Filler> fillers) const {
  for (size_t i = 0; i < fillers.size(); i++) {
    op.fillers.push_back(fillers[i]);
    for (size_t j = 0; j < i; j++) {
      if (fillers[j].tile == fillers[i].tile) return false;
      if (!reads(fillers[i], fillers[j].tile)) continue;
      if (!is_elementwise(fillers[j])) return false;
      read_through(fillers[i], fillers[j]);
    }
    if (!is_known_ahead(fillers[i].nest)) return false;
  }
  std::set<BufferId> used;
  for (size_t i = 0; i < op.op->operands.size(); i++)
    if (auto* r = std::get_if<Region>(&op.op->operands[i])) {
      bool is_part = std::ranges::find(op.steps.operands, i) != op.steps.operands.end();
      bool computed = std::ranges::any_of(fillers, [&](auto& x) { return x.tile == r->buffer; });
      if (computed && (!is_part || !used.insert(r->buffer).second)) return false;
    }
  return std::ranges::all_of(op.steps.operands, [&](size_t operand) {
    BufferId tile = region_of(*op.op, operand).buffer;
    if (std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.tile == tile; })) return true;
    auto filler = std::ranges::find_if(fillers, [&](auto& x) { return x.tile == tile; });
    if (filler == fillers.end()) return false;
    auto loop = loop_along(*filler, op, operand);
    if (loop) op.computed.insert_or_assign(operand, Stepped::Computed{*filler, *loop});
    return bool(loop);
  });
}

std::optional<Stepped> LoopPlanner::find_stepped() const {
  std::optional<Stepped> found;
  std::vector<Filler> fillers;
  int64_t count = 0;
  for (auto& e : early)
    if (is_planned(e) && e.tensor && e.engine != "cp_async") return std::nullopt;
  for (auto& s : body) {
    if (std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.stmt.same(s); })) continue;
    if (s.as<Let>() || s.as<Alloc>()) {
      count++;
      continue;
    }
    if (found) return std::nullopt;
    if (auto filler = filler_of(s)) {
      fillers.push_back(*filler);
      continue;
    }
    auto* t = s.as<Tile>();
    if (!t || !row_of(*t).steps) return std::nullopt;
    LayoutDecisions none;
    auto steps = row_of(*t).steps(*t, {f, kernel, target, team, none});
    if (!steps) return std::nullopt;
    found = Stepped{t, *steps, count++};
  }
  if (!found || found->steps.count < 2 || found->steps.count % 2) return std::nullopt;
  if (found->steps.registers > target.registers - address_registers) return std::nullopt;
  if (!find_operands(*found, std::move(fillers))) return std::nullopt;
  return found;
}

// ── taking it apart ─────────────────────────────────────────────────────────────────────────────────
Stmt LoopPlanner::load_of(const Stepped& op, size_t operand, BufferId fragment, int64_t step) const {
  auto it = op.computed.find(operand);
  if (it == op.computed.end())
    return make_tile(f, *find_op("copy"), {op.steps.part(operand, step), whole(f, fragment)}, {},
                     op.op->span);
  auto& [filler, loop] = it->second;
  ParallelNest part = filler.nest;
  Expr v = part.vars[loop];
  part.extents[loop] /= op.steps.count;
  Expr of_step = v + step * part.extents[loop];
  part.body = rewrite(
      part.body,
      [&](const Store& n, Rewriter& self) -> Stmt {
        return store(fragment, n.index, self(n.value), n.span, n.mask ? self(n.mask) : n.mask);
      },
      [&](const Var& n, Rewriter&) -> Expr { return &n == v.get() ? of_step : Expr(&n); });
  return renamed(make_nest(part));
}

std::vector<Stmt> LoopPlanner::in_steps(const Stepped& op, int64_t stages, std::vector<Stmt>& allocs) {
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
  int64_t place = op.place_of_last();
  auto load_step = [&](int64_t step) {
    for (size_t operand : steps.operands) {
      Stmt s = load_of(op, operand, held[operand][size_t(step % 2)], step);
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

}  // namespace tl
