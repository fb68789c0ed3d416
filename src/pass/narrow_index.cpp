// narrow_index: index arithmetic is exact i64 up to here; where 32 bits provably give the same result they
// are used, which is several times cheaper on a GPU. They do where every intermediate value fits; and for an
// index of a tensor that spans fewer than 2^31 elements, whatever the intermediate values: those of sums and
// products count modulo 2^32, and the index fits, because accesses outside the tensor are masked by now.
// A name whose value fits gets 32 bits.  After vectorize, so that each access is judged once.
//
//   A[bx*4096 + tx*8]   ->   A[cast<i32>(bx)*4096:i32 + cast<i32>(tx)*8:i32]
#include "pass/passes.h"
#include "pass/walk.h"

namespace tl {
namespace {

bool fits(Interval r) { return r.min >= INT32_MIN && r.max <= INT32_MAX; }

// The elements from a tensor's first to its last; null where a layout of the user's places them.
Expr span_of(const BufferInfo& info) {
  if (info.scope != Scope::global || info.layout) return {};
  Expr span = imm(1);
  for (size_t d = 0; d < info.shape.size(); d++)
    span = info.strides.empty() ? span * info.shape[d] : span + (info.shape[d] - 1) * info.strides[d];
  return span;
}

struct Narrower final : ScopedRewriter {
  const Function& f;
  std::map<BufferId, bool> small = {};            // its elements can be counted in 32 bits
  std::map<const ExprNode*, Expr> narrowed_lets;  // a name of 64 bits: what has its value in 32
  explicit Narrower(const Function& f) : f(f) {}
  using ScopedRewriter::operator();

  bool is_small(BufferId buffer) {
    auto [it, first] = small.try_emplace(buffer, false);
    if (first)
      if (Expr span = span_of(f[buffer])) it->second = can_prove(le(span, imm(INT32_MAX)), facts);
    return it->second;
  }

  // The expression modulo 2^32.
  Expr wrapped(const Expr& e) {
    if (Expr exact = narrow(e)) return exact;
    if (auto* r = e.as<Ramp>()) return ramp(wrapped(r->base), wrapped(r->stride), r->dtype.lanes, r->span);
    if (auto* b = e.as<Broadcast>()) return broadcast(wrapped(b->value), b->dtype.lanes, b->span);
    auto* b = e.as<Binary>();
    bool in_step = b && (b->op == BinaryOp::add || b->op == BinaryOp::sub || b->op == BinaryOp::mul);
    if (in_step) return binary(b->op, wrapped(b->a), wrapped(b->b), b->span);
    return cast(i32.with_lanes(e->dtype.lanes), (*this)(e), e->span);
  }

  // By 32 and more 64 bits may be shifted, but not 32.
  bool stays_defined(const Binary& b) {
    if (b.op != BinaryOp::shl && b.op != BinaryOp::shr) return true;
    Interval by = interval_of(b.b, facts);
    return by.min >= 0 && by.max < 32;
  }

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
    if (e->dtype.lanes > 1) {  // lanes are judged by their parts
      auto* b = e.as<Binary>();
      if (!b || b->op != BinaryOp::add) return {};
      Expr x = narrow(b->a), y = narrow(b->b);
      return x && y ? binary(b->op, x, y, b->span) : Expr();
    }
    if (auto it = narrowed_lets.find(e.get()); it != narrowed_lets.end()) return it->second;
    if (!fits(interval_of(e, facts))) return {};
    if (auto v = as_int(e)) return imm(*v, t, e->span);
    if (auto* b = e.as<Binary>(); b && b->a->dtype.is_int() && stays_defined(*b)) {
      Expr x = narrow(b->a), y = narrow(b->b);
      return x && y ? binary(b->op, x, y, b->span) : Expr();
    }
    if (auto* s = e.as<Select>())
      if (Expr x = narrow(s->a), y = narrow(s->b); x && y) return select((*this)(s->cond), x, y, s->span);
    if (auto* c = e.as<Cast>(); c && c->a->dtype == i32) return (*this)(c->a);
    return cast(t, (*this)(e), e->span);  // a variable, a load, …: its value fits
  }

  Expr narrowed(BufferId buffer, const Expr& e) {
    if (e->dtype.scalar() != i64) return (*this)(e);
    Expr n = is_small(buffer) ? wrapped(e) : narrow(e);
    return n ? n : (*this)(e);
  }

  Claim narrowed(Claim claim) {
    for (Expr& i : claim.index) {
      Expr n = i->dtype.scalar() == i64 ? narrow(i) : Expr();
      i = n ? n : (*this)(i);
    }
    if (claim.where) claim.where = (*this)(claim.where);
    return claim;
  }

  Expr operator()(const Expr& e) override {
    if (auto* l = e.as<Load>()) {
      std::vector<Expr> index;
      for (auto& i : l->index) index.push_back(narrowed(l->buffer, i));
      return load(l->dtype, l->buffer, index, l->span, l->mask ? (*this)(l->mask) : l->mask,
                  narrowed(l->claim));
    }
    if (auto it = narrowed_lets.find(e.get()); it != narrowed_lets.end())
      return cast(i64, it->second, e->span);
    if (auto* c = e.as<Cast>(); c && c->dtype == i32 && c->a->dtype == i64)  // a coordinate of a box
      if (Expr n = narrow(c->a)) return n;
    if (auto* b = e.as<Binary>(); b && is_comparison(b->op) && b->a->dtype.scalar() == i64) {
      Expr x = narrow(b->a), y = narrow(b->b);
      if (x && y) return binary(b->op, x, y, b->span);
    }
    return children(e);
  }

  Stmt at(const Stmt& s) override {
    if (auto* n = s.as<Let>(); n && n->var->dtype == i64)
      if (Expr value = narrow(n->value)) {
        Expr name = var(n->var.as<Var>()->hint, i32);
        narrowed_lets.emplace(n->var.get(), name);
        return let(name, value, n->span);
      }
    if (auto* n = s.as<For>(); n && n->extent->dtype == i64 && !is_const(n->extent))
      if (Expr extent = narrow(n->extent))
        return children(for_loop(n->var, n->min, cast(i64, extent), n->loop, n->body, n->span, n->attrs));
    if (auto* n = s.as<Store>()) {
      std::vector<Expr> index;
      for (auto& i : n->index) index.push_back(narrowed(n->buffer, i));
      Expr mask = n->mask ? (*this)(n->mask) : n->mask;
      return store(n->buffer, index, (*this)(n->value), n->span, std::move(mask), narrowed(n->claim));
    }
    return children(s);
  }
};

}  // namespace

Function narrow_index(Function f, const Target& target) {
  if (target.index_bits > 32) return f;
  for (Kernel& k : f.kernels) {
    Narrower narrower(f);
    narrower.enter(f, k);
    k.body = narrower(k.body);
  }
  return f;
}

}  // namespace tl
