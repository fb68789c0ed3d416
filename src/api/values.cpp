// Promotion, weak numbers, and scalar functions by name.
#include "api/values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/infinite_constants.h"
#include "arith/analysis.h"
#include "base/error.h"
#include "ir/names.h"

namespace tl {
namespace {

bool fits(int64_t v, DType t) {
  if (t.is_bool()) return v == 0 || v == 1;
  return wrap_int(v, t) == v && (t.is_signed() || v >= 0);
}

// The type that a weak number takes beside an expression of type t.
DType weak_type(const Value& number, DType t) {
  t = arithmetic_type(t);
  if (std::holds_alternative<bool>(number)) return promote(boolean, t);
  if (std::holds_alternative<double>(number)) return t.is_float() ? t : f32;
  return t.is_bool() ? i32 : t;
}

Expr in_arithmetic(Expr e, Span span) { return cast(arithmetic_type(e->dtype), e, span); }

struct Pair {
  Expr a, b;
};

// Bit operations take the pattern: x & 0xFFFFFFFF is meant for an i32, too.
Expr as_pattern(const Value& v, DType t, Span span) {
  if (auto* large = std::get_if<uint64_t>(&v); large && t == i64) return imm(int64_t(*large), t, span);
  auto* n = std::get_if<int64_t>(&v);
  if (n && t.is_int() && t.bits < 64 && *n >= 0 && *n < int64_t(1) << t.bits)
    return imm(wrap_int(*n, t), t, span);
  return to_type(v, t, "the number", span);
}

bool is_bitwise(BinaryOp op) {
  return op == BinaryOp::bit_and || op == BinaryOp::bit_or || op == BinaryOp::bit_xor;
}

Expr meet(BinaryOp op, const Value& v, DType t, Span span) {
  return is_bitwise(op) ? as_pattern(v, t, span) : to_type(v, t, "the number", span);
}

void check_size(const Value& v, Span span) {
  if (auto* e = std::get_if<Expr>(&v)) tl::check_size(*e, span);
}

void check_operands(std::initializer_list<const Value*> values, Span span) {
  for (const Value* v : values) check_size(*v, span);
  for (const Value* v : values)
    if (auto* e = std::get_if<Expr>(v); e && (*e)->dtype.is_handle())
      fail(span,
           "an address cannot be used in arithmetic: make_tensor(p, shape) makes a tensor of the memory "
           "there, which is indexed as in A[16]; for address arithmetic use an int64 parameter");
}

Pair same_type(BinaryOp op, const Value& a, const Value& b, Span span) {
  auto *x = std::get_if<Expr>(&a), *y = std::get_if<Expr>(&b);
  DType t;
  if (x && y) {
    t = promote((*x)->dtype, (*y)->dtype);
  } else if (x) {
    t = weak_type(b, (*x)->dtype);
  } else if (y) {
    t = weak_type(a, (*y)->dtype);
  } else {
    t = promote(strong(a, span)->dtype, strong(b, span)->dtype);
    if (op == BinaryOp::div && t.is_int()) t = f32;  // 1 / 2 is 0.5 among numbers
  }
  bool arithmetic = op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul ||
                    op == BinaryOp::floordiv || op == BinaryOp::floormod || op == BinaryOp::truncdiv ||
                    op == BinaryOp::truncmod;
  if (arithmetic && t.is_bool()) t = i32;
  return {meet(op, a, t, span), meet(op, b, t, span)};
}

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names;
  for (auto rows : {scalar_functions(), thread_functions(), exact_functions(), message_functions()})
    for (auto& row : rows) names.push_back(row.name);
  return names;
}

const Intrinsic& intrinsic_named(std::string_view name, Span span) {
  if (auto* row = find_intrinsic(name)) return *row;
  fail(span, "there is no function `{}`{}", name, did_you_mean(name, function_names()));
}

void check_count(const Intrinsic& row, size_t count, Span span) {
  if (row.arity >= 0 && size_t(row.arity) != count)
    fail(span, "{} takes {} argument{}, not {}", row.name, row.arity, row.arity == 1 ? "" : "s", count);
}

// What a float function means of an integer, where that is plain.
std::optional<Expr> call_on_int(std::string_view name, const Expr& x, Span span) {
  if (name == "abs") {
    if (x->dtype.is_unsigned()) return x;
    return binary(BinaryOp::max, x, unary(UnaryOp::neg, x, span), span);
  }
  if (name == "floor" || name == "ceil" || name == "round" || name == "trunc") return x;
  if (name == "isnan" || name == "isinf") return imm(0, boolean, span);
  if (name == "isfinite") return imm(1, boolean, span);
  return std::nullopt;
}

std::optional<Expr> fold_call(const Intrinsic& row, const std::vector<Expr>& args, Span span) {
  if (!row.eval || args.empty()) return std::nullopt;
  std::vector<double> numbers;
  for (auto& a : args) {
    auto* n = a.as<FloatImm>();
    if (!n) return std::nullopt;
    numbers.push_back(n->value);
  }
  double value = row.eval(numbers.data());
  if (row.result == Intrinsic::Result::boolean) return imm(value != 0, boolean, span);
  return fimm(value, args[0]->dtype, span);
}

Expr call_scalar(const Intrinsic& row, const std::vector<Value>& args, std::optional<DType> type, Span span) {
  std::optional<DType> common;
  for (auto& a : args) check_operands({&a}, span);
  for (auto& a : args)
    if (auto* e = std::get_if<Expr>(&a)) common = promote(common.value_or((*e)->dtype), (*e)->dtype);
  if (type && row.result == Intrinsic::Result::same) common = arithmetic_type(*type);
  bool floats = std::ranges::any_of(args, [](auto& a) { return std::holds_alternative<double>(a); });
  if (!common || (floats && !common->is_float())) common = f32;
  if (!common->is_float()) {
    Expr x = to_type(args[0], *common, "the argument", span);
    if (args.size() == 1 && common->is_int())
      if (auto known = call_on_int(row.name, x, span)) return *known;
    fail(span, "{} takes a float, not {}: cast it to a float first", row.name, to_string(*common));
  }
  std::vector<Expr> exprs;
  for (auto& a : args) exprs.push_back(to_type(a, *common, "the argument", span));
  if (auto folded = fold_call(row, exprs, span)) return *folded;
  return call(row, std::move(exprs), span);
}

// x and the exponent of ldexp.
std::vector<Expr> scaled_arguments(const Intrinsic& row, const std::vector<Value>& args, Span span) {
  auto* x = std::get_if<Expr>(&args[0]);
  DType t = x ? arithmetic_type((*x)->dtype) : f32;
  Expr exponent = std::holds_alternative<int64_t>(args[1]) ? to_type(args[1], i32, "the exponent", span)
                                                           : strong(args[1], span);
  if (!t.is_float()) fail(span, "{} takes a float, not {}: cast it to a float first", row.name, to_string(t));
  if (!exponent->dtype.is_int())
    fail(span, "{}: the exponent is an integer, not {}", row.name, to_string(exponent->dtype));
  return {to_type(args[0], t, "the argument", span), cast(i32, exponent, span)};
}

// The arguments as the row takes them.
std::vector<Expr> exact_arguments(const Intrinsic& row, const std::vector<Value>& args, Span span) {
  using ArgDomain = Intrinsic::ArgDomain;
  if (row.takes == ArgDomain::scaled) return scaled_arguments(row, args, span);
  std::optional<DType> common;
  if (row.takes == ArgDomain::counters) common = u64;
  for (auto& a : args)
    if (auto* e = std::get_if<Expr>(&a); e && row.takes != ArgDomain::counters)
      common = common ? promote(*common, (*e)->dtype) : (*e)->dtype;
  if (!common) common = row.takes == ArgDomain::integers ? i32 : f32;
  if (row.takes == ArgDomain::reals) common = arithmetic_type(*common);
  std::vector<Expr> exprs;
  for (auto& a : args) {
    auto* number = std::get_if<int64_t>(&a);
    bool negative = number && row.takes == ArgDomain::counters;
    if (auto* fraction = std::get_if<double>(&a); fraction && row.takes == ArgDomain::integers)
      fail(span, "{} takes an integer, not the float {}", row.name, *fraction);
    exprs.push_back(negative ? imm(*number, u64, span) : to_type(a, *common, "the argument", span));
  }
  DType t = exprs[0]->dtype;
  bool fits = row.takes == ArgDomain::any        ? t.is_int() || t.is_float()
              : row.takes == ArgDomain::floats   ? t == f32 || t == f64
              : row.takes == ArgDomain::singles  ? t == f32
              : row.takes == ArgDomain::reals    ? t.is_float()
              : row.takes == ArgDomain::integers ? t.is_int()
                                                 : true;
  constexpr std::string_view wanted[] = {"a number",   "f32 or f64", "f32",       "a float",
                                         "an integer", "",           "an integer"};
  if (!fits) fail(span, "{} takes {}, not {}", row.name, wanted[int(row.takes)], to_string(t));
  return exprs;
}

void check_narrow(const Intrinsic& row, const std::vector<Value>& args, std::optional<DType> type,
                  Span span) {
  bool ok = args.size() == 3 && type && std::holds_alternative<int64_t>(args[1]) &&
            std::holds_alternative<int64_t>(args[2]) && row.name.substr(3) == to_string(*type);
  if (!ok)
    fail(span, "{} takes a number, a rounding, whether to saturate, and the type that it makes", row.name);
}

// to_e4m3(x, rounding, saturate) and its like: the rounded value.
Expr call_narrow(const Intrinsic& row, const std::vector<Value>& args, std::optional<DType> type, Span span) {
  check_narrow(row, args, type, span);
  Expr x = as_single(in_arithmetic(strong(args[0], span), span), span);
  DType code = type->bits == 32 ? u32 : type->bits == 16 ? u16 : u8;
  Expr bits =
      call(row, {x, imm(std::get<int64_t>(args[1]), i32), imm(std::get<int64_t>(args[2]), i32)}, code, span);
  return call(*find_intrinsic("reinterpret"), {bits}, *type, span);
}

Expr call_exact(const Intrinsic& row, const std::vector<Value>& args, std::optional<DType> type, Span span) {
  if (row.name.starts_with("to_")) return call_narrow(row, args, type, span);
  std::vector<Expr> exprs = exact_arguments(row, args, span);
  if (row.result != Intrinsic::Result::given) return call(row, std::move(exprs), span);
  DType from = exprs[0]->dtype;
  if (!type) fail(span, "{} needs the type of its result", row.name);
  if (!(type->is_int() || type->is_float()) || type->bits != from.bits)
    fail(span, "{}: {} has {} bits, but {} has {}: the two must be numbers of one width", row.name,
         to_string(from), from.bits, to_string(*type), type->bits);
  return *type == from ? exprs[0] : call(row, std::move(exprs), *type, span);
}

}  // namespace

