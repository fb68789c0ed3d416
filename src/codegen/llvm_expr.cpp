// Expressions in LLVM IR.
#include <fmt/format.h>

#include <cmath>

#include "codegen/llvm_kernel.h"
#include "ir/lookup.h"
#include "ir/rewrite.h"
#include "target/foreign.h"

namespace tl::llvm {
namespace {

// `exact`: it does not overflow.
std::string_view integer_opcode(BinaryOp op, DType t, bool exact) {
  bool s = t.is_signed();
  switch (op) {
    case BinaryOp::add:
      return exact ? "add nsw" : "add";
    case BinaryOp::sub:
      return exact ? "sub nsw" : "sub";
    case BinaryOp::mul:
      return exact ? "mul nsw" : "mul";
    case BinaryOp::bit_and:
      return "and";
    case BinaryOp::bit_or:
      return "or";
    case BinaryOp::bit_xor:
      return "xor";
    case BinaryOp::shl:
      return "shl";
    case BinaryOp::shr:
      return s ? "ashr" : "lshr";
    case BinaryOp::eq:
      return "icmp eq";
    case BinaryOp::ne:
      return "icmp ne";
    case BinaryOp::lt:
      return s ? "icmp slt" : "icmp ult";
    case BinaryOp::le:
      return s ? "icmp sle" : "icmp ule";
    case BinaryOp::gt:
      return s ? "icmp sgt" : "icmp ugt";
    case BinaryOp::ge:
      return s ? "icmp sge" : "icmp uge";
    default:
      internal_error("an LLVM opcode for " + std::string(name(op)));
  }
}

std::string_view float_opcode(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "fadd contract";
    case BinaryOp::sub:
      return "fsub contract";
    case BinaryOp::mul:
      return "fmul contract";
    case BinaryOp::div:
      return "fdiv";
    case BinaryOp::eq:
      return "fcmp oeq";
    case BinaryOp::ne:
      return "fcmp une";
    case BinaryOp::lt:
      return "fcmp olt";
    case BinaryOp::le:
      return "fcmp ole";
    case BinaryOp::gt:
      return "fcmp ogt";
    case BinaryOp::ge:
      return "fcmp oge";
    default:
      internal_error("an LLVM opcode for floats: " + std::string(name(op)));
  }
}

}  // namespace

Interval KernelWriter::range(const Expr& e) {
  if (!known) known.emplace(facts);
  return known->range(e);
}

bool KernelWriter::never_wraps(const Expr& e) {
  if (e->dtype.scalar() != i64) return false;
  bool bounded = range(e) != type_range(i64);
  return bounded || !known->of(e).data;
}

bool KernelWriter::is_nonnegative(const Expr& e) {
  if (e->dtype.is_unsigned()) return true;
  if (e->dtype.lanes == 1) return range(e).min >= 0;
  if (auto* b = e.as<Broadcast>()) return is_nonnegative(b->value);
  auto* r = e.as<Ramp>();
  return r && is_nonnegative(r->base) && is_nonnegative(r->stride);
}

// The number, of a number and NaN.  Not llvm.maxnum, of which LLVM 22 believes that it cannot be negative
// where one operand cannot: that one may be NaN.
Value KernelWriter::float_extreme(bool is_min, DType t, const Value& a, const Value& b, const Binary* node) {
  if (w.fast) return w.llvm_intrinsic(is_min ? "llvm.minnum" : "llvm.maxnum", t, {a, b});
  std::string_view beyond = is_min ? "fcmp olt" : "fcmp ogt";
  auto is_number = [](const Expr& e) {
    auto* one = e.as<Broadcast>();
    auto* n = one ? one->value.as<FloatImm>() : e.as<FloatImm>();
    return n && !std::isnan(n->value);
  };
  if (node && is_number(node->b)) return w.select(t, t.lanes, w.compare(beyond, t, a, b), a, b);
  Value most = w.select(t, t.lanes, w.compare(beyond, t, b, a), b, a);
  return w.select(t, t.lanes, w.compare("fcmp uno", t, a, a), b, most);
}

Value KernelWriter::binary(BinaryOp op, DType t, const Value& a, const Value& b, const Binary* node) {
  if (op == BinaryOp::min || op == BinaryOp::max) {
    bool is_min = op == BinaryOp::min;
    if (t.is_float()) return float_extreme(is_min, t, a, b, node);
    if (t.is_bool()) return w.op(is_min ? "and" : "or", t, a, b);
    return w.llvm_intrinsic(fmt::format("llvm.{}{}", t.is_signed() ? 's' : 'u', is_min ? "min" : "max"), t,
                            {a, b});
  }
  if (t.is_float()) return w.op(op == BinaryOp::div && w.fast ? "fdiv arcp" : float_opcode(op), t, a, b);
  return is_division(op) ? divide(*node, a, b)
                         : w.op(integer_opcode(op, t, node && never_wraps(Expr(node))), t, a, b);
}

