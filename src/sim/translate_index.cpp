// Which operations an index is made of, and which of them may leave their type: see wrapped.h.
#include "arith/interval.h"
#include "sim/translate.h"

namespace tl::sim {
namespace {

using Follow = Operation::Follow;

bool is_signed_int(DType t) { return t.is_int() && t.is_signed(); }

Expr exact(const Expr& e) {
  Expr one = e->dtype.lanes > 1 ? Expr() : e;
  return one ? cast(i64, one) : var("any", i64);  // lanes are not looked into
}

}  // namespace

bool Translator::may_leave(const Expr& value, DType type) const {
  return type.bits < 64 && !tl::fits(tl::widen(interval_of(value, facts)), type.scalar());
}

void Translator::follow_binary(Operation& o, const Binary& n) const {
  DType type = n.a->dtype.scalar();
  if (is_comparison(n.op) && !type.is_float()) o.follow = Follow::compare;
  bool joins = n.op == BinaryOp::bit_and || n.op == BinaryOp::bit_or;
  if (is_logical(n.op) || (type.is_bool() && joins)) o.follow = Follow::logic;
  if (!is_signed_int(type) || is_comparison(n.op)) return;
  switch (n.op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
    case BinaryOp::shl:
      o.wraps = may_leave(binary(n.op, exact(n.a), exact(n.b)), type);
      [[fallthrough]];
    case BinaryOp::min:
    case BinaryOp::max:
    case BinaryOp::floordiv:
    case BinaryOp::truncdiv:
      o.follow = Follow::arithmetic;
      return;
    default:
      return;
  }
}

void Translator::follow_unary(Operation& o, const Unary& n) const {
  if (n.op == UnaryOp::logical_not) o.follow = Follow::logic;
  if (n.op != UnaryOp::neg || !is_signed_int(n.dtype)) return;
  o.follow = Follow::negate;
  o.wraps = may_leave(unary(UnaryOp::neg, exact(n.a)), n.dtype);
}

void Translator::follow_cast(Operation& o, const Cast& n) const {
  if (!is_signed_int(n.dtype) || !is_signed_int(n.a->dtype)) return;
  o.follow = Follow::convert;
  o.wraps = may_leave(exact(n.a), n.dtype);
}

}  // namespace tl::sim
