// vectorize: a vectorized loop of n iterations becomes statements on vectors of n lanes.  After flatten_buffers,
// so that one question decides each access: is its index linear in the loop variable, with stride 1, and aligned?
// Where it is not, lanes are accessed one by one; a body that is not made of stores is unrolled, and says so.
//
//   for v in vectorized(8):           ->   As[o : ramp 8] = A[p + ramp(0, 1, 8)] mask(p < n)
//     As[o + v] = A[p + v] mask(p + v < n)
#include <algorithm>

#include "base/error.h"
#include "pass/passes.h"
#include "pass/scoped.h"
#include "target/alignment.h"

namespace tl {
namespace {

bool divisible(const Expr& e, int64_t n, const Facts& facts) {
  Modular m = modular_of(e, facts);
  return m.modulus % n == 0 && floor_mod(m.remainder, n) == 0;
}

// Rewrites expressions of one loop body to vectors.
struct Lanes {
  const Function& f;
  const Target& target;
  int64_t alignment;  // of tensors, in bytes
  const Expr& lane;
  int n;
  const Facts& facts;

  bool uniform(const Expr& e) const { return !uses_var(e, lane); }
  Expr wide(const Expr& e) const { return uniform(e) ? broadcast(e, n) : vector(e); }

  // The index of an access, as a vector: a Ramp of stride 1 promises a contiguous, aligned access.
  Expr index(BufferId buffer, const Expr& e) const {
    auto linear = linear_in(e, lane, facts);
    if (!linear) return wide(e);
    Scope scope = f[buffer].scope;
    bool packed = f[buffer].dtype.is_packed();  // two to a byte: an access takes whole bytes
    bool may_be = scope != Scope::global || bytes_of(n, f[buffer].dtype) <= alignment;
    bool anywhere = target.vector_alignment == 1 || scope == Scope::local || scope == Scope::fragment;
    bool aligned = anywhere ? !packed || divisible(linear->base, 2, facts) : may_be && divisible(linear->base, n, facts);
    aligned &= !packed || n % 2 == 0;
    if (linear->stride == 1 && aligned) return ramp(linear->base, imm(1, e->dtype), n);
    Expr steps = ramp(zero(e->dtype), imm(linear->stride, e->dtype), n);
    return binary(BinaryOp::add, broadcast(linear->base, n), steps);
  }

  // A condition that has the same value in all lanes, or else a vector: `b + v < e` is `b < e` if n divides both.
  Expr mask(const Expr& e) const {
    if (!e || uniform(e)) return e;
    auto* b = e.as<Binary>();
    if (b && b->op == BinaryOp::logical_and) {
      Expr x = mask(b->a), y = mask(b->b);
      if (x->dtype.lanes != y->dtype.lanes) (x->dtype.lanes == 1 ? x : y) = broadcast(x->dtype.lanes == 1 ? x : y, n);
      return binary(BinaryOp::logical_and, x, y);
    }
    if (b && b->op == BinaryOp::lt && uniform(b->b))
      if (auto linear = linear_in(b->a, lane, facts))
        if (linear->stride == 1 && divisible(linear->base, n, facts) && divisible(b->b, n, facts))
          return lt(linear->base, b->b);
    return vector(e);
  }

  Expr vector(const Expr& e) const {
    if (uniform(e)) return broadcast(e, n);
    Expr out = dispatch(e, overloads{
        [&](const Var& v) { return ramp(zero(v.dtype), imm(1, v.dtype), n); },
        [&](const Unary& u) { return unary(u.op, vector(u.a), u.span); },
        [&](const Binary& b) {
          if (b.dtype.is_int() && b.op == BinaryOp::add)
            if (auto linear = linear_in(e, lane, facts)) return ramp(linear->base, imm(linear->stride, e->dtype), n, b.span);
          return binary(b.op, vector(b.a), vector(b.b), b.span);
        },
        [&](const Cast& c) { return cast(c.dtype.with_lanes(n), vector(c.a), c.span); },
        [&](const Select& s) { return select(vector(s.cond), vector(s.a), vector(s.b), s.span); },
        [&](const Load& l) -> Expr {
          if (uniform(l.index[0])) {       // one element for all lanes; a mask that differs picks it or 0
            Expr one = broadcast(load(l.dtype, l.buffer, l.index, l.span), n);
            return select(vector(l.mask), one, zero(one->dtype));
          }
          return load(l.dtype, l.buffer, {index(l.buffer, l.index[0])}, l.span, mask(l.mask));
        },
        [&](const Call& c) -> Expr {
          std::vector<Expr> args;
          for (auto& a : c.args) args.push_back(vector(a));
          return call(*c.callee, std::move(args), c.dtype.with_lanes(n), c.span);
        },
        [&](const auto& other) -> Expr { return Expr(&other); }});
    internal_check(out->dtype.lanes == n, "a vector expression");
    return out;
  }

