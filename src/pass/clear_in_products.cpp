// clear_in_products: a product of warpgroups can clear its sums, which costs nothing: a clear in front of it
// goes.  Where threads may write to the sums in between, under a condition, both stand under that condition,
// and the product clears where it does not hold.
//
//   clear(S)                          let masked = k >= last
//   if k >= last:                     if masked:
//     for i, j in parallel(…):          clear(S)
//       S[i, j] = …             ->      for i, j in parallel(…):
//   gemm(Q, K, S)                         S[i, j] = …
//                                     gemm(Q, K, S) {clear_accum=!masked}
//
// So does a nest that writes zeros to all of the sums but where a condition on the element fails: it stands
// under the condition that it may fail somewhere.
//
//   for i, j in parallel(…):          let masked = bx*64 < k*32 + 31
//     S[i, j] = select(          ->   if masked:
//       k*32 + j <= bx*64 + i,          for i, j in parallel(…): S[i, j] = select(…)
//       0.0, -inf)                    gemm(Q, K, S) {clear_accum=!masked}
//   gemm(Q, K, S)
//
// These forms keep the sums alive from one product to the next where the condition does not hold, so
// they are for kernels with registers to spare.
// Not where the program itself leaves products in flight: there each statement on sums stands where it was
// put. Before assign_roles, which asks what statements touch the sums.
#include <algorithm>
#include <cmath>

#include "arith/everywhere.h"
#include "arith/simplify.h"
#include "base/product.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"
#include "ops/regions.h"
#include "pass/check_schedules.h"
#include "pass/passes.h"
#include "pass/product_plan.h"
#include "pass/tile_use.h"
#include "pass/walk.h"

namespace tl {
namespace {

// Sums that a statement makes zeros: all of them, or all if `inside` holds.
struct Cleared {
  BufferId sums;
  Expr inside = {};
};

struct ClearingProducts : ScopedRewriter {
  const Function& f;
  const Kernel& k;
  const Target& target;
  ClearingProducts(const Function& f, const Kernel& k, const Target& target) : f(f), k(k), target(target) {
    enter(f, k);
  }

  using ScopedRewriter::operator();
  Stmt at(const Stmt& s) override {
    if (auto* loop = s.as<For>(); loop && has_given_schedule(*loop)) return s;  // which counts its statements
    auto* n = s.as<Block>();
    if (!n) return children(s);
    std::vector<Stmt> stmts;
    for (auto& inner : n->stmts) stmts.push_back((*this)(inner));
    for (size_t i = 0; i < stmts.size(); i++)
      if (auto cleared = cleared_by(stmts[i])) move(stmts, i, *cleared);
    return block(std::move(stmts), n->span);
  }

