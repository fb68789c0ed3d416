// Expressions in LLVM text, run and compared with the host's arithmetic, one lane and many at a time.
#include <cmath>

#include "unit/codegen/llvm_run.h"

using namespace tl;

namespace {

constexpr size_t elements = 64;
constexpr DType int_types[] = {i8, i16, i32, i64, u8, u16, u32, u64};
constexpr DType float_types[] = {f16, bf16, f32, f64};

using Pair = std::function<Expr(Expr, Expr)>;
struct Made {
  DType type;  // of one element
  Pair value;
  std::vector<char> result;
};

// result[i] = value(X[i], Y[i]) for all i, `lanes` at a time; all in one kernel.  The arrays are bytes.
void map_pairs(const Target& target, DType in, int lanes, std::vector<char>& x, std::vector<char>& y,
               std::vector<Made>& made) {
  Machine m("pairs");
  BufferId X = m.tensor("X", in, {imm(elements)}), Y = m.tensor("Y", in, {imm(elements)});
  Expr i = var("i"), at = i * lanes, index = lanes > 1 ? range_from(at, lanes) : at;
  std::vector<Stmt> stmts;
  std::vector<uint64_t> slots{uint64_t(x.data()), uint64_t(y.data())};
  for (auto& one : made) {
    BufferId Z = m.tensor("Z", one.type, {imm(elements)});
    stmts.push_back(put(Z, index, one.value(m.at(X, index), m.at(Y, index))));
    one.result.assign(elements * 8, 0);
    slots.push_back(uint64_t(one.result.data()));
  }
  m.body({for_loop(i, int64_t(elements) / lanes, Loop::serial, block(std::move(stmts)))});
  run_slots(m.f, target, slots);
}

std::vector<char> numbers(DType t, uint64_t seed, bool divisor = false) {
  std::vector<char> out(elements * 8);
  Numbers random{seed};
  for (size_t i = 0; i < elements; i++) {
    int64_t whole = wrap_int(int64_t(i % 3 ? random.next() : random.next() % 16 - 8), t.is_int() ? t : i64);
    if (divisor && whole == 0) whole = 3;
    put_number(t, out.data(), i, random.between(-100, 100), whole);
  }
  return out;
}

}  // namespace

TEST_CASE("llvm: integer arithmetic is the host's, for every width, sign and number of lanes") {
  for (auto* target : cpu_targets())
    for (DType t : int_types)
      for (int lanes : {1, 8}) {
        auto x = numbers(t, 11), y = numbers(t, 23, true);
        if (t == i64)  // whose arithmetic never overflows
          for (auto* v : {&x, &y})
            for (size_t i = 0; i < elements; i++)
              put_number(t, v->data(), i, 0, (get_whole(t, v->data(), i) >> 33) | 1);
        std::vector<BinaryOp> ops;
        std::vector<Made> made;
        for (int o = 0; o <= int(BinaryOp::ge); o++) {
          auto op = BinaryOp(o);
          if (op == BinaryOp::div) continue;
          bool shifts = op == BinaryOp::shl || op == BinaryOp::shr;
          ops.push_back(op);
          made.push_back({is_comparison(op) ? boolean : t,
                          [=](Expr a, Expr b) {
                            Expr by = shifts ? binary(BinaryOp::bit_and, b, imm(t.bits - 1, b->dtype)) : b;
                            return binary(op, a, by);
                          },
                          {}});
        }
        map_pairs(*target, t, lanes, x, y, made);
        for (size_t o = 0; o < ops.size(); o++)
          for (size_t i = 0; i < elements; i++) {
            BinaryOp op = ops[o];
            int64_t a = get_whole(t, x.data(), i), b = get_whole(t, y.data(), i);
            if (op == BinaryOp::shl || op == BinaryOp::shr) b &= t.bits - 1;
            if (t.is_signed() && b == -1 && a == wrap_int(int64_t(1) << (t.bits - 1), t))
              continue;  // no quotient
            CAPTURE(target->name);
            CAPTURE(to_string(t));
            CAPTURE(name(op));
            CAPTURE(a);
            CAPTURE(b);
            REQUIRE_EQ(get_whole(made[o].type, made[o].result.data(), i), fold_int(op, a, b, t));
          }
      }
}

