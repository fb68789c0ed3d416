// vectorize: a vectorized loop of n iterations becomes statements on vectors of n lanes.  After
// flatten_buffers, so that one question decides each access: is its index linear in the loop variable, with
// stride 1, and aligned? Where it is not, lanes are accessed one by one.  A Let becomes one of a vector, the
// arms of an If statements with masks; a body that is made of anything else is unrolled, and says so.
//
//   for v in vectorized(8):           ->   As[o : ramp 8] = A[p + ramp(0, 1, 8)] mask(p < n)
//     As[o + v] = A[p + v] mask(p + v < n)
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ir/lookup.h"
#include "pass/passes.h"
#include "pass/walk.h"
#include "target/alignment.h"
#include "target/effects.h"

namespace tl {
namespace {

bool divisible(const Expr& e, int64_t n, const Facts& facts) {
  Modular m = modular_of(e, facts);
  return m.modulus % n == 0 && floor_mod(m.remainder, n) == 0;
}

// Rewrites expressions of one loop body to vectors.
struct Widening {
  const Function& f;
  const Target& target;
  int64_t alignment;  // of tensors, in bytes
  const Expr& lane;
  int n;
  const Facts& facts;
  const std::set<BufferId>& written;  // what other threads may write meanwhile
  VarMap named = {};    // variables of Lets that differ among lanes, and the vectors of their values
  Expr guard = {};      // scalar or vector: where the statement at hand happens; null: everywhere
  bool naming = false;  // the value of a Let is being written: no store's mask says where it is needed

  // How the lanes differ in a value.  A name is given before it is used: what was found out remains true.
  struct Lanes {
    Expr of;                                            // keeps the node, by which this is found, alive
    bool varies = false, named = false, reads = false;  // by a name; by what it reads where lanes differ
  };
  mutable std::unordered_map<const ExprNode*, Lanes> found = {};
  Lanes lanes(const Expr& e) const {
    if (auto it = found.find(e.get()); it != found.end()) return it->second;
    Lanes r{.of = e, .varies = e.same(lane), .named = named.contains(e.get())};
    r.varies |= r.named;
    visit_below(e, [&](const Expr& x) {
      Lanes below = lanes(x);
      r.varies |= below.varies, r.named |= below.named, r.reads |= below.reads;
    });
    r.reads |= e.as<Load>() && r.varies;
    return found[e.get()] = r;
  }
  std::optional<Linear> linear(const Expr& e) const {
    Lanes l = lanes(e);
    return l.named || l.reads ? std::nullopt : linear_in(e, lane, facts);
  }
  bool uniform(const Expr& e) const { return !lanes(e).varies; }
  Expr wide(const Expr& e) const { return uniform(e) ? broadcast(guarded(e), n) : vector(e); }

  // The index of an access, as a vector: a Ramp of stride 1 promises a contiguous, aligned access.
  Expr index(BufferId buffer, const Expr& e) const {
    auto steps = linear(e);
    if (!steps) return wide(e);
    Scope scope = f[buffer].scope;
    bool packed = f[buffer].dtype.is_packed();  // two to a byte: an access takes whole bytes
    bool may_be = scope != Scope::global || bytes_of(n, f[buffer].dtype) <= alignment;
    bool anywhere = target.vector_alignment == 1 || scope == Scope::local || scope == Scope::fragment;
    bool aligned =
        anywhere ? !packed || divisible(steps->base, 2, facts) : may_be && divisible(steps->base, n, facts);
    aligned &= !packed || n % 2 == 0;
    if (steps->stride == 1 && aligned) return ramp(steps->base, imm(1, e->dtype), n);
    Expr offsets = ramp(zero(e->dtype), imm(steps->stride, e->dtype), n);
    return binary(BinaryOp::add, broadcast(steps->base, n), offsets);
  }

