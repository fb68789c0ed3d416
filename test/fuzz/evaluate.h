// What an expression means, written down a second time for the tests: numbers are exact (128 bits), and each
// operation wraps to its type.  It shares nothing with the folding in ir/build.cpp.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

#include "ir/rewrite.h"

namespace tl::test {

using Wide = __int128;

struct NoMeaning {};  // an index that overflows, a wild shift
struct DividesByZero : NoMeaning {};

struct Value {
  Wide i = 0;
  double f = 0;
};

struct Evaluator {
  std::map<const ExprNode*, Value> vars;
  bool strict = true;    // an i64 beyond 2^60 has no meaning; otherwise it wraps
  bool extreme = false;  // loads give any number of their type
  int lane = 0;          // of vectors
  std::map<std::pair<int, Wide>, Value>* memory = nullptr;  // what was stored; may be null
  std::function<Value(const Load&)> loads = {};             // who else knows what a buffer holds,
  std::function<Value(const Call&)> calls = {};             // what a call gives

  Wide wrap(Wide v, DType t) const {
    if (t.is_bool()) return v != 0;
    Wide size = Wide(1) << t.bits, r = v % size;
    if (r < 0) r += size;
    if (t.is_signed() && r >= size / 2) r -= size;
    Wide limit = Wide(1) << 60;
    if (strict && t.scalar() == i64 && (v > limit || v < -limit)) throw NoMeaning();
    return r;
  }
  static Wide floor_quotient(Wide a, Wide b) {
    Wide q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
  }
  static Wide product(Wide a, Wide b) {  // modulo 2^128, which is exact but for two large u64
    using Bits = unsigned __int128;
    return Wide(Bits(a) * Bits(b));
  }
  static double rounded(double v, DType t) {
    if (t.kind == DType::Kind::floating && t.bits == 32) return double(float(v));
    return t.bits == 64 ? v : round_float(v, t);
  }

  Wide integer(BinaryOp op, Wide a, Wide b, DType t) const {
    bool divides = op == BinaryOp::floordiv || op == BinaryOp::floormod || op == BinaryOp::truncdiv ||
                   op == BinaryOp::truncmod;
    if (divides && b == 0) throw DividesByZero();
    if ((op == BinaryOp::shl || op == BinaryOp::shr) && (b < 0 || b >= t.bits)) throw NoMeaning();
    switch (op) {
      case BinaryOp::add:
        return wrap(a + b, t);
      case BinaryOp::sub:
        return wrap(a - b, t);
      case BinaryOp::mul:
        return wrap(product(a, b), t);
      case BinaryOp::floordiv:
        return wrap(floor_quotient(a, b), t);
      case BinaryOp::floormod:
        return wrap(a - b * floor_quotient(a, b), t);
      case BinaryOp::truncdiv:
        return wrap(a / b, t);
      case BinaryOp::truncmod:
        return wrap(a % b, t);
      case BinaryOp::min:
        return a < b ? a : b;
      case BinaryOp::max:
        return a > b ? a : b;
      case BinaryOp::bit_and:
        return wrap(a & b, t);
      case BinaryOp::bit_or:
        return wrap(a | b, t);
      case BinaryOp::bit_xor:
        return wrap(a ^ b, t);
      case BinaryOp::shl:
        return wrap(product(a, Wide(1) << int(b)), t);
      case BinaryOp::shr:
        return wrap(floor_quotient(a, Wide(1) << int(b)), t);
      default:
        return compare(op, a, b);
    }
  }
  template <class N>
  static bool compare(BinaryOp op, N a, N b) {
    switch (op) {
      case BinaryOp::eq:
        return a == b;
      case BinaryOp::ne:
        return a != b;
      case BinaryOp::lt:
        return a < b;
      case BinaryOp::le:
        return a <= b;
      case BinaryOp::gt:
        return a > b;
      case BinaryOp::ge:
        return a >= b;
      default:
        throw std::logic_error("not a comparison");
    }
  }
  static Value number(BinaryOp op, double a, double b, DType t) {
    switch (op) {
      case BinaryOp::add:
        return {0, rounded(a + b, t)};
      case BinaryOp::sub:
        return {0, rounded(a - b, t)};
      case BinaryOp::mul:
        return {0, rounded(a * b, t)};
      case BinaryOp::div:
        return {0, rounded(a / b, t)};
      case BinaryOp::min:
        return {0, std::isnan(a) ? b : std::isnan(b) ? a : a < b ? a : b};
      case BinaryOp::max:
        return {0, std::isnan(a) ? b : std::isnan(b) ? a : a > b ? a : b};
      default:
        return {compare(op, a, b), 0};
    }
  }

