// C = max(A @ B, 0) in float16 with float32 accumulation, written, compiled, run and checked in C++ alone.
// It is the twin of gemm_relu.py: both describe the same program (--text prints it).
//   example_gemm_relu [--target auto|cpu|cuda|sim:CHIP|reference] [--text] [M N K]
#include <tilelang.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

using namespace tilelang;
using Half = _Float16;

static Function gemm_relu(int64_t M, int64_t N, int64_t K) {
  const int64_t block_M = 64, block_N = 64, block_K = 32;
  Builder b("main");
  auto A = b.tensor("A", {M, K}, f16);
  auto B = b.tensor("B", {K, N}, f16);
  auto C = b.tensor("C", {M, N}, f16);
  b.kernel({ceildiv(N, block_N), ceildiv(M, block_M)}, 128, [&](Expr bx, Expr by) {
    auto A_tile = b.alloc_shared("A_tile", {block_M, block_K}, f16);
    auto B_tile = b.alloc_shared("B_tile", {block_K, block_N}, f16);
    auto C_tile = b.alloc_fragment("C_tile", {block_M, block_N}, f32);
    b.clear(C_tile);
    b.pipelined("k", ceildiv(K, block_K), 2, [&](Expr k) {
      b.copy(A(by * block_M, k * block_K), A_tile);
      b.copy(B(k * block_K, bx * block_N), B_tile);
      b.gemm(A_tile, B_tile, C_tile);
    });
    b.parallel({block_M, block_N}, [&](Expr i, Expr j) { C_tile[{i, j}] = max(C_tile[{i, j}], 0); });
    b.copy(C_tile, C(by * block_M, bx * block_N));
  });
  return b.finish();
}

static std::vector<Half> random_values(int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Half> values(static_cast<size_t>(n));
  for (Half& v : values) v = Half(uniform(engine));
  return values;
}

// The norm of the difference to the same product in double, relative to its own.
static double error_of(const Half* a, const Half* b, const Half* c, int64_t M, int64_t N, int64_t K) {
  double difference = 0, whole = 0;
  std::vector<double> row(static_cast<size_t>(N));
  for (int64_t i = 0; i < M; i++) {
    row.assign(row.size(), 0.0);
    for (int64_t k = 0; k < K; k++)
      for (int64_t j = 0; j < N; j++) row[size_t(j)] += double(a[i * K + k]) * double(b[k * N + j]);
    for (int64_t j = 0; j < N; j++) {
      double exact = row[size_t(j)] > 0 ? row[size_t(j)] : 0, d = exact - double(c[i * N + j]);
      difference += d * d;
      whole += exact * exact;
    }
  }
  return std::sqrt(difference / (whole > 0 ? whole : 1));
}

static bool check(const std::string& target, int64_t M, int64_t N, int64_t K) {
  Kernel kernel = compile(gemm_relu(M, N, K), target);
  auto a = random_values(M * K, 1), b = random_values(K * N, 2), c = std::vector<Half>(size_t(M * N));
  DeviceTensor A = kernel.to_device({.data = a.data(), .type = f16, .shape = {M, K}});
  DeviceTensor B = kernel.to_device({.data = b.data(), .type = f16, .shape = {K, N}});
  DeviceTensor C = kernel.to_device({.data = c.data(), .type = f16, .shape = {M, N}});
  kernel(A, B, C);
  C.to_host(c.data());
  double error = error_of(a.data(), b.data(), c.data(), M, N, K);
  std::printf("%s: %lld x %lld x %lld: relative error %.1e\n", kernel.target().c_str(),
              static_cast<long long>(M), static_cast<long long>(N), static_cast<long long>(K), error);
  return error <= 5e-4;
}

int main(int argc, char** argv) try {
  std::string target = "auto";
  bool text = false;
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; i++) {
    if (!std::strcmp(argv[i], "--target") && i + 1 < argc)
      target = argv[++i];
    else if (!std::strcmp(argv[i], "--text"))
      text = true;
    else
      sizes.push_back(std::atoll(argv[i]));
  }
  if (!sizes.empty() && sizes.size() != 3) throw std::runtime_error("three sizes are needed: M N K");
  if (text) {
    if (sizes.empty()) sizes = {200, 300, 100};
    std::fputs(gemm_relu(sizes[0], sizes[1], sizes[2]).text().c_str(), stdout);
    return 0;
  }
  if (!sizes.empty()) return check(target, sizes[0], sizes[1], sizes[2]) ? 0 : 1;
  bool right = true;
  for (auto [M, N, K] : {std::array<int64_t, 3>{1, 1, 1}, {17, 100, 33}, {128, 128, 128}, {200, 300, 100}})
    right = check(target, M, N, K) && right;
  return right ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