  // A condition that has the same value in all lanes, or else a vector: `b + v < e` is `b < e` if n divides
  // both, and `b + 1 + v <= e`, as it is written where b is a sum with a constant, is `b + 1 <= e`.
  Expr mask(const Expr& e) const {
    if (!e || uniform(e)) return e;
    auto* b = e.as<Binary>();
    if (b && b->op == BinaryOp::logical_and) {
      return all_of(mask(b->a), mask(b->b));
    }
    if (b && (b->op == BinaryOp::lt || b->op == BinaryOp::le) && uniform(b->b))
      if (auto steps = linear(b->a)) {
        Expr first = b->op == BinaryOp::lt ? steps->base : simplify(steps->base - 1, facts);
        if (steps->stride == 1 && divisible(first, n, facts) && divisible(b->b, n, facts))
          return binary(b->op, steps->base, b->b);
      }
    return vector(e);
  }

  // Both conditions, each null, of one lane or of all.
  Expr all_of(Expr x, Expr y) const {
    if (!x || !y) return x ? x : y;
    if (x->dtype.lanes != y->dtype.lanes)
      (x->dtype.lanes == 1 ? x : y) = broadcast(x->dtype.lanes == 1 ? x : y, n);
    return binary(BinaryOp::logical_and, x, y);
  }

  // Whatever the guard says, no lane reads outside the buffer, nor what another thread writes meanwhile.  The
  // value of a name is asked for by no store's mask, so that what its load claims of its indices must be
  // asked under the guard.
  bool is_harmless(const Load& l) const {
    if (written.contains(f.storage(l.buffer))) return false;
    if (naming && l.claim && f[l.buffer].scope != Scope::global) return false;
    return is_inside(f[l.buffer], l.index[0], facts);
  }

  // What is known of an access's indices, of each lane, under the guard.
  Claim claim(Claim c) const {
    if (!c) return c;
    for (Expr& i : c.index)
      if (!uniform(i)) i = vector(i);
    if (c.where && !uniform(c.where)) c.where = vector(c.where);
    c.where = all_of(guard, c.where);
    return c;
  }

  // One element for all lanes, though their indices differ: a dimension of 1, outside of which some of them
  // may be.
  bool claims_apart(const Load& l) const {
    return l.claim && std::ranges::any_of(l.claim.index, [&](auto& i) { return !uniform(i); });
  }

  // A load under a guard happens under it: its own mask may say no more than what the guard leaves open.
  // Where threads are many, the printer evaluates loads without any under the mask of the store, if all lanes
  // share it.
  bool needs_guard(const Load& l) const {
    bool in_store = target.has_threads() && !naming && !l.mask && guard && guard->dtype.lanes == 1;
    return guard && !in_store && !is_harmless(l);
  }
  Expr mask_of(const Load& l) const { return all_of(needs_guard(l) ? guard : Expr(), mask(l.mask)); }

  // The same for what all lanes share, as far as they share the guard.  The guard comes first: the load's own
  // mask may read what is there only where the guard holds.
  Expr guarded(const Expr& e) const {
    if (!guard || guard->dtype.lanes > 1 || !reads_alone(e)) return e;
    return rewrite(e, [&](const Load& l, Rewriter& self) -> Expr {
      Expr inner = self.children(l);
      auto* r = inner.as<Load>();
      if (!needs_guard(*r)) return inner;
      return load(r->dtype, r->buffer, r->index, r->span, all_of(guard, r->mask), claim(r->claim));
    });
  }

  // What is the same in all lanes has no mask of its own: does it read where the guard has to hold?
  bool reads_alone(const Expr& e) const {
    return contains(e, [&](const Load& l) { return uniform(l.index[0]) && !is_harmless(l); });
  }