bool KernelWriter::may_run_untaken(const Expr& e) {
  bool safe = !may_fail(e);
  visit(e, [&](const Load& n) { safe = safe && is_inside(n); });
  return safe;
}

// An element of many lanes, or of some of them, as a byte of two, takes part if one of its lanes does.
Value KernelWriter::predicate_of(int lanes) {
  if (lanes == predicate_lanes) return predicate;
  internal_check(predicate_lanes % lanes == 0, "a select and a value under it with different lanes");
  std::string bits = fmt::format("i{}", predicate_lanes / lanes);
  std::string flags = type_text(boolean.with_lanes(predicate_lanes));
  if (lanes > 1) bits = fmt::format("<{} x {}>", lanes, bits);
  Value packed = w.pure(fmt::format("bitcast {} {} to {}", flags, predicate, bits));
  return w.pure(fmt::format("icmp ne {} {}, {}", bits, packed, lanes > 1 ? "zeroinitializer" : "0"));
}

Value KernelWriter::phi_of(DType t, const Value& a, const std::string& from_a, const Value& b,
                           const std::string& from_b) {
  return w.fresh(fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", type_text(t), a, from_a, b, from_b));
}

// Only the loads of the arm that is taken may run: a branch where one condition decides for all lanes, else
// the arms are written with their loads masked.
Value KernelWriter::select(const Select& n) {
  DType t = n.dtype;
  Value cond = expr(n.cond);
  int lanes = n.cond->dtype.lanes;
  bool both = may_run_untaken(n.a) && may_run_untaken(n.b);
  if (both) {
    Value a = expr(n.a), b = expr(n.b);
    return w.select(t, lanes, cond, a, b);
  }
  if (lanes == 1) {
    std::string yes = w.new_label("then"), no = w.new_label("else"), join = w.new_label("join");
    w.branch(cond, yes, no);
    auto arm = [&](const std::string& label, const Expr& e) {
      w.label(label);
      w.open_scope();
      Value v = expr(e);
      w.close_scope();
      std::string end = w.block;
      w.jump(join);
      return std::pair(v, end);
    };
    auto [a, from_a] = arm(yes, n.a);
    auto [b, from_b] = arm(no, n.b);
    w.label(join);
    return phi_of(t, a, from_a, b, from_b);
  }
  Value outer = predicate, around = outer.empty() ? outer : predicate_of(lanes);
  int outer_lanes = predicate_lanes;
  DType flag = boolean.with_lanes(lanes);
  auto arm = [&](const Value& taken, const Expr& e) {
    predicate = outer.empty() ? taken : w.op("and", flag, around, taken);
    predicate_lanes = lanes;
    return expr(e);
  };
  Value a = arm(cond, n.a), b = arm(w.op("xor", flag, cond, int_constant(1, flag)), n.b);
  predicate = outer;
  predicate_lanes = outer_lanes;
  return w.select(t, lanes, cond, a, b);
}

namespace {

// Has it no value where a condition before it is false, x << n say?  Then only a select keeps that out.
bool may_be_poison(const Expr& e) {
  return contains(
      e, [](const Binary& n) { return (n.op == BinaryOp::shl || n.op == BinaryOp::shr) && !as_int(n.b); },
      [](const Cast& n) { return n.a->dtype.is_float() && n.dtype.is_int(); });
}

Value logical(KernelWriter& k, const Binary& n) {
  DType t = n.dtype;
  bool is_and = n.op == BinaryOp::logical_and;
  Expr decided = imm(!is_and, t);
  if (k.needs_condition(n.b)) return k.expr(is_and ? select(n.a, n.b, decided) : select(n.a, decided, n.b));
  Value a = k.expr(n.a), b = k.expr(n.b);
  if (!may_be_poison(n.b)) return k.w.op(is_and ? "and" : "or", t, a, b);
  Value c = int_constant(!is_and, t);
  return k.w.select(t, t.lanes, a, is_and ? b : c, is_and ? c : b);
}

Value binary_expr(KernelWriter& k, const Binary& n) {
  if (is_logical(n.op)) return logical(k, n);
  Value a = k.expr(n.a), b = k.expr(n.b);
  DType t = n.a->dtype;
  if (!is_half(t)) return k.binary(n.op, t, a, b, &n);
  DType wide = f32.with_lanes(t.lanes);
  Value x = convert(k.w, t, a, wide, k.has_half), y = convert(k.w, t, b, wide, k.has_half);
  Value r = k.binary(n.op, wide, x, y, &n);
  return n.dtype.is_bool() ? r : convert(k.w, wide, r, t, k.has_half);
}

Value unary_expr(KernelWriter& k, const Unary& n) {
  DType t = n.dtype;
  Value a = k.expr(n.a);
  if (n.op == UnaryOp::logical_not) return k.w.op("xor", t, a, int_constant(1, t));
  if (n.op == UnaryOp::bit_not) return k.w.op("xor", t, a, int_constant(-1, t));
  if (is_half(t)) return k.w.op("xor", t, a, splat_constant("-32768", "i16", t.lanes));
  if (t.is_float()) return k.w.pure(fmt::format("fneg {} {}", type_text(t), a));
  return k.w.op("sub", t, int_constant(0, t), a);
}

Value ramp_expr(KernelWriter& k, const Ramp& n) {
  DType t = n.dtype, lane = n.base->dtype;
  auto stride = as_int(n.stride);
  std::string steps = "<";
  for (int i = 0; i < t.lanes; i++)
    steps += fmt::format("{}{} {}", i ? ", " : "", type_text(lane), i * stride.value_or(1));
  Value offsets = steps + ">";
  bool exact = k.never_wraps(Expr(&n));
  std::string_view times = integer_opcode(BinaryOp::mul, t, exact),
                   plus = integer_opcode(BinaryOp::add, t, exact);
  if (!stride) offsets = k.w.op(times, t, k.w.splat(lane, k.expr(n.stride), t.lanes), offsets);
  if (is_int(n.base, 0)) return offsets;
  return k.w.op(plus, t, k.w.splat(lane, k.expr(n.base), t.lanes), offsets);
}

// c + a · b: the intrinsic takes vectors of 32-bit groups, of which a's is the same for all lanes.
Value dot_expr(KernelWriter& k, const DotInstr& row, const Call& n) {
  DType c = n.dtype;
  std::string words = fmt::format("<{} x i32>", c.lanes);
  auto group = [&](const Expr& e) {
    Value v = k.expr(e);
    if (e->dtype.lanes == row.depth * c.lanes)
      return k.w.pure(fmt::format("bitcast {} {} to {}", type_text(e->dtype), v, words));
    return k.w.splat(i32, k.w.pure(fmt::format("bitcast {} {} to i32", type_text(e->dtype), v)), c.lanes);
  };
  Value sum = k.expr(n.args[0]), a = group(n.args[1]), b = group(n.args[2]);
  std::string name = fmt::format("@{}", row.text), type = type_text(c);
  k.w.declarations.insert(fmt::format("declare {} {}({}, {}, {})", type, name, type, words, words));
  return k.w.pure(fmt::format("call {} {}({} {}, {} {}, {} {})", type, name, type, sum, words, a, words, b));
}

// A vector of other lanes than the result that it is for: lane i takes part as the result's lane(i) does, or,
// of -1, never.
template <class F>
Value under_lanes(KernelWriter& k, int lanes, F lane, const Expr& e) {
  if (k.predicate.empty()) return k.expr(e);
  Value outer = k.predicate, parts = "poison";
  int outer_lanes = k.predicate_lanes;
  auto part = [&](int i) {
    if (lane(i) < 0) return Value("0");
    if (outer_lanes == 1) return outer;
    return k.w.pure(fmt::format("extractelement <{} x i1> {}, i32 {}", outer_lanes, outer, lane(i)));
  };
  for (int i = 0; lanes > 1 && i < lanes; i++)
    parts = k.w.pure(fmt::format("insertelement <{} x i1> {}, i1 {}, i32 {}", lanes, parts, part(i), i));
  k.predicate = lanes == 1 ? part(0) : parts;
  k.predicate_lanes = lanes;
  Value v = k.expr(e);
  k.predicate = outer;
  k.predicate_lanes = outer_lanes;
  return v;
}

// One shufflevector after the other: pairs of vectors, then pairs of pairs.
Value lanes_expr(KernelWriter& k, const Call& n) {
  auto shuffled = [&](const Value& a, const Value& b, DType from, int count, auto lane) {
    std::string order;
    for (int i = 0; i < count; i++) order += fmt::format("{}i32 {}", i ? ", " : "", lane(i));
    return k.w.pure(fmt::format("shufflevector {} {}, {} {}, <{} x i32> <{}>", type_text(from), a,
                                type_text(from), b, count, order));
  };
  DType from = n.args[0]->dtype;
  if (n.intrinsic != &interleave) {
    int first = n.intrinsic == &odd_lanes;
    Value x = under_lanes(k, from.lanes, [&](int i) { return i % 2 == first ? i / 2 : -1; }, n.args[0]);
    if (n.dtype.lanes == 1)
      return k.w.pure(fmt::format("extractelement {} {}, i32 {}", type_text(from), x, first));
    return shuffled(x, "poison", from, n.dtype.lanes, [&](int i) { return 2 * i + first; });
  }
  std::vector<Value> parts;
  int count = int(n.args.size());
  for (int part = 0; part < count; part++)
    parts.push_back(
        under_lanes(k, from.lanes, [&](int i) { return i * count + part; }, n.args[size_t(part)]));
  if (from.lanes == 1) {
    Value all = "poison";
    for (size_t i = 0; i < parts.size(); i++)
      all = k.w.pure(fmt::format("insertelement {} {}, {} {}, i32 {}", type_text(n.dtype), all,
                                 type_text(from), parts[i], i));
    return all;
  }
  internal_check(std::has_single_bit(parts.size()), "a power of two of vectors to interleave");
  for (; parts.size() > 1; from = from.with_lanes(2 * from.lanes)) {  // a c, b d; then a b c d
    size_t half = parts.size() / 2;
    for (size_t i = 0; i < half; i++)
      parts[i] = shuffled(parts[i], parts[i + half], from, 2 * from.lanes,
                          [&](int l) { return l / 2 + l % 2 * from.lanes; });
    parts.resize(half);
  }
  return parts[0];
}

Value call_expr(KernelWriter& k, const Call& n) {
  const Intrinsic& intrinsic = *n.intrinsic;
  if (&intrinsic == &address_of) {
    auto* element = n.args[0].as<Load>();
    internal_check(element && element->index.size() == 1, "address_of takes an element");
    return k.address(element->buffer, element->index[0]);
  }
  if (&intrinsic == &block_uniform) return k.expr(n.args[0]);
  if (&intrinsic == &lookup) return k.expr(as_selects(n));
  if (obeys_mask(intrinsic)) return k.memory_call(n);
  if (is_foreign(intrinsic))
    fail(n.span,
         "{} is text for a GPU, which target \"cpu\" cannot run: compile for CUDA, or give eval= and run it "
         "by target=\"sim:…\" or \"reference\"",
         describe_foreign(n));
  if (intrinsic.effect != Intrinsic::Effect::pure)
    fail(n.span,
         "{} is thread-level code, and target \"cpu\" runs one thread per block: write it with tiles "
         "(T.Parallel, T.copy, T.reduce_sum …), or compile for a GPU",
         intrinsic.name);
  if (intrinsic.is_exact()) return exact_call(k, n);
  if (&intrinsic == &interleave || &intrinsic == &even_lanes || &intrinsic == &odd_lanes)
    return lanes_expr(k, n);
  for (auto* row : k.target.dots)
    if (&row->intrinsic == &intrinsic) return dot_expr(k, *row, n);
  std::vector<Value> args;
  for (auto& a : n.args) args.push_back(k.expr(a));
  return call_function(k.w, intrinsic.name, n.args[0]->dtype, args, k.has_half);
}

}  // namespace

Value KernelWriter::expr(const Expr& e) {
  return dispatch(
      e, overloads{
             [&](const IntImm& n) { return int_constant(n.value, n.dtype); },
             [&](const FloatImm& n) { return float_constant(n.value, n.dtype); },
             [&](const StringImm&) -> Value { internal_error("a text that no call has taken"); },
             [&](const Var& n) {
               auto it = vars.find(&n);
               internal_check(it != vars.end(), "a variable without a value: " + n.hint);
               return it->second;
             },
             [&](const Unary& n) { return unary_expr(*this, n); },
             [&](const Binary& n) { return binary_expr(*this, n); },
             [&](const Cast& n) { return convert(w, n.a->dtype, expr(n.a), n.dtype, has_half); },
             [&](const Select& n) { return select(n); },
             [&](const Load& n) { return load(n); },
             [&](const Ramp& n) { return ramp_expr(*this, n); },
             [&](const Broadcast& n) { return w.splat(n.value->dtype, expr(n.value), n.dtype.lanes); },
             [&](const Call& n) { return call_expr(*this, n); },
         });
}

}  // namespace tl::llvm