  Value binary(const Binary& n) {
    Value a = (*this)(n.a);
    if (n.op == BinaryOp::logical_and) return a.i ? (*this)(n.b) : a;
    if (n.op == BinaryOp::logical_or) return a.i ? a : (*this)(n.b);
    Value b = (*this)(n.b);
    DType t = n.a->dtype.scalar();
    if (t.is_float()) return number(n.op, a.f, b.f, t);
    return {integer(n.op, a.i, b.i, t), 0};
  }
  Value unary(const Unary& n) {
    Value a = (*this)(n.a);
    if (n.dtype.is_float()) return {0, -a.f};
    if (n.op == UnaryOp::logical_not) return {!a.i, 0};
    return {wrap(n.op == UnaryOp::neg ? -a.i : -1 - a.i, n.dtype.scalar()), 0};
  }
  Value cast(const Cast& n) {
    Value a = (*this)(n.a);
    DType from = n.a->dtype.scalar(), to = n.dtype.scalar();
    if (from.is_float() && to.is_float()) return {0, rounded(a.f, to)};
    if (to.is_float()) return {0, float_of_int(int64_t(uint64_t(a.i)), a.i > INT64_MAX ? u64 : i64, to)};
    if (from.is_float()) {
      if (to.is_bool()) return {a.f != 0, 0};
      double low = to.is_signed() ? -std::ldexp(1, to.bits - 1) : 0,
             high = std::ldexp(1, to.bits - to.is_signed());
      if (!(std::trunc(a.f) >= low && std::trunc(a.f) < high)) throw NoMeaning();
      return {Wide(std::trunc(a.f)), 0};
    }
    bool outer = std::exchange(strict, false);  // a cast wraps, to i64 too
    Wide r = wrap(a.i, to);
    strict = outer;
    return {wrap(r, to), 0};
  }
  // The same bits as another type of the width.
  static Value reinterpreted(Value a, DType from, DType to) {
    if (to.is_float()) return {0, float_value(uint64_t(a.i), to)};
    return {
        Evaluator{.vars = {}, .strict = false}.wrap(from.is_float() ? Wide(stored_bits(a.f, from)) : a.i, to),
        0};
  }
  Value load(const Load& n) {
    if (n.mask && !(*this)(n.mask).i) return {};
    if (memory)
      if (auto it = memory->find({n.buffer.value, (*this)(n.index[0]).i}); it != memory->end())
        return it->second;
    uint64_t h = uint64_t(n.buffer.value) + 17;
    for (auto& i : n.index) h = (h ^ uint64_t((*this)(i).i)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    DType t = n.dtype.scalar();
    if (t.is_float()) return {0, double(int64_t(h % 64)) - 32};
    bool outer = std::exchange(strict, false);
    Wide r = t == i64 && !extreme ? Wide(h % 4096) - 2048 : wrap(Wide(h), t);
    if (extreme && h % 4 == 0) r = wrap((Wide(1) << (h / 8 % 65)) - (h / 4 % 2), t);
    strict = outer;
    return {r, 0};
  }

  Value operator()(const Expr& e) {
    DType t = e->dtype.scalar();
    return dispatch(
        e, overloads{
               [&](const IntImm& n) { return Value{t == u64 ? Wide(uint64_t(n.value)) : Wide(n.value), 0}; },
               [&](const FloatImm& n) { return Value{0, n.value}; },
               [&](const Var&) { return vars.at(e.get()); },
               [&](const Unary& n) { return unary(n); },
               [&](const Binary& n) { return binary(n); },
               [&](const Cast& n) { return cast(n); },
               [&](const Select& n) { return (*this)(n.cond).i ? (*this)(n.a) : (*this)(n.b); },
               [&](const Load& n) { return loads ? loads(n) : load(n); },
               [&](const Ramp& n) {
                 Wide base = (*this)(n.base).i, stride = (*this)(n.stride).i;
                 return Value{wrap(base + stride * lane, t), 0};
               },
               [&](const Broadcast& n) { return (*this)(n.value); },
               [&](const StringImm&) -> Value { throw std::logic_error("a text has no value"); },
               [&](const Call& n) -> Value {
                 if (!calls) throw std::logic_error("calls are not evaluated here");
                 return calls(n);
               },
           });
  }
};

inline bool same_value(Value a, Value b, DType t) {
  if (!t.is_float()) return a.i == b.i;
  return (std::isnan(a.f) && std::isnan(b.f)) || (a.f == b.f && std::signbit(a.f) == std::signbit(b.f));
}

}  // namespace tl::test