TEST_CASE("llvm: division by constants of numbers of any sign") {
  for (auto* target : cpu_targets())
    for (int lanes : {1, 4}) {
      auto x = numbers(i64, 5), y = x;
      std::vector<std::pair<BinaryOp, int64_t>> rows;
      std::vector<Made> made;
      for (int64_t divisor : {1, 2, 7, 64, -8, -3})
        for (auto op : {BinaryOp::floordiv, BinaryOp::floormod}) {
          rows.push_back({op, divisor});
          made.push_back({i64, [=](Expr a, Expr) { return binary(op, a, imm(divisor, a->dtype)); }, {}});
        }
      map_pairs(*target, i64, lanes, x, y, made);
      for (size_t r = 0; r < rows.size(); r++)
        for (size_t i = 0; i < elements; i++)
          REQUIRE_EQ(get_whole(i64, made[r].result.data(), i),
                     fold_int(rows[r].first, get_whole(i64, x.data(), i), rows[r].second, i64));
    }
}

TEST_CASE("llvm: float arithmetic rounds once, min and max of a NaN give the other operand") {
  constexpr BinaryOp ops[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul,
                              BinaryOp::div, BinaryOp::min, BinaryOp::max};
  for (auto* target : cpu_targets())
    for (DType t : float_types)
      for (int lanes : {1, 8}) {
        auto x = numbers(t, 7), y = numbers(t, 8);
        put_number(t, x.data(), 0, NAN, 0);
        put_number(t, y.data(), 9, NAN, 0);
        std::vector<Made> made;
        for (auto op : ops) made.push_back({t, [=](Expr a, Expr b) { return binary(op, a, b); }, {}});
        map_pairs(*target, t, lanes, x, y, made);
        for (size_t o = 0; o < made.size(); o++)
          for (size_t i = 0; i < elements; i++) {
            double want = fold_float(ops[o], get_number(t, x.data(), i), get_number(t, y.data(), i), t);
            double got = get_number(t, made[o].result.data(), i);
            CAPTURE(target->name);
            CAPTURE(to_string(t));
            CAPTURE(name(ops[o]));
            REQUIRE((got == want || (std::isnan(got) && std::isnan(want))));
          }
      }
}

TEST_CASE("llvm: casts between any two types") {
  auto all = std::vector<DType>(std::begin(int_types), std::end(int_types));
  all.insert(all.end(), std::begin(float_types), std::end(float_types));
  for (auto* target : cpu_targets())
    for (DType from : all)
      for (int lanes : {1, 8}) {
        auto x = numbers(from, 31), y = numbers(from, 32);
        for (size_t i = 0; i < elements;
             i++)  // Y: in the range of every integer type; outside there is no meaning
          put_number(from, y.data(), i, double(i) + 0.75, int64_t(i));
        std::vector<Made> made;
        auto whole = [&](DType to) { return from.is_float() && to.is_int(); };
        for (DType to : all)
          made.push_back(
              {to, [=](Expr a, Expr b) { return cast(to.with_lanes(lanes), whole(to) ? b : a); }, {}});
        map_pairs(*target, from, lanes, x, y, made);
        for (auto& one : made)
          for (size_t i = 0; i < elements; i++) {
            DType to = one.type;
            auto& source = whole(to) ? y : x;
            double a = get_number(from, source.data(), i);
            CAPTURE(target->name);
            CAPTURE(to_string(from));
            CAPTURE(to_string(to));
            CAPTURE(a);
            if (to.is_int()) {
              int64_t want = from.is_int() ? get_whole(from, x.data(), i) : int64_t(a);
              REQUIRE_EQ(get_whole(to, one.result.data(), i), wrap_int(want, to));
            } else if (to == f64 || from.bits < 64 ||
                       from == f64) {  // the host rounds a 64-bit integer twice
              REQUIRE_EQ(get_number(to, one.result.data(), i), round_float(a, to));
            }
          }
      }
}