  Expr vector(const Expr& e) const {
    if (uniform(e)) return broadcast(guarded(e), n);
    Expr out = dispatch(
        e, overloads{
               [&](const Var& v) {
                 auto it = named.find(&v);
                 return it != named.end() ? it->second : ramp(zero(v.dtype), imm(1, v.dtype), n);
               },
               [&](const Unary& u) { return unary(u.op, vector(u.a), u.span); },
               [&](const Binary& b) {
                 if (b.dtype.is_int() && b.op == BinaryOp::add)
                   if (auto steps = linear(e))
                     return ramp(steps->base, imm(steps->stride, e->dtype), n, b.span);
                 return binary(b.op, vector(b.a), vector(b.b), b.span);
               },
               [&](const Cast& c) { return cast(c.dtype.with_lanes(n), vector(c.a), c.span); },
               [&](const Select& s) { return select(vector(s.cond), vector(s.a), vector(s.b), s.span); },
               [&](const Load& l) -> Expr {
                 if (uniform(l.index[0]) && claims_apart(l))
                   return load(l.dtype, l.buffer, {broadcast(l.index[0], n)}, l.span, mask_of(l),
                               claim(l.claim));
                 if (uniform(l.index[0])) {  // one element for all lanes; a mask that differs picks it or 0
                   Expr one = broadcast(guarded(load(l.dtype, l.buffer, l.index, l.span, {}, l.claim)), n);
                   return select(vector(l.mask), one, zero(one->dtype));
                 }
                 return load(l.dtype, l.buffer, {index(l.buffer, l.index[0])}, l.span, mask_of(l),
                             claim(l.claim));
               },
               [&](const Call& c) -> Expr {
                 if (c.intrinsic == &lookup) return vector(as_selects(c));
                 std::vector<Expr> args;
                 for (auto& a : c.args) args.push_back(vector(a));
                 return call(*c.intrinsic, std::move(args), c.dtype.with_lanes(n), c.span);
               },
               [&](const auto& other) -> Expr { return Expr(&other); }});
    internal_check(out->dtype.lanes == n, "a vector expression");
    return out;
  }

  static bool touches_memory(const Expr& e) {
    return contains(e, [](const Load&) { return true; }) || may_fail(e);
  }
  // What all lanes share has no mask of its own, and a shift has none at all: only a select asks for the
  // guard.
  Expr where_asked(Expr value, const Expr& original) const {
    bool apart = guard && guard->dtype.lanes > 1;
    if (!(apart && reads_alone(original)) && !(guard && naming && shifts(original))) return value;
    return select(apart ? guard : broadcast(guard, n), value, zero(value->dtype));
  }
  // By an amount that only the run knows: outside of the type's bits the shift has no value.
  static bool shifts(const Expr& e) {
    return contains(
        e, [](const Binary& b) { return (b.op == BinaryOp::shl || b.op == BinaryOp::shr) && !as_int(b.b); });
  }
  static bool may_fail(const Expr& e) {
    return contains(e, [](const Binary& b) { return is_division(b.op) && as_int(b.b).value_or(0) == 0; });
  }
};

// The statements of one loop body, on vectors.
struct BodyWidening {
  Widening w;
  std::vector<Expr> kept = {};  // names that no node holds yet

  // Neighbouring elements updated at once; null where they are not neighbours, or masked apart.
  Stmt update(const Eval& s) const {
    auto* c = s.value.as<Call>();
    if (!c || c->intrinsic->atomic == Intrinsic::Atomic::none || c->args.size() != 3) return {};
    const Load& at = *place_of(c->args[0]);
    if (w.uniform(at.index[0])) return {};
    Expr where = w.index(at.buffer, at.index[0]), all = w.all_of(w.guard, w.mask(at.mask));
    auto* run = where.as<Ramp>();
    if (!run || !is_int(run->stride, 1) || (all && all->dtype.lanes > 1)) return {};
    Expr place = load(at.dtype, at.buffer, {where}, at.span, all, w.claim(at.claim));
    return eval(
        call(*c->intrinsic, {address(place, "", c->span), w.wide(c->args[1]), c->args[2]}, c->dtype, c->span),
        s.span);
  }