static thread_local std::vector<Note> infinite_constants;

std::vector<Note> take_infinite_constants() { return std::exchange(infinite_constants, {}); }

// A finite number that the type's rounding makes infinite is often a mistake: a mask of -1e9 in half
// precision, whose sums are then NaN.
static Expr to_float(double d, DType type, std::string_view what, Span span) {
  if (std::isfinite(d) && std::isinf(round_float(d, type.scalar()))) {
    std::string name = to_string(type.scalar());
    infinite_constants.push_back(
        {.pass = std::string(infinite_constant),
         .subject = fmt::format("{} {:.16g}", what, d),
         .text = fmt::format(
             "does not fit in {}, whose largest number is {:.6g}, and becomes {}infinity: if "
             "that is meant write {}T.infinity(\"{}\"), else {}",
             name, largest_number(type), d < 0 ? "minus " : "", d < 0 ? "-" : "", name,
             what == "the number" ? "cast the other operand to a wider type first" : "take a wider type"),
         .span = span,
         .refusal = true,
         .asked = true});
  }
  return fimm(d, type, span);
}

Expr strong(const Value& value, Span span) {
  if (auto* e = std::get_if<Expr>(&value)) return *e;
  if (auto* n = std::get_if<int64_t>(&value)) return imm(*n, i64, span);
  if (auto* n = std::get_if<uint64_t>(&value)) return imm(int64_t(*n), u64, span);
  if (auto* d = std::get_if<double>(&value)) return to_float(*d, f32, "the number", span);
  return imm(std::get<bool>(value), boolean, span);
}

