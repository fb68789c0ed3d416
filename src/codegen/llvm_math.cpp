// Conversions and scalar functions in LLVM IR.  exp, exp2, tanh and sigmoid of floats are written out as
// polynomials, so that they stay in vector registers; the rest is an LLVM intrinsic or a call to libm per
// lane. The coefficients are those of Moshier's Cephes library (single precision); exp's are a minimax fit of
// ours.
#include <fmt/format.h>

#include <cmath>

#include "codegen/llvm_math.h"

namespace tl::llvm {
namespace {

constexpr double magic = 12582912.0;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits

bool scales_at_once(const Math& m) {
  return m.w.has_scale && m.t.lanes >= 4 && (m.t.lanes & (m.t.lanes - 1)) == 0;
}

// y * 2^n by one instruction (vscalefps), at most 16 lanes at once; n is a whole number.
Value scale_at_once(const Math& m, const Value& y, const Value& n) {
  Writer& w = m.w;
  int lanes = m.t.lanes;
  std::string type = type_text(m.t);
  if (lanes > 16) {
    auto part = [&](const Value& v, int first) {
      std::string picked;
      for (int l = 0; l < lanes / 2; l++) picked += fmt::format("{}i32 {}", l ? ", " : "", first + l);
      return w.pure(
          fmt::format("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, v, type, lanes / 2, picked));
    };
    Math half{w, f32.with_lanes(lanes / 2)};
    Value low = scale_at_once(half, part(y, 0), part(n, 0));
    Value high = scale_at_once(half, part(y, lanes / 2), part(n, lanes / 2));
    std::string both, half_type = type_text(half.t);
    for (int l = 0; l < lanes; l++) both += fmt::format("{}i32 {}", l ? ", " : "", l);
    return w.pure(fmt::format("shufflevector {} {}, {} {}, <{} x i32> <{}>", half_type, low, half_type, high,
                              lanes, both));
  }
  std::string name = fmt::format("@llvm.x86.avx512.mask.scalef.ps.{}", 32 * lanes);
  std::string_view mask = lanes == 16 ? "i16" : "i8", rounding = lanes == 16 ? ", i32 4" : "";
  w.declarations.insert(fmt::format("declare {} {}({}, {}, {}, {}{})", type, name, type, type, type, mask,
                                    lanes == 16 ? ", i32 immarg" : ""));
  return w.pure(fmt::format("call {} {}({} {}, {} {}, {} zeroinitializer, {} -1{})", type, name, type, y,
                            type, n, type, mask, rounding));
}

// y * 2^n for n = t - magic, where the float t holds n in its low bits.  In two steps, so that the ends of
// the range (denormal results, infinity) come out right; no sum that follows takes the last one in.
Value scale(const Math& m, const Value& y, const Value& magic_sum) {
  if (scales_at_once(m)) return scale_at_once(m, y, m.sub(magic_sum, m.c(magic)));
  Value n = m.w.op("sub", m.bits(), m.to_bits(magic_sum), m.i(0x4B400000));
  auto power = [&](const Value& k) {
    Value biased = m.w.op("add", m.bits(), k, m.i(127));
    return m.from_bits(m.w.op("shl", m.bits(), biased, m.i(23)));
  };
  if (m.w.fast) return m.mul(y, power(n));
  Value half = m.w.op("ashr", m.bits(), n, m.i(1));
  return m.w.op("fmul", m.t, m.mul(y, power(half)), power(m.w.op("sub", m.bits(), n, half)));
}

// Comparisons with NaN are false, so NaN passes.
Value clamp(const Math& m, const Value& x, double low, double high) {
  Value below = m.select(m.compare("fcmp ogt", x, m.c(high)), m.c(high), x);
  return m.select(m.compare("fcmp olt", below, m.c(low)), m.c(low), below);
}

Value exp2_f32(const Math& m, const Value& arg) {
  static constexpr double p[] = {1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3,
                                 5.550332471162809e-2, 2.402264791363012e-1, 6.931472028550421e-1};
  Value x = m.w.fast && !scales_at_once(m) ? clamp(m, arg, -127, 128) : clamp(m, arg, -151, 129);
  Value sum = m.add(x, m.c(magic));
  Value r = m.sub(x, m.sub(sum, m.c(magic)));
  return scale(m, m.mad(m.polynomial(r, p), r, m.c(1)), sum);
}

Value exp_f32(const Math& m, const Value& arg) {
  static constexpr double p[] = {1.38145406e-3, 8.36874545e-3, 4.16683890e-2, 1.66665211e-1, 0.49999994, 1};
  Value x = m.w.fast && !scales_at_once(m) ? clamp(m, arg, -88, 88.8) : clamp(m, arg, -104.5, 89);
  Value sum = m.mad(x, m.c(1.44269504088896341), m.c(magic));
  Value n = m.sub(sum, m.c(magic));
  Value r = m.mad(n, m.c(2.12194440e-4), m.mad(n, m.c(-0.693359375), x));  // x - n ln 2, ln 2 in two parts
  return scale(m, m.mad(m.polynomial(r, p), r, m.c(1)), sum);
}

Value tanh_f32(const Math& m, const Value& x) {
  static constexpr double p[] = {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                                 -3.33332819422e-1};
  Value a = m.abs(x), z = m.mul(x, x);
  Value small = m.mad(m.mul(m.polynomial(z, p), z), x, x);
  Value e = exp_f32(m, m.add(a, a));
  Value large = m.sub(m.c(1), m.div(m.c(2), m.add(e, m.c(1))));
  DType b = m.bits();
  Value sign = m.w.op("and", b, m.to_bits(x), m.i(INT32_MIN));
  Value y = m.select(m.compare("fcmp olt", a, m.c(0.625)), small, large);
  return m.from_bits(m.w.op("or", b, m.to_bits(y), sign));
}

Value exponential(const Math& m, const Value& x) {
  return m.t.bits == 32 ? exp_f32(m, x) : m.w.libm("exp", m.t, {x});
}

// ── 16-bit floats ─────────────────────────────────────────────────────────────────────────────────────
std::string half_text(int lanes) { return lanes == 1 ? "half" : fmt::format("<{} x half>", lanes); }

Value extend_half(const Math& m, DType from, const Value& a, bool has_half) {
  Writer& w = m.w;
  if (from.kind == DType::Kind::bfloat)
    return m.from_bits(w.op("shl", m.bits(), w.convert("zext", from, a, m.bits()), m.i(16)));
  if (has_half) {
    std::string half = half_text(from.lanes);
    Value h = w.pure(fmt::format("bitcast {} {} to {}", type_text(from), a, half));
    return w.pure(fmt::format("fpext {} {} to {}", half, h, type_text(m.t)));
  }
  // The exponent is rebased by a multiplication, which also normalises the denormals.
  DType b = m.bits();
  Value wide = w.convert("zext", from, a, b);
  Value magnitude = w.op("shl", b, w.op("and", b, wide, m.i(0x7FFF)), m.i(13));
  Value value = m.to_bits(m.mul(m.from_bits(magnitude), m.c(0x1p112)));
  Value special = w.compare("icmp uge", b, magnitude, m.i(0x0F800000));
  Value finite = w.select(b, b.lanes, special, w.op("or", b, magnitude, m.i(0x7F800000)), value);
  Value sign = w.op("shl", b, w.op("and", b, wide, m.i(0x8000)), m.i(16));
  return m.from_bits(w.op("or", b, finite, sign));
}

Value round_bfloat(const Math& m, const Value& a) {
  Writer& w = m.w;
  DType b = m.bits();
  Value x = m.to_bits(a);
  Value odd = w.op("and", b, w.op("lshr", b, x, m.i(16)), m.i(1));
  Value rounded = w.op("add", b, w.op("add", b, x, m.i(0x7FFF)), odd);
  Value quiet = w.op("or", b, x, m.i(0x400000));
  Value chosen = w.select(b, b.lanes, m.compare("fcmp uno", a, a), quiet, rounded);
  return w.op("lshr", b, chosen, m.i(16));
}

Value round_half(const Math& m, const Value& a) {
  Writer& w = m.w;
  DType b = m.bits();
  Value x = m.to_bits(a);
  Value sign = w.op("and", b, x, m.i(INT32_MIN)), u = w.op("xor", b, x, sign);
  Value odd = w.op("and", b, w.op("lshr", b, u, m.i(13)), m.i(1));
  Value rebased = w.op("add", b, w.op("add", b, u, m.i(int32_t(0xC8000FFF))), odd);
  Value normal = w.op("lshr", b, rebased, m.i(13));
  // Adding 0.5 rounds a denormal at the right bit.
  Value shifted = m.add(m.from_bits(u), m.c(0.5));
  Value denormal = w.op("sub", b, m.to_bits(shifted), m.i(0x3F000000));
  Value small = w.compare("icmp ult", b, u, m.i(0x38800000));
  Value finite = w.select(b, b.lanes, small, denormal, normal);
  Value nan = w.compare("icmp ugt", b, u, m.i(0x7F800000));
  Value special = w.select(b, b.lanes, nan, m.i(0x7E00), m.i(0x7C00));
  Value large = w.compare("icmp uge", b, u, m.i(0x47800000));
  Value magnitude = w.select(b, b.lanes, large, special, finite);
  return w.op("or", b, magnitude, w.op("lshr", b, sign, m.i(16)));
}

Value truncate_half(const Math& m, const Value& a, DType to, bool has_half) {
  if (to.kind == DType::Kind::floating && has_half) {
    std::string half = half_text(to.lanes);
    Value h = m.w.pure(fmt::format("fptrunc {} {} to {}", type_text(m.t), a, half));
    return m.w.pure(fmt::format("bitcast {} {} to {}", half, h, type_text(to)));
  }
  Value wide = to.kind == DType::Kind::bfloat ? round_bfloat(m, a) : round_half(m, a);
  return m.w.convert("trunc", m.bits(), wide, to);
}

// double to float, rounded to odd: a second rounding to fewer bits is then as if it were the only one.
Value round_to_odd(Writer& w, DType from, const Value& a) {
  Math m{w, f32.with_lanes(from.lanes)}, d{w, from};
  Value nearest = w.convert("fptrunc", from, a, m.t);
  Value back = w.convert("fpext", m.t, nearest, from);
  Value inexact = d.compare("fcmp one", back, a);
  Value too_large = d.compare("fcmp ogt", d.abs(back), d.abs(a));
  DType b = m.bits(), flag = boolean.with_lanes(from.lanes);
  Value down = w.op("sub", b, m.to_bits(nearest), w.convert("zext", flag, too_large, b));
  return m.from_bits(w.op("or", b, down, w.convert("zext", flag, inexact, b)));
}

// An integer of 64 bits that a double holds, and that rounds to fewer than 50 bits as this one does: where a
// double may not hold it, its low bits are cut off, and the lowest that is left says whether any was set.
Value significant_53(Writer& w, DType t, const Value& a) {
  auto c = [&](int64_t v) { return int_constant(v, t); };
  Value low = w.op("and", t, a, c(0x7ff));
  Value sign = t.is_signed() ? w.op("ashr", t, a, c(63)) : c(0);
  Value any = w.convert("zext", boolean.with_lanes(t.lanes), w.compare("icmp ne", t, low, c(0)), t);
  Value cut = w.op("or", t, w.op("and", t, a, c(~int64_t(0x7ff))), w.op("shl", t, any, c(11)));
  Value small = w.compare("icmp ult", t, w.op("xor", t, a, sign), c(int64_t(1) << 53));
  return w.select(t, t.lanes, small, a, cut);
}

Value convert_int(Writer& w, DType from, const Value& a, DType to) {
  if (to.bits == from.bits && !from.is_bool()) return a;
  if (to.bits < from.bits) return w.convert("trunc", from, a, to);
  return w.convert(from.is_signed() ? "sext" : "zext", from, a, to);
}

}  // namespace

Value convert(Writer& w, DType from, const Value& a, DType to, bool has_half) {
  if (from == to) return a;
  if (from.is_handle()) return w.fresh(fmt::format("ptrtoint ptr {} to {}", a, type_text(to)));
  DType single = f32.with_lanes(from.lanes), wide = f64.with_lanes(from.lanes);
  if (is_half(from)) return convert(w, single, extend_half({w, single}, from, a, has_half), to, has_half);
  if (is_half(to)) {
    if (from == single) return truncate_half({w, single}, a, to, has_half);
    if (from == wide) return convert(w, single, round_to_odd(w, wide, a), to, has_half);
    bool exact = from.is_bool() || from.bits <= 16;
    DType middle = exact ? single : wide;
    Value kept = from.is_int() && from.bits == 64 ? significant_53(w, from, a) : a;
    return convert(w, middle, convert(w, from, kept, middle, has_half), to, has_half);
  }
  if (to.is_bool()) {
    Value none = from.is_float() ? float_constant(0, from) : int_constant(0, from);
    return w.compare(from.is_float() ? "fcmp une" : "icmp ne", from, a, none);
  }
  if (from.is_float() && to.is_float())
    return w.convert(to.bits > from.bits ? "fpext" : "fptrunc", from, a, to);
  if (from.is_float()) return w.convert(to.is_signed() ? "fptosi" : "fptoui", from, a, to);
  if (to.is_float()) return w.convert(from.is_signed() ? "sitofp" : "uitofp", from, a, to);
  return convert_int(w, from, a, to);
}

Value call_function(Writer& w, std::string_view name, DType t, const std::vector<Value>& args,
                    bool has_half) {
  if (name.starts_with("fast_") && name != "fast_rcp") name.remove_prefix(5);
  if (t.is_int()) {
    internal_check(name == "abs", "a function of integers: " + std::string(name));
    if (t.is_unsigned()) return args[0];
    Value zero = int_constant(0, t);
    return w.select(t, t.lanes, w.compare("icmp slt", t, args[0], zero), w.op("sub", t, zero, args[0]),
                    args[0]);
  }
  bool predicate = name == "isnan" || name == "isinf" || name == "isfinite";
  if (is_half(t) && name == "fma") {
    Math d{w, f64.with_lanes(t.lanes)};
    auto wide = [&](const Value& a) { return convert(w, t, a, d.t, has_half); };
    Value product = w.op("fmul", d.t, wide(args[0]), wide(args[1]));  // exact
    return convert(w, d.t, sum_to_odd(d, product, wide(args[2])), t, has_half);
  }
  if (is_half(t)) {
    DType single = f32.with_lanes(t.lanes);
    std::vector<Value> wide;
    for (auto& a : args) wide.push_back(convert(w, t, a, single, has_half));
    Value y = call_function(w, name, single, wide, has_half);
    return predicate ? y : convert(w, single, y, t, has_half);
  }
  Math m{w, t};
  const Value& x = args[0];
  static constexpr std::string_view intrinsics[][2] = {
      {"abs", "llvm.fabs"},  {"floor", "llvm.floor"},     {"ceil", "llvm.ceil"}, {"trunc", "llvm.trunc"},
      {"sqrt", "llvm.sqrt"}, {"round", "llvm.nearbyint"}, {"fma", "llvm.fma"}};
  for (auto& [ours, theirs] : intrinsics)
    if (name == ours) return w.llvm_intrinsic(theirs, t, args);
  Value infinity = float_constant(HUGE_VAL, t);
  if (name == "isnan") return m.compare("fcmp uno", x, x);
  if (name == "isinf") return m.compare("fcmp oeq", m.abs(x), infinity);
  if (name == "isfinite") return m.compare("fcmp olt", m.abs(x), infinity);
  if (name == "rsqrt") return m.div(m.c(1), w.llvm_intrinsic("llvm.sqrt", t, {x}));
  if (name == "sigmoid") {  // below 0 exp(x) / (1 + exp(x)), which is a denormal where exp(-x) is infinite
    Value e = exponential(m, w.pure(fmt::format("fneg {} {}", type_text(t), m.abs(x))));
    Value above = w.select(t, t.lanes, m.compare("fcmp olt", x, m.c(0)), e, m.c(1));
    return m.div(above, m.add(m.c(1), e));
  }
  if (name == "exp") return exponential(m, x);
  if (t.bits == 32 && name == "exp2") return exp2_f32(m, x);
  if (t.bits == 32 && name == "tanh") return tanh_f32(m, x);
  if (t.bits == 32)
    if (auto series = find_series(name)) return series(m, x);
  if (name == "fast_rcp") return m.div(m.c(1), x);
  if (name == "round_away") return w.llvm_intrinsic("llvm.round", t, args);
  if (name == "copysign") return w.llvm_intrinsic("llvm.copysign", t, args);
  return w.libm(name, t, args);
}

}  // namespace tl::llvm
