// The reference on small functions in text: values worked out by hand, or by plain loops here.
#include "sim/reference.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"

using namespace tl;

namespace {

Function function_of(std::string_view text) {
  Function f = parse(text, "reference.ir", {find_op_info, find_instr});
  auto finding = check(f, Level::tile);
  CHECK_EQ(finding ? finding->text : "", "");
  return f;
}

std::string error_of(const Function& f, std::vector<HostArg> args) {
  try {
    run_reference(f, args);
  } catch (const CompileError& e) {
    return fmt::format("{}:{}: {}", e.span.line, e.span.column, e.text);
  }
  return "";
}

template <class T>
std::vector<T> small_counted(size_t n) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; i++) v[i] = T(double(i % 13) - 6);
  return v;
}

}  // namespace

TEST_CASE("elementwise, with an extent and a stride that only the call tells") {
  Function f = function_of(R"(
func scale(A: f32[n, 4] strides(lead, 1), s: f32, C: f32[n, 4]):
  kernel main grid(b: ceildiv(n, 2)):
    for i in parallel(2):
      for j in parallel(4):
        if b*2 + i < n:
          C[b*2 + i, j] = max(A[b*2 + i, j]*s, 0.0)
)");
  std::vector<float> a = small_counted<float>(5 * 7), c(5 * 4, -9);
  float s = 0.5f;
  run_reference(f, std::vector<HostArg>{{.data = a.data(), .shape = {5, 4}, .strides = {7, 1}},
                                        {.data = &s},
                                        {.data = c.data(), .shape = {5, 4}}});
  for (size_t i = 0; i < 5; i++)
    for (size_t j = 0; j < 4; j++) CHECK_EQ(c[i * 4 + j], std::max(a[i * 7 + j] * 0.5f, 0.0f));
  CHECK_EQ(error_of(f, {{.data = a.data(), .shape = {5, 4}, .strides = {7, 1}},
                        {.data = &s},
                        {.data = c.data(), .shape = {6, 4}}}),
           "2:1: scale: the shape of C must be (5, 4), not (6, 4)");
}

TEST_CASE("gemm on ragged tiles: copy reads 0 outside and drops what it would write there") {
  Function f = function_of(R"(
func matmul(A: f16[m, k], B: f16[k, n], C: f32[m, n]):
  kernel main grid(bx: ceildiv(n, 4), by: ceildiv(m, 4)) threads(32):
    As = shared f16[4, 8]
    Bs = shared f16[8, 4]
    Cl = fragment f32[4, 4]
    clear(Cl)
    for i in pipelined(ceildiv(k, 8)) {num_stages=2}:
      copy(A[by*4 : +4, i*8 : +8], As)
      copy(B[i*8 : +8, bx*4 : +4], Bs)
      gemm(As, Bs, Cl)
    copy(Cl, C[by*4 : +4, bx*4 : +4])
)");
  int64_t m = 5, n = 7, k = 11;
  std::vector<uint16_t> a(size_t(m * k)), b(size_t(k * n));
  for (size_t i = 0; i < a.size(); i++) a[i] = f16_bits(double(i % 7) / 4 - 1);
  for (size_t i = 0; i < b.size(); i++) b[i] = f16_bits(double(i % 5) / 2 - 1);
  std::vector<float> c(size_t(m * n) + 1, -7);
  for (bool reverse : {false, true}) {
    std::fill(c.begin(), c.end(), -7.0f);
    run_reference(f,
                  std::vector<HostArg>{
                      {a.data(), {m, k}, {k, 1}}, {b.data(), {k, n}, {n, 1}}, {c.data(), {m, n}, {n, 1}}},
                  {.reverse_blocks = reverse});
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t x = 0; x < k; x++)
          sum += f16_value(a[size_t(i * k + x)]) * f16_value(b[size_t(x * n + j)]);
        CHECK_EQ(c[size_t(i * n + j)], float(sum));
      }
    CHECK_EQ(c.back(), -7);
  }
}

TEST_CASE("an index outside its tile is an error at the line, with the index and the extent") {
  Function f = function_of(R"(func f(A: f32[8, 4], C: f32[8]):
  kernel main grid(b: 3):
    S = shared f32[8, 4]
    copy(A, S)
    for i in parallel(4):
      C[i] = S[b*4 + i, 0]
)");
  std::vector<float> a(32, 1), c(8);
  CHECK_EQ(error_of(f, {{.data = a.data()}, {.data = c.data()}}),
           "6:14: S[8, 0]: index 8 of dimension 0 is outside [0, 8), in block (2) of main; guard the access "
           "with an if");
  f = function_of(
      "func f(C: f32[8]):\n  kernel main grid(b: 3):\n    L = local f32[3]\n    L[b - 1] = 1.0\n");
  CHECK_EQ(error_of(f, {{.data = c.data()}}),
           "4:5: L[-1]: index -1 of dimension 0 is outside [0, 3), in block (0) of main; guard the access "
           "with an if");
}

