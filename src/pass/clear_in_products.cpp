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
// The second form keeps the sums alive from one product to the next where the condition does not hold, so it
// is for kernels with registers to spare.
// Not where the program itself leaves products in flight: there each statement on sums stands where it was
// put. Before assign_roles, which asks what statements touch the sums.
#include "base/product.h"
#include "ops/mapping.h"
#include "ops/regions.h"
#include "pass/passes.h"
#include "pass/product_plan.h"
#include "pass/tile_use.h"

namespace tl {
namespace {

struct ClearingProducts : Rewriter {
  const Function& f;
  const Kernel& k;
  const Target& target;
  ClearingProducts(const Function& f, const Kernel& k, const Target& target) : f(f), k(k), target(target) {}

  using Rewriter::operator();
  Stmt operator()(const Stmt& s) override {
    auto* n = s.as<Block>();
    if (!n) return children(s);
    std::vector<Stmt> stmts;
    for (auto& inner : n->stmts) stmts.push_back((*this)(inner));
    for (size_t i = 0; i < stmts.size(); i++)
      if (auto sums = cleared_by(stmts[i])) move(stmts, i, *sums);
    return block(std::move(stmts), n->span);
  }

  // The whole fragment that a statement fills with zeros.
  std::optional<BufferId> cleared_by(const Stmt& s) const {
    auto* t = s.as<Tile>();
    if (!t || (t->op->name != "clear" && t->op->name != "fill") || !t->attrs.entries.empty()) return {};
    if (t->op->name == "fill") {
      const Expr& value = std::get<Expr>(t->operands[1]);
      auto* real = value.as<FloatImm>();
      if (!is_int(value, 0) && !(real && real->value == 0)) return {};
    }
    const Region& to = region_of(*t, 0);
    if (f[to.buffer].scope != Scope::fragment || !is_whole(to, f)) return {};
    return to.buffer;
  }
  bool touches(const Stmt& s, BufferId sums) const { return use_of(f, s, sums).touched; }
  bool may_clear(const Stmt& s, BufferId sums) const {
    auto* t = s.as<Tile>();
    return t && t->op->name == "gemm" && region_of(*t, 2).buffer == sums && is_whole(region_of(*t, 2), f) &&
           region_of(*t, 0).buffer != sums && !t->attrs.find("clear_accum") &&
           why_no_wgmma(f, k, target, s).empty();
  }
  // Enough for all fragments of the kernel at once.
  bool has_registers() const {
    constexpr int64_t of_multiprocessor = 65536, most = 255, spare = 28;
    int64_t threads = thread_count(k), bits = 0;
    for (auto& info : f.buffers)
      if (info.scope == Scope::fragment) bits += product(tile_shape(info)) * info.dtype.bits;
    return bits / 32 / threads + spare <= std::min(most, of_multiprocessor / threads);
  }
  // The same for all threads, and known where it stands.
  bool is_common(const Expr& condition) const {
    return !contains(
        condition,
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
  void move(std::vector<Stmt>& stmts, size_t place, BufferId sums) const {
    size_t next = next_touch(stmts, place + 1, sums);
    if (next == stmts.size()) return;
    Stmt clear = stmts[place];
    if (may_clear(stmts[next], sums)) {
      stmts[next] = clearing(stmts[next], int64_t(1));
      stmts[place] = block({}, clear->span);
      return;
    }
    auto* branch = stmts[next].as<If>();
    if (!branch || branch->else_body || !is_common(branch->cond) || !has_registers()) return;
    size_t product = next_touch(stmts, next + 1, sums);
    if (product == stmts.size() || !may_clear(stmts[product], sums)) return;
    Expr holds = var("masked", boolean);
    stmts[product] = clearing(stmts[product], unary(UnaryOp::logical_not, holds, clear->span));
    Stmt under = if_then(holds, block({clear, branch->then_body}, branch->span), {}, branch->span);
    stmts[place] = block({}, clear->span);
    stmts.insert(stmts.begin() + std::ptrdiff_t(next), let(holds, branch->cond, branch->span));
    stmts[next + 1] = under;
  }
  size_t next_touch(const std::vector<Stmt>& stmts, size_t from, BufferId sums) const {
    while (from < stmts.size() && !touches(stmts[from], sums)) from++;
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
