// The walk over expressions, and the constructors that it ends in.
#include "arith/simplify.h"

#include <cmath>

#include "arith/simplifier.h"
#include "base/interrupt.h"
#include "ir/lookup.h"

namespace tl {
namespace {

bool commutes(BinaryOp op, DType t) {
  switch (op) {
    case BinaryOp::min:
    case BinaryOp::max:
      return !t.is_float();  // min(0.0, -0.0) may be either
    case BinaryOp::add:
    case BinaryOp::mul:
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
    case BinaryOp::eq:
    case BinaryOp::ne:
      return true;
    default:
      return false;
  }
}

bool is_linear(const Expr& e) {
  if (!is_scalar_int(e)) return false;
  if (auto* n = e.as<Unary>()) return n->op == UnaryOp::neg;
  auto* n = e.as<Binary>();
  return n && (n->op == BinaryOp::add || n->op == BinaryOp::sub || n->op == BinaryOp::mul);
}

// Every value of `from` is a value of `to`.
bool holds(DType to, DType from) {
  if (to.kind == from.kind) return to.bits >= from.bits;
  if (to.is_storage()) return false;
  if (to.is_float() && from.is_storage() && from.is_float()) {
    bool small = from.bits < 8 || from.kind == DType::Kind::e4m3 || from.kind == DType::Kind::e5m2;
    return to.bits >= 32 || (small && to.bits == 16) ||
           (to == bf16.with_lanes(to.lanes) && from != tf32.with_lanes(from.lanes));
  }
  if (to.is_float() && from.is_float()) return to.bits >= 32 && from.bits == 16;
  return false;
}

// One operator per scalar type of integers; null where only rows can help.
Expr make_int(Simplifier& s, BinaryOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub: {
      Sum sum = s.parse(a);
      add_sum(sum, s.parse(b), op == BinaryOp::add ? 1 : -1, s.known);
      return sum.ok ? s.finish(sum) : s.plain(op, a, b);
    }
    case BinaryOp::mul: {
      Sum sum = s.product(a, b);
      return sum.ok ? s.finish(sum) : s.plain(op, a, b);
    }
    case BinaryOp::floordiv:
    case BinaryOp::floormod:
      return s.divide(op, a, b);
    case BinaryOp::min:
    case BinaryOp::max:
      return s.min_max(op, a, b);
    case BinaryOp::bit_xor:
      return s.exclusive_or(a, b);
    case BinaryOp::bit_or:
      return s.inclusive_or(a, b);
    default:
      return is_comparison(op) ? s.compare(op, a, b) : Expr();
  }
}

// Where an element lies: never a constant, whatever its mask.
Expr rebuild_place(Simplifier& s, const Load& n) {
  auto copy = n;
  bool changed = s.walk_claim(copy.claim);
  for (auto& i : copy.index) {
    Expr walked = s.walk(i);
    changed |= !walked.same(i);
    i = std::move(walked);
  }
  if (n.mask) copy.mask = s.walk(n.mask);
  if (copy.mask && is_int(copy.mask, 1)) copy.mask = {};
  if (!changed && copy.mask.same(n.mask)) return Expr(&n);
  return own(new Load(std::move(copy)));
}

Expr rebuild_call(Simplifier& s, const Call& n) {
  if (n.intrinsic == &address_of) {
    std::vector<Expr> args = n.args;
    args[0] = rebuild_place(s, *n.args[0].as<Load>());
    bool same = args[0].same(n.args[0]);
    for (size_t i = 1; i < args.size(); i++) {
      args[i] = s.walk(args[i]);
      same &= args[i].same(n.args[i]);
    }
    return same ? Expr(&n) : call(address_of, std::move(args), n.dtype, n.span);
  }
  std::vector<Expr> args;
  bool changed = false, constant = !n.args.empty() && n.args.size() <= 4;
  for (auto& a : n.args) {
    args.push_back(s.walk(a));
    changed |= !args.back().same(a);
    constant &= args.back().as<FloatImm>() != nullptr;
  }
  if (constant && n.intrinsic->eval && n.intrinsic->effect == Intrinsic::Effect::pure) {
    double values[4] = {};
    for (size_t i = 0; i < args.size(); i++) values[i] = args[i].as<FloatImm>()->value;
    double value = n.intrinsic->eval(values);
    if (n.dtype.is_bool()) return imm(value != 0, n.dtype, s.here);
    if (n.dtype.is_float() && std::isfinite(round_float(value, n.dtype))) return fimm(value, n.dtype, s.here);
  }
  if (n.intrinsic == &lookup)
    if (auto i = as_int(args[0])) {
      std::vector<int64_t> values = values_of(n);
      if (*i >= 0 && size_t(*i) < values.size()) return s.constant(values[size_t(*i)], n.dtype);
    }
  static const Intrinsic* from_lane = find_intrinsic("shfl");
  if (n.intrinsic == from_lane && is_const(args[0])) return args[0];  // every thread has it
  return changed ? call(*n.intrinsic, std::move(args), n.dtype, n.span) : Expr(&n);
}

Expr rebuild_load(Simplifier& s, const Load& n) {
  std::vector<Expr> index;
  Claim claim = n.claim;
  bool changed = s.walk_claim(claim);
  for (auto& i : n.index) {
    index.push_back(s.walk(i));
    changed |= !index.back().same(i);
  }
  Expr mask = n.mask ? s.walk(n.mask) : Expr();
  if (mask && is_int(mask, 0)) return s.constant(0, n.dtype);
  if (mask && is_int(mask, 1)) mask = {};
  if (!changed && mask.same(n.mask)) return Expr(&n);
  auto copy = n;
  copy.index = std::move(index);
  copy.mask = mask;
  copy.claim = std::move(claim);
  return own(new Load(std::move(copy)));
}

Expr rebuild_binary(Simplifier& s, const Expr& e, const Binary& n) {
  if (is_linear(e)) {
    Sum sum = empty_sum(e->dtype);
    auto outer = std::exchange(s.failing, {});
    s.collect(sum, e, 1, true);
    auto failing = std::exchange(s.failing, std::move(outer));
    if (sum.ok)
      if (Expr r = s.finish(sum); s.keeps_divisions(failing, r)) return r;
    bool before =
        std::exchange(s.remember, true);  // operands get here twice, those of operands four times, …
    Expr r = s.plain(n.op, s.walk(n.a), s.walk(n.b));
    s.remember = before;
    return r;
  }
  Expr a = s.walk(n.a), b = s.walk(n.b), r = s.make(n.op, a, b);
  if (!s.known.of(a).fails && !s.known.of(b).fails && !is_division(n.op)) return r;
  if (is_logical(n.op) && as_int(a)) return r;  // which leaves b out, or is b
  Expr plain = s.plain(n.op, a, b);
  return s.keeps_divisions({plain}, r) ? r : plain;
}
Expr rebuild_unary(Simplifier& s, const Unary& n) {
  Expr a = s.walk(n.a), r = s.make_unary(n.op, a);
  return s.keeps_divisions({a}, r) ? r : unary(n.op, a, s.here);
}
Expr rebuild_cast(Simplifier& s, const Cast& n) {
  Expr a = s.walk(n.a), r = s.make_cast(n.dtype, a);
  return s.keeps_divisions({a}, r) ? r : cast(n.dtype, a, s.here);
}
Expr rebuild_select(Simplifier& s, const Select& n) {
  Expr cond = s.walk(n.cond), a = s.walk(n.a), b = s.walk(n.b), r = s.make_select(cond, a, b);
  if (as_int(cond)) return r;
  return s.keeps_divisions({cond, a, b}, r) ? r : select(cond, a, b, s.here);
}

Expr rebuild(Simplifier& s, const Expr& e) {
  return dispatch(e, overloads{
                         [&](const Binary& n) { return rebuild_binary(s, e, n); },
                         [&](const Unary& n) { return rebuild_unary(s, n); },
                         [&](const Cast& n) { return rebuild_cast(s, n); },
                         [&](const Select& n) { return rebuild_select(s, n); },
                         [&](const Load& n) { return rebuild_load(s, n); },
                         [&](const Call& n) { return rebuild_call(s, n); },
                         [&](const Ramp& n) {
                           Expr base = s.walk(n.base), stride = s.walk(n.stride);
                           if (is_int(stride, 0)) return broadcast(base, n.dtype.lanes, s.here);
                           return base.same(n.base) && stride.same(n.stride)
                                      ? e
                                      : ramp(base, stride, n.dtype.lanes, n.span);
                         },
                         [&](const Broadcast& n) {
                           Expr value = s.walk(n.value);
                           return value.same(n.value) ? e : broadcast(value, n.dtype.lanes, n.span);
                         },
                         [&](const Var&) {
                           auto it = s.replaced.find(e.get());
                           return it == s.replaced.end() ? e : it->second;
                         },
                         [&](const IntImm&) { return e; },
                         [&](const FloatImm&) { return e; },
                         [&](const StringImm&) { return e; },
                     });
}

}  // namespace