TEST_CASE("llvm: every 16-bit float widens and narrows exactly, NaN and infinity with it") {
  constexpr int64_t all = 1 << 16;
  for (auto* target : cpu_targets())
    for (DType t : {f16, bf16}) {
      Machine m("halves");
      BufferId x = m.tensor("X", t, {imm(all)}), w = m.tensor("W", f32, {imm(all)}),
               y = m.tensor("Y", t, {imm(all)});
      BufferId d = m.tensor("D", t, {imm(all)});
      Expr i = var("i"), at = range_from(i * 8, 8), v = cast(f32.with_lanes(8), m.at(x, at));
      Expr twice = cast(f64.with_lanes(8), v) * fimm(1.0001, f64.with_lanes(8));
      m.body({for_loop(i, all / 8, Loop::serial,
                       block({put(w, at, v), put(y, at, cast(t.with_lanes(8), v * fimm(1.0005, v->dtype))),
                              put(d, at, cast(t.with_lanes(8), twice))}))});
      std::vector<uint16_t> in(all), narrow(all), rounded(all);
      std::vector<float> wide(all);
      for (int64_t j = 0; j < all; j++) in[size_t(j)] = uint16_t(j);
      run_on(m.f, *target, in, wide, narrow, rounded);
      auto bits = [&](double value) { return t == f16 ? f16_bits(value) : bf16_bits(value); };
      for (size_t j = 0; j < size_t(all); j++) {
        double value = t == f16 ? f16_value(in[j]) : bf16_value(in[j]);
        CAPTURE(j);
        CAPTURE(to_string(t));
        CAPTURE(target->name);
        if (std::isnan(value)) {
          REQUIRE(std::isnan(wide[j]));
          REQUIRE(std::isnan(t == f16 ? f16_value(narrow[j]) : bf16_value(narrow[j])));
          continue;
        }
        REQUIRE_EQ(double(wide[j]), value);
        REQUIRE_EQ(narrow[j], bits(double(wide[j] * 1.0005f)));
        REQUIRE_EQ(rounded[j], bits(value * 1.0001));
      }
    }
}

TEST_CASE("llvm: the scalar functions, in units of the last place") {
  struct Row {
    std::string_view name;
    double low, high, most_ulp;
  };
  static constexpr Row rows[] = {{"exp", -87, 88, 2},     {"exp2", -126, 127.5, 2}, {"log", 1e-6, 1e6, 2},
                                 {"log2", 1e-6, 1e6, 2},  {"log10", 1e-6, 1e6, 2},  {"sqrt", 0, 1e6, 0.5},
                                 {"rsqrt", 1e-6, 1e6, 2}, {"sin", -10, 10, 2},      {"cos", -10, 10, 2},
                                 {"tanh", -9, 9, 2.5},    {"sigmoid", -30, 30, 3},  {"erf", -4, 4, 2},
                                 {"abs", -5, 5, 0},       {"floor", -9, 9, 0},      {"ceil", -9, 9, 0},
                                 {"round", -9, 9, 0},     {"trunc", -9, 9, 0}};
  constexpr int64_t n = 2048;
  for (auto* target : cpu_targets())
    for (DType t : {f32, f64}) {
      int64_t all = n * int64_t(std::size(rows)), first = 0;
      Machine m("functions");
      BufferId x = m.tensor("X", t, {imm(all)}), y = m.tensor("Y", t, {imm(all)});
      std::vector<double> in(size_t(all), 0), out(size_t(all), 0);
      std::vector<Stmt> loops;
      Numbers random;
      for (auto& row : rows) {
        Expr i = var("i"), at = range_from(i * 8 + first, 8);
        loops.push_back(
            for_loop(i, n / 8, Loop::serial, put(y, at, call(*find_intrinsic(row.name), {m.at(x, at)}))));
        for (int64_t j = 0; j < n; j++)
          put_number(t, in.data(), size_t(first + j), random.between(row.low, row.high), 0);
        first += n;
      }
      m.body(loops);
      run_on(m.f, *target, in, out);
      for (size_t r = 0; r < std::size(rows); r++) {
        double worst = 0, digits = t == f32 ? 23 : 52;
        for (size_t j = r * n; j < (r + 1) * n; j++) {
          double a = get_number(t, in.data(), j), want = find_intrinsic(rows[r].name)->eval(&a);
          int exponent = std::max(std::ilogb(want == 0 ? 1e-300 : want), t == f32 ? -126 : -1022);
          worst = std::max(
              worst, std::fabs(get_number(t, out.data(), j) - want) / std::ldexp(1, exponent - int(digits)));
        }
        CAPTURE(target->name);
        CAPTURE(to_string(t));
        CAPTURE(rows[r].name);
        CHECK_LE(worst, rows[r].most_ulp);
      }
    }
}