// What mends a number that a type does not hold.
static std::string cure_of(int64_t n, DType type, std::string_view what) {
  bool only_sign = type.is_unsigned() && n < 0;
  if (what == "the number")
    return fmt::format("; cast the other operand to a {} type first", only_sign ? "signed" : "wider");
  if (only_sign && type.bits <= 32 && n >= -(int64_t(1) << (type.bits - 1)))
    return fmt::format("; the number that has its bits is {}",
                       uint64_t(n) & ((uint64_t(1) << type.bits) - 1));
  return only_sign ? "; take a signed type" : "; take a wider type";
}

Expr to_type(const Value& value, DType type, std::string_view what, Span span) {
  if (auto* e = std::get_if<Expr>(&value)) return cast(type, *e, span);
  if (auto* b = std::get_if<bool>(&value)) return imm(*b, type, span);
  if (auto* n = std::get_if<int64_t>(&value)) {
    if (type.is_float()) return to_float(double(*n), type, what, span);
    if (!fits(*n, type))
      fail(span, "{} {} does not fit in {}{}", what, *n, to_string(type), cure_of(*n, type, what));
    return imm(*n, type, span);
  }
  if (auto* n = std::get_if<uint64_t>(&value)) {
    if (type.is_float()) return to_float(double(*n), type, what, span);
    if (type.scalar() != u64) fail(span, "{} {} does not fit in {}", what, *n, to_string(type));
    return imm(int64_t(*n), type, span);
  }
  double d = std::get<double>(value);
  if (type.is_float()) return to_float(d, type, what, span);
  if (!std::isfinite(d) || d != std::trunc(d) || std::fabs(d) >= 9.2e18 || !fits(int64_t(d), type))
    fail(span, "{} {} is not representable in {}: round it, or use a float type", what, d, to_string(type));
  return imm(int64_t(d), type, span);
}

