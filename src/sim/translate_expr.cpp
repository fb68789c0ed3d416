// Scalar expressions and calls become operations on registers.
#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/lookup.h"
#include "ir/rewrite.h"
#include "sim/instr.h"
#include "sim/steps.h"
#include "sim/translate.h"
#include "target/alignment.h"
#include "target/foreign.h"

namespace tl::sim {

Expr Translator::contiguous_base(BufferId buffer, const std::vector<Expr>& index) const {
  auto* r = index.size() == 1 ? index[0].as<Ramp>() : nullptr;
  bool one = r && is_int(r->stride, 1) && takes_several(*code.kernel, target, f[buffer], r->dtype.lanes);
  return one ? r->base : Expr();
}
Expr shared_scalar(const Expr& e) {
  if (!e || e->dtype.lanes == 1) return e;
  auto* b = e.as<Broadcast>();
  return b ? b->value : Expr();
}
bool Translator::is_wide(const Load& n) const {
  return n.dtype.lanes > 1 && contiguous_base(n.buffer, n.index) && (!n.mask || shared_scalar(n.mask));
}
bool is_logical_unsafe(const Binary& n) { return is_logical(n.op) && !is_safe(n.b); }

// May it be computed where its program does not compute it?  Then loads and faults play no part in it.
bool is_safe(const Expr& e) {
  return !contains(
      e, [](const Load&) { return true; },
      [](const Binary& b) { return !b.dtype.is_float() && needs_check(b.op, b.b); },
      [](const Call& n) { return n.intrinsic->effect != Intrinsic::Effect::pure; });
}

// Do two conditions compare one value, as `0 <= i and i < n` does?
static bool asks_of_one(const Expr& x, const Expr& y) {
  auto compared = [](const Expr& e) {
    std::vector<Expr> all;
    visit(e, [&](const Binary& b) {
      if (is_comparison(b.op))
        for (Expr side : {b.a, b.b}) {
          while (auto* c = side.as<Cast>()) side = c->a;
          if (!is_const(side)) all.push_back(side);
        }
    });
    return all;
  };
  for (auto& a : compared(x))
    for (auto& b : compared(y))
      if (equal(a, b)) return true;
  return false;
}

// ── values ────────────────────────────────────────────────────────────────────────────────────────────
int32_t Translator::lasting(int32_t count) {
  int32_t slot = last_slot;
  last_slot += count;
  return slot;
}
int32_t Translator::temporary_slot(int32_t count) {
  int32_t slot = first_temporary + next_temporary;
  next_temporary += count;
  most_temporaries = std::max(most_temporaries, next_temporary);
  return slot;
}

int32_t Translator::here() {
  if (code.sites.empty() || code.sites.back().span != span || code.sites.back().stmt.get() != statement.get())
    code.sites.push_back({span, statement});
  return int32_t(code.sites.size()) - 1;
}

Operation& Translator::emit(Operation o) {
  o.site = here();
  o.quiet = quiet;
  return now().push_back(o), now().back();
}

Value Translator::compute(Operation o, Value result, std::initializer_list<const Value*> operands) {
  for (auto* v : operands) {
    result.uniform &= v->uniform;
    result.pure &= v->pure;
    result.depth = std::max(result.depth, v->depth);
  }
  Value wide[3];
  int32_t* fields[] = {&o.a, &o.b, &o.c};
  size_t i = 0;
  for (auto* v : operands) {
    wide[i] = result.uniform ? *v : spread(*v);
    *fields[i] = wide[i].slot;
    i++;
  }
  o.count = result.uniform ? 1 : code.warp * result.width;
  if (!result.pure) {
    result.depth = int(scopes.size()) - 1;
    result.slot = o.to = temporary_slot(o.count);
    emit(o);
    return result;
  }
  CodeScope& scope = scopes[size_t(result.depth)];
  for (auto& [known, value] : scope.known)
    if (known == o && (!o.wraps || code.sites[size_t(known.site)].span == span)) return value;
  result.slot = o.to = lasting(o.count);
  o.site = here();
  scope.head.push_back(o);
  scope.known.emplace_back(o, result);
  return result;
}

Value Translator::in_place(int width) const {
  return {.depth = int(scopes.size()) - 1, .uniform = false, .width = width, .pure = false};
}

Value Translator::constant_of(Scalar v) { return compute({.run = constant, .value = v}, {}, {}); }

Value Translator::spread(const Value& v) {
  if (!v.uniform) return v;
  Value result{.slot = -1, .depth = v.depth, .uniform = false, .pure = v.pure};
  Operation o{.run = splat, .a = v.slot, .count = code.warp};
  if (!v.pure) {
    result.slot = o.to = temporary_slot(code.warp);
    emit(o);
    return result;
  }
  CodeScope& scope = scopes[size_t(v.depth)];
  for (auto& [known, value] : scope.known)
    if (known == o) return value;
  result.slot = o.to = lasting(code.warp);
  scope.head.push_back(o);
  scope.known.emplace_back(o, result);
  return result;
}

// ── scalars, and vectors as a whole ───────────────────────────────────────────────────────────────────
Value Translator::value(const Expr& e) {
  Span outer = span;
  if (e->span) span = e->span;
  Value v = e->dtype.lanes > 1 ? vector(e) : single(e);
  span = outer;
  return v;
}

Value Translator::single(const Expr& e) {
  return dispatch(e, overloads{
                         [&](const IntImm& n) { return constant_of(scalar(n.value)); },
                         [&](const FloatImm& n) { return constant_of(scalar(n.value)); },
                         [&](const StringImm&) { return constant_of(scalar(int64_t(0))); },
                         [&](const Var& n) { return vars.at(&n); },
                         [&](const Unary& n) {
                           Value a = value(n.a);
                           Operation o{.run = unary_run(n.op, n.dtype), .type = n.dtype};
                           follow_unary(o, n);
                           return compute(o, {}, {&a});
                         },
                         [&](const Binary& n) { return binary_value(n); },
                         [&](const Cast& n) {
                           Value a = value(n.a);
                           Operation o{.run = cast_run(n.a->dtype, n.dtype), .type = n.dtype};
                           follow_cast(o, n);
                           return o.run == copy ? a : compute(o, {}, {&a});
                         },
                         [&](const Select& n) { return select_value(n); },
                         [&](const Load& n) { return load_value(n, n.dtype); },
                         [&](const Ramp&) -> Value { internal_error("a ramp of one lane"); },
                         [&](const Broadcast& n) { return value(n.value); },
                         [&](const Call& n) { return call_value(n); },
                     });
}

Value Translator::binary_value(const Binary& n) {
  DType type = n.a->dtype.scalar();
  if (is_logical_unsafe(n)) {  // the right side only where the left one does not decide
    Expr decided = imm(n.op == BinaryOp::logical_or, boolean);
    Expr chosen = n.op == BinaryOp::logical_and ? select(n.a, n.b, decided) : select(n.a, decided, n.b);
    auto* choice = chosen.as<Select>();  // none where the left one is a constant
    return choice ? select_value(*choice, asks_of_one(n.a, n.b)) : value(chosen);
  }
  Value a = value(n.a);
  auto divisor = as_int(n.b);
  bool by_power =
      n.dtype.lanes == 1 && divisor && *divisor > 0 && (*divisor & (*divisor - 1)) == 0 && type != u64;
  if (by_power && (n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod)) {
    bool quotient = n.op == BinaryOp::floordiv;
    BinaryOp op = quotient ? BinaryOp::shr : BinaryOp::bit_and;
    Value b = constant_of(scalar(quotient ? int64_t(__builtin_ctzll(uint64_t(*divisor))) : *divisor - 1));
    Operation o{.run = binary_run(op, type), .type = type, .op = op};
    if (quotient) follow_binary(o, n);
    return compute(o, {.width = n.dtype.lanes}, {&a, &b});
  }
  Value b = value(n.b);
  bool checked = !type.is_float() && needs_check(n.op, n.b);
  Run run = checked ? checked_binary : binary_run(n.op, type);
  Operation o{.run = run, .type = type, .op = n.op};
  follow_binary(o, n);
  o.defines = &n == written_back;
  return compute(o, {.width = n.dtype.lanes, .pure = !checked}, {&a, &b});
}

Value Translator::select_value(const Select& n, bool decides) {
  Value cond = value(n.cond);
  if (is_safe(n.a) && is_safe(n.b)) {
    Value a = value(n.a), b = value(n.b);
    return compute({.run = select}, {}, {&cond, &a, &b});
  }
  Value result = in_place();
  result.slot = temporary_slot(code.warp);
  int32_t condition = spread(cond).slot;
  auto arm = [&](const Expr& e) { return spread(value(e)).slot; };
  // Both arms under their masks, then one choice among all lanes.
  size_t first = begin_narrow(condition, code.warp);
  now()[first].effect = Operation::Effect::arms;
  int32_t a = arm(n.a);
  size_t second = begin_else(first);
  int32_t b = arm(n.b);
  end_narrow(second);
  emit({.run = select,
        .to = result.slot,
        .a = condition,
        .b = a,
        .c = b,
        .count = code.warp,
        .type = decides ? boolean : DType{}});
  return result;
}

Value Translator::call_value(const Call& n) {
  if (n.intrinsic == &address_of) {
    auto* at = n.args[0].as<Load>();
    int place = place_of(at->buffer);
    Value index = constant_of(scalar(int64_t(0)));
    auto* run = at->index.empty() ? nullptr : at->index[0].as<Ramp>();
    if (!at->index.empty()) index = value(run ? run->base : at->index[0]);
    Value result = compute({.run = address, .row = place}, {}, {&index});
    result.place = place;
    return result;
  }
  if (n.intrinsic == &block_uniform) return value(n.args[0]);
  if (n.intrinsic == &lookup) return value(as_selects(n));
  if (n.intrinsic == &even_lanes || n.intrinsic == &odd_lanes)
    return value(element(n.args[0], n.intrinsic == &odd_lanes));
  if (!n.intrinsic->computes()) return effect(n);
  std::vector<Value> args;
  bool from_float = n.args.at(0)->dtype.is_float();
  Value result = in_place();
  CallSite site{.intrinsic = n.intrinsic, .span = span};
  for (auto& a : n.args) args.push_back(value(a));
  if (Run run = n.intrinsic == &fma_function ? fma_run(n.dtype) : nullptr)
    return compute({.run = run}, {}, {&args[0], &args[1], &args[2]});
  for (size_t i = 0; i < args.size(); i++)
    site.args.push_back({.slot = spread(args[i]).slot, .type = n.args[i]->dtype});
  internal_check(args.size() <= 8, "a scalar function of many arguments");
  result.slot = site.to = temporary_slot(code.warp);
  code.calls.push_back(std::move(site));
  emit({.run = scalar_call,
        .to = result.slot,
        .count = code.warp,
        .row = int32_t(code.calls.size()) - 1,
        .type = n.dtype,
        .value = scalar(int64_t(from_float))});
  return result;
}

// The place that argument i of a call names.
void Translator::claim_of_call(const Call& n, size_t i, const Load& at, int32_t happens) {
  DType t = n.intrinsic == &load_wide ? n.dtype : n.intrinsic == &store_wide ? n.args[1]->dtype : at.dtype;
  int elements = std::max(1, t.bytes() * t.lanes / std::max(1, f[at.buffer].dtype.bytes()));
  claim(at.claim, happens, place_of(at.buffer), elements, n.intrinsic, access_of(n, i) != 'r');
}

Value Translator::argument(CallSite& site, const Call& n, size_t i) {
  auto& a = n.args[i];
  Value v = value(a);
  auto* text = a.as<StringImm>();
  internal_check(!a->dtype.is_handle() || text || v.place >= 0, "a handle to a known buffer");
  site.args.push_back({.slot = v.slot,
                       .uniform = v.uniform,
                       .place = v.place,
                       .text = text ? text->value : "",
                       .type = a->dtype});
  if (v.place < 0) return v;
  if (Expr count = count_of(a)) {
    Value elements = value(count);
    site.args.back().count = elements.slot;
    site.args.back().count_uniform = elements.uniform;
  }
  site.args.back().access = access_of(n, i);
  return v;
}

// A call that does more than compute.
Value Translator::effect(const Call& n) {
  InstrRow row = semantics_of(*n.intrinsic);
  if (is_foreign(*n.intrinsic)) require_foreign_eval(n, "the simulator", span);
  if (!row.run)
    fail(span, "{} has no semantics in the simulator: run the kernel on a device that has it",
         n.intrinsic->name);
  if (row.async) prepare_async(*row.async);
  if (row.warpgroup) prepare_product(*row.warpgroup);
  CallSite site{.run = row.run,
                .row = row.row,
                .is_async = row.async != nullptr,
                .positions = std::move(row.positions),
                .intrinsic = n.intrinsic,
                .span = span,
                .site = here(),
                .type = n.dtype,
                .order = n.intrinsic->atomic == Intrinsic::Atomic::none ? MemoryOrder::relaxed : order_of(n),
                .team = team};
  int width = n.dtype == none_type ? 1 : n.dtype.lanes;
  Value result = in_place(width);
  result.slot = site.to = temporary_slot(code.warp * width);
  const Load* place = obeys_mask(*n.intrinsic) ? tl::place_of(n.args[0]) : nullptr;
  int32_t happens = -1;
  bool masked = place && place->mask;  // then it happens there only, and gives 0 elsewhere
  if (masked) {
    Value zero = spread(constant_of(Scalar()));
    emit({.run = repeat, .to = result.slot, .a = zero.slot, .count = code.warp * width});
    happens = spread(value(place->mask)).slot;
  }
  for (size_t i = 0; i < n.args.size(); i++)
    if (auto* at = tl::place_of(n.args[i])) claim_of_call(n, i, *at, happens);
  size_t narrowed = masked ? begin_narrow(happens, code.warp) : 0;
  for (size_t i = 0; i < n.args.size(); i++) {
    Value v = argument(site, n, i);
    if (v.place < 0) continue;
    char access = site.args.back().access;
    if (row.async) {
      async_operand(*row.async, i, v.place);
      continue;
    }
    bool rows = site.row && (n.intrinsic->access.size() == 2 || row.warpgroup) &&
                code.places[size_t(v.place)].scope == Scope::shared;  // pieces of 16 bytes
    touch(code.places[size_t(v.place)], rows ? 16 : code.places[size_t(v.place)].type.bytes(), access != 'r');
  }
  code.calls.push_back(std::move(site));
  emit({.run = call, .row = int32_t(code.calls.size()) - 1});
  if (masked) end_narrow(narrowed);
  return result;
}

}  // namespace tl::sim
