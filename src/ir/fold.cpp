// Names of the operators, and constant folding.
#include <cmath>

#include "base/error.h"
#include "ir/build.h"

namespace tl {
namespace {

struct OpName {
  BinaryOp op;
  std::string_view name, symbol;
};
constexpr OpName op_names[] = {{BinaryOp::add, "add", "+"},
                               {BinaryOp::sub, "sub", "-"},
                               {BinaryOp::mul, "mul", "*"},
                               {BinaryOp::div, "div", "/"},
                               {BinaryOp::floordiv, "floordiv", "//"},
                               {BinaryOp::floormod, "floormod", "%"},
                               {BinaryOp::truncdiv, "truncdiv", "truncdiv"},
                               {BinaryOp::truncmod, "truncmod", "truncmod"},
                               {BinaryOp::min, "min", "min"},
                               {BinaryOp::max, "max", "max"},
                               {BinaryOp::bit_and, "and", "&"},
                               {BinaryOp::bit_or, "or", "|"},
                               {BinaryOp::bit_xor, "xor", "^"},
                               {BinaryOp::shl, "shl", "<<"},
                               {BinaryOp::shr, "shr", ">>"},
                               {BinaryOp::eq, "eq", "=="},
                               {BinaryOp::ne, "ne", "!="},
                               {BinaryOp::lt, "lt", "<"},
                               {BinaryOp::le, "le", "<="},
                               {BinaryOp::gt, "gt", ">"},
                               {BinaryOp::ge, "ge", ">="},
                               {BinaryOp::logical_and, "logical_and", "and"},
                               {BinaryOp::logical_or, "logical_or", "or"}};

int64_t fold_unsigned(BinaryOp op, uint64_t a, uint64_t b) {
  switch (op) {
    case BinaryOp::floordiv:
    case BinaryOp::truncdiv:
      return int64_t(a / b);
    case BinaryOp::floormod:
    case BinaryOp::truncmod:
      return int64_t(a % b);
    case BinaryOp::min:
      return int64_t(a < b ? a : b);
    case BinaryOp::max:
      return int64_t(a > b ? a : b);
    case BinaryOp::shr:
      return int64_t(a >> b);
    default:
      return holds(op, a, b);
  }
}

bool sign_matters(BinaryOp op) {
  switch (op) {
    case BinaryOp::floordiv:
    case BinaryOp::floormod:
    case BinaryOp::truncdiv:
    case BinaryOp::truncmod:
    case BinaryOp::min:
    case BinaryOp::max:
    case BinaryOp::shr:
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::gt:
    case BinaryOp::ge:
      return true;
    default:
      return false;
  }
}

int64_t fold_signed(BinaryOp op, int64_t a, int64_t b) {
  uint64_t ua = uint64_t(a), ub = uint64_t(b);
  switch (op) {
    case BinaryOp::add:
      return int64_t(ua + ub);
    case BinaryOp::sub:
      return int64_t(ua - ub);
    case BinaryOp::mul:
      return int64_t(ua * ub);
    case BinaryOp::floordiv:
      return floor_div(a, b);
    case BinaryOp::floormod:
      return floor_mod(a, b);
    case BinaryOp::truncdiv:
      return b == -1 ? int64_t(0 - ua) : a / b;
    case BinaryOp::truncmod:
      return b == -1 ? 0 : a % b;
    case BinaryOp::min:
      return a < b ? a : b;
    case BinaryOp::max:
      return a > b ? a : b;
    case BinaryOp::bit_and:
      return a & b;
    case BinaryOp::bit_or:
      return a | b;
    case BinaryOp::bit_xor:
      return a ^ b;
    case BinaryOp::shl:
      return int64_t(ua << (ub & 63));
    case BinaryOp::shr:
      return a >> (ub & 63);
    case BinaryOp::logical_and:
      return a && b;
    case BinaryOp::logical_or:
      return a || b;
    default:
      return holds(op, a, b);
  }
}

}  // namespace

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return int64_t(0 - uint64_t(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t fold_int(BinaryOp op, int64_t a, int64_t b, DType type) {
  int64_t raw = type.is_unsigned() && sign_matters(op) ? fold_unsigned(op, uint64_t(a), uint64_t(b))
                                                       : fold_signed(op, a, b);
  return is_comparison(op) || is_logical(op) ? raw : wrap_int(raw, type);
}
double fold_float(BinaryOp op, double a, double b, DType type) {
  switch (op) {
    case BinaryOp::add:
      return round_float(a + b, type);
    case BinaryOp::sub:
      return round_float(a - b, type);
    case BinaryOp::mul:
      return round_float(a * b, type);
    case BinaryOp::div:
      return round_float(a / b, type);
    case BinaryOp::min:
      return min_number(a, b);
    case BinaryOp::max:
      return max_number(a, b);
    default:
      internal_error("not a float operation");
  }
}
const std::string_view divisor_help =
    "guard it with an if; where the 0 was copied from outside of a tensor, T.annotate_safe_value gives "
    "another number";
bool is_comparison(BinaryOp op) { return op >= BinaryOp::eq && op <= BinaryOp::ge; }
bool is_division(BinaryOp op) {
  return op == BinaryOp::floordiv || op == BinaryOp::floormod || op == BinaryOp::truncdiv ||
         op == BinaryOp::truncmod;
}
bool is_logical(BinaryOp op) { return op == BinaryOp::logical_and || op == BinaryOp::logical_or; }
std::string_view symbol(BinaryOp op) { return op_names[size_t(op)].symbol; }
std::string_view name(BinaryOp op) { return op_names[size_t(op)].name; }
std::optional<BinaryOp> find_binary_op(std::string_view name) {
  for (auto& row : op_names)
    if (row.name == name) return row.op;
  return std::nullopt;
}

}  // namespace tl