  // A value that differs among the lanes gets the name of a vector.  Null where it could fail in lanes that
  // are not meant to compute it.
  Stmt name(const Let& s) {
    if (w.uniform(s.value))
      return w.guard && (w.touches_memory(s.value) || w.shifts(s.value)) ? Stmt()
                                                                         : let(s.var, s.value, s.span);
    if (w.guard && w.may_fail(s.value)) return {};
    w.naming = true;
    Expr value = w.where_asked(w.vector(s.value), s.value), to = var(s.var.as<Var>()->hint, value->dtype);
    w.naming = false;
    w.named.emplace(s.var.get(), to);
    return let(to, value, s.span);
  }
  // An If whose condition all lanes share may stay one.  Null where only some lanes may ask it: what is read
  // in registers has no mask, and nothing lies there in threads that are not meant.
  Stmt branch(const If& s, Expr cond) {
    bool reads = w.target.has_threads() && w.guard && contains(cond, [](const Load&) { return true; });
    if (reads && w.guard->dtype.lanes > 1) return {};
    if (reads) cond = w.all_of(w.guard, cond);
    Stmt yes = statement(s.then_body), no = s.else_body ? statement(s.else_body) : Stmt();
    return yes && (no || !s.else_body) ? if_then(cond, std::move(yes), std::move(no), s.span) : Stmt();
  }
  bool may_do_harm(const If& s) const {
    auto harms = [&](const Load& l) { return !w.is_harmless(l); };
    return contains(s.then_body, harms) || (s.else_body && contains(s.else_body, harms));
  }

  // The arms of an If, each under its condition.  A condition on what the arms change is asked before, once.
  Stmt arms(const If& s) {
    std::vector<Stmt> out;
    Expr cond = s.cond;
    if (w.guard && (w.reads_alone(cond) || w.may_fail(cond))) return {};
    if (Expr all = w.mask(cond); all->dtype.lanes == 1 && may_do_harm(s))
      if (!w.target.has_threads() || w.touches_memory(all))
        return branch(s, all);  // elsewhere loads go ahead, masked
    if (depends_on_stores(s)) {
      if (w.target.has_threads()) return {};
      Expr value = w.wide(cond), asked = var("cond", value->dtype);
      out.push_back(let(asked, value, s.span));
      Expr name = var("cond", boolean);
      w.named.emplace(name.get(), asked);
      kept.push_back(name);
      cond = name;
    }
    Expr outer = w.guard;
    for (bool holds : {true, false}) {
      const Stmt& body = holds ? s.then_body : s.else_body;
      if (!body) continue;
      w.guard = w.all_of(outer, w.mask(holds ? cond : unary(UnaryOp::logical_not, cond)));
      Stmt arm = statement(body);
      w.guard = outer;
      if (!arm) return {};
      out.push_back(std::move(arm));
    }
    return block(std::move(out), s.span);
  }
  bool depends_on_stores(const If& s) const {
    std::set<BufferId> read;
    int stores = 0;
    bool depends = false;
    visit(s.cond, [&](const Load& l) { read.insert(w.f.storage(l.buffer)); });
    for (const Stmt& arm : {s.then_body, s.else_body})
      if (arm)
        visit(arm, [&](const Store& st) { stores++, depends |= read.contains(w.f.storage(st.buffer)); });
    return depends && stores > 1;
  }

  // May several lanes update one element, s[v % 2] += x[v]?  Then one must see what the other has written.
  bool meets_itself(const Store& s) const {
    auto linear = linear_in(s.index[0], w.lane, w.facts);
    if (linear && linear->stride != 0) return false;
    return contains(s.value, [&](const Load& n) { return w.f.storage(n.buffer) == w.f.storage(s.buffer); });
  }

  // The body as vector statements; null if it is made of anything but these.
  Stmt statement(const Stmt& s) {
    std::vector<Stmt> out;
    for (auto& inner : statements_of(s)) {
      out.push_back(one(inner));
      if (!out.back()) return {};
    }
    return block(std::move(out), s->span);
  }
  Stmt one(const Stmt& s) {
    if (auto* l = s.as<Let>()) return name(*l);
    if (auto* i = s.as<If>()) return arms(*i);
    if (auto* e = s.as<Eval>()) return update(*e);
    auto* st = s.as<Store>();
    if (!st || w.uniform(st->index[0]) || meets_itself(*st)) return {};
    Expr all = w.all_of(w.guard, w.mask(st->mask)), value = w.where_asked(w.wide(st->value), st->value);
    return store(st->buffer, {w.index(st->buffer, st->index[0])}, value, st->span, all, w.claim(st->claim));
  }
};

void gather_written(const Function& f, const Stmt& s, Scope scope, std::set<BufferId>& to) {
  for (BufferId b : written_buffers(s))
    if (f[b].scope == scope) to.insert(f.storage(b));
}

struct Vectorizer final : ScopedRewriter {
  Function& f;
  const Target& target;
  int64_t alignment;
  std::set<BufferId> written;  // by other threads, at any time: tensors are other blocks' as well
  Vectorizer(Function& f, const Kernel& k, const Target& target)
      : f(f),
        target(target),
        alignment(std::max<int64_t>(1, tensor_alignment(k, target))) {
    if (!target.has_threads()) return;
    gather_written(f, k.body, Scope::global, written);
    if (k.attrs.get_int("thread_level")) gather_written(f, k.body, Scope::shared, written);
  }