  static bool is_zero(const Expr& e) {
    auto* real = e.as<FloatImm>();
    return is_int(e, 0) || (real && real->value == 0 && !std::signbit(real->value));
  }
  std::optional<Cleared> cleared_by(const Stmt& s) const {
    auto nest = s.as<Tile>() || s.as<For>() ? nest_of(s, f) : std::nullopt;
    auto* store = nest ? nest->body.as<Store>() : nullptr;
    if (!store || !nest->attrs.entries.empty() || f[store->buffer].scope != Scope::fragment) return {};
    bool whole = nest->extents == tile_shape(f[store->buffer]) && store->index.size() == nest->vars.size();
    for (size_t d = 0; whole && d < nest->vars.size(); d++) whole = store->index[d].same(nest->vars[d]);
    if (!whole) return {};
    auto* cast = store->value.as<Cast>();
    const Expr& value = cast ? cast->a : store->value;
    if (is_zero(value)) return Cleared{store->buffer};
    auto* chosen = value.as<Select>();
    if (!chosen || !(is_zero(chosen->a) || is_zero(chosen->b))) return {};
    Facts inside = facts;
    for (size_t d = 0; d < nest->vars.size(); d++)
      inside.bind(nest->vars[d], Interval{0, nest->extents[d] - 1});
    Expr zeros = is_zero(chosen->a) ? chosen->cond : unary(UnaryOp::logical_not, chosen->cond);
    auto same_for_all = [&](const Expr& e) {
      return is_common(e) && !contains(e, [&](const Var& v) {
               return std::ranges::any_of(nest->vars, [&](auto& x) { return x.get() == &v; });
             });
    };
    Expr all = everywhere(simplify(zeros, inside), inside, same_for_all);
    return all ? std::optional(Cleared{store->buffer, all}) : std::nullopt;
  }
  bool touches(const Stmt& s, BufferId sums) const { return use_of(f, s, sums).touched; }
  bool may_clear(const Stmt& s, BufferId sums) const {
    auto* t = s.as<Tile>();
    return t && t->op->name == "gemm" && region_of(*t, 2).buffer == sums && is_whole(region_of(*t, 2), f) &&
           region_of(*t, 0).buffer != sums && !t->attrs.find("clear_accum") &&
           why_no_wgmma(f, k, target, s).empty();
  }
  // May a clear stand under a condition?  Where a program names threads, names may differ among them.
  bool may_stand_under(const Expr& condition) const {
    bool names_threads = k.thread && contains(k.body, [&](const Var& v) { return &v == k.thread.get(); });
    return is_common(condition) && !names_threads && has_registers();
  }
  // Enough for all fragments of the kernel at once.
  bool has_registers() const {
    constexpr int64_t most = 255, spare = 28;
    int64_t threads = thread_count(k), bits = 0;
    for (auto& info : f.buffers)
      if (info.scope == Scope::fragment) bits += product(tile_shape(info)) * info.dtype.bits;
    return bits / 32 / threads + spare <= std::min(most, target.multiprocessors.launch_registers(threads));
  }
  // The same for all threads, and known where it stands.
  bool is_common(const Expr& e) const {
    return !contains(
        e,
        [&](const Load& n) {
          return f[n.buffer].scope == Scope::fragment || f[n.buffer].scope == Scope::local;
        },
        [&](const Var& v) { return k.thread && &v == k.thread.get(); },
        [](const Call& n) { return n.intrinsic->effect != Intrinsic::Effect::pure; });
  }
  static Stmt clearing(const Stmt& gemm, AttrValue when) {
    auto& t = *gemm.as<Tile>();
    Attrs attrs = t.attrs;
    attrs.entries["clear_accum"] = std::move(when);
    return tile(*t.op, t.operands, std::move(attrs), t.span, t.body);
  }

  // The clear at `place` goes to the product behind it, if there is one.
  void move(std::vector<Stmt>& stmts, size_t place, const Cleared& cleared) const {
    size_t next = next_touch(stmts, place + 1, cleared.sums);
    if (next == stmts.size()) return;
    Stmt clear = stmts[place];
    bool clears = may_clear(stmts[next], cleared.sums);
    if (cleared.inside) {
      Expr masked = unary(UnaryOp::logical_not, cleared.inside, clear->span);
      if (clears && may_stand_under(masked)) put_under(stmts, place, next, simplify(masked, facts), clear);
      return;
    }
    if (clears) {
      stmts[next] = clearing(stmts[next], int64_t(1));
      stmts[place] = block({}, clear->span);
      return;
    }
    auto* branch = stmts[next].as<If>();
    if (!branch || branch->else_body || !may_stand_under(branch->cond)) return;
    size_t product = next_touch(stmts, next + 1, cleared.sums);
    if (product == stmts.size() || !may_clear(stmts[product], cleared.sums)) return;
    put_under(stmts, next, product, branch->cond, block({clear, branch->then_body}, branch->span));
    stmts[place] = block({}, clear->span);
  }
  // What stands at `place` becomes `body` under a condition, without which the product clears.
  static void put_under(std::vector<Stmt>& stmts, size_t place, size_t product, const Expr& condition,
                        const Stmt& body) {
    Span span = stmts[place]->span;
    Expr holds = var("masked", boolean);
    stmts[product] = clearing(stmts[product], unary(UnaryOp::logical_not, holds, span));
    stmts[place] = if_then(holds, body, {}, span);
    stmts.insert(stmts.begin() + std::ptrdiff_t(place), let(holds, condition, span));
  }
  size_t next_touch(const std::vector<Stmt>& stmts, size_t from, BufferId sums) const {
    for (; from < stmts.size() && !touches(stmts[from], sums); from++)
      if (has_control(stmts[from])) return stmts.size();  // it may go elsewhere, where the sums are read
    return from;
  }
};

}  // namespace

Function clear_in_products(Function f, const Target& target) {
  if (target.warpgroup.empty()) return f;
  for (Kernel& k : f.kernels)
    if (!contains(k.body, [](const Tile& t) { return t.attrs.get_int("in_flight") != 0; }))
      k.body = ClearingProducts(f, k, target)(k.body);
  return f;
}

}  // namespace tl