TEST_CASE("llvm: the ends of exp, exp2, tanh and sigmoid") {
  for (auto* target : cpu_targets()) {
    auto apply = [&](std::string_view name, std::vector<float> in) {
      Machine m("ends");
      in.resize(8);
      BufferId x = m.tensor("X", f32, {imm(8)}), y = m.tensor("Y", f32, {imm(8)});
      m.body({put(y, range_from(imm(0), 8), call(*find_intrinsic(name), {m.at(x, range_from(imm(0), 8))}))});
      std::vector<float> out(8);
      run_on(m.f, *target, in, out);
      return out;
    };
    auto e = apply("exp", {0, -1000, 1000, NAN, INFINITY, -INFINITY, -100, -0.0f});
    CHECK_EQ(e[0], 1);
    CHECK_EQ(e[1], 0);
    CHECK_EQ(e[2], INFINITY);
    CHECK(std::isnan(e[3]));
    CHECK_EQ(e[4], INFINITY);
    CHECK_EQ(e[5], 0);
    CHECK_EQ(e[6], doctest::Approx(std::exp(-100.0f)).epsilon(1e-3));  // denormal
    CHECK_EQ(e[7], 1);
    auto p = apply("exp2", {3, -149, 128, NAN, -160, 127, -INFINITY, 0});
    CHECK_EQ(p[0], 8);
    CHECK_EQ(p[1], 0x1p-149f);
    CHECK_EQ(p[2], INFINITY);
    CHECK(std::isnan(p[3]));
    CHECK_EQ(p[4], 0);
    CHECK_EQ(p[5], 0x1p127f);
    CHECK_EQ(p[6], 0);
    auto t = apply("tanh", {0, 50, -50, NAN, INFINITY, -INFINITY, 1e-30f});
    CHECK_EQ(t[0], 0);
    CHECK_EQ(t[1], 1);
    CHECK_EQ(t[2], -1);
    CHECK(std::isnan(t[3]));
    CHECK_EQ(t[4], 1);
    CHECK_EQ(t[5], -1);
    CHECK_EQ(t[6], 1e-30f);
    auto s = apply("sigmoid", {0, 200, -200, NAN});
    CHECK_EQ(s[0], 0.5f);
    CHECK_EQ(s[1], 1);
    CHECK_EQ(s[2], 0);
    CHECK(std::isnan(s[3]));
  }
}

TEST_CASE("llvm: questions about floats, functions of two and three arguments, of halves and integers") {
  for (auto* target : cpu_targets()) {
    Machine m("questions");
    BufferId x = m.tensor("X", f32, {imm(4)}), y = m.tensor("Y", i32, {imm(12)}),
             z = m.tensor("Z", f16, {imm(4)});
    Expr at = range_from(imm(0), 4), v = m.at(x, at);
    auto ask = [&](const char* name) { return cast(i32.with_lanes(4), call(*find_intrinsic(name), {v})); };
    Expr h = cast(f16.with_lanes(4), v);
    m.body({put(y, at, ask("isnan")), put(y, range_from(imm(4), 4), ask("isinf")),
            put(y, range_from(imm(8), 4), ask("isfinite")),
            put(z, at, call(*find_intrinsic("pow"), {h, h}))});
    std::vector<float> in{NAN, -INFINITY, 2, 3};
    std::vector<int> out(12);
    std::vector<uint16_t> half(4);
    run_on(m.f, *target, in, out, half);
    CHECK_EQ(out, std::vector<int>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1});
    CHECK_EQ(half[2], f16_bits(4));
    CHECK_EQ(half[3], f16_bits(27));

    Machine n("more");
    BufferId a = n.tensor("A", i32, {imm(2)}), b = n.tensor("B", i32, {imm(2)}),
             c = n.tensor("C", f64, {imm(1)});
    Expr w = n.at(a, imm(0)), d = n.at(c, imm(0));
    n.body({put(b, imm(0), call(*find_intrinsic("abs"), {w})), put(b, imm(1), unary(UnaryOp::bit_not, w)),
            put(c, imm(0), call(fma_function, {d, d, unary(UnaryOp::neg, d)}))});
    std::vector<int> from{-7, 0}, to(2);
    std::vector<double> real{0.1};
    run_on(n.f, *target, from, to, real);
    CHECK_EQ(to, std::vector<int>{7, 6});
    CHECK_EQ(real[0], std::fma(0.1, 0.1, -0.1));
  }
}