  // Neighbouring elements updated at once; null where they are not neighbours, or masked apart.
  Stmt update(const Eval& s, const Expr& guard) const {
    auto* c = s.value.as<Call>();
    if (!c || c->callee->atomic == Callee::Atomic::none || c->args.size() != 3) return {};
    const Load& at = *place_of(c->args[0]);
    if (uniform(at.index[0])) return {};
    Expr where = index(at.buffer, at.index[0]), all = mask(both(guard, at.mask));
    auto* run = where.as<Ramp>();
    if (!run || !is_int(run->stride, 1) || (all && all->dtype.lanes > 1)) return {};
    Expr place = load(at.dtype, at.buffer, {where}, at.span, all);
    return eval(call(*c->callee, {address(place, "", c->span), wide(c->args[1]), c->args[2]}, c->dtype, c->span), s.span);
  }

  // May several lanes update one element, s[v % 2] += x[v]?  Then one must see what the other has written.
  bool meets_itself(const Store& s) const {
    auto linear = linear_in(s.index[0], lane, facts);
    if (linear && linear->stride != 0) return false;
    bool reads = false;
    visit(s.value, [&](const Load& n) { reads |= n.buffer == s.buffer; });
    return reads;
  }

  // The body as vector statements; null if it is made of anything but stores and atomic updates.
  Stmt statement(const Stmt& s, const Expr& guard) const {
    if (auto* b = s.as<Block>()) {
      std::vector<Stmt> out;
      for (auto& inner : b->stmts)
        if (Stmt v = statement(inner, guard))
          out.push_back(std::move(v));
        else
          return {};
      return block(std::move(out), b->span);
    }
    if (auto* i = s.as<If>(); i && !i->else_body) return statement(i->then_body, both(guard, i->cond));
    if (auto* e = s.as<Eval>()) return update(*e, guard);
    auto* st = s.as<Store>();
    if (!st || uniform(st->index[0]) || meets_itself(*st)) return {};
    Expr all = st->mask && guard ? both(guard, st->mask) : st->mask ? st->mask : guard;
    return store(st->buffer, {index(st->buffer, st->index[0])}, wide(st->value), st->span, mask(all));
  }
};

struct Vectorizer final : ScopedRewriter {
  Function& f;
  const Target& target;
  int64_t alignment;
  Vectorizer(Function& f, const Kernel& k, const Target& target)
      : f(f), target(target), alignment(tensor_alignment(k, target)) {}

  // The widest vector every buffer in memory allows.
  int64_t lanes_of(const For& loop, int64_t extent) const {
    int64_t lanes = extent;
    auto limit = [&](BufferId b) {
      if (f[b].scope == Scope::global || f[b].scope == Scope::shared || !target.has_threads())
        while (lanes > target.lanes(f[b].dtype)) lanes = lanes % 2 ? 1 : lanes / 2;
    };
    visit(loop.body, [&](const Load& n) { limit(n.buffer); }, [&](const Store& n) { limit(n.buffer); },
          [&](const Call& n) {
            if (n.callee->atomic != Callee::Atomic::none)
              while (lanes > target.atomic_lanes(n, f)) lanes = lanes % 2 ? 1 : lanes / 2;
          });
    bool power = (lanes & (lanes - 1)) == 0;
    return target.masked_vectors || power ? lanes : 1;
  }

  bool has_effects(const Stmt& s) const {
    bool effects = false;
    visit(s, [&](const Call& c) {
      effects |= c.callee->effect != Callee::Effect::pure && c.callee->atomic == Callee::Atomic::none;
    });
    return effects;
  }

  Stmt at(const Stmt& s) override {
    auto* loop = s.as<For>();
    if (!loop || loop->loop != Loop::vectorized) return children(s);
    auto extent = as_int(loop->extent);
    int64_t n = extent ? lanes_of(*loop, *extent) : 1;
    if (n == 1 || has_effects(loop->body)) return scalar(*loop, extent ? "no vector of that many lanes" : "extent not constant");
    Expr lane = var(loop->var.as<Var>()->hint), part = var("p");
    Facts inner = facts;
    inner.bind(lane, Interval{0, n - 1});
    if (*extent > n) inner.bind(part, Interval{0, *extent / n - 1});
    Expr whole = *extent > n ? part * n + lane : lane;
    Stmt body = simplify(substitute(loop->body, {{loop->var.get(), whole}}), inner);
    Stmt vector = Lanes{.f = f, .target = target, .alignment = alignment, .lane = lane, .n = int(n), .facts = inner}.statement(body, {});
    if (!vector) return scalar(*loop, "its body is more than stores");
    return *extent > n ? for_loop(part, *extent / n, Loop::unrolled, vector, loop->span) : vector;
  }

  Stmt scalar(const For& loop, std::string_view why) {
    f.notes.push_back({"vectorize", "loop " + loop.var.as<Var>()->hint, fmt::format("scalar: {}", why), loop.span, true});
    Loop kind = as_int(loop.extent) ? Loop::unrolled : Loop::serial;
    return for_loop(loop.var, loop.min, loop.extent, kind, children(loop.body), loop.span, loop.attrs);
  }
};

}  // namespace

Function vectorize(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    Vectorizer v(f, k, target);
    v.facts = facts_of(f, k);
    k.body = v(k.body);
  }
  return f;
}

}  // namespace tl
