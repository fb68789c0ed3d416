// Each node's closure.
#include "sim/evaluate.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "ir/build.h"
#include "ir/lookup.h"
#include "ir/rewrite.h"
#include "sim/elements.h"
#include "sim/message.h"

namespace tl {
namespace {

// ── operators ─────────────────────────────────────────────────────────────────────────────────────────
// `f` computes in double; its result is rounded to the type.
template <class F>
Code rounded(DType type, F f) {
  if (type == f32) return [f](Frame& x) { return scalar(double(float(f(x)))); };
  if (type == f64) return [f](Frame& x) { return scalar(f(x)); };
  return [f, type](Frame& x) { return scalar(round_float(f(x), type)); };
}

Code float_arithmetic(BinaryOp op, DType type, Code a, Code b) {
  switch (op) {
    case BinaryOp::add:
      return rounded(type, [a, b](Frame& x) { return a(x).d + b(x).d; });
    case BinaryOp::sub:
      return rounded(type, [a, b](Frame& x) { return a(x).d - b(x).d; });
    case BinaryOp::mul:
      return rounded(type, [a, b](Frame& x) { return a(x).d * b(x).d; });
    case BinaryOp::div:
      return rounded(type, [a, b](Frame& x) { return a(x).d / b(x).d; });
    case BinaryOp::min:
      return [a, b](Frame& x) { return scalar(min_number(a(x).d, b(x).d)); };
    case BinaryOp::max:
      return [a, b](Frame& x) { return scalar(max_number(a(x).d, b(x).d)); };
    default:
      internal_error("not a float operation");
  }
}

Code index_arithmetic(BinaryOp op, Code a, Code b) {
  switch (op) {
    case BinaryOp::add:
      return [a, b](Frame& x) { return scalar(int64_t(uint64_t(a(x).i) + uint64_t(b(x).i))); };
    case BinaryOp::sub:
      return [a, b](Frame& x) { return scalar(int64_t(uint64_t(a(x).i) - uint64_t(b(x).i))); };
    case BinaryOp::mul:
      return [a, b](Frame& x) { return scalar(int64_t(uint64_t(a(x).i) * uint64_t(b(x).i))); };
    case BinaryOp::lt:
      return [a, b](Frame& x) { return scalar(int64_t(a(x).i < b(x).i)); };
    default:
      return {};
  }
}

Code binary_code(const Binary& n, Code a, Code b, Span span) {
  DType type = n.a->dtype;
  BinaryOp op = n.op;
  if (op == BinaryOp::logical_and) return [a, b](Frame& x) { return a(x).i ? b(x) : scalar(int64_t(0)); };
  if (op == BinaryOp::logical_or) return [a, b](Frame& x) { return a(x).i ? scalar(int64_t(1)) : b(x); };
  if (type.is_float() && is_comparison(op))
    return [op, a, b](Frame& x) { return scalar(int64_t(holds(op, a(x).d, b(x).d))); };
  if (type.is_float()) return float_arithmetic(op, type, std::move(a), std::move(b));
  if (type == i64)
    if (Code fast = index_arithmetic(op, a, b)) return fast;
  if (is_division(op))
    return [op, type, a, b, span](Frame& x) {
      int64_t p = a(x).i;
      bool before = std::exchange(x.read_outside, false);
      int64_t q = b(x).i;
      if (q == 0 && !x.read_outside)
        fail(span, "division by zero: {} {} 0 in {}; {}", p, symbol(op), x.where, divisor_help);
      x.read_outside |= before;
      return scalar(fold_int(op, p, q ? q : 1, type));
    };
  if (op == BinaryOp::shl || op == BinaryOp::shr)
    return [op, type, a, b, span](Frame& x) {
      int64_t p = a(x).i, q = b(x).i;
      if (q < 0 || q >= type.bits)
        fail(span, "a shift of {} by {} in {}; the amount must lie in [0, {})", to_string(type), q, x.where,
             type.bits);
      return scalar(fold_int(op, p, q, type));
    };
  return [op, type, a, b](Frame& x) { return scalar(fold_int(op, a(x).i, b(x).i, type)); };
}

Code cast_code(DType from, DType to, Code a, Span span) {
  if (to.is_bool() && from.is_float()) return [a](Frame& x) { return scalar(int64_t(a(x).d != 0)); };
  if (from.is_float() && to.is_float()) return [a, to](Frame& x) { return scalar(round_float(a(x).d, to)); };
  if (from.is_float())
    return [a, to, span](Frame& x) {
      double v = a(x).d;
      if (!fits_integer(v, to)) x.misfit = Misfit{v, to, span};
      return scalar(truncated(v, to));
    };
  if (!to.is_float()) return [a, to](Frame& x) { return scalar(wrap_int(a(x).i, to)); };
  return [a, from, to](Frame& x) { return scalar(float_of_int(a(x).i, from, to)); };
}

Code unary_code(const Unary& n, Code a) {
  DType type = n.dtype;
  if (n.op == UnaryOp::logical_not) return [a](Frame& x) { return scalar(int64_t(!a(x).i)); };
  if (n.op == UnaryOp::bit_not) return [a, type](Frame& x) { return scalar(wrap_int(~a(x).i, type)); };
  if (type.is_float()) return [a](Frame& x) { return scalar(-a(x).d); };
  return [a, type](Frame& x) { return scalar(wrap_int(int64_t(0 - uint64_t(a(x).i)), type)); };
}

Code call_code(const Call& n, std::vector<Code> args, Span span) {
  if (n.intrinsic == &block_uniform) return args[0];
  if (Code message = message_code(n, args, span)) return message;
  if (n.intrinsic->effect != Intrinsic::Effect::pure || !n.intrinsic->computes())
    refuse_thread_level(span, n.intrinsic->name);
  constexpr size_t most = 8;
  internal_check(args.size() <= most, "a scalar function of many arguments");
  bool from_float = !n.args.empty() && n.args[0]->dtype.is_float();
  if (auto exact = n.intrinsic->exact) {
    std::vector<DType> types;
    for (auto& a : n.args) types.push_back(a->dtype);
    return [args, types, exact, type = n.dtype](Frame& x) {
      Scalar values[most];
      for (size_t i = 0; i < args.size(); i++) values[i] = args[i](x);
      return exact(values, types.data(), type);
    };
  }
  auto eval = n.intrinsic->eval;
  auto compute = [args, from_float, eval](Frame& x) {
    double values[most];
    for (size_t i = 0; i < args.size(); i++) {
      Scalar v = args[i](x);
      values[i] = from_float ? v.d : double(v.i);
    }
    return eval(values);
  };
  if (n.dtype.is_float()) return rounded(n.dtype, compute);
  DType type = n.dtype;
  return [compute, type](Frame& x) { return scalar(truncated(compute(x), type)); };
}

[[noreturn]] void out_of_bounds(const Function& f, BufferId id, const Frame& x,
                                const std::vector<int64_t>& index, Span span) {
  const Memory& m = x.buffers[size_t(id.value)];
  std::string all;
  size_t wrong = 0;
  for (size_t d = index.size(); d-- > 0;)
    if (index[d] < 0 || index[d] >= m.shape[d]) wrong = d;
  for (auto i : index) all += fmt::format("{}{}", all.empty() ? "" : ", ", i);
  const std::string& name = f[id].name;
  fail(span, "{}[{}]: index {} of dimension {} is outside [0, {}), in {}; guard the access with an if", name,
       all, index[wrong], wrong, m.shape[wrong], x.where);
}

}  // namespace

const ElementAccess& element_access(DType type) {
  return sim::with_element(type, [](auto element) -> const ElementAccess& {
    static constexpr ElementAccess access{decltype(element)::get, decltype(element)::put};
    return access;
  });
}

BufferAccess buffer_access(const BufferInfo& b) {
  return {.element = element_access(b.dtype),
          .bytes = b.dtype.bytes(),
          .pairs = b.dtype.is_packed() && b.scope == Scope::shared};
}

void Misfit::refuse(std::string_view how, const std::string& where) const {
  fail(span, "{}, in {}, and a value computed from it {}; {}", misfit_text(value, type), where, how,
       misfit_help);
}

void refuse_thread_level(Span span, std::string_view what) {
  fail(span, "{} is thread-level code, which the reference does not run: run it with target='sim:…'", what);
}

size_t ExprCompiler::slot_of(const Expr& v) { return slots.emplace(v.get(), slots.size()).first->second; }

std::function<int64_t(Frame&)> ExprCompiler::offset(BufferId id, const std::vector<Expr>& index, Span span) {
  std::vector<Code> codes;
  for (auto& i : index) codes.push_back((*this)(i));
  const Function* function = &f;
  bool tensor = f[id].scope == Scope::global;
  return [codes, id, span, function, tensor](Frame& x) {
    int64_t at = 0;
    for (size_t d = 0; d < codes.size(); d++) {
      int64_t i = codes[d](x).i;
      const Memory& m = x.buffers[size_t(id.value)];
      if (uint64_t(i) >= uint64_t(m.shape[d])) {
        if (tensor) return outside;
        std::vector<int64_t> all;
        for (auto& c : codes) all.push_back(c(x).i);
        out_of_bounds(*function, id, x, all, span);
      }
      at += i * m.strides[d];
    }
    return at;
  };
}

static Scalar zero_of(DType type) {  // e8m0 has none: its least value
  return type.is_float() ? scalar(round_float(0, type)) : scalar(int64_t(0));
}
Scalar safe_scalar(const BufferInfo& tensor) {
  if (!tensor.safe_value) return zero_of(tensor.dtype);
  auto* real = tensor.safe_value.as<FloatImm>();
  return real ? scalar(real->value) : scalar(*as_int(tensor.safe_value));
}

Code ExprCompiler::named(const Var& n) {
  auto it = slots.find(&n);
  if (it == slots.end()) refuse_thread_level(statement, fmt::format("the thread index {}", n.hint));
  size_t slot = it->second;
  bool outside = reads_outside.contains(slot);
  if (misfits.contains(slot))
    return [slot, outside](Frame& x) {
      if (outside) x.read_outside |= x.named_outside.contains(slot);
      if (auto known = x.named_misfits.find(slot); known != x.named_misfits.end()) x.misfit = known->second;
      return x.vars[slot];
    };
  if (outside)
    return [slot](Frame& x) {
      x.read_outside |= x.named_outside.contains(slot);
      return x.vars[slot];
    };
  return [slot](Frame& x) { return x.vars[slot]; };
}

Code ExprCompiler::operator()(const Expr& e) {
  internal_check(e->dtype.lanes == 1, "vectors do not exist at level tile");
  auto& self = *this;
  Span span = e->span ? e->span : statement;
  return dispatch(
      e, overloads{[&](const IntImm& n) -> Code { return [v = n.value](Frame&) { return scalar(v); }; },
                   [&](const FloatImm& n) -> Code { return [v = n.value](Frame&) { return scalar(v); }; },
                   [&](const StringImm&) -> Code { return [](Frame&) { return Scalar(); }; },
                   [&](const Var& n) -> Code { return named(n); },
                   [&](const Unary& n) -> Code { return unary_code(n, self(n.a)); },
                   [&](const Binary& n) -> Code { return binary_code(n, self(n.a), self(n.b), span); },
                   [&](const Cast& n) -> Code { return cast_code(n.a->dtype, n.dtype, self(n.a), span); },
                   [&](const Select& n) -> Code {
                     return [c = self(n.cond), a = self(n.a), b = self(n.b)](Frame& x) {
                       return c(x).i ? a(x) : b(x);
                     };
                   },
                   [&](const Load& n) -> Code {
                     BufferAccess access = buffer_access(f[n.buffer]);
                     auto at = offset(n.buffer, n.index, span);
                     size_t id = size_t(n.buffer.value);
                     Scalar padding = safe_scalar(f[n.buffer]);
                     Code load = [access, at, id, padding](Frame& x) {
                       int64_t offset = at(x);
                       if (offset != outside) {
                         if (!x.held_misfits.empty())
                           x.find_misfit(x.buffers[id].data + offset * access.bytes);
                         return access.get(x.buffers[id].data, offset);
                       }
                       x.read_outside = true;
                       return padding;
                     };
                     if (!n.mask) return load;
                     Scalar none = zero_of(f[n.buffer].dtype);
                     return
                         [load, none, mask = self(n.mask)](Frame& x) { return mask(x).i ? load(x) : none; };
                   },
                   [&](const Call& n) -> Code {
                     if (n.intrinsic->atomic != Intrinsic::Atomic::none) return atomic_code(self, n, span);
                     if (is_foreign(*n.intrinsic)) return foreign_code(self, n, span);
                     if (Code known = instruction ? instruction(n, span) : Code()) return known;
                     if (n.intrinsic == &lookup) return self(as_selects(n));
                     std::vector<Code> args;
                     for (auto& a : n.args) args.push_back(a->dtype.is_handle() ? Code() : self(a));
                     return call_code(n, std::move(args), span);
                   },
                   [&](const Ramp&) -> Code { internal_error("a vector at level tile"); },
                   [&](const Broadcast&) -> Code { internal_error("a vector at level tile"); }});
}

}  // namespace tl
