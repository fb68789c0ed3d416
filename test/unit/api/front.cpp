// The public C++ front: the programs it makes, and what running them gives.
#include "api/tilelang.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tilelang;

namespace {

std::string error_of(auto f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Y[i] = body(X[i]) over n elements, in blocks of 16.
template <class Body>
Function map_function(int64_t n, DType type, Body body) {
  Builder b("map");
  auto X = b.tensor("X", {n}, type), Y = b.tensor("Y", {n}, type);
  b.kernel({ceildiv(n, 16)}, 32, [&](Expr bx) {
    b.parallel({16}, [&](Expr i) { Y[bx * 16 + i] = body(Expr(X[bx * 16 + i]), i); });
  });
  return b.finish();
}

}  // namespace

TEST_CASE("an error names the line of the C++ source") {
  Builder b("f");
  auto A = b.tensor("A", {8, 8}, f32);
  int line = __LINE__ + 1;
  std::string text = error_of([&] { b.kernel({1}, 32, [&](Expr i) { A[{i}] = 1; }); });
  CHECK(contains(text, "front.cpp:" + std::to_string(line) + ":"));
  CHECK(contains(text, "A: f32[8, 8] has 2 dimensions, but 1 index was given"));
}

TEST_CASE("a body with the wrong number of variables") {
  Builder b("f");
  std::string text = error_of([&] { b.kernel({1, 2}, 32, [&](Expr) {}); });
  CHECK(contains(text, "this kernel has 2 variables; its body must take as many Exprs"));
}

TEST_CASE("division means what C++ means by it") {
  Builder b("f");
  Expr n = b.scalar("n", i32), x = b.scalar("x", f32);
  CHECK(contains((n / 2).text(), "truncdiv"));
  CHECK(contains((n % 2).text(), "truncmod"));
  CHECK(contains(floordiv(n, 2).text(), "//"));
  CHECK((x / 2).dtype() == f32);
  CHECK((7 / n).dtype() == i32);
  CHECK(Expr(2.5).dtype() == f32);
  CHECK((n > 3 && !(x == 0.0)).dtype() == boolean);
}

TEST_CASE("a slice, a point and a base element") {
  Builder b("f");
  auto A = b.tensor("A", {4, 64, 32}, f32);
  b.kernel({4, 4}, 32, [&](Expr bx, Expr by) {
    auto S = b.alloc_shared("S", {16, 32}, f32);
    b.copy(A(bx, slice(by * 16, (by + 1) * 16), all), S);
    b.copy(S, A(bx, by * 16, 0));
  });
  std::string text = error_of([&] { b.finish(); });
  CHECK(text == "");
}

TEST_CASE("a kernel runs in the reference") {
  Function f =
      map_function(48, f32, [](Expr x, Expr i) { return select(i % 2 == 0, exp(x) - 1, max(x, 0) * i); });
  Kernel k = compile(f, "reference");
  CHECK(k.target() == "reference");
  CHECK(contains(k.explain(), "as it is written"));
  std::vector<float> x(48), y(48, -7);
  for (int i = 0; i < 48; i++) x[size_t(i)] = float(i - 20) / 8;
  k(tensor(x.data(), {48}), tensor(y.data(), {48}));
  for (int i = 0; i < 48; i++) {
    float v = x[size_t(i)];
    int lane = i % 16;
    CHECK(y[size_t(i)] == doctest::Approx(lane % 2 == 0 ? std::exp(v) - 1 : std::max(v, 0.f) * float(lane)));
  }
}

TEST_CASE("arguments that do not fit") {
  Kernel k = compile(map_function(48, f32, [](Expr x, Expr) { return x; }), "reference");
  std::vector<float> x(48), y(48);
  std::vector<double> d(48);
  const float* constant = x.data();
  auto X = tensor(x.data(), {48}), Y = tensor(y.data(), {48});
  CHECK(contains(error_of([&] { k(X); }), "2 arguments were expected (X, Y) but 1 was given"));
  CHECK(
      contains(error_of([&] { k(X, tensor(d.data(), {48})); }), "float64[48] but float32[48] was expected"));
  CHECK(contains(error_of([&] { k(X, tensor(y.data(), {8, 6})); }), "'Y'"));
  CHECK(contains(error_of([&] { k(X, 3); }), "'Y'"));
  CHECK(contains(error_of([&] { k(X, tensor(constant, {48})); }), "'Y'"));  // read-only, and written
  CHECK(error_of([&] { k(X, Y); }) == "");
}

TEST_CASE("extents that a call gives") {
  Builder b("f");
  Expr n = b.dynamic("n");
  auto X = b.tensor("X", {n}, f32);
  Expr scale = b.scalar("scale", f32);
  b.kernel({ceildiv(n, 16)}, 32, [&](Expr bx) {
    b.parallel({16}, [&](Expr i) { b.when(bx * 16 + i < n, [&] { X[bx * 16 + i] *= scale; }); });
  });
  Kernel k = compile(b.finish(), "reference");
  for (int64_t size : {1, 16, 35}) {
    std::vector<float> x(size_t(size), 3);
    k(tensor(x.data(), {size}), 2.5);
    for (float v : x) CHECK(v == 7.5f);
  }
}

TEST_CASE("variables, loops with steps, branches") {
  Builder b("f");
  auto Y = b.tensor("Y", {1}, i32);
  b.kernel({1}, 32, [&](Expr) {
    auto total = b.alloc_var("total", i32);
    b.set(total, 0);
    b.serial("i", Range(10, 0, -3), [&](Expr i) {  // 10 7 4 1
      b.when(i % 2 == 0, [&] { b.set(total, total + i); }, [&] { b.set(total, total - 1); });
    });
    Y[0] = b.let("result", total * 2);
  });
  int32_t y = 0;
  compile(b.finish(), "reference")(tensor(&y, {1}));
  CHECK(y == 24);
}

TEST_CASE("text IR makes the same kernel") {
  Function f = map_function(32, i32, [](Expr x, Expr i) { return x + i; });
  Function g = parse(f.text(), "again.ir");
  CHECK(g.text() == f.text());
  CHECK(g.name() == "map");
  CHECK(contains(error_of([] { parse("kernel", "bad.ir"); }), "bad.ir:1"));
}

TEST_CASE("thread-level code in the reference") {
  Builder b("f");
  auto A = b.tensor("A", {32}, i64);
  b.kernel({1}, 32, [&](Expr) { A[call("thread_index", {0})] = 1; });
  Function f = b.finish();
  CHECK(contains(error_of([&] { compile(f, "reference"); }), "the number of a thread is thread-level code"));
}

TEST_CASE("targets that are not known") {
  Function f = map_function(32, i32, [](Expr x, Expr) { return x; });
  std::string text = error_of([&] { compile(f, "metal"); });
  CHECK(contains(text, "unknown target 'metal'"));
  CHECK(contains(text, "cpu"));
  CHECK(contains(error_of([&] { compile(f, "cuda -arch=none"); }), "there is no chip 'none'"));
}

TEST_CASE("layouts and fragments: the same objects as in Python, and where a function keeps its tiles") {
  Layout padded({8, 32}, [](auto& v) { return std::vector<Expr>{v[0] * 40 + v[1]}; });
  CHECK(padded.text() == "(i, j) -> i*40 + j");
  CHECK(padded({3, 5}) == std::vector<int64_t>{125});
  CHECK(padded.inverse()({125}) == std::vector<int64_t>{3, 5});
  CHECK(padded == Layout({8, 32}, [](auto& v) { return std::vector<Expr>{v[1] + v[0] * 8 * 5}; }));
  CHECK(contains(Layout({1, 2}, [](auto& v) { return std::vector<Expr>{v[1]}; }).drawing(), "0 | 0 1"));
  Fragment base({16, 16}, [](auto& v) {
    return std::vector<Expr>{v[0] % 8 * 4 + v[1] % 8 / 2, v[1] % 2 + v[0] / 8 * 2 + v[1] / 8 * 4};
  });
  Fragment block = base.repeat({2, 1}, false).repeat({4, 1}, true, false).replicate(2);
  Builder b("f");
  auto A = b.tensor("A", {128, 16}, f16);
  b.kernel({1}, 256, [&](Expr) {
    auto S = b.alloc_shared("S", {128, 64}, f16), F = b.alloc_fragment("F", {128, 16}, f16);
    b.annotate_layout(S, Layout::swizzled({128, 64}, f16));
    b.annotate_layout(F, block);
    b.parallel({128, 16}, block, [&](Expr i, Expr j) { F[{i, j}] = A[{i, j}]; });
  });
  std::string text = b.finish().text();
  CHECK(contains(text, "S = shared f16[128, 64] layout((i, j) -> i*64 + (j//8 ^ i%8)*8 + j%8)"));
  CHECK(
      contains(text, "F = fragment f16[128, 16] layout((i, j, k: 2) -> (k*128 + i//32*32 + i%8*4 + j//2%4,"));
  CHECK(contains(text, "{loop_layout=(i: 128, j: 16, k: 2) ->"));
}

TEST_CASE("layouts that cannot be name the line and the two elements") {
  Layout both({4, 4}, [](auto& v) { return std::vector<Expr>{v[0] + v[1]}; });
  int line = __LINE__ + 1;
  std::string text = error_of([&] { both.inverse(); });
  CHECK(contains(text, "front.cpp:" + std::to_string(line) + ":"));
  CHECK(contains(text, "the elements (0, 1) and (1, 0) both go to (1,)"));
  CHECK(contains(error_of([] { Fragment({4}, [](auto& v) { return std::vector<Expr>{v[0]}; }); }),
                 "its thread and its register, not 1"));
  Builder b("f");
  text = error_of(
      [&] { b.kernel({1}, 32, [&](Expr) { b.annotate_layout(b.alloc_shared("S", {4, 4}, f32), both); }); });
  CHECK(contains(text, "this layout of S puts the elements (0, 1) and (1, 0) in one place, 1"));
}

TEST_CASE("reduce: its options in the text, and what is wrong at its line") {
  Builder b("f");
  int line = 0;
  std::string error;
  b.kernel({1}, 32, [&](Expr) {
    auto S = b.alloc_fragment("S", {8, 4}, f32), D = b.alloc_fragment("D", {8}, f32);
    b.reduce("max", S, D);
    b.reduce("abssum", S, D, 1, false);
    line = __LINE__ + 1;
    error = error_of([&] { b.reduce("sum", S, D, 0); });
  });
  CHECK(contains(error, "front.cpp:" + std::to_string(line) + ":"));
  CHECK(contains(error, "out must be f32[4] or f32[1, 4], but it is D: f32[8]"));
  std::string text = b.finish().text();
  CHECK(contains(text, "reduce_max(S, D) {clear=1, dim=-1}"));
  CHECK(contains(text, "reduce_abssum(S, D) {dim=1}"));
}

TEST_CASE("use_swizzle: every block runs once, in another order") {
  Builder b("visits");
  auto Seen = b.tensor("Seen", {5, 7}, i32);
  b.kernel({7, 5}, 32, [&](Expr bx, Expr by) {
    b.use_swizzle(3);
    b.parallel({1}, [&](Expr i) { Seen[{by + i, bx}] += 1; });
  });
  Function f = b.finish();
  CHECK(contains(f.text(), "{use_swizzle=3}"));
  std::vector<int32_t> seen(35, 0);
  compile(f, "cpu", {.cache = false})(tensor(seen.data(), {5, 7}));
  for (int32_t n : seen) CHECK(n == 1);
  Builder c("wrong");
  int line = __LINE__ + 1;
  std::string text = error_of([&] { c.kernel({2, 2}, 32, [&](Expr, Expr) { c.use_swizzle(0); }); });
  CHECK(contains(text, "front.cpp:" + std::to_string(line) + ":"));
  CHECK(contains(text, "panel_size must be a positive constant; it is 0"));
}