Expr Simplifier::plain(BinaryOp op, const Expr& a, const Expr& b) { return binary(op, a, b, here); }

Expr Simplifier::make(BinaryOp op, const Expr& a, const Expr& b) {
  bool constants = is_const(a) && is_const(b) && a->dtype.lanes == 1;
  if (constants || known.of(a).impure || known.of(b).impure) return plain(op, a, b);
  if (commutes(op, a->dtype) && is_const(a) && !is_const(b)) return make(op, b, a);
  Expr r;
  if (is_scalar_int(a))
    r = make_int(*this, op, a, b);
  else if (a->dtype.lanes > 1)
    r = make_vector(op, a, b);
  if (r) return r;
  if (op == BinaryOp::logical_and) return conjunction(a, b);
  if (op == BinaryOp::logical_or) return disjunction(a, b);
  r = apply_rules(op, a, b);
  return r ? r : plain(op, a, b);
}

Expr Simplifier::make_unary(UnaryOp op, const Expr& a) {
  if (op == UnaryOp::neg && is_scalar_int(a) && !known.of(a).impure) {
    Sum s = scaled(parse(a), -1, known);
    if (s.ok) return finish(s);
  }
  if (auto* n = a.as<Broadcast>()) return broadcast(make_unary(op, n->value), a->dtype.lanes, here);
  Expr r = apply_rules(op, a);
  return r ? r : unary(op, a, here);
}

