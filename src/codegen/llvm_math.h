// Arithmetic from which scalar functions are made in LLVM IR.
#pragma once
#include <span>

#include "codegen/llvm_writer.h"

namespace tl::llvm {

// Arithmetic on values of one float type and on integers of the same width.
struct Math {
  Writer& w;
  DType t;  // f32 or f64, with lanes
  DType bits() const { return {DType::Kind::signed_int, t.bits, t.lanes}; }
  Value c(double x) const { return float_constant(x, t); }
  Value i(int64_t x) const { return int_constant(x, bits()); }
  Value add(const Value& a, const Value& b) const { return w.op("fadd contract", t, a, b); }
  Value sub(const Value& a, const Value& b) const { return w.op("fsub contract", t, a, b); }
  Value mul(const Value& a, const Value& b) const { return w.op("fmul contract", t, a, b); }
  Value div(const Value& a, const Value& b) const { return w.op(w.fast ? "fdiv arcp" : "fdiv", t, a, b); }
  Value mad(const Value& a, const Value& b, const Value& d) const { return add(mul(a, b), d); }
  Value compare(std::string_view op, const Value& a, const Value& b) const { return w.compare(op, t, a, b); }
  Value select(const Value& cond, const Value& a, const Value& b) const {
    return w.select(t, t.lanes, cond, a, b);
  }
  Value to_bits(const Value& a) const { return w.convert("bitcast", t, a, bits()); }
  Value from_bits(const Value& a) const { return w.convert("bitcast", bits(), a, t); }
  Value abs(const Value& a) const { return w.llvm_intrinsic("llvm.fabs", t, {a}); }
  // c[0] x^n + c[1] x^(n-1) + …
  Value polynomial(const Value& x, std::span<const double> coefficients) const {
    Value y = c(coefficients[0]);
    for (double d : coefficients.subspan(1)) y = mad(y, x, c(d));
    return y;
  }
};

// llvm_exact.cpp: a + b of f64 as s, with what it lacks put into its last bit (rounding to odd), so that
// rounding s to a narrower type rounds the sum once.
Value sum_to_odd(const Math& d, const Value& a, const Value& b);

// llvm_series.cpp: the function of that name on f32, of any lanes, without a call per lane; null if it has
// none.
using Series = Value (*)(const Math& m, const Value& x);
Series find_series(std::string_view name);

}  // namespace tl::llvm