TEST_CASE("outside a tensor a load gives 0 and a store is dropped") {
  Function f = function_of(R"(func f(A: f32[8, 4], C: f32[8]):
  kernel main grid(b: 5):
    C[b*2] = A[b, b] + 1.0
    C[b*2 - 1] = -2.0
)");
  std::vector<float> a(32, 1), c(9, 9);
  run_reference(f, std::vector<HostArg>{{.data = a.data()}, {.data = c.data()}});
  CHECK(c == std::vector<float>{2, -2, 2, -2, 2, -2, 2, -2, 9});
}

TEST_CASE("masks and selects keep an access from happening") {
  Function f = function_of(R"(func f(A: f32[4], C: f32[8], D: f32[8]):
  kernel main grid(b: 1):
    for i in serial(8):
      C[i] = select(i < 4, A[i], -1.0)
      D[i] = A[i + 2] mask(i < 2)
      A[i] mask(i < 4 and A[i] > 1.0) = 0.0
)");
  std::vector<float> a{1, 2, 3, 4}, c(8), d(8);
  run_reference(f, std::vector<HostArg>{{.data = a.data()}, {.data = c.data()}, {.data = d.data()}});
  CHECK(c == std::vector<float>{1, 2, 3, 4, -1, -1, -1, -1});
  CHECK(d == std::vector<float>{3, 4, 0, 0, 0, 0, 0, 0});
  CHECK(a == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("what was never written shows: NaN, or 0xAA") {
  Function f = function_of(R"(func f(C: f32[4], D: i32[4], E: f16[4]):
  W = global u8[4]
  kernel main grid(b: 2):
    F = fragment f32[4]
    S = shared i32[4]
    H = local f16[4]
    if b == 1:
      for i in serial(2):
        F[i] = F[i] + 1.0
      F[2] = 2.0
    for i in serial(4):
      C[i] = F[i]
      D[i] = S[i]
      E[i] = H[i]
    F[0] = 1.0
    D[3] = cast<i32>(W[0])
)");
  std::vector<float> c(4);
  std::vector<int32_t> d(4);
  std::vector<uint16_t> e(4);
  run_reference(f, std::vector<HostArg>{{.data = c.data()}, {.data = d.data()}, {.data = e.data()}});
  CHECK(std::isnan(c[0]));
  CHECK(std::isnan(c[3]));
  CHECK_EQ(c[2], 2.0f);
  CHECK_EQ(uint32_t(d[0]), 0xAAAAAAAAu);
  CHECK_EQ(d[3], 0xAA);
  CHECK(std::isnan(f16_value(e[1])));
}

TEST_CASE("integers wrap, floats round at each operation, division rounds as its name says") {
  Function f = function_of(
      R"(func f(a: i8, b: i8, x: f16, y: bf16, I: i8[6], H: f16[3],
       Y: bf16[1], U: u8[2], L: i64[3], B: bool[2]):
  kernel main grid(k: 1):
    I[0] = a + b
    I[1] = a*b
    I[2] = -a//3:i8
    I[3] = -a%3:i8
    I[4] = truncdiv(-a, 3:i8)
    I[5] = cast<i8>(cast<i32>(cast<f32>(a)*2.75))
    H[0] = x + 1.0:f16
    H[1] = x*x - x
    H[2] = sqrt(x)
    Y[0] = y*y
    U[0] = cast<u8>(a)*2:u8 >> 1:u8
    U[1] = ~cast<u8>(a)
    L[0] = cast<i64>(cast<u64>(a) - 128:u64)
    L[1] = min(cast<i64>(b), -5)
    L[2] = cast<i64>(x)
    B[0] = a < b or isnan(x)
    B[1] = not cast<u64>(-1) < 5:u64
)");
  int8_t a = 100, b = 60;
  uint16_t x = f16_bits(1025.0 / 1024), y = bf16_bits(129.0 / 128);  // the numbers that follow 1
  std::vector<int8_t> i(6);
  std::vector<uint16_t> h(3), yy(1);
  std::vector<uint8_t> u(2), t(2);
  std::vector<int64_t> l(3);
  run_reference(f, std::vector<HostArg>{{.data = &a},
                                        {.data = &b},
                                        {.data = &x},
                                        {.data = &y},
                                        {.data = i.data()},
                                        {.data = h.data()},
                                        {.data = yy.data()},
                                        {.data = u.data()},
                                        {.data = l.data()},
                                        {.data = t.data()}});
  CHECK_EQ(int(i[0]), -96);
  CHECK_EQ(int(i[1]), 6000 - 23 * 256);
  CHECK_EQ(int(i[2]), -34);
  CHECK_EQ(int(i[3]), 2);
  CHECK_EQ(int(i[4]), -33);
  CHECK_EQ(int(i[5]), 275 - 256);
  CHECK_EQ(f16_value(h[0]), 2.0);         // 2.000976… lies halfway between 2 and 2.001953…: to even
  CHECK_EQ(f16_value(h[1]), 1.0 / 1024);  // x*x rounded is 1 + 2/1024
  CHECK_EQ(f16_value(h[2]), 1.0);         // 1.000488… lies just below the middle
  CHECK_EQ(bf16_value(yy[0]), 130.0 / 128);
  CHECK_EQ(int(u[0]), 100);
  CHECK_EQ(int(u[1]), 155);
  CHECK_EQ(l[0], -28);
  CHECK_EQ(l[1], -5);
  CHECK_EQ(l[2], 1);
  CHECK_EQ(int(t[0]), 0);
  CHECK_EQ(int(t[1]), 1);
}

TEST_CASE("several kernels, a workspace between them, control flow") {
  Function f = function_of(R"(func f(A: i32[16], n: i64, C: i32[16]):
  assume n % 4 == 0
  W = global i32[n]
  kernel first grid(bx: 2, by: 2) threads(4):
    for i in parallel(4):
      W[(by*2 + bx)*4 + i] = A[(by*2 + bx)*4 + i] + 10:i32*cast<i32>(bx) + 100:i32*cast<i32>(by)
  kernel second grid(b: 1) threads(4):
    at = local i64[1]
    at[0] = 0
    while at[0] < n:
      v = W[at[0]]
      if v % 2:i32 == 0:i32:
        C[at[0]] = v
      elif v % 3:i32 == 0:i32:
        C[at[0]] = -v
      else:
        C[at[0]] = 0:i32
      at[0] = at[0] + 1
)");
  std::vector<int32_t> a(16), c(16);
  for (int i = 0; i < 16; i++) a[size_t(i)] = i;
  int64_t n = 16;
  run_reference(f, std::vector<HostArg>{{.data = a.data()}, {.data = &n}, {.data = c.data()}});
  for (int i = 0; i < 16; i++) {
    int w = i + 10 * (i / 4 % 2) + 100 * (i / 8);
    CHECK_EQ(c[size_t(i)], w % 2 == 0 ? w : w % 3 == 0 ? -w : 0);
  }
  n = 15;
  CHECK_EQ(error_of(f, {{.data = a.data()}, {.data = &n}, {.data = c.data()}}),
           "2:10: f: `n%4 == 0` does not hold for these arguments");
}

TEST_CASE("blocks run in order, or in reverse") {
  Function f =
      function_of("func f(C: i64[2]):\n  kernel main grid(x: 3, y: 5):\n    C[0] = x\n    C[1] = y\n");
  std::vector<int64_t> c(2, -1);
  run_reference(f, std::vector<HostArg>{{.data = c.data()}});
  CHECK(c == std::vector<int64_t>{2, 4});
  run_reference(f, std::vector<HostArg>{{.data = c.data()}}, {.reverse_blocks = true});
  CHECK(c == std::vector<int64_t>{0, 0});
}

TEST_CASE("faults of the program: division by zero, a shift too far") {
  Function f = function_of("func f(n: i64, C: i64[1]):\n  kernel main grid(b: 1):\n    C[0] = 7//n\n");
  int64_t n = 0, c = 0;
  CHECK_EQ(error_of(f, {{.data = &n}, {.data = &c}}),
           fmt::format("3:12: division by zero: 7 // 0 in block (0) of main; {}", divisor_help));
  f = function_of("func f(n: i64, C: i64[1]):\n  kernel main grid(b: 1):\n    C[0] = 7 << n\n");
  n = 64;
  CHECK_EQ(error_of(f, {{.data = &n}, {.data = &c}}),
           "3:12: a shift of i64 by 64 in block (0) of main; the amount must lie in [0, 64)");
}

TEST_CASE("thread-level code is refused at its line, before anything runs") {
  float c = 5;
  for (auto [statement, column, what] : {std::tuple("C[thread_index(0)] = 1.0", 7, "thread_index"),
                                         std::tuple("C[0] = shfl_xor(C[0], 1)", 12, "shfl_xor"),
                                         std::tuple("C[tx] = 1.0", 5, "the thread index tx")}) {
    Function f =
        function_of("func f(C: f32[1]):\n  kernel main grid(b: 1) thread(tx):\n    C[0] = 2.0\n    " +
                    std::string(statement) + "\n");
    std::string error = error_of(f, {{.data = &c}});
    CHECK_EQ(
        error,
        fmt::format(
            "4:{}: {} is thread-level code, which the reference does not run: run it with target='sim:…'",
            column, what));
    CHECK_EQ(c, 5);
  }
}