  // The widest vector every buffer in memory allows.
  int64_t lanes_of(const For& loop, int64_t extent) const {
    int64_t lanes = extent;
    auto limit = [&](BufferId b) {
      if (f[b].scope == Scope::global || f[b].scope == Scope::shared || !target.has_threads())
        while (lanes > target.lanes(f[b].dtype)) lanes = lanes % 2 ? 1 : lanes / 2;
    };
    visit(
        loop.body, [&](const Load& n) { limit(n.buffer); }, [&](const Store& n) { limit(n.buffer); },
        [&](const Call& n) {
          if (n.intrinsic->atomic != Intrinsic::Atomic::none)
            while (lanes > target.atomic_lanes(n, f)) lanes = lanes % 2 ? 1 : lanes / 2;
        });
    bool power = (lanes & (lanes - 1)) == 0;
    return target.masked_vectors || power ? lanes : 1;
  }

  bool has_effects(const Stmt& s) const {
    return contains(s, [](const Call& c) {
      return c.intrinsic->effect != Intrinsic::Effect::pure && c.intrinsic->atomic == Intrinsic::Atomic::none;
    });
  }

  Stmt at(const Stmt& s) override {
    auto* loop = s.as<For>();
    if (!loop || loop->loop != Loop::vectorized) return children(s);
    auto extent = as_int(loop->extent);
    int64_t n = extent ? lanes_of(*loop, *extent) : 1;
    if (n == 1 || has_effects(loop->body))
      return scalar(*loop, extent ? "no vector of that many lanes" : "extent not constant");
    Expr lane = var(loop->var.as<Var>()->hint), part = var("p");
    Facts inner = facts;
    inner.bind(lane, Interval{0, n - 1});
    if (*extent > n) inner.bind(part, Interval{0, *extent / n - 1});
    Expr whole = *extent > n ? part * n + lane : lane;
    Stmt body = simplify(substitute(loop->body, {{loop->var.get(), whole}}), inner);
    std::set<BufferId> beside =
        written;  // in shared memory barriers part what a tile program writes in other statements
    if (target.has_threads()) gather_written(f, loop->body, Scope::shared, beside);
    BodyWidening widening{{.f = f,
                           .target = target,
                           .alignment = alignment,
                           .lane = lane,
                           .n = int(n),
                           .facts = inner,
                           .written = beside}};
    Stmt vector = widening.statement(body);
    if (!vector) return scalar(*loop, "its body contains more than stores, names and conditions");
    return *extent > n ? for_loop(part, *extent / n, Loop::unrolled, vector, loop->span) : vector;
  }

  Stmt scalar(const For& loop, std::string_view why) {
    f.notes.push_back(
        {"vectorize", "loop " + loop.var.as<Var>()->hint, fmt::format("scalar: {}", why), loop.span, true});
    Loop kind = as_int(loop.extent) ? Loop::unrolled : Loop::serial;
    return for_loop(loop.var, loop.min, loop.extent, kind, (*this)(loop.body), loop.span, loop.attrs);
  }
};

}  // namespace

Function vectorize(Function f, const Target& target) {
  for (Kernel& k : f.kernels) {
    Vectorizer v(f, k, target);
    v.enter(f, k);
    k.body = v(k.body);
  }
  return f;
}

}  // namespace tl
