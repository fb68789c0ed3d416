// Bits, IEEE operations, random numbers in LLVM IR; prints, assertions and assumptions.
//
// The CPU's rounding mode is not changed. A directed operation on f32 is done in f64, to nearest: where the
// exact result is not an f32, the f64 is on the same side of every f32 as the exact one (except for sums,
// whose error is computed), so it can be rounded up or down from there.
#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"
#include "codegen/llvm_kernel.h"
#include "codegen/llvm_math.h"

namespace tl::llvm {

Value sum_to_odd(const Math& d, const Value& a, const Value& b) {
  auto plain = [&](std::string_view op, const Value& x, const Value& y) { return d.w.op(op, d.t, x, y); };
  Value s = plain("fadd", a, b), part = plain("fsub", s, a);
  Value error = plain("fadd", plain("fsub", a, plain("fsub", s, part)), plain("fsub", b, part));
  DType bits = d.bits();
  Value sb = d.to_bits(s), even = d.w.compare("icmp eq", bits, d.w.op("and", bits, sb, d.i(1)), d.i(0));
  // An even s with an error becomes its odd neighbour on the error's side.
  Value inexact = d.compare("fcmp one", error, d.c(0));
  Value outwards = d.w.compare("icmp sge", bits, d.w.op("xor", bits, sb, d.to_bits(error)), d.i(0));
  Value step = d.w.select(bits, bits.lanes, outwards, d.i(1), d.i(-1));
  DType flag = boolean.with_lanes(d.t.lanes);
  Value moved = d.w.op("add", bits, sb, step);
  return d.from_bits(d.w.select(bits, bits.lanes, d.w.op("and", flag, inexact, even), moved, sb));
}

namespace {

enum class Direction { nearest, zero, up, down };

// The f64 x as f32, up, down or towards zero.
Value narrow(const Math& m, const Math& d, const Value& x, Direction direction) {
  Writer& w = m.w;
  Value y = w.convert("fptrunc", d.t, x, m.t), back = w.convert("fpext", m.t, y, d.t);
  DType b = m.bits();
  Value yb = m.to_bits(y), none = m.i(0);
  if (direction == Direction::zero) {
    Value beyond = d.compare("fcmp ogt", d.abs(back), d.abs(x));
    return m.from_bits(w.op("sub", b, yb, w.select(b, b.lanes, beyond, m.i(1), none)));
  }
  bool up = direction == Direction::up;
  Value wrong = d.compare(up ? "fcmp olt" : "fcmp ogt", back, x);
  // The next float in that direction: bits grow away from zero; from zero, the least denormal.
  Value negative = w.compare("icmp slt", b, yb, none);
  Value step = w.select(b, b.lanes, negative, m.i(up ? -1 : 1), m.i(up ? 1 : -1));
  Value zero = m.compare("fcmp oeq", y, m.c(0));
  Value least = up ? m.i(1) : m.i(INT32_MIN | 1);
  Value next = w.select(b, b.lanes, zero, least, w.op("add", b, yb, step));
  return m.from_bits(w.select(b, b.lanes, wrong, next, yb));
}

// What one operation computes to nearest, with nothing fused.
Value nearest(const Math& m, std::string_view op, const std::vector<Value>& a) {
  if (op == "fmaf") return m.w.llvm_intrinsic("llvm.fma", m.t, a);
  if (op == "fsqrt") return m.w.llvm_intrinsic("llvm.sqrt", m.t, a);
  if (op == "frcp") return m.w.op("fdiv", m.t, m.c(1), a[0]);
  std::string_view code = op == "add" ? "fadd" : op == "sub" ? "fsub" : op == "mul" ? "fmul" : "fdiv";
  return m.w.op(code, m.t, a[0], a[1]);
}

// An exact sum of zero is -0 where one rounds down, unless both terms are +0.
Value signed_zero(const Math& m, const Math& d, const Value& y, const Value& a, const Value& b) {
  DType bits = d.bits();
  Value sign = d.w.op("or", bits, d.to_bits(a), d.to_bits(b));
  Value negative = d.w.compare("icmp slt", bits, sign, d.i(0));
  Value zero = m.compare("fcmp oeq", y, m.c(0));
  DType flag = boolean.with_lanes(m.t.lanes);
  Value exact = d.compare("fcmp oeq", d.w.op("fadd", d.t, a, b), d.c(0));
  Value both = m.w.op("and", flag, m.w.op("and", flag, zero, exact), negative);
  return m.select(both, m.c(-0.0), y);
}

Value directed(const Math& m, std::string_view op, std::vector<Value> a, Direction direction) {
  Math d{m.w, f64.with_lanes(m.t.lanes)};
  for (auto& x : a) x = m.w.convert("fpext", m.t, x, d.t);
  if (op == "sub") a[1] = d.w.pure(fmt::format("fneg {} {}", type_text(d.t), a[1]));
  Value first = a[0], second = a.size() > 1 ? a[1] : Value();
  if (op == "fmaf") first = d.w.op("fmul", d.t, a[0], a[1]), second = a[2];
  bool sums = op == "add" || op == "sub" || op == "fmaf";
  Value x = sums ? sum_to_odd(d, first, second) : nearest(d, op, a);
  Value y = narrow(m, d, x, direction);
  return sums && direction == Direction::down ? signed_zero(m, d, y, first, second) : y;
}

Value ieee(KernelWriter& k, const Call& n, const std::vector<Value>& args) {
  DType t = n.dtype;
  Math m{k.w, t};
  std::string_view name = n.intrinsic->name;
  std::string_view op = name.substr(5, name.size() - 8), mode = name.substr(name.size() - 2);
  if (op == "frsqrt") {  // in f64 twice rounded, which no f32 is near enough to notice
    Math d{k.w, f64.with_lanes(t.lanes)};
    Value wide = k.w.convert("fpext", t, args[0], d.t);
    return k.w.convert("fptrunc", d.t, d.div(d.c(1), k.w.llvm_intrinsic("llvm.sqrt", d.t, {wide})), t);
  }
  if (mode == "rn") return nearest(m, op, args);
  if (t.bits == 64)
    fail(n.span, "{} of f64: the CPU target rounds f64 to nearest only; use rounding_mode='rn', or f32",
         name);
  return directed(m, op, args,
                  mode == "rz"   ? Direction::zero
                  : mode == "ru" ? Direction::up
                                 : Direction::down);
}

// ── neighbours and powers of two ──────────────────────────────────────────────────────────────────────
// The next float after x on the way to y; see ir/intrinsic_exact.cpp.  16-bit floats, whose values are their
// bits here, are compared as f32.
Value next_after(KernelWriter& k, DType t, const std::vector<Value>& args) {
  Writer& w = k.w;
  bool half = t.bits == 16;
  Math m{w, half ? f32.with_lanes(t.lanes) : t};
  DType b{DType::Kind::signed_int, t.bits, t.lanes}, flag = boolean.with_lanes(t.lanes);
  auto number = [&](int64_t v) { return int_constant(v, b); };
  auto choose = [&](const Value& cond, const Value& yes, const Value& no) {
    return w.select(b, b.lanes, cond, yes, no);
  };
  Value x = convert(w, t, args[0], m.t, k.has_half), y = convert(w, t, args[1], m.t, k.has_half),
        zero = m.c(0);
  Value xb = half ? args[0] : m.to_bits(x), yb = half ? args[1] : m.to_bits(y);
  Value inwards = w.op("xor", flag, m.compare("fcmp olt", x, y), m.compare("fcmp ogt", x, zero));
  Value moved = w.op("add", b, xb, choose(inwards, number(-1), number(1)));
  Value sign = w.op("and", b, yb, number(t.bits == 64 ? INT64_MIN : -(int64_t(1) << (t.bits - 1))));
  Value next = choose(m.compare("fcmp oeq", x, zero), w.op("or", b, sign, number(1)), moved);
  Value kept = choose(m.compare("fcmp oeq", x, y), yb, next);
  Value nan = number(int64_t(stored_bits(NAN, t.scalar())));
  Value result = choose(m.compare("fcmp uno", x, y), nan, kept);
  return half ? result : m.from_bits(result);
}

// x * 2^n of doubles, rounded once: the steps in front of the last are exact where the result is neither
// infinity nor zero.
Value scaled_double(const Math& d, Value x, Value n) {
  DType b = d.bits();
  auto power = [&](const Value& k) {
    Value wide = d.w.op("add", b, k, d.i(1023));
    return d.from_bits(d.w.op("shl", b, wide, d.i(52)));
  };
  auto step = [&](std::string_view compare, int64_t limit, double factor, int64_t by) {
    Value beyond = d.w.compare(compare, b, n, d.i(limit));
    x = d.select(beyond, d.mul(x, d.c(factor)), x);
    n = d.w.select(b, b.lanes, beyond, d.w.op("sub", b, n, d.i(by)), n);
  };
  for (int turn = 0; turn < 2; turn++) step("icmp sgt", 1023, 0x1p1023, 1023);
  for (int turn = 0; turn < 2; turn++) step("icmp slt", -1022, 0x1p-969, -969);
  Value most = d.w.compare("icmp sgt", b, n, d.i(1023)), least = d.w.compare("icmp slt", b, n, d.i(-1022));
  n = d.w.select(b, b.lanes, most, d.i(1023), d.w.select(b, b.lanes, least, d.i(-1022), n));
  return d.w.op("fmul", d.t, x, power(n));  // a result of its own: no sum that follows takes it in
}

// A double holds what becomes of a narrower float, but for infinities and zeros.
Value scaled(KernelWriter& k, DType t, const std::vector<Value>& args) {
  Math d{k.w, f64.with_lanes(t.lanes)};
  Value n = k.w.convert("sext", i32.with_lanes(t.lanes), args[1], d.bits());
  return convert(k.w, d.t, scaled_double(d, convert(k.w, t, args[0], d.t, k.has_half), n), t, k.has_half);
}

// ── integers ──────────────────────────────────────────────────────────────────────────────────────────
// See ir/intrinsic_exact.cpp.
Value philox(Writer& w, DType t, const std::vector<Value>& args) {
  DType word = u32.with_lanes(t.lanes);
  auto constant = [&](uint64_t v) { return int_constant(int64_t(v), t); };
  auto low = [&](const Value& v) { return w.op("and", t, v, constant(0xFFFFFFFF)); };
  auto high = [&](const Value& v) { return w.op("lshr", t, v, constant(32)); };
  Value k0 = low(args[0]), k1 = high(args[0]), group = w.op("lshr", t, args[2], constant(2));
  Value c0 = low(group), c1 = high(group), c2 = low(args[1]), c3 = high(args[1]);
  for (int round = 0; round < 10; round++) {
    Value p = w.op("mul", t, c0, constant(0xD2511F53)), q = w.op("mul", t, c2, constant(0xCD9E8D57));
    Value a = w.op("xor", t, w.op("xor", t, high(q), c1), k0),
          b = w.op("xor", t, w.op("xor", t, high(p), c3), k1);
    c0 = a, c1 = low(q), c2 = b, c3 = low(p);
    k0 = low(w.op("add", t, k0, constant(0x9E3779B9)));
    k1 = low(w.op("add", t, k1, constant(0xBB67AE85)));
  }
  Value lane = w.op("and", t, args[2], constant(3));
  auto is = [&](uint64_t i) { return w.compare("icmp eq", t, lane, constant(i)); };
  Value chosen =
      w.select(t, t.lanes, is(0), c0, w.select(t, t.lanes, is(1), c1, w.select(t, t.lanes, is(2), c2, c3)));
  return w.convert("trunc", t, chosen, word);
}

Value leading_zeros(Writer& w, DType from, const Value& a, DType to) {
  std::string type = type_text(from), symbol = "@llvm.ctlz." + mangled(from);
  w.declarations.insert(fmt::format("declare {} {}({}, i1)", type, symbol, type));
  Value n = w.pure(fmt::format("call {} {}({} {}, i1 false)", type, symbol, type, a));
  if (from.bits == to.bits) return n;
  return w.convert(from.bits > to.bits ? "trunc" : "zext", from, n, to);
}

// Two 16-bit floats in a word; lanes are computed in f64, so that each is rounded once.
Value pair(KernelWriter& k, std::string_view name, DType word, const std::vector<Value>& args) {
  Writer& w = k.w;
  DType half = (name.ends_with("_bf16") ? bf16 : f16).with_lanes(word.lanes),
        bits = u16.with_lanes(word.lanes);
  Math d{w, f64.with_lanes(word.lanes)};
  std::string_view op = name.substr(0, name.find('2'));
  Value lanes[2];
  for (int lane = 0; lane < 2; lane++) {
    std::vector<Value> x;
    for (auto& a : args) {
      Value part = lane ? w.op("lshr", word, a, int_constant(16, word)) : a;
      x.push_back(convert(w, half, w.convert("trunc", word, part, bits), d.t, k.has_half));
    }
    Value y = op == "abs"   ? d.abs(x[0])
              : op == "max" ? w.llvm_intrinsic("llvm.maxnum", d.t, x)
              : op == "min" ? w.llvm_intrinsic("llvm.minnum", d.t, x)
              : op == "fma" ? sum_to_odd(d, w.op("fmul", d.t, x[0], x[1]), x[2])
                            : nearest(d, op, x);
    lanes[lane] = w.convert("zext", bits, convert(w, d.t, y, half, k.has_half), word);
  }
  return w.op("or", word, lanes[0], w.op("shl", word, lanes[1], int_constant(16, word)));
}

// ── messages ──────────────────────────────────────────────────────────────────────────────────────────
// A text of the module, by its address.
Value text_constant(Writer& w, const std::string& text) {
  std::string bytes;
  for (unsigned char c : text + '\0')
    bytes +=
        c < ' ' || c > '~' || c == '"' || c == '\\' ? fmt::format("\\{:02X}", c) : std::string(1, char(c));
  std::string name = "@text." + sha256_hex(text).substr(0, 16);
  w.declarations.insert(
      fmt::format("{} = private unnamed_addr constant [{} x i8] c\"{}\"", name, text.size() + 1, bytes));
  return name;
}

void print(KernelWriter& k, const Call& n) {
  Writer& w = k.w;
  std::string format, values;
  size_t next = 1;
  std::string_view rest = n.args.at(0).as<StringImm>()->value;
  auto skip = [&](size_t count) { rest.remove_prefix(std::min(count, rest.size())); };
  while (!rest.empty()) {
    if (rest.starts_with("{thread}")) {
      skip(rest.size() > 8 && rest[8] == ' ' ? 9 : 8);
    } else if (rest.starts_with("{}")) {
      const Expr& e = n.args.at(next++);
      DType t = e->dtype, as = t.is_float() ? f64 : t.bits == 64 ? t : t.is_unsigned() ? u32 : i32;
      format += printf_conversion(t);
      values += fmt::format(", {} {}", type_text(as), convert(w, t, k.expr(e), as, k.has_half));
      skip(2);
    } else {
      format += rest[0] == '%' ? "%%" : std::string(1, rest[0]);
      skip(rest.starts_with("{{") ? 2 : 1);
    }
  }
  w.declarations.insert("declare void @tl_print(ptr, ...)");
  w.line(fmt::format("call void (ptr, ...) @tl_print(ptr {}{})", text_constant(w, format + "\n"), values));
}

void check(KernelWriter& k, const Call& n) {
  std::string_view text = n.args[1].as<StringImm>()->value, place = n.args[2].as<StringImm>()->value;
  require(k, k.expr(n.args[0]),
          fmt::format("{}: assertion failed{}{}", place, text.empty() ? "" : ": ", text));
}

void assume(KernelWriter& k, const Call& n) {
  const Expr& cond = n.args[0];
  k.facts.assume(cond);
  if (!k.may_run_untaken(cond)) return;
  k.w.declarations.insert("declare void @llvm.assume(i1)");
  k.w.line(fmt::format("call void @llvm.assume(i1 {})", k.expr(cond)));
}

}  // namespace

// The runtime raises the error when the other blocks have ended.
void require(KernelWriter& k, const Value& holds, const std::string& otherwise) {
  Writer& w = k.w;
  std::string good = w.new_label("holds"), bad = w.new_label("fails");
  w.branch(holds, good, bad);
  w.label(bad);
  w.declarations.insert("declare void @tl_fail(ptr)");
  w.line(fmt::format("call void @tl_fail(ptr {})", text_constant(w, otherwise)));
  w.line("ret void");
  w.label(good);
}

Value exact_call(KernelWriter& k, const Call& n) {
  Writer& w = k.w;
  std::string_view name = n.intrinsic->name;
  if (name.starts_with("to_") || name.starts_with("from_") || name.starts_with("dp4a"))
    return narrow_call(k, n);
  std::vector<Value> args;
  for (auto& a : n.args) args.push_back(k.expr(a));
  DType from = n.args.at(0)->dtype, to = n.dtype;
  if (name == "reinterpret") {
    std::string a = type_text(from), b = type_text(to);
    return a == b ? args[0] : w.pure(fmt::format("bitcast {} {} to {}", a, args[0], b));
  }
  if (name == "popcount") return w.llvm_intrinsic("llvm.ctpop", to, args);
  if (name == "clz") return leading_zeros(w, from, args[0], to);
  if (name == "philox") return philox(w, from, args);
  if (name == "nextafter") return next_after(k, to, args);
  if (name == "ldexp") return scaled(k, to, args);
  if (name.ends_with("f16")) return pair(k, name, to, args);
  internal_check(name.starts_with("ieee_"), "LLVM IR for " + std::string(name));
  return ieee(k, n, args);
}

bool write_message(KernelWriter& k, const Call& n) {
  if (n.intrinsic == &breakpoint_row || n.intrinsic == &pdl_sync || n.intrinsic == &pdl_trigger) return true;
  auto write = n.intrinsic == &print_row         ? print
               : n.intrinsic == &device_assert   ? check
               : n.intrinsic == &assume_function ? assume
                                                 : nullptr;
  if (write) write(k, n);
  return write;
}

}  // namespace tl::llvm
