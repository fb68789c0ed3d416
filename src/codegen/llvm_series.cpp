// log, log2, log10, sin, cos and erf of f32 in LLVM IR, written out so that they stay in vector registers.
// Logarithms use the coefficients of Moshier's Cephes library (single precision).  Sines and erf are computed
// in f64, where a short series is exact to f32: the Taylor series, and for erf an interpolation at
// Chebyshev's points.
#include <fmt/format.h>

#include <cmath>

#include "codegen/llvm_math.h"

namespace tl::llvm {
namespace {

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); denormals too.
struct Parts {
  Value mantissa_less_one, exponent;
};
Parts parts_of(const Math& m, const Value& x) {
  Writer& w = m.w;
  DType b = m.bits();
  Value small = m.compare("fcmp olt", x, m.c(0x1p-126));
  Value bits = m.to_bits(m.select(small, m.mul(x, m.c(0x1p23)), x));
  Value offset = w.op("sub", b, bits, m.i(0x3F3504F3));  // sqrt(1/2)
  Value e = w.op("ashr", b, offset, m.i(23));
  Value mantissa = m.from_bits(w.op("sub", b, bits, w.op("shl", b, e, m.i(23))));
  Value exponent = w.convert("sitofp", b, e, m.t);
  return {m.sub(mantissa, m.c(1)), m.sub(exponent, m.select(small, m.c(23), m.c(0)))};
}

// log(1 + x) - x, for x of parts_of.
Value log_tail(const Math& m, const Value& x) {
  static constexpr double p[] = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,
                                 -1.2420140846e-1, 1.4249322787e-1,  -1.6668057665e-1,
                                 2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  Value z = m.mul(x, x);
  return m.mad(m.c(-0.5), z, m.mul(m.polynomial(x, p), m.mul(x, z)));
}

// What y is not for: 0, infinity, negative numbers and NaN.
Value with_ends(const Math& m, const Value& x, const Value& y) {
  Value end = m.select(m.compare("fcmp oeq", x, m.c(HUGE_VAL)), x, y);
  Value zero = m.select(m.compare("fcmp oeq", x, m.c(0)), m.c(-HUGE_VAL), end);
  return m.select(m.compare("fcmp uge", x, m.c(0)), m.select(m.compare("fcmp uno", x, x), x, zero), m.c(NAN));
}

Value log_f32(const Math& m, const Value& x) {
  Parts p = parts_of(m, x);
  Value tail = m.mad(p.exponent, m.c(-2.12194440e-4), log_tail(m, p.mantissa_less_one));
  return with_ends(m, x, m.mad(p.exponent, m.c(0.693359375), m.add(p.mantissa_less_one, tail)));
}

// e times the logarithm of e to the base, its integer and rest apart.
Value log2_f32(const Math& m, const Value& x) {
  constexpr double rest = 0.44269504088896340736;
  Parts p = parts_of(m, x);
  Value tail = log_tail(m, p.mantissa_less_one);
  Value y = m.mad(p.mantissa_less_one, m.c(rest), m.mul(tail, m.c(rest)));
  return with_ends(m, x, m.add(p.exponent, m.add(p.mantissa_less_one, m.add(tail, y))));
}

Value log10_f32(const Math& m, const Value& x) {
  constexpr double high = 4.3359375e-1, low = 7.00731903251827651129e-4;          // log10(e)
  constexpr double two_high = 3.0078125e-1, two_low = 2.48745663981195213739e-4;  // log10(2)
  Parts p = parts_of(m, x);
  Value a = p.mantissa_less_one, tail = log_tail(m, a);
  Value y = m.mul(m.add(a, tail), m.c(low));
  y = m.mad(tail, m.c(high), y);
  y = m.mad(p.exponent, m.c(two_low), y);
  y = m.mad(a, m.c(high), y);
  return with_ends(m, x, m.mad(p.exponent, m.c(two_high), y));
}

// sin(x + quarter * pi/2) for |x| up to `far`; the quarters of x, and what is left of it, in f64.
Value small_sine(const Math& m, const Value& x, int quarter) {
  static constexpr double s[] = {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  static constexpr double c[] = {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5};
  constexpr double half_pi = 0x1.921fb5p0,
                   rest = 0x1.110b4611a6263p-26;  // 25 bits, so that products are exact
  constexpr double magic = 6755399441055744.0;    // 1.5 * 2^52
  Writer& w = m.w;
  Math d{w, f64.with_lanes(m.t.lanes)};
  Value a = w.convert("fpext", m.t, x, d.t);
  Value sum = d.add(d.mul(a, d.c(0.63661977236758134308)), d.c(magic));
  Value n = d.sub(sum, d.c(magic));
  Value r = d.sub(d.sub(a, d.mul(n, d.c(half_pi))), d.mul(n, d.c(rest)));
  Value z = d.mul(r, r);
  Value sine = d.mul(r, d.mad(d.polynomial(z, s), z, d.c(1))), cosine = d.mad(d.polynomial(z, c), z, d.c(1));
  Value k = w.op("add", d.bits(), d.to_bits(sum), d.i(quarter));
  Value odd = w.compare("icmp ne", d.bits(), w.op("and", d.bits(), k, d.i(1)), d.i(0));
  Value sign = w.op("shl", d.bits(), w.op("and", d.bits(), k, d.i(2)), d.i(62));
  Value y = d.from_bits(w.op("xor", d.bits(), d.to_bits(d.select(odd, cosine, sine)), sign));
  return w.convert("fptrunc", d.t, y, m.t);
}

// Where some lane is farther off, or is no number, the C library does all of them.
Value sine(const Math& m, const Value& x, int quarter, std::string_view name) {
  constexpr double far = 0x1p28;
  Writer& w = m.w;
  DType flag = boolean.with_lanes(m.t.lanes);
  Value near = m.compare("fcmp ole", m.abs(x), m.c(far));
  if (m.t.lanes > 1) {
    std::string reduce = fmt::format("@llvm.vector.reduce.and.{}", mangled(flag));
    w.declarations.insert(fmt::format("declare i1 {}({})", reduce, type_text(flag)));
    near = w.pure(fmt::format("call i1 {}({} {})", reduce, type_text(flag), near));
  }
  std::string yes = w.new_label("near"), no = w.new_label("far"), join = w.new_label("join");
  w.branch(near, yes, no);
  auto arm = [&](const std::string& label, auto compute) {
    w.label(label);
    w.open_scope();
    Value v = compute();
    w.close_scope();
    w.jump(join);
    return v;
  };
  Value a = arm(yes, [&] { return small_sine(m, x, quarter); });
  Value b = arm(no, [&] { return w.libm(name, m.t, {x}); });
  w.label(join);
  return w.fresh(fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", type_text(m.t), a, yes, b, no));
}
Value sin_f32(const Math& m, const Value& x) { return sine(m, x, 0, "sin"); }
Value cos_f32(const Math& m, const Value& x) { return sine(m, x, 1, "cos"); }

// erf(x) / x as a polynomial of x²/8 - 1 for |x| <= 4; beyond, erf is 1 in f32.
Value erf_f32(const Math& m, const Value& x) {
  static constexpr double p[] = {
      9.4038165786370983e-05, -0.00024642201453006188, 0.00017322950344877359, -0.00032551962727953547,
      0.0014101528932398749,  -0.0029097129559724944,  0.0047749462205666495,  -0.008384044276092753,
      0.014381038744396328,   -0.022562558293108114,   0.033053291696067265,   -0.045744312675027238,
      0.059887829583006827,   -0.074730486797054685,   0.09020894134279632,    -0.10771029288641266,
      0.13167511777582963,    -0.17657623580039228,    0.3535309956434049};
  Math d{m.w, f64.with_lanes(m.t.lanes)};
  Value below = m.select(m.compare("fcmp ogt", x, m.c(4)), m.c(4), x);
  Value near = m.select(m.compare("fcmp olt", below, m.c(-4)), m.c(-4), below);
  Value a = m.w.convert("fpext", m.t, near, d.t);
  Value u = d.sub(d.mul(d.mul(a, a), d.c(0.125)), d.c(1));
  return m.w.convert("fptrunc", d.t, d.mul(a, d.polynomial(u, p)), m.t);
}

}  // namespace

Series find_series(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    Series series;
  } rows[] = {{"log", log_f32}, {"log2", log2_f32}, {"log10", log10_f32},
              {"sin", sin_f32}, {"cos", cos_f32},   {"erf", erf_f32}};
  for (auto& row : rows)
    if (row.name == name) return row.series;
  return nullptr;
}

}  // namespace tl::llvm
