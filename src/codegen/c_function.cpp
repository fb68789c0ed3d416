// Calls of scalar functions in C++, prints, assertions and assumptions.

#include "codegen/c_like.h"

namespace tl::c {
namespace {

struct FunctionName {
  std::string_view ours, f32, f64;
};
// clang-format off
constexpr FunctionName functions[] = {
    {"exp", "expf", "exp"},       {"exp2", "exp2f", "exp2"},    {"log", "logf", "log"},
    {"log2", "log2f", "log2"},    {"log10", "log10f", "log10"}, {"sqrt", "sqrtf", "sqrt"},
    {"rsqrt", "rsqrtf", "rsqrt"}, {"sin", "sinf", "sin"},       {"cos", "cosf", "cos"},
    {"tanh", "tanhf", "tanh"},    {"erf", "erff", "erf"},       {"abs", "fabsf", "fabs"},
    {"floor", "floorf", "floor"}, {"ceil", "ceilf", "ceil"},    {"round", "rintf", "rint"},
    {"trunc", "truncf", "trunc"}, {"pow", "powf", "pow"},       {"fma", "fmaf", "fma"},
    {"isnan", "isnan", "isnan"},  {"isinf", "isinf", "isinf"},  {"isfinite", "isfinite", "isfinite"},
    {"sigmoid", "tl_sigmoid", "tl_sigmoid"},
    {"round_away", "roundf", "round"}, {"exp10", "exp10f", "exp10"}, {"expm1", "expm1f", "expm1"},
    {"log1p", "log1pf", "log1p"}, {"tan", "tanf", "tan"},       {"asin", "asinf", "asin"},
    {"acos", "acosf", "acos"},    {"atan", "atanf", "atan"},    {"sinh", "sinhf", "sinh"},
    {"cosh", "coshf", "cosh"},    {"asinh", "asinhf", "asinh"}, {"acosh", "acoshf", "acosh"},
    {"atanh", "atanhf", "atanh"}, {"atan2", "atan2f", "atan2"}, {"hypot", "hypotf", "hypot"},
    {"copysign", "copysignf", "copysign"},                      {"fmod", "fmodf", "fmod"},
    {"fast_exp", "__expf", "exp"},       {"fast_exp10", "__exp10f", "exp10"}, {"fast_log", "__logf", "log"},
    {"fast_log2", "__log2f", "log2"},    {"fast_log10", "__log10f", "log10"}, {"fast_sin", "__sinf", "sin"},
    {"fast_cos", "__cosf", "cos"},       {"fast_tan", "__tanf", "tan"},
    {"fast_rcp", "tl_fast_rcp", "tl_fast_rcp"}};

// The rounding mode follows the name: "__fadd" and "_rz".
constexpr FunctionName ieee_functions[] = {
    {"ieee_add", "__fadd", "__dadd"},   {"ieee_sub", "__fsub", "__dsub"},    {"ieee_mul", "__fmul", "__dmul"},
    {"ieee_fdiv", "__fdiv", "__ddiv"},  {"ieee_frcp", "__frcp", "__drcp"},   {"ieee_fsqrt", "__fsqrt", "__dsqrt"},
    {"ieee_fmaf", "__fmaf", "__fma"},   {"ieee_frsqrt", "__frsqrt", ""}};
// clang-format on

// How a value stands in a printf: the conversion, and the C type that it takes.
struct Conversion {
  std::string_view text, type;
};
Conversion conversion_of(DType t) {
  std::string_view text = printf_conversion(t);
  if (t.is_float()) return {text, "double"};
  if (t.bits == 64) return {text, t.is_signed() ? "i64" : "u64"};
  return {text, t.is_unsigned() ? "u32" : "int"};
}

// A literal text within a format.
std::string escaped(std::string_view text) {
  std::string s;
  for (char c : text) s += c == '%' ? "%%" : std::string(1, c);
  return s;
}

}  // namespace

Text Printer::print_function(const Call& n) {
  std::string_view name = n.intrinsic->name;
  if (n.intrinsic->is_exact()) return print_exact(n);
  DType t = n.args[0]->dtype;
  if (t.is_int()) {
    if (name == "fma")
      return print(binary(BinaryOp::add, binary(BinaryOp::mul, n.args[0], n.args[1]), n.args[2], n.span));
    if (name == "abs" && t.is_unsigned()) return print(n.args[0]);
    internal_check(name == "abs", fmt::format("{} of {}", name, to_string(t)));
    need("abs");
    return {fmt::format("tl_abs<{}>({})", type(t), text(n.args[0]))};
  }
  if (name == "fma" && is_half(t)) {  // fmaf of f32 and a cast would round twice
    need("pairs");
    return {fmt::format("tl_fma({}, {}, {})", text(n.args[0]), text(n.args[1]), text(n.args[2]))};
  }
  for (auto& row : functions) {
    if (row.ours != name) continue;
    std::string_view function = t.bits == 64 ? row.f64 : row.f32;
    if (function.starts_with("tl_"))
      need(row.ours);
    else
      built_in(function);
    std::vector<std::string> args;
    for (auto& a : n.args) args.push_back(text(a));
    return {fmt::format("{}({})", function, fmt::join(args, ", "))};
  }
  internal_error(fmt::format("no C++ function for {}", name));
}

Text Printer::print_exact(const Call& n) {
  std::string_view name = n.intrinsic->name;
  DType t = n.args.at(0)->dtype;
  std::vector<std::string> args;
  for (auto& a : n.args) args.push_back(argument(a));
  std::string list = fmt::format("{}", fmt::join(args, ", "));
  if (name == "reinterpret") {
    if (auto half = print_half(n)) return *half;
    need("reinterpret");
    return {fmt::format("tl_reinterpret<{}>({})", type(n.dtype), argument(n.args.at(0)))};
  }
  if (name.starts_with("dp4a")) built_in("__dp4a");
  if (name == "dp4a_s8") return {fmt::format("__dp4a({}, {}, {})", args[1], args[2], args[0])};
  if (name == "dp4a_u8")
    return {fmt::format("int(__dp4a(u32({}), u32({}), u32({})))", args[1], args[2], args[0])};
  if (name.starts_with("to_") || name.starts_with("from_")) {
    need("narrow");
    return {fmt::format("tl_{}({})", name, list)};
  }
  if (name == "popcount" || name == "clz") {
    std::string_view wide = t.bits == 64 ? "ll" : "";
    std::string_view bits = t.bits == 64 ? "u64" : t.bits == 32 ? "u32" : t.bits == 16 ? "u16" : "u8";
    std::string function = fmt::format("__{}{}", name == "clz" ? "clz" : "popc", wide);
    std::string count = fmt::format("{}({}({}))", built_in(function), bits, text(n.args[0]));
    if (name == "clz")
      return t.bits < 32 ? Text{fmt::format("{} - {}", count, 32 - t.bits), sum} : Text{count};
    return {t == i32 ? count : fmt::format("{}({})", type(n.dtype), count)};
  }
  if (name == "ldexp") {
    std::string scaled = fmt::format("{}({}, {})", built_in(t.bits == 64 ? "ldexp" : "ldexpf"),
                                     is_half(t) ? fmt::format("float({})", args[0]) : args[0], args[1]);
    return {is_half(t) ? fmt::format("{}({})", type(t), scaled) : scaled};
  }
  if (name == "nextafter") {
    if (is_half(t)) need("next_half");
    return {fmt::format(
        "{}({})", is_half(t) ? "tl_next_half" : built_in(t.bits == 64 ? "nextafter" : "nextafterf"), list)};
  }
  if (name == "philox") {
    need("philox");
    return {fmt::format("tl_philox({})", list)};
  }
  if (name.ends_with("f16")) {  // a pair: add2_f16, add2_bf16
    need("pairs");
    return {fmt::format("tl_{}({})", name, list)};
  }
  for (auto& row : ieee_functions)
    if (name.starts_with(row.ours) && name.size() == row.ours.size() + 3) {
      std::string function =
          fmt::format("{}{}", t.bits == 64 ? row.f64 : row.f32, name.substr(row.ours.size()));
      return {fmt::format("{}({})", built_in(function), list)};
    }
  internal_error(fmt::format("no C++ text for {}", name));
}

// Logic of a value with two constants, (x >> 4 & 0x000f000f) | 0x64006400.
std::optional<Text> Printer::print_logic(const Binary& n) {
  auto is_logic = [](const Binary* b) {
    return b && (b->op == BinaryOp::bit_and || b->op == BinaryOp::bit_or || b->op == BinaryOp::bit_xor);
  };
  bool word = n.dtype.is_int() && n.dtype.bits == 32;
  const Binary* inner = word ? n.a.as<Binary>() : nullptr;
  if (!dialect.three_input_logic || !is_logic(&n) || !is_logic(inner)) return {};
  if (!as_int(n.b) || !as_int(inner->b) || as_int(inner->a)) return {};
  auto apply = [](BinaryOp op, int x, int y) {
    return op == BinaryOp::bit_and ? x & y : op == BinaryOp::bit_or ? x | y : x ^ y;
  };
  need("logic");
  int table = apply(n.op, apply(inner->op, 0xF0, 0xCC), 0xAA);
  auto constant = [](const Expr& e) { return fmt::format("0x{:08x}u", uint32_t(*as_int(e))); };
  std::string value =
      fmt::format("tl_logic<0x{:02x}>({}, {}, {})", table, text(inner->a), constant(inner->b), constant(n.b));
  return Text{n.dtype.is_signed() ? fmt::format("int({})", value) : value};
}

// What the device compiler can make no arithmetic of shorts of: it comes from memory or from an instruction.
bool Printer::is_word(const Expr& e) {
  if (auto* n = e.as<Load>())
    return f[n->buffer].scope == Scope::global || f[n->buffer].scope == Scope::shared;
  if (auto* n = e.as<Call>()) return n->intrinsic->is_exact() && n->intrinsic->name.ends_with("f16");
  if (auto* n = e.as<Binary>()) return print_logic(*n).has_value();
  return words.contains(e.get());
}

// A half of a word that holds a pair: no bits need to be cut off, as the compiler makes no arithmetic of
// shorts out of what it cannot see through.
std::optional<Text> Printer::print_half(const Call& n) {
  auto* low = n.args.at(0).as<Cast>();
  if (!is_half(n.dtype) || !low || low->dtype != u16 || low->a->dtype != u32) return {};
  auto* shifted = low->a.as<Binary>();
  bool upper = shifted && ((shifted->op == BinaryOp::shr && is_int(shifted->b, 16)) ||
                           (shifted->op == BinaryOp::floordiv && is_int(shifted->b, 65536)));
  const Expr& whole = upper ? shifted->a : low->a;
  if (!words.contains(whole.get())) return {};
  return Text{fmt::format("{}::raw(u16({}{}))", type(n.dtype), text(whole, prefix), upper ? " >> 16" : "")};
}

Text Printer::print_message(const Call& n) {
  if (n.intrinsic == &assume_function) return {fmt::format("__builtin_assume({})", text(n.args[0]))};
  if (n.intrinsic == &device_assert) {
    need(calls_nothing ? "failure" : "message");
    std::string_view said = n.args[1].as<StringImm>()->value;
    std::string line =
        fmt::format("{}: assertion failed{}{}, in block (%d, %d, %d), thread (%d, %d, %d)\n",
                    escaped(n.args[2].as<StringImm>()->value), said.empty() ? "" : ": ", escaped(said));
    return {fmt::format("{}({}, {})", calls_nothing ? "tl_assert_without_call" : "tl_assert", text(n.args[0]),
                        c_string(line))};
  }
  need("message");
  std::string format;
  std::vector<std::string> values;
  size_t next = 1;
  std::string_view rest = n.args.at(0).as<StringImm>()->value;
  while (!rest.empty()) {
    if (rest.starts_with("{thread}")) {
      format += "thread=(%d, %d, %d)";
      for (char d : {'x', 'y', 'z'}) values.push_back(fmt::format("int(threadIdx.{})", d));
      rest.remove_prefix(8);
    } else if (rest.starts_with("{}")) {
      const Expr& v = n.args.at(next++);
      DType t = v->dtype;
      Conversion c = conversion_of(t);
      format += c.text;
      values.push_back(fmt::format("{}({})", c.type, is_half(t) ? "float(" + text(v) + ")" : text(v)));
      rest.remove_prefix(2);
    } else {
      format += escaped(rest.substr(0, 1));
      rest.remove_prefix(rest.starts_with("{{") ? 2 : 1);
    }
  }
  std::string list = values.empty() ? "" : fmt::format(", {}", fmt::join(values, ", "));
  return {fmt::format("tl_print({}{})", c_string(format + "\n"), list)};
}

}  // namespace tl::c
