// Narrow floats in LLVM IR: their bits from an f32, with any rounding, and back (ir/intrinsic_narrow.cpp).
// Integer operations only, so that all lanes go together and no processor mode matters.
#include <fmt/format.h>

#include <cmath>

#include "codegen/llvm_kernel.h"

namespace tl::llvm {
namespace {

struct Format {
  std::string_view name;
  int exponent_bits, mantissa_bits, bias;
  int64_t top, infinity, nan;
};
// clang-format off
constexpr Format formats[] = {
    {"e4m3", 4, 3, 7, 0x7E, 0x7F, 0x7F},          {"e5m2", 5, 2, 15, 0x7B, 0x7C, 0x7E},
    {"e2m1", 2, 1, 1, 7, 7, 7},                   {"f16", 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00},
    {"bf16", 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0},  {"tf32", 8, 10, 127, 0x3FBFF, 0x3FC00, 0x3FE00}};
// clang-format on

const Format& format_named(std::string_view name) {
  for (auto& f : formats)
    if (f.name == name) return f;
  internal_error("a float format called " + std::string(name));
}

// Integers of 32 bits, unsigned.
struct Words {
  Writer& w;
  int lanes;
  DType t = u32.with_lanes(lanes), flag = boolean.with_lanes(lanes);
  Value c(int64_t x) const { return int_constant(x, i32.with_lanes(lanes)); }
  Value op(std::string_view name, const Value& a, const Value& b) const { return w.op(name, t, a, b); }
  Value op(std::string_view name, const Value& a, int64_t b) const { return op(name, a, c(b)); }
  Value is(std::string_view relation, const Value& a, const Value& b) const {
    return w.compare(fmt::format("icmp {}", relation), t, a, b);
  }
  Value is(std::string_view relation, const Value& a, int64_t b) const { return is(relation, a, c(b)); }
  Value both(const Value& a, const Value& b) const { return w.op("and", flag, a, b); }
  Value any(const Value& a, const Value& b) const { return w.op("or", flag, a, b); }
  Value choose(const Value& cond, const Value& a, const Value& b) const {
    return w.select(t, lanes, cond, a, b);
  }
  Value largest(const Value& a, int64_t b) const {
    return w.llvm_intrinsic("llvm.smax", i32.with_lanes(lanes), {a, c(b)});
  }
  Value least(const Value& a, int64_t b) const { return w.llvm_intrinsic("llvm.umin", t, {a, c(b)}); }
  Value bits_of(const Value& x) const { return w.convert("bitcast", f32.with_lanes(lanes), x, t); }
  Value float_of(const Value& x) const { return w.convert("bitcast", t, x, f32.with_lanes(lanes)); }
};

Value narrow(const Words& m, const Format& f, const Value& x, Rounding rounding, bool saturate) {
  Value bits = m.bits_of(x), a = m.op("and", bits, 0x7fffffff), negative = m.op("lshr", bits, 31);
  Value field = m.op("lshr", a, 23), e = m.largest(field, 1);
  Value hidden = m.choose(m.is("ne", field, 0), m.c(0x800000), m.c(0));
  Value mantissa = m.op("or", m.op("and", a, 0x7fffff), hidden);
  Value below = m.largest(m.op("sub", m.c(128 - f.bias), e), 0),
        above = m.largest(m.op("sub", e, 128 - f.bias), 0);
  Value drop = m.least(m.op("add", below, 23 - f.mantissa_bits), 25);
  Value half = m.op("shl", m.c(1), m.op("sub", drop, 1));
  Value outward, more = m.c(0);
  if (rounding == Rounding::up) outward = m.is("eq", negative, 0);
  if (rounding == Rounding::down) outward = m.is("ne", negative, 0);
  if (rounding == Rounding::nearest_even)
    more = m.op("add", m.op("sub", half, 1), m.op("and", m.op("lshr", mantissa, drop), 1));
  else if (rounding == Rounding::nearest_away)
    more = half;
  else if (!outward.empty())
    more = m.choose(outward, m.op("sub", m.op("shl", half, 1), 1), m.c(0));
  Value code =
      m.op("add", m.op("lshr", m.op("add", mantissa, more), drop), m.op("shl", above, f.mantissa_bits));
  saturate &= f.exponent_bits + f.mantissa_bits < 8;
  Value over = m.c(saturate ? f.top : f.infinity);
  bool nearest = rounding == Rounding::nearest_even || rounding == Rounding::nearest_away;
  if (!saturate && !nearest) {  // a finite number stays finite unless it is rounded outward
    Value goes = m.is("eq", a, 0x7f800000);
    over = m.choose(outward.empty() ? goes : m.any(goes, outward), m.c(f.infinity), m.c(f.top));
  }
  code = m.choose(m.is("ugt", code, f.top), over, code);
  code = m.op("or", code, m.op("shl", negative, f.exponent_bits + f.mantissa_bits));
  return m.choose(m.is("ugt", a, 0x7f800000), m.c(f.nan), code);
}

Value widen(const Words& m, const Format& f, const Value& code, bool has_infinity) {
  Value magnitude = m.op("and", code, (1 << (f.exponent_bits + f.mantissa_bits)) - 1);
  Value sign = m.op("and", m.op("lshr", code, f.exponent_bits + f.mantissa_bits), 1);
  DType real = f32.with_lanes(m.lanes);
  Value tail = m.w.convert("uitofp", m.t, m.op("and", magnitude, (1 << f.mantissa_bits) - 1), real);
  Value small = m.bits_of(
      m.w.op("fmul", real, tail, float_constant(std::ldexp(1.0, 1 - f.bias - f.mantissa_bits), real)));
  Value value = m.op("add", m.op("shl", magnitude, 23 - f.mantissa_bits), int64_t(127 - f.bias) << 23);
  value = m.choose(m.is("ult", magnitude, 1 << f.mantissa_bits), small, value);
  value = m.choose(m.is("ugt", magnitude, f.top), m.c(0x7fc00000), value);
  if (has_infinity) value = m.choose(m.is("eq", magnitude, f.infinity), m.c(0x7f800000), value);
  return m.float_of(m.op("or", value, m.op("shl", sign, 31)));
}

Value to_e8m0(const Words& m, const Value& x, Rounding rounding, bool saturate) {
  Value bits = m.bits_of(x), a = m.op("and", bits, 0x7fffffff), code = m.op("lshr", a, 23);
  Value rest = m.op("and", a, 0x7fffff), small = m.is("eq", code, 0);
  // 2^-127, the least, lies in the middle of the subnormal numbers.
  Value unit = m.choose(small, m.c(0x400000), m.c(0)), half = m.choose(small, m.c(0x600000), m.c(0x400000));
  Value up;
  if (rounding == Rounding::up) up = m.is("ugt", rest, unit);
  if (rounding == Rounding::nearest_away) up = m.is("uge", rest, half);
  if (rounding == Rounding::nearest_even)
    up = m.any(m.is("ugt", rest, half), m.both(m.is("eq", rest, half), m.is("ne", m.op("and", code, 1), 0)));
  if (!up.empty()) code = m.op("add", code, m.choose(up, m.c(1), m.c(0)));
  code = m.choose(m.is("ugt", code, 254), m.c(saturate ? 254 : 255), code);
  Value zero = m.is("eq", a, 0);
  Value none =
      m.any(m.is("ugt", a, 0x7f800000), m.both(m.is("ne", a, 0), m.is("ne", m.op("lshr", bits, 31), 0)));
  if (!saturate) none = m.any(none, zero);
  return m.choose(none, m.c(255), code);
}

Value from_e8m0(const Words& m, const Value& code) {
  Value value = m.choose(m.is("eq", code, 0), m.c(0x400000), m.op("shl", code, 23));
  return m.float_of(m.choose(m.is("eq", code, 255), m.c(0x7fc00000), value));
}

// An f64 as f32, what is cut off put into the last bit.
Value to_odd(Writer& w, const Value& x, int lanes) {
  Words m{.w = w, .lanes = lanes};
  DType wide = f64.with_lanes(lanes), real = f32.with_lanes(lanes);
  Value f = w.convert("fptrunc", wide, x, real), back = w.convert("fpext", real, f, wide);
  Value outside = w.compare("fcmp ogt", wide, w.llvm_intrinsic("llvm.fabs", wide, {back}),
                            w.llvm_intrinsic("llvm.fabs", wide, {x}));
  Value bits = m.bits_of(f), inner = m.choose(outside, m.op("sub", bits, 1), bits);
  return m.float_of(m.choose(w.compare("fcmp one", wide, back, x), m.op("or", inner, 1), bits));
}

// Byte by byte, in words.
Value dp4a(const Words& m, std::string_view shift, const Value& sum, const Value& a, const Value& b) {
  Value all = sum;
  for (int i = 0; i < 4; i++) {
    auto byte = [&](const Value& v) { return m.op(shift, m.op("shl", v, 24 - 8 * i), 24); };
    all = m.op("add", all, m.op("mul", byte(a), byte(b)));
  }
  return all;
}

}  // namespace

Value narrow_call(KernelWriter& k, const Call& n) {
  std::string_view name = n.intrinsic->name;
  Value x = k.expr(n.args.at(0));
  int lanes = n.dtype.lanes;
  Words m{.w = k.w, .lanes = lanes};
  if (name.starts_with("dp4a"))
    return dp4a(m, name == "dp4a_s8" ? "ashr" : "lshr", x, k.expr(n.args.at(1)), k.expr(n.args.at(2)));
  if (name == "to_odd") return to_odd(k.w, x, lanes);
  if (name.starts_with("from_")) {
    Value code = k.w.convert("zext", n.args[0]->dtype, x, m.t);
    if (name == "from_e8m0") return from_e8m0(m, code);
    return widen(m, format_named(name.substr(5)), code, name == "from_e5m2");
  }
  auto rounding = Rounding(*as_int(n.args[1]));
  bool saturate = *as_int(n.args[2]) != 0;
  Value code = name == "to_e8m0" ? to_e8m0(m, x, rounding, saturate)
                                 : narrow(m, format_named(name.substr(3)), x, rounding, saturate);
  if (name == "to_tf32") return m.op("shl", code, 13);
  return k.w.convert("trunc", m.t, code, n.dtype);
}

}  // namespace tl::llvm
