// A product of warpgroups that ends an iteration of a loop in one role runs beside what the threads do for
// the next one, where they compute what it multiplies in registers of their own.  That is done an iteration
// ahead, behind the product: the device compiler does not keep its registers beyond the end of an iteration.
// Where nothing in the loop touches its sums, nor writes what it multiplies but copies that run ahead, the
// next one begins before it has ended.
//
//   for k in pipelined(n):                ->   for k in pipelined(n):
//     for i, j in parallel(64, 64):              copy(Wn, Wf)
//       Wn[i, j] = f(Ws[i, j])                   gemm(Wf, Xs, C) {in_flight=1}
//     copy(Wn, Wf)                               for i, j in parallel(64, 64):
//     gemm(Wf, Xs, C)                              Wn[i, j] = f(Ws[i, j])      of the iteration k + 1
//                                                wgmma_wait_group(0)
#include <algorithm>

#include "ir/rewrite.h"
#include "pass/product_plan.h"
#include "pass/schedule.h"
#include "target/effects.h"
#include "target/hopper.h"

namespace tl {
namespace {

Stmt wait_for_products(int64_t left, Span span) {
  return eval(call(*find_instr("wgmma_wait_group"), {imm(left, i32)}, span), span);
}

// The first of the statements before the product that touches its sums or writes what it multiplies; nullopt:
// none does.
std::optional<size_t> first_to_meet(const Function& f, const Tile& product, const std::vector<Stmt>& rest) {
  for (size_t i = 0; i + 1 < rest.size(); i++) {
    bool meets = false;
    visit_effects(rest[i], [&](const Stmt&, const Effect& e) {
      for (size_t o = 0; o < 3; o++)
        if (f.storage(e.buffer) == f.storage(region_of(product, o).buffer))
          meets |= o == 2 || e.access != Access::read;
    });
    if (meets) return i;
  }
  return std::nullopt;
}

// A copy from registers to those that the product multiplies?
bool fills_factor(const Function& f, const Stmt& s, const Tile& product) {
  auto* t = s.as<Tile>();
  if (!t || t->op->name != "copy") return false;
  BufferId from = region_of(*t, 0).buffer, to = region_of(*t, 1).buffer;
  return to == region_of(product, 0).buffer && f[from].scope == Scope::fragment &&
         f[to].scope == Scope::fragment;
}

}  // namespace

std::optional<ProductInFlight> LoopPlanner::find_in_flight(int64_t slots) const {
  std::vector<Stmt> rest = rest_of_body();
  Stmt last = rest.empty() ? Stmt() : rest.back();
  auto* product = last ? last.as<Tile>() : nullptr;
  if (target.warpgroup.empty() || !product || product->op->name != "gemm") return {};
  int64_t products = 0;
  visit(loop.body, [&](const Tile& t) { products += t.op->name == "gemm"; });
  if (products > 1 || product->attrs.find("in_flight") || !(team == whole_block(kernel))) return {};
  if (!why_no_wgmma(f, kernel, target, last).empty()) return {};
  BufferId factor = region_of(*product, 0).buffer, sums = region_of(*product, 2).buffer;
  if (may_lie_otherwise(f, kernel, target, *product, sums)) return {};
  for (auto& e : early)
    if (is_planned(e) && e.engine != "cp_async")
      for (size_t o : {0, 1})
        if (f.storage(e.tile) == f.storage(region_of(*product, o).buffer)) return {};
  auto meets = first_to_meet(f, *product, rest);
  if (!meets && f[factor].scope != Scope::shared) return {};
  if (!meets) return ProductInFlight{.product = last};
  if (may_lie_otherwise(f, kernel, target, *product, factor)) return {};
  if (*meets == 0 || *meets + 2 != rest.size() || !fills_factor(f, rest[*meets], *product)) return {};
  rest.resize(*meets);
  bool plain =
      std::ranges::none_of(rest, [](auto& s) { return s.template as<Let>() || s.template as<Alloc>(); });
  bool others = std::ranges::any_of(early, [&](auto& e) { return is_planned(e) && e.engine != "cp_async"; });
  if (!plain || others || slots < 3) return {};
  return ProductInFlight{.product = last, .ahead = std::move(rest)};
}

void LoopPlanner::keep_in_flight(const ProductInFlight& flight, int64_t stages,
                                 std::map<const StmtNode*, std::vector<Stmt>>& instead) {
  auto& t = *flight.product.as<Tile>();
  constexpr int64_t behind_product = 2;  // statements: the copy of its factor, and itself
  for (auto& s : flight.ahead) instead[s.get()] = {marked(s, "", stages - 1, behind_product)};
  Attrs attrs = t.attrs;
  attrs.entries.insert_or_assign("in_flight", int64_t(1));
  int64_t left = flight.ahead.empty() ? 1 : 0;
  instead[flight.product.get()] = {tile(*t.op, t.operands, std::move(attrs), t.span, t.body),
                                   wait_for_products(left, t.span)};
  note(flight.ahead.empty() ? "the next product begins before this one has ended"
                            : "the product runs beside the threads' work for the next one",
       false, t.span);
  if (flight.ahead.empty())  // their slots are free behind the wait
    for (auto& e : early) e.place = int64_t(rest_of_body().size()) + 1;
}

Stmt LoopPlanner::ended(const Stmt& planned_loop) const {
  return block({planned_loop, wait_for_products(0, loop.span)}, loop.span);
}

}  // namespace tl
