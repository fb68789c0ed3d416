// What `a + b` means in the fronts. A number of the host language is weak: it takes the type of the other
// operand. Types that differ are promoted here, so that the makers of ir/build.h always see operands of one
// type.
#pragma once
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "arith/facts.h"
#include "base/suggest.h"
#include "ir/build.h"

namespace tl {

// An expression, or a number of the host language; a whole one from 2^63 on is a uint64_t.
using Value = std::variant<Expr, int64_t, double, bool, uint64_t>;

// The value with a type of its own: a whole number is i64, from 2^63 on u64, a float f32.
Expr strong(const Value& value, Span span);
// The value as `type`.  An expression is cast; a number must be representable (`what` names it in the error).
Expr to_type(const Value& value, DType type, std::string_view what, Span span);
// The value as an i64, for extents and indices; a float or a bool is an error.
Expr to_index(const Value& value, std::string_view what, Span span);
// The value as a condition: a number is true unless it is zero.
Expr to_bool(const Value& value, Span span);

// The type in which values of these two types meet: the wider integer (as C, without widening what is of one
// type), the float rather than the integer, the wider float; f16 and bf16 meet in f32.
DType promote(DType a, DType b);

Expr apply_unary(std::string_view op, const Value& a, Span span);  // neg not invert
Expr apply_binary(std::string_view op, const Value& a, const Value& b, Span span);
Expr apply_binary(BinaryOp op, const Value& a, const Value& b, Span span);
// a / b, rounded up: of every sign, and without a sum that leaves the type.
Expr apply_ceildiv(const Value& a, const Value& b, const Facts& facts, Span span);
Expr apply_select(const Value& cond, const Value& a, const Value& b, Span span);
// A row of ir/intrinsic.h by name; an unknown name is an error that names the nearest.
Expr apply_call(std::string_view name, const std::vector<Value>& args, std::optional<DType> type, Span span);

}  // namespace tl
