// Vectors: as a whole where an operation has them, else element by element.
#include "base/error.h"
#include "ir/build.h"
#include "sim/steps.h"
#include "sim/translate.h"

namespace tl::sim {

Value Translator::vector(const Expr& e) {
  Value result{.uniform = false, .width = e->dtype.lanes};
  if (auto* n = e.as<Ramp>()) {
    Value base = spread(value(n->base)), stride = spread(value(n->stride));
    return compute({.run = ramp, .type = n->dtype.scalar()}, result, {&base, &stride});
  }
  if (auto* n = e.as<Broadcast>()) {
    Value v = spread(value(n->value));
    return compute({.run = repeat}, result, {&v});
  }
  if (auto* n = e.as<Var>()) return vars.at(n);
  if (auto* n = e.as<Call>(); n && n->intrinsic == &load_wide) return effect(*n);
  if (auto* n = e.as<Unary>()) {
    Value a = value(n->a);
    Operation o{.run = unary_run(n->op, n->dtype.scalar()), .type = n->dtype.scalar()};
    follow_unary(o, *n);
    return compute(o, result, {&a});
  }
  if (auto* n = e.as<Binary>();
      n && !is_logical_unsafe(*n) && (n->a->dtype.is_float() || !needs_check(n->op, n->b)))
    return binary_value(*n);
  if (auto* n = e.as<Cast>()) {
    Value a = value(n->a);
    Operation o{.run = cast_run(n->a->dtype.scalar(), n->dtype.scalar()), .type = n->dtype.scalar()};
    follow_cast(o, *n);
    return o.run == copy ? a : compute(o, result, {&a});
  }
  if (auto* n = e.as<Load>(); n && is_wide(*n)) return load_value(*n, n->dtype.scalar());
  return by_elements(e);
}

// Whatever has no form of its own: the elements, side by side.
Value Translator::by_elements(const Expr& e) {
  Value result = in_place(e->dtype.lanes);
  result.slot = temporary_slot(code.warp * result.width);
  for (int k = 0; k < result.width; k++) {
    Value v = spread(value(element(e, k)));
    emit({.run = copy, .to = result.slot + code.warp * k, .a = v.slot, .count = code.warp});
  }
  return result;
}

Claim Translator::element(Claim c, int k) {
  for (Expr& i : c.index) i = element(i, k);
  if (c.where) c.where = element(c.where, k);
  return c;
}

// Element k of a vector as an expression; a variable of many elements gets one for each.
Expr Translator::element(const Expr& e, int k) {
  if (e->dtype.lanes == 1) return e;
  DType type = e->dtype.scalar();
  auto of = [&](const Expr& x) { return element(x, k); };
  if (auto* n = e.as<Ramp>())
    return binary(BinaryOp::add, n->base, binary(BinaryOp::mul, n->stride, imm(k, type)), e->span);
  if (auto* n = e.as<Broadcast>()) return n->value;
  if (auto* n = e.as<Call>(); n && n->intrinsic == &interleave)
    return element(n->args[size_t(k) % n->args.size()], k / int(n->args.size()));
  if (auto* n = e.as<Call>(); n && (n->intrinsic == &even_lanes || n->intrinsic == &odd_lanes))
    return element(n->args[0], 2 * k + (n->intrinsic == &odd_lanes));
  if (auto* n = e.as<Unary>()) return unary(n->op, of(n->a), e->span);
  if (auto* n = e.as<Binary>()) return binary(n->op, of(n->a), of(n->b), e->span);
  if (auto* n = e.as<Cast>()) return cast(type, of(n->a), e->span);
  if (auto* n = e.as<Select>()) return select(of(n->cond), of(n->a), of(n->b), e->span);
  if (auto* n = e.as<Load>())
    return load(type, n->buffer, {of(n->index.at(0))}, e->span, n->mask ? of(n->mask) : Expr(),
                element(n->claim, k));
  if (auto* n = e.as<Call>()) {
    std::vector<Expr> args;
    for (auto& a : n->args) args.push_back(of(a));
    return call(*n->intrinsic, std::move(args), type, e->span);
  }
  auto* n = e.as<Var>();
  internal_check(n, "an element of a vector");
  Value v = vars.at(n);
  v.slot += code.warp * k;
  v.width = 1;
  Expr one = var(n->hint, type);
  vars[one.get()] = v;
  kept.push_back(one);
  return one;
}

}  // namespace tl::sim
