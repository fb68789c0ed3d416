// narrow_index: index arithmetic is exact i64 up to here; where every intermediate value provably fits 32 bits it
// is done in 32, which is several times cheaper on a GPU.  After vectorize, so that each access is judged once.
//
//   A[bx*4096 + tx*8]   ->   A[cast<i32>(bx)*4096:i32 + cast<i32>(tx)*8:i32]
#include "pass/passes.h"
#include "pass/scoped.h"

namespace tl {
namespace {

bool fits(Interval r) { return r.min >= INT32_MIN && r.max <= INT32_MAX; }

struct Narrower final : ScopedRewriter {
  using ScopedRewriter::operator();

  // The expression in 32 bits, or null if some part of it may not fit.
  Expr narrow(const Expr& e) {
    DType t = i32.with_lanes(e->dtype.lanes);
    if (auto* r = e.as<Ramp>()) {
      Expr base = narrow(r->base), stride = narrow(r->stride);
      bool last = base && stride && fits(interval_of(r->base + r->stride * (r->dtype.lanes - 1), facts));
      return last ? ramp(base, stride, r->dtype.lanes, r->span) : Expr();
    }
    if (auto* b = e.as<Broadcast>()) {
      Expr value = narrow(b->value);
      return value ? broadcast(value, b->dtype.lanes, b->span) : Expr();
    }
    if (e->dtype.lanes > 1) {              // lanes are judged by their parts
      auto* b = e.as<Binary>();
      if (!b || b->op != BinaryOp::add) return {};
      Expr x = narrow(b->a), y = narrow(b->b);
      return x && y ? binary(b->op, x, y, b->span) : Expr();
    }
    if (!fits(interval_of(e, facts))) return {};
    if (auto v = as_int(e)) return imm(*v, t, e->span);
    if (auto* b = e.as<Binary>(); b && b->a->dtype.is_int()) {
      Expr x = narrow(b->a), y = narrow(b->b);
      return x && y ? binary(b->op, x, y, b->span) : Expr();
    }
    if (auto* c = e.as<Cast>(); c && c->a->dtype == i32) return c->a;
    return cast(t, e, e->span);            // a variable, a load, …: its value fits
  }

  Expr narrowed(const Expr& e) {
    if (e->dtype.scalar() != i64) return (*this)(e);
    Expr n = narrow(e);
    return n ? n : (*this)(e);
  }

  Expr operator()(const Expr& e) override {
    if (auto* l = e.as<Load>()) {
      std::vector<Expr> index;
      for (auto& i : l->index) index.push_back(narrowed(i));
      return load(l->dtype, l->buffer, index, l->span, l->mask ? (*this)(l->mask) : l->mask);
    }
    if (auto* b = e.as<Binary>(); b && is_comparison(b->op) && b->a->dtype.scalar() == i64) {
      Expr x = narrow(b->a), y = narrow(b->b);
      if (x && y) return binary(b->op, x, y, b->span);
    }
    return children(e);
  }

  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Store>()) {
      std::vector<Expr> index;
      for (auto& i : n->index) index.push_back(narrowed(i));
      return store(n->buffer, index, (*this)(n->value), n->span, n->mask ? (*this)(n->mask) : n->mask);
    }
    return children(s);
  }
};

}  // namespace

Function narrow_index(Function f, const Target& target) {
  if (target.index_bits > 32) return f;
  for (Kernel& k : f.kernels) {
    Narrower narrower;
    narrower.facts = facts_of(f, k);
    k.body = narrower(k.body);
  }
  return f;
}

}  // namespace tl
