// guard_bounds: masks accesses to tensors that may fall outside them: a load then gives 0 (or the tensor's
// safe value), a store is dropped. Here, while tensors still have one index per dimension to compare with
// their extents.
//
//   C[by*128 + i, j] = Cl[r]   ->   C[by*128 + i, j] = Cl[r] mask(by*128 + i < 1000)
//   n // D[i]                  ->   n // select(i < 1000 or d != 0, d, 1), where d = D[i] mask(i < 1000)
#include "arith/analysis.h"
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

struct Guard final : ScopedRewriter {
  const Function& f;
  VarMap named = {};  // values that read tensors
  bool keeps_indices;
  Span span = {};  // of the statement
  Guard(const Function& f, const Target& target) : f(f), keeps_indices(target.keeps_indices) {}
  using ScopedRewriter::operator();

  Expr mask_of(BufferId buffer, const std::vector<Expr>& index, Expr mask) {
    const BufferInfo& info = f[buffer];
    if (info.scope != Scope::global) return mask;
    for (size_t d = 0; d < index.size(); d++) {
      Expr i = index[d]->dtype == i64 ? index[d] : cast(i64, index[d]);
      for (Expr bound : {le(imm(0), i), lt(i, info.shape[d])}) {
        Expr c = simplify(bound, facts);  // true or not, it keeps divisions in the index that may fail
        if (!is_int(c, 1) && interval_of(c, facts).min < 1) mask = both(mask, c);
      }
    }
    return mask;
  }

  // Of an access whose mask has become another one: what the guard asks, so that the simulator can count what
  // it drops.
  Claim claim(BufferId buffer, const std::vector<Expr>& index, const Expr& mask, const Expr& own) const {
    if (!keeps_indices || mask.same(own)) return {};
    return {buffer, index, own};
  }

  // How many elements an access at a place takes, side by side.
  int64_t elements_at(const Call& n, const Load& at) const {
    DType t = n.intrinsic == &load_wide ? n.dtype : n.intrinsic == &store_wide ? n.args[1]->dtype : at.dtype;
    return std::max<int64_t>(1, int64_t(t.bytes()) * t.lanes / std::max(1, at.dtype.bytes()));
  }

  // The place of a call: an address may be any; what is accessed there must lie within the tensor.
  Expr place(const Call& owner, const Call& address) {
    const Load& at = *address.args[0].as<Load>();
    std::vector<Expr> index, args = address.args;
    for (auto& i : at.index) index.push_back((*this)(i));
    Expr mask = at.mask ? (*this)(at.mask) : at.mask;
    if (obeys_mask(*owner.intrinsic)) {
      mask = mask_of(at.buffer, index, mask);
      std::vector<Expr> last = index;
      if (int64_t n = elements_at(owner, at); n > 1) {
        last.back() = last.back() + (n - 1);
        mask = mask_of(at.buffer, last, mask);
      }
    }
    Claim known = claim(at.buffer, index, mask, at.mask);
    args[0] = load(at.dtype, at.buffer, std::move(index), at.span, mask, known ? known : at.claim);
    return call(address_of, std::move(args), address.dtype, address.span);
  }

  void gather_inside(const Expr& e, std::set<const ExprNode*>& seen, Expr& inside) {
    visit(
        e,
        [&](const Load& l) {
          if (f[l.buffer].scope != Scope::global || f[l.buffer].safe_value) return;
          Expr mask = mask_of(l.buffer, l.index, {});
          if (!mask || contains(mask, [](const Load&) { return true; })) return;  // it may have changed since
          if (!(inside && equal(mask, inside))) inside = both(inside, mask);
        },
        [&](const Var& v) {
          auto it = named.find(&v);
          if (it != named.end() && seen.insert(&v).second) gather_inside(it->second, seen, inside);
        });
  }

  // A 0 that was read outside of its tensor is no divisor: what it divides is not meant to be there.
  Expr division(const Binary& n) {
    if (!may_be_zero(Analysis(facts).of(n.b))) return Expr(&n);
    std::set<const ExprNode*> seen;
    Expr inside;
    gather_inside(n.b, seen, inside);
    if (!inside) return Expr(&n);
    Expr counts = binary(BinaryOp::logical_or, inside, binary(BinaryOp::ne, n.b, zero(n.dtype)));
    return binary(n.op, n.a, select(counts, n.b, imm(1, n.dtype)), n.span);
  }

  Expr operator()(const Expr& e) override {
    if (auto* n = e.as<Call>()) {
      std::vector<Expr> args;
      for (auto& a : n->args) args.push_back(place_of(a) ? place(*n, *a.as<Call>()) : (*this)(a));
      return call(*n->intrinsic, std::move(args), n->dtype, n->span);
    }
    if (auto* n = e.as<Load>()) {
      Expr inner = children(e);
      // Each guard doubles what indices of indices say.
      check_size(inner, n->span ? n->span : span, largest_index);
      n = inner.as<Load>();
      Expr mask = mask_of(n->buffer, n->index, n->mask);
      if (mask.same(n->mask)) return inner;
      Expr guarded =
          load(n->dtype, n->buffer, n->index, n->span, mask, claim(n->buffer, n->index, mask, n->mask));
      Expr safe = f[n->buffer].safe_value;
      return safe ? select(mask_of(n->buffer, n->index, {}), guarded, cast(n->dtype, safe), n->span)
                  : guarded;
    }
    if (auto* n = e.as<Select>()) {  // an arm that is not taken is not loaded
      Expr cond = (*this)(n->cond);
      Facts outer = facts;
      facts.assume(cond);
      Expr a = (*this)(n->a);
      facts = std::move(outer);
      return select(cond, a, (*this)(n->b), n->span);
    }
    Expr inner = children(e);
    auto* n = inner.as<Binary>();
    return n && is_division(n->op) ? division(*n) : inner;
  }

  Stmt at(const Stmt& s) override {
    span = s->span;
    Stmt inner = children(s);
    if (auto* let = inner.as<Let>()) {
      auto from_tensor = [&](const Load& l) { return f[l.buffer].scope == Scope::global; };
      if (contains(let->value, from_tensor, [&](const Var& v) { return named.contains(&v); }))
        named[let->var.get()] = let->value;
    }
    auto* n = inner.as<Store>();
    if (!n) return inner;
    Expr mask = mask_of(n->buffer, n->index, n->mask);
    if (mask.same(n->mask)) return inner;
    return store(n->buffer, n->index, n->value, n->span, mask, claim(n->buffer, n->index, mask, n->mask));
  }
};

}  // namespace

Function guard_bounds(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    Guard guard(f, target);
    guard.enter(f, k);
    k.body = guard(k.body);
  }
  return f;
}

}  // namespace tl