Expr to_index(const Value& value, std::string_view what, Span span) {
  if (auto* n = std::get_if<int64_t>(&value)) return imm(*n, i64, span);
  Expr e = strong(value, span);
  if (!e->dtype.is_int()) fail(span, "{} is {}, not an integer", what, to_string(e->dtype));
  if (e->dtype == u64 && as_int(e).value_or(0) < 0)
    fail(span, "{} is {}: extents and indices are less than 2^63", what, uint64_t(*as_int(e)));
  return cast(i64, e, span);
}

Expr to_bool(const Value& value, Span span) {
  Expr e = in_arithmetic(strong(value, span), span);
  if (e->dtype.is_bool()) return e;
  return binary(BinaryOp::ne, e, zero(e->dtype), span);
}

DType promote(DType a, DType b) {
  a = arithmetic_type(a);
  b = arithmetic_type(b);
  if (a == b) return a;
  if (a.is_bool()) return b;
  if (b.is_bool()) return a;
  if (a.is_float() && b.is_float()) {
    if (a.bits == b.bits) return f32;
    return a.bits > b.bits ? a : b;
  }
  if (a.is_float() || b.is_float()) return a.is_float() ? a : b;
  if (a.kind == b.kind) return a.bits > b.bits ? a : b;
  DType u = a.is_unsigned() ? a : b, s = a.is_unsigned() ? b : a;
  if (u.bits < 32 && s.bits < 32) return i32;
  return s.bits > u.bits ? s : u;
}

Expr apply_unary(std::string_view op, const Value& a, Span span) {
  check_operands({&a}, span);
  Expr x = in_arithmetic(strong(a, span), span);
  if (op == "not") return unary(UnaryOp::logical_not, to_bool(x, span), span);
  if (op == "invert") return unary(x->dtype.is_bool() ? UnaryOp::logical_not : UnaryOp::bit_not, x, span);
  if (op == "neg") return unary(UnaryOp::neg, x->dtype.is_bool() ? cast(i32, x, span) : x, span);
  fail(span, "there is no unary operator `{}`{}", op, did_you_mean(op, {"neg", "not", "invert"}));
}

Expr apply_binary(std::string_view op, const Value& a, const Value& b, Span span) {
  if (auto found = find_binary_op(op)) return apply_binary(*found, a, b, span);
  std::vector<std::string_view> names;
  for (int i = 0; i <= int(BinaryOp::logical_or); i++) names.push_back(name(BinaryOp(i)));
  fail(span, "there is no operator `{}`{}", op, did_you_mean(op, names));
}

// The two sides meet as those of other operators do.  An index counts as an i32 there, so that the bits of a
// u32 stay those of a u32 where a loop variable shifts them; a number of the host language takes the type of
// the other side.
static DType type_of_shift(const Value& a, const Value& b, Span span) {
  auto *x = std::get_if<Expr>(&a), *amount = std::get_if<Expr>(&b);
  if (!x && amount) return arithmetic_type((*amount)->dtype);
  DType left = arithmetic_type(x ? (*x)->dtype : strong(a, span)->dtype);
  if (left.is_bool() && !amount) left = i32;
  if (!x || !amount || left.is_float() || (*amount)->dtype.is_float()) return left;
  return promote(left, (*amount)->dtype == i64 ? i32 : (*amount)->dtype);
}

static Expr apply_shift(BinaryOp op, const Value& a, const Value& b, Span span) {
  auto* amount = std::get_if<Expr>(&b);
  DType t = type_of_shift(a, b, span);
  Expr x = in_arithmetic(to_type(a, t, "the number", span), span);
  auto refuse = [&](const auto& n) {
    fail(span, "a shift of {} by {}: the amount must lie in [0, {}){}", to_string(t), n, t.bits,
         t.bits < 64 ? "; to keep what is shifted further, cast the value to a wider type first" : "");
  };
  if (!t.is_float() && (std::holds_alternative<double>(b) || (amount && (*amount)->dtype.is_float())))
    fail(span, "a shift of {} by {}: the amount must be an integer", to_string(t),
         amount ? to_string((*amount)->dtype) : fmt::format("the float {}", std::get<double>(b)));
  if (auto* n = std::get_if<uint64_t>(&b)) refuse(*n);
  if (auto* n = std::get_if<int64_t>(&b); n && (*n < 0 || *n >= t.bits)) refuse(*n);
  if (amount)
    if (auto n = as_int(*amount); n && t.is_int() && (*n < 0 || *n >= t.bits)) refuse(*n);
  return binary(op, x, to_type(b, t, "the shift amount", span), span);
}

