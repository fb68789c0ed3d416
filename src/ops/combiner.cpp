#include "ops/combiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace tl {
namespace {

using Number = std::optional<double>;

// Its value for two numbers; none: it has an operation that is not tried here, as bits of integers.
struct Trial {
  const IndexMap& combine;
  double a, b;

  Number of(const Expr& e) const {
    if (e.same(combine.vars[0])) return a;
    if (e.same(combine.vars[1])) return b;
    if (auto* n = e.as<IntImm>()) return double(n->value);
    if (auto* n = e.as<FloatImm>()) return n->value;
    if (auto* n = e.as<Binary>()) return of_binary(*n);
    if (auto* n = e.as<Unary>()) {
      Number x = of(n->a);
      if (!x || n->op == UnaryOp::bit_not) return {};
      return n->op == UnaryOp::neg ? -*x : double(*x == 0);
    }
    if (auto* n = e.as<Select>()) {
      Number cond = of(n->cond);
      if (!cond) return {};
      return of(*cond != 0 ? n->a : n->b);
    }
    if (auto* n = e.as<Cast>(); n && (n->dtype.is_float() || !n->a->dtype.is_float())) return of(n->a);
    return {};
  }
  Number of_binary(const Binary& n) const {
    Number x = of(n.a), y = of(n.b);
    if (!x || !y) return {};
    switch (n.op) {
      case BinaryOp::add:
        return *x + *y;
      case BinaryOp::sub:
        return *x - *y;
      case BinaryOp::mul:
        return *x * *y;
      case BinaryOp::div:
        return *y != 0 ? Number(*x / *y) : std::nullopt;
      case BinaryOp::min:
        return std::min(*x, *y);
      case BinaryOp::max:
        return std::max(*x, *y);
      case BinaryOp::lt:
        return double(*x < *y);
      case BinaryOp::le:
        return double(*x <= *y);
      case BinaryOp::gt:
        return double(*x > *y);
      case BinaryOp::ge:
        return double(*x >= *y);
      case BinaryOp::logical_and:
        return double(*x != 0 && *y != 0);
      case BinaryOp::logical_or:
        return double(*x != 0 || *y != 0);
      case BinaryOp::eq:
        return double(*x == *y);
      case BinaryOp::ne:
        return double(*x != *y);
      default:
        return {};
    }
  }
};

// Are they different by more than rounding?
bool differ(Number x, Number y) {
  constexpr double rounding = 1e-3;
  if (!x || !y || !std::isfinite(*x) || !std::isfinite(*y)) return false;
  return std::abs(*x - *y) > rounding * std::max({1.0, std::abs(*x), std::abs(*y)});
}

// Small numbers, which every type holds; of several, as an operation may agree on some.
constexpr double tried[] = {2, 3, 5, 7};

}  // namespace

std::string broken_law(const IndexMap& combine) {
  bool is_packed = combine.vars[0]->dtype.is_int() && combine.vars[0]->dtype.bits == 64;
  if (is_packed) return "";  // maybe several values in one word, of which such numbers are none
  auto join = [&](Number a, Number b) -> Number {
    return a && b ? Trial{combine, *a, *b}.of(combine.outputs[0]) : std::nullopt;
  };
  for (double x : tried)
    for (double y : tried)
      if (Number ab = join(x, y), ba = join(y, x); differ(ab, ba))
        return fmt::format("combine({0}, {1}) is {2}, but combine({1}, {0}) is {3}", x, y, *ab, *ba);
  for (double x : tried)
    for (double y : tried)
      for (double z : tried)
        if (Number left = join(join(x, y), z), right = join(x, join(y, z)); differ(left, right))
          return fmt::format(
              "combine(combine({0}, {1}), {2}) is {3}, but combine({0}, combine({1}, {2})) is {4}", x, y, z,
              *left, *right);
  Number identity = Trial{combine, 0, 0}.of(combine.outputs[1]);
  for (double x : tried)
    if (Number kept = join(x, identity); differ(kept, x))
      return fmt::format("combine({}, {}) with the identity is {}", x, *identity, *kept);
  return "";
}

}  // namespace tl
