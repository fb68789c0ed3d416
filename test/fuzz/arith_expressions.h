// Random expressions, random facts, and values that meet them.
#pragma once
#include <random>

#include "arith/prove.h"
#include "evaluate.h"

namespace tl::test {

struct Unknown {  // a variable with what is known of it
  Expr var;
  Interval range;
  int64_t modulus = 1, remainder = 0;
};

using Assignment = std::map<const ExprNode*, Value>;

struct ExprGenerator {
  std::mt19937_64 random;
  std::vector<Unknown> vars = {};
  Facts facts = {};
  std::vector<Assignment> samples = {};
  bool data = false;  // variables are names of data: extreme, and wrapping at 64 bits, too
  bool in_lanes = false;
  std::vector<Expr> multiplied = {};  // the variables of which a product is bounded by a fact

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, size_t N>
  T any(const T (&pool)[N]) {
    return pool[below(int64_t(N))];
  }

  DType int_type() {
    static constexpr DType pool[] = {i64, i64, i64, i64, i32, i32, u32, u32, i8, u8, i16, u64};
    return any(pool);
  }

  // ── variables and facts ─────────────────────────────────────────────────────────────────────────────
  Interval some_range(DType t) {
    if (t.is_bool()) return {0, 1};
    if (t == i64 && data && chance(80)) return {};
    static constexpr int64_t sizes[] = {2, 3, 4, 7, 8, 16, 32, 100, 128, 1000, 1024, 65536, 1 << 20};
    int64_t low = chance(60) ? 0 : below(40) - 20, size = any(sizes);
    if (t == i64 && chance(5)) size = int64_t(1) << 40;
    if (t != i64 && chance(40)) {  // near an end, or everything
      int64_t top = t.is_signed()  ? (int64_t(1) << (t.bits - 1)) - 1
                    : t.bits == 64 ? INT64_MAX
                                   : (int64_t(1) << t.bits) - 1;
      low = t.is_signed() ? -top - 1 : 0;
      return chance(50) ? Interval{low, top} : Interval{top - std::min(size, top) + 1, top};
    }
    if (t.is_unsigned()) low = std::max<int64_t>(low, 0);
    int64_t high = low + size - 1;
    return {wrap_int(low, t) == low ? low : 0, wrap_int(high, t) == high ? high : 100};
  }
  void make_vars(int count) {
    static const char* names[] = {"i", "j", "tx", "bx", "n", "k", "x", "y"};
    for (int v = 0; v < count; v++) {
      DType t = chance(8) ? boolean : int_type();
      Unknown u{var(names[v % 8], t), some_range(t)};
      static constexpr int64_t moduli[] = {2, 3, 4, 8, 16, 24};
      if (!t.is_bool() && chance(20)) {
        int64_t m = any(moduli), r = below(m);
        Wide first = Wide(u.range.min) + floor_mod(r - floor_mod(u.range.min, m), m);
        if (first >= u.range.min && first <= u.range.max) u.modulus = m, u.remainder = r;
      }
      bool told = chance(85) || (t == i64 && u.range != Interval{});
      if (data) facts.data.insert(u.var.get());
      if (told) facts.bind(u.var, u.range);
      if (u.modulus > 1) facts.bind(u.var, Modular{u.modulus, u.remainder});
      vars.push_back(u);
    }
    for (DType t : {f32, f16, f64}) vars.push_back({var("f", t), {}});
  }
  // An end of the type, a power of two, a number next to one, or a small one.
  Wide extreme(DType t) {
    Wide size = Wide(1) << t.bits, low = t.is_signed() ? -size / 2 : Wide(0);
    Wide power = Wide(1) << below(t.bits);
    Wide top = low + size - 1, small = Wide(below(9)) - 4;
    Wide pool[] = {low, low + 1, top, top - 1, 0, 1, -1, power, power - 1, -power, small};
    Wide v = any(pool);
    return v < low || v >= low + size ? v < 0 ? v + size : v - size : v;
  }
  Value sample(const Unknown& u) {
    DType t = u.var->dtype;
    if (t.is_float()) {
      const double pool[] = {0.0, -0.0, 1, -1, 0.5, 3, -7.25, 1000, 1e-30, INFINITY, -INFINITY, std::nan("")};
      return {0, round_float(any(pool), t)};
    }
    if (data && u.modulus == 1 && chance(40))
      if (Wide v = extreme(t); v >= u.range.min && v <= u.range.max) return {v, 0};
    Wide size = Wide(u.range.max) - u.range.min + 1;
    Wide at = chance(15) ? 0 : chance(15) ? size - 1 : Wide(random()) % size;
    Wide v = u.range.min + at;
    if (t == u64 && u.range.max == INT64_MAX && chance(50)) {  // no bound above
      v = Wide(random() | uint64_t(1) << 63);
      v -= (v - u.remainder) % u.modulus;
      return {v, 0};
    }
    while (u.modulus > 1 && (v - u.remainder) % u.modulus != 0)
      v = v == u.range.max ? Wide(u.range.min) : v + 1;
    return {v, 0};
  }
  void make_samples(int count) {
    for (int s = 0; s < count; s++) {
      Assignment a;
      for (auto& u : vars) a[u.var.get()] = sample(u);
      samples.push_back(std::move(a));
    }
  }
  // A condition that enough samples meet becomes a fact; the others go.
  void make_fact() {
    Expr condition = chance(25) ? bounded_product() : comparison(2, i64);
    if (!condition) return;
    std::vector<Assignment> met;
    for (auto& a : samples) try {
        if (Evaluator{.vars = a, .strict = !data, .extreme = data}(condition).i) met.push_back(a);
      } catch (const NoMeaning&) {
      }
    if (met.size() < 12) return;
    samples = std::move(met);
    facts.assume(condition);
  }