Expr Simplifier::make_cast(DType type, const Expr& a) {
  if (a->dtype == type) return a;
  if (auto* n = a.as<Broadcast>()) return broadcast(make_cast(type.scalar(), n->value), type.lanes, here);
  if (type.is_bool() && is_scalar_int(a) && !a->dtype.is_storage())
    return make(BinaryOp::ne, a, constant(0, a->dtype));
  auto* n = a.as<Cast>();
  if (!n) return cast(type, a, here);
  DType from = n->a->dtype, by = a->dtype;
  bool number = from.is_int() || from.is_bool();
  bool kept = number && by.is_int() && fits(widen(known.range(n->a)), by.scalar());
  bool low_bits = number && by.is_int() && type.is_int() && type.bits <= by.bits;
  if (type.kind == DType::Kind::tfloat)
    return cast(type, a, here);  // what is stored has bits that this cuts off
  bool wider = from.is_float() && type.is_float() && holds(by, from);
  if (type.scalar() == e5m2 && from == type) return cast(type, a, here);  // infinity becomes a number
  return kept || low_bits || wider || holds(by, from) ? make_cast(type, n->a) : cast(type, a, here);
}

Expr Simplifier::make_select(const Expr& cond, const Expr& a, const Expr& b) {
  if (auto c = as_int(cond)) return *c ? a : b;
  if (!known.of(cond).impure && !known.of(a).impure && !known.of(b).impure)
    if (Expr r = apply_rules(cond, a, b)) return r;
  return select(cond, a, b, here);
}

bool Simplifier::walk_claim(Claim& claim) {
  bool changed = false;
  auto set = [&](Expr& e) {
    Expr walked = walk(e);
    changed |= !walked.same(e);
    e = std::move(walked);
  };
  for (auto& i : claim.index) set(i);
  if (claim.where) set(claim.where);
  return changed;
}

// Of a long chain, each link would be compared to its end.
constexpr int64_t small = 64;

Expr Simplifier::walk(const Expr& e) {
  if (e->kind == Kind::IntImm || e->kind == Kind::FloatImm) return e;
  bool noted = remember || e->refs > 1;
  if (noted)
    if (const Expr* seen = known.find_result(e)) return *seen;
  Span outer = here;
  if (e->span) here = e->span;
  Expr r = rebuild(*this, e);
  here = outer;
  DType t = r->dtype;
  if (!is_const(r) && (t.is_int() || t.is_bool()) && r->kind != Kind::Load) {
    Info info = known.of(r);
    if (is_point(info.range) && !info.impure && !info.fails) r = imm(info.range.min, t, e->span);
  }
  if (!r.same(e) && r->kind == e->kind && equal_within(small, r, e)) r = e;
  if (noted) known.note_result(e, r);
  return r;
}

Expr Simplifier::run(const Expr& e) {
  poll();
  Expr r = walk(e), before = e;
  for (int i = 0; i < 6 && !r.same(before); i++) {
    before = r;
    r = walk(before);
  }
  return r;
}

Expr simplify(const Expr& e, const Facts& facts) {
  if (!e) return e;
  Simplifier s(facts);
  return s.run(e);
}

}  // namespace tl
