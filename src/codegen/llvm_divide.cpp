// Integer division in LLVM IR.  The chip traps where a divisor is 0 and where the least integer is divided by
// -1, even in lanes whose result is unused. So both are divided by 1: the first makes the call fail at the
// user's line if the result is used; the second wraps. Known ranges of the operands remove most of these
// checks.
#include <fmt/format.h>

#include <bit>

#include "codegen/llvm_kernel.h"
#include "ir/rewrite.h"

namespace tl::llvm {
namespace {

std::optional<int64_t> power_of_two(const Expr& e) {
  auto v = as_int(e);
  return v && *v > 0 && std::has_single_bit(uint64_t(*v)) ? v : std::nullopt;
}

// Rounds towards minus infinity, of signed operands about which nothing is known.
Value floor_division(Writer& w, bool quotient, DType t, const Value& a, const Value& b) {
  DType flag = boolean.with_lanes(t.lanes);
  Value zero = int_constant(0, t), r = w.op("srem", t, a, b);
  Value differs = w.compare("icmp slt", t, w.op("xor", t, r, b), zero);
  Value wrong = w.op("and", flag, differs, w.compare("icmp ne", t, r, zero));
  if (quotient) return w.op("sub", t, w.op("sdiv", t, a, b), w.convert("zext", flag, wrong, t));
  return w.op("add", t, r, w.select(t, t.lanes, wrong, b, zero));
}

// The call fails if a divisor is 0 in a lane that takes part.
void refuse_zero(KernelWriter& k, const Binary& n, Value zero) {
  Writer& w = k.w;
  int lanes = n.dtype.lanes;
  DType flag = boolean.with_lanes(lanes);
  if (!k.predicate.empty()) zero = w.op("and", flag, k.predicate_of(lanes), zero);
  Span at = n.span ? n.span : k.statement;
  std::string place = at.file ? fmt::format("{}:{}: ", *at.file, at.line) : "";
  std::string text =
      fmt::format("{}division by zero: the right side of {} is 0; {}", place, symbol(n.op), divisor_help);
  if (!w.is_first(fmt::format("{} {}", zero, text))) return;
  Value none;
  if (lanes == 1) {
    none = w.op("xor", flag, zero, "1");
  } else {
    std::string bits = fmt::format("i{}", lanes);
    Value packed = w.pure(fmt::format("bitcast {} {} to {}", type_text(flag), zero, bits));
    none = w.pure(fmt::format("icmp eq {} {}, 0", bits, packed));
  }
  require(k, none, text);
}

Value quotient_or_rest(KernelWriter& k, const Binary& n, const Value& a, const Value& b) {
  Writer& w = k.w;
  DType t = n.dtype;
  bool quotient = n.op == BinaryOp::floordiv || n.op == BinaryOp::truncdiv;
  bool floor = n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod;
  bool positive = k.is_nonnegative(n.a) && k.is_nonnegative(n.b);
  if (t.is_unsigned() || (floor && positive)) return w.op(quotient ? "udiv" : "urem", t, a, b);
  if (floor) return floor_division(w, quotient, t, a, b);
  return w.op(quotient ? "sdiv" : "srem", t, a, b);
}

}  // namespace

Value KernelWriter::divide(const Binary& n, const Value& a, const Value& b) {
  DType t = n.dtype;
  bool quotient = n.op == BinaryOp::floordiv || n.op == BinaryOp::truncdiv;
  auto p = n.op == BinaryOp::floordiv || n.op == BinaryOp::floormod ? power_of_two(n.b) : std::nullopt;
  if (p && !quotient) return w.op("and", t, a, int_constant(*p - 1, t));
  if (p)
    return w.op(is_nonnegative(n.a) ? "lshr" : "ashr", t, a, int_constant(std::countr_zero(uint64_t(*p)), t));
  Interval by = range(n.b);
  bool may_be_zero = by.contains(0);
  int64_t least = t.is_signed() ? wrap_int(int64_t(uint64_t(1) << (t.bits - 1)), t.scalar()) : 0;
  bool may_wrap = t.is_signed() && by.contains(-1) && range(n.a).contains(least);
  Value divisor = b, minus_one;
  if (may_be_zero) {
    Value zero = w.compare("icmp eq", t, b, int_constant(0, t));
    refuse_zero(*this, n, zero);
    divisor = w.select(t, t.lanes, zero, int_constant(1, t), divisor);
  }
  if (may_wrap) {
    minus_one = w.compare("icmp eq", t, b, int_constant(-1, t));
    divisor = w.select(t, t.lanes, minus_one, int_constant(1, t), divisor);
  }
  Value r = quotient_or_rest(*this, n, a, divisor);
  if (!may_wrap || !quotient) return r;  // the rest is 0 either way
  return w.select(t, t.lanes, minus_one, w.op("sub", t, int_constant(0, t), a), r);
}

bool KernelWriter::may_fail(const Expr& e) {
  if (auto it = fails.find(e.get()); it != fails.end()) return it->second.second;
  auto* n = e.as<Binary>();
  bool found = n && is_division(n->op) && range(n->b).contains(0);
  visit_below(e, [&](const Expr& x) { found = found || may_fail(x); });
  fails[e.get()] = {e, found};
  return found;
}

}  // namespace tl::llvm