  // x*y <= what it is in some sample, of two or three variables
  Expr bounded_product() {
    multiplied.clear();
    Expr product = product_of([&](const Expr& v) { return multiplied.emplace_back(v); });
    const Assignment& some = samples[size_t(below(int64_t(samples.size())))];
    try {
      Wide most = Evaluator{.vars = some, .strict = !data, .extreme = data}(product).i;
      return most < INT64_MAX && most > INT64_MIN ? le(product, imm(int64_t(most))) : Expr();
    } catch (const NoMeaning&) {
      return {};
    }
  }
  template <class Of>
  Expr product_of(Of of) {
    std::vector<Expr> some = multiplied;
    for (auto& u : vars)
      if (u.var->dtype == i64 && multiplied.empty()) some.push_back(u.var);
    Expr product = imm(1);
    for (int64_t i = 2 + below(2); i > 0 && !some.empty(); i--)
      product = product * of(some[size_t(below(int64_t(some.size())))]);
    return product;
  }
  // How many tiles such variables have, multiplied: ceildiv(x, 8) * ceildiv(y, 3)
  Expr numbers_of_tiles() {
    return product_of([&](const Expr& v) {
      int64_t tile = 1 + below(9);
      Expr tiles = floordiv(v + (chance(80) ? tile - 1 : below(20)), tile);
      return chance(20) ? cast(i64, cast(i32, tiles)) : tiles;
    });
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  Expr constant(DType t) {
    if (t.is_float()) {
      const double pool[] = {0.0, -0.0, 1, -1, 2, 0.5, 3, -7.25};
      return fimm(any(pool), t);
    }
    static constexpr int64_t small[] = {0,  1,  1,  2,  2,   3,   4,   4,  5,  7,  8,  8,
                                        12, 16, 32, 64, 100, 127, 128, -1, -2, -4, -8, -3};
    static constexpr int64_t large[] = {
        255, 256, 1024, 65535, INT32_MAX, INT32_MIN, int64_t(1) << 31, INT64_MAX, INT64_MIN};
    if (t == u64 && chance(15)) return imm(int64_t(random() | uint64_t(1) << 63), t);
    if ((t != i64 || (data && !in_lanes)) && chance(10)) return imm(any(large), t);
    return imm(any(small), t);
  }
  Expr leaf(DType t) {
    std::vector<Expr> fitting;
    for (auto& u : vars)
      if (u.var->dtype == t) fitting.push_back(u.var);
    if (!fitting.empty() && chance(75)) return fitting[size_t(below(int64_t(fitting.size())))];
    return constant(t);
  }
  Expr element(DType t, int depth) {
    return load(t, BufferId{int(below(2))}, {integer(i64, depth - 1)}, {},
                chance(20) ? boolean_of(depth - 1) : Expr());
  }
  Expr integer(DType t, int depth) {
    if (depth <= 0) return leaf(t);
    static constexpr BinaryOp ops[] = {
        BinaryOp::add,      BinaryOp::add,      BinaryOp::add,      BinaryOp::sub,      BinaryOp::sub,
        BinaryOp::mul,      BinaryOp::mul,      BinaryOp::floordiv, BinaryOp::floordiv, BinaryOp::floormod,
        BinaryOp::floormod, BinaryOp::truncdiv, BinaryOp::truncmod, BinaryOp::min,      BinaryOp::max,
        BinaryOp::bit_and,  BinaryOp::bit_or,   BinaryOp::bit_xor,  BinaryOp::bit_xor,  BinaryOp::shl,
        BinaryOp::shr};
    int pick = int(below(100));
    if (pick < 8) return leaf(t);
    if (pick < 11) return unary(chance(60) ? UnaryOp::neg : UnaryOp::bit_not, integer(t, depth - 1));
    if (pick < 15) return select(boolean_of(depth - 1), integer(t, depth - 1), integer(t, depth - 1));
    if (pick < 19) return cast(t, integer(int_type(), depth - 1));
    if (pick < 20) return cast(t, boolean_of(depth - 1));
    if (pick < 22) return element(t, depth);
    if (pick < 24 && t == i64) return numbers_of_tiles();
    BinaryOp op = any(ops);
    Expr a = integer(t, depth - 1);
    bool by_constant = op == BinaryOp::mul || (op >= BinaryOp::floordiv && op <= BinaryOp::truncmod);
    Expr b = by_constant && chance(85) ? constant(t) : integer(t, depth - 1);
    if (op == BinaryOp::shl || op == BinaryOp::shr)
      b = imm(below(chance(80) ? std::min<int>(t.bits, 9) : t.bits), t);
    return whole(op, a, b);
  }
  // A division by the constant 0 is refused by the maker; it divides by 3 then.
  Expr whole(BinaryOp op, const Expr& a, const Expr& b) {
    bool divides = op == BinaryOp::floordiv || op == BinaryOp::floormod || op == BinaryOp::truncdiv ||
                   op == BinaryOp::truncmod;
    return binary(op, a, divides && is_int(b, 0) ? imm(3, b->dtype) : b);
  }
  Expr comparison(int depth, DType t) {
    static constexpr BinaryOp ops[] = {BinaryOp::eq, BinaryOp::ne, BinaryOp::lt,
                                       BinaryOp::le, BinaryOp::gt, BinaryOp::ge};
    if (t.is_float()) return binary(any(ops), floating(t, depth - 1), floating(t, depth - 1));
    return binary(any(ops), integer(t, depth - 1), integer(t, depth - 1));
  }
  Expr boolean_of(int depth) {
    if (depth <= 0) return leaf(boolean);
    int pick = int(below(100));
    if (pick < 5) return leaf(boolean);
    if (pick < 20) return unary(UnaryOp::logical_not, boolean_of(depth - 1));
    if (pick < 45) {
      static constexpr BinaryOp ops[] = {BinaryOp::logical_and, BinaryOp::logical_and, BinaryOp::logical_or,
                                         BinaryOp::logical_or,  BinaryOp::eq,          BinaryOp::ne,
                                         BinaryOp::bit_xor,     BinaryOp::bit_and};
      return binary(any(ops), boolean_of(depth - 1), boolean_of(depth - 1));
    }
    if (pick < 50) return select(boolean_of(depth - 1), boolean_of(depth - 1), boolean_of(depth - 1));
    if (pick < 53) return cast(boolean, integer(int_type(), depth - 1));
    return comparison(depth, chance(10) ? f32 : int_type());
  }
  Expr floating(DType t, int depth) {
    if (depth <= 0) return leaf(t);
    static constexpr BinaryOp ops[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul,
                                       BinaryOp::div, BinaryOp::min, BinaryOp::max};
    int pick = int(below(100));
    if (pick < 10) return unary(UnaryOp::neg, floating(t, depth - 1));
    if (pick < 20) return select(boolean_of(depth - 1), floating(t, depth - 1), floating(t, depth - 1));
    if (pick < 30) return cast(t, floating(chance(50) ? f32 : f16, depth - 1));
    if (pick < 35) return cast(t, integer(int_type(), depth - 1));
    return binary(any(ops), floating(t, depth - 1), floating(t, depth - 1));
  }
  Expr lanes(DType t, int count, int depth) {
    in_lanes = true;  // sums of constants alone are sums of indices
    int pick = int(below(100));
    if (depth <= 0 || pick < 15) {
      if (chance(50)) return broadcast(integer(t, depth - 1), count);
      return ramp(integer(t, depth - 1), chance(70) ? constant(t) : integer(t, 1), count);
    }
    static constexpr BinaryOp ops[] = {BinaryOp::add,      BinaryOp::sub,      BinaryOp::mul,
                                       BinaryOp::floordiv, BinaryOp::floormod, BinaryOp::min,
                                       BinaryOp::max,      BinaryOp::bit_and,  BinaryOp::bit_xor};
    BinaryOp op = any(ops);
    bool by_constant = op == BinaryOp::floordiv || op == BinaryOp::floormod || chance(40);
    return whole(op, lanes(t, count, depth - 1),
                 by_constant ? broadcast(constant(t), count) : lanes(t, count, depth - 1));
  }
  Expr anything() {
    in_lanes = false;
    int pick = int(below(100)), depth = 2 + int(below(4));
    if (pick < 5) return numbers_of_tiles();
    if (pick < 60) return integer(int_type(), depth);
    if (pick < 80) return boolean_of(depth);
    if (pick < 87) return floating(chance(60) ? f32 : chance(50) ? f16 : f64, depth - 1);
    if (pick < 95) return lanes(chance(60) ? i64 : int_type(), 4, std::min(depth, 3));
    DType t = int_type();
    Expr a = lanes(t, 4, 2), b = lanes(t, 4, 1);
    return binary(chance(50) ? BinaryOp::lt : BinaryOp::eq, a, b);
  }
};

}  // namespace tl::test