Expr apply_binary(BinaryOp op, const Value& a, const Value& b, Span span) {
  check_operands({&a, &b}, span);
  if (is_logical(op)) return binary(op, to_bool(a, span), to_bool(b, span), span);
  if (op == BinaryOp::shl || op == BinaryOp::shr) return apply_shift(op, a, b, span);
  auto [x, y] = same_type(op, a, b, span);
  return written_binary(op, std::move(x), std::move(y), span);
}

// May (x + (y - 1)) // y stand for it?  Lengths are divided so, and what is known of them goes by that form.
static bool rounds_up_by_sum(const Expr& x, const Expr& y, const Facts& facts) {
  Analysis analysis(facts);
  Info a = analysis.of(x), b = analysis.of(y);
  if (b.range.min < 0) return false;
  bool is_index = x->dtype == i64 && !a.data && !b.data;
  return is_index || fits(add(add(widen(a.range), widen(b.range)), {-1, -1}), x->dtype);
}

Expr apply_ceildiv(const Value& a, const Value& b, const Facts& facts, Span span) {
  check_operands({&a, &b}, span);
  auto [x, y] = same_type(BinaryOp::floordiv, a, b, span);
  if (!x->dtype.is_int())
    fail(span,
         "ceildiv takes two integers, but their common type is {}: of floats, round the quotient up "
         "(T.ceil(a / b))",
         to_string(x->dtype));
  if (rounds_up_by_sum(x, y, facts)) return written_binary(BinaryOp::floordiv, x + (y - 1), y, span);
  if (auto n = as_int(y); n && *n > 0 && x->dtype.bits == 32 && x.as<Var>())  // a length that is an argument
    return cast(x->dtype, written_binary(BinaryOp::floordiv, cast(i64, x) + (*n - 1), imm(*n), span), span);
  return written_binary(BinaryOp::floordiv, x, y, span) +
         cast(x->dtype, binary(BinaryOp::ne, floormod(x, y), zero(x->dtype), span), span);
}

Expr apply_select(const Value& cond, const Value& a, const Value& b, Span span) {
  check_operands({&cond, &a, &b}, span);
  Expr c = to_bool(cond, span);
  auto *first = std::get_if<Expr>(&a), *second = std::get_if<Expr>(&b);
  if (first && second && (*first)->dtype == (*second)->dtype)
    return select(std::move(c), *first, *second, span);
  auto [x, y] = same_type(BinaryOp::eq, a, b, span);
  return select(std::move(c), std::move(x), std::move(y), span);
}

Expr apply_call(std::string_view name, const std::vector<Value>& args, std::optional<DType> type, Span span) {
  const Intrinsic& row = intrinsic_named(name, span);
  check_count(row, args.size(), span);
  for (auto& a : args) check_size(a, span);
  if (row.eval) return call_scalar(row, args, type, span);
  if (row.is_exact()) return call_exact(row, args, type, span);
  std::vector<Expr> exprs;
  for (auto& a : args) exprs.push_back(strong(a, span));
  if (&row == &address_of && !exprs[0].as<Load>())
    fail(span, "address_of takes an element of a buffer, as in address_of(A[i, j])");
  if (&row == &thread_index) {
    auto dim = as_int(exprs[0]);
    if (!dim || *dim < 0 || *dim > 2) fail(span, "thread_index takes 0, 1 or 2: the dimension of the block");
  }
  bool shuffles =
      row.effect == Intrinsic::Effect::warp && row.result == Intrinsic::Result::same && exprs.size() > 1;
  if (shuffles && !exprs[1]->dtype.is_int())
    fail(span, "{}: the second argument says which lane, so it must be an integer, not {}", row.name,
         to_string(exprs[1]->dtype));
  bool moves_lanes = &row == &interleave || &row == &even_lanes || &row == &odd_lanes;
  if (moves_lanes && !type) fail(span, "{} needs the type of its result", row.name);
  return moves_lanes ? call(row, std::move(exprs), *type, span) : call(row, std::move(exprs), span);
}

}  // namespace tl
