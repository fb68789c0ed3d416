// Every instruction row has semantics, and they are those of its fragments; the fragments' own formulas are
// held against the manual in unit/target/rows.cpp.
#include "sim/instr.h"

#include <random>

#include "sim/steps.h"
#include "target/check.h"
#include "target/nvidia.h"
#include "unit/sim/machine_text.h"

using namespace tl;

TEST_CASE("every instruction of every GPU has semantics, and every thread-level function") {
  size_t rows = 0;
  auto check_intrinsic = [&](const Intrinsic& intrinsic) {
    CAPTURE(intrinsic.name);
    CHECK(bool(sim::semantics_of(intrinsic).run));
    rows++;
  };
  for (auto* t : all_targets()) {
    if (!t->has_threads()) continue;
    for (auto* row : t->matrix) check_intrinsic(row->intrinsic);
    for (auto* row : t->copies) check_intrinsic(row->intrinsic);
    for (auto& row : t->async) check_intrinsic(row.intrinsic);
  }
  // Where a thread goes, the promise, and what canonicalize makes of the width of a warp are no instructions.
  auto is_resolved = [](const Intrinsic& c) { return c.name.starts_with("warp_") || c.name == "all_lanes"; };
  for (auto& intrinsic : thread_functions())
    if (intrinsic.effect != Intrinsic::Effect::control && &intrinsic != &block_uniform &&
        !is_resolved(intrinsic))
      check_intrinsic(intrinsic);
  CHECK_GE(rows, 4 * 8 + 3);
  CHECK_FALSE(bool(sim::semantics_of({.name = "no_such_row"}).run));
  for (auto& intrinsic : scalar_functions()) CHECK(bool(intrinsic.eval));
}

namespace {

// All of a row's operands from tensors, element `reg` of lane `tx` at tx*registers + reg.
std::string matrix_text(const MatrixInstr& row) {
  auto element = [](DType t) { return to_string(t); };
  return fmt::format(R"(
func main(A: {0}[{3}], B: {1}[{4}], C: {2}[{5}]):
  kernel main grid(b: 1) threads(32) thread(tx):
    a = local {0}[{6}] elements({6})
    b_regs = local {1}[{7}] elements({7})
    c = local {2}[{8}] elements({8})
    for r in serial({6}):
      a[r] = A[tx*{6} + r]
    for r in serial({7}):
      b_regs[r] = B[tx*{7} + r]
    for r in serial({8}):
      c[r] = C[tx*{8} + r]
    {9}(address_of(c[0]), address_of(a[0]), address_of(b_regs[0]))
    for r in serial({8}):
      C[tx*{8} + r] = c[r]
)",
                     element(row.a_type), element(row.b_type), element(row.c_type), 32 * row.a.registers,
                     32 * row.b.registers, 32 * row.c.registers, row.a.registers, row.b.registers,
                     row.c.registers, row.intrinsic.name);
}

struct Matrix {
  DType type;
  const OperandFragment& fragment;
  std::vector<double> values;     // rows × cols
  std::vector<std::byte> memory;  // by lane and register

  Matrix(DType type, const OperandFragment& f, std::mt19937& random)
      : type(type),
        fragment(f),
        values(size_t(f.rows * f.cols)),
        memory(size_t(f.rows * f.cols * type.bytes())) {
    for (double& v : values) v = double(int(random() % 33) - 16) / (type.is_float() ? 8 : 1);
    each([&](size_t at, std::byte* m) {
      element_access(type).put(m, type.is_float() ? scalar(values[at]) : scalar(int64_t(values[at])));
      Scalar held = element_access(type).get(m);  // what the type can hold of it
      values[at] = type.is_float() ? held.d : double(held.i);
    });
  }
  template <class F>
  void each(F f) {
    for (int lane = 0; lane < 32; lane++)
      for (int reg = 0; reg < fragment.registers; reg++) {
        auto [i, j] = element_of(fragment, lane, reg);
        f(size_t(i * fragment.cols + j), memory.data() + (lane * fragment.registers + reg) * type.bytes());
      }
  }
};

}  // namespace

TEST_CASE("matrix instructions multiply what their fragments hold, and add") {
  std::mt19937 random(1);
  for (auto* row : nvidia_matrix_rows()) {
    CAPTURE(row->intrinsic.name);
    Matrix a(row->a_type, row->a, random), b(row->b_type, row->b, random), c(row->c_type, row->c, random);
    std::vector<double> expected = c.values;
    for (size_t i = 0; i < size_t(row->m); i++)
      for (size_t j = 0; j < size_t(row->n); j++)
        for (size_t k = 0; k < size_t(row->k); k++)
          expected[i * size_t(row->n) + j] +=
              a.values[i * size_t(row->k) + k] * b.values[k * size_t(row->n) + j];
    simulate(matrix_text(*row), a.memory, b.memory, c.memory);
    c.each([&](size_t at, std::byte* m) {
      Scalar v = element_access(c.type).get(m);
      CHECK_EQ(c.type.is_float() ? v.d : double(v.i), expected[at]);
    });
  }
}

TEST_CASE("sums round in f32, one product after another") {
  // 2^24 + 1 - 2^24 … in the order of k, beginning with C: the 1 is lost.
  const MatrixInstr& row = mma_16bit[1];
  std::mt19937 random(1);
  Matrix a(bf16, row.a, random), b(bf16, row.b, random), c(f32, row.c, random);
  double of_k[16] = {16777216.0, 1.0, -16777216.0, 1.0};
  a.each([&](size_t at, std::byte* m) { element_access(bf16).put(m, scalar(of_k[at % 16])); });
  b.each([&](size_t, std::byte* m) { element_access(bf16).put(m, scalar(1.0)); });
  c.each([&](size_t, std::byte* m) { element_access(f32).put(m, scalar(0.5)); });
  simulate(matrix_text(row), a.memory, b.memory, c.memory);
  c.each([&](size_t, std::byte* m) { CHECK_EQ(element_access(f32).get(m).d, 1.0); });
}

TEST_CASE("ldmatrix: row r of block j comes from lane 8j + r; two elements a register, or their mirror") {
  for (auto* row : nvidia_copies(80)) {
    CAPTURE(row->intrinsic.name);
    std::vector<uint16_t> a = counted<uint16_t>(32 * 8), c(size_t(32 * 2 * row->matrices), 9999);
    simulate(fmt::format(R"(
func main(A: u16[256], C: u16[{0}]):
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared u16[256] address(0) elements(256)
    r = local u16[{1}] elements({1})
    for i in serial(8):
      S[tx*8 + i] = A[tx*8 + i]
    sync_threads()
    {2}(address_of(r[0]), address_of(S[(tx ^ 1)*8]))
    for i in serial({1}):
      C[tx*{1} + i] = r[i]
)",
                         c.size(), 2 * row->matrices, row->intrinsic.name),
             a, c);
    for (int lane = 0; lane < 32; lane++)
      for (int block = 0; block < row->matrices; block++)
        for (int e = 0; e < 2; e++) {
          int i = lane / 4, j = lane % 4 * 2 + e;
          if (row->transposed) std::swap(i, j);
          int given = 8 * block + i;  // the lane whose address names that row
          CHECK_EQ(c[size_t(lane * 2 * row->matrices + 2 * block + e)], (given ^ 1) * 8 + j);
        }
  }
}

TEST_CASE("stmatrix: what ldmatrix brings to registers it stores at the same rows") {
  for (auto* row : nvidia_copies(90)) {
    if (!row->intrinsic.name.starts_with("stmatrix")) continue;
    CAPTURE(row->intrinsic.name);
    std::string load =
        fmt::format("ldmatrix{}", row->intrinsic.name.substr(std::string_view("stmatrix").size()));
    std::vector<uint16_t> a = counted<uint16_t>(32 * 8), c(32 * 8, 9999);
    simulate(fmt::format(R"(
func main(A: u16[256], C: u16[256]):
  kernel main grid(b: 1) threads(32) thread(tx):
    S = shared u16[256] address(0) elements(256)
    R = shared u16[256] address(512) elements(256)
    r = local u16[{0}] elements({0})
    for i in serial(8):
      S[tx*8 + i] = A[tx*8 + i]
      R[tx*8 + i] = 7:u16
    sync_threads()
    {1}(address_of(r[0]), address_of(S[tx*8]))
    {2}(address_of(r[0]), address_of(R[(tx ^ 1)*8]))
    sync_threads()
    for i in serial(8):
      C[tx*8 + i] = R[(tx ^ 1)*8 + i]
)",
                         2 * row->matrices, load, row->intrinsic.name),
             a, c);
    for (size_t i = 0; i < c.size(); i++) CHECK_EQ(c[i], i < size_t(64 * row->matrices) ? i : 7);
  }
}

TEST_CASE(
    "an instruction refuses half a warp, a misaligned row, registers that do not exist, another memory") {
  std::vector<uint16_t> a(256);
  auto with = [&](std::string_view threads, std::string_view body) {
    return fault_of(
        fmt::format(
            "func main(A: u16[256]):\n  kernel main grid(b: 1) threads({}) thread(tx):\n"
            "    S = shared u16[256] address(0) elements(256)\n"
            "    r = local u16[8] elements(8)\n    for i in serial(8):\n      S[i*32 + tx % 32] = 0:u16\n"
            "    sync_threads()\n{}",
            threads, body),
        a);
  };
  std::string load = "ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))\n";
  CHECK_EQ(with("32", "    " + load), "");
  CHECK_EQ(with("32", "    if tx < 31:\n      " + load),
           "9:7: ldmatrix_x4 needs all 32 threads of the warp, but thread 31 of block (0) of main does not "
           "take part, while thread 0 of block (0) of main executes it; move it out of the condition");
  CHECK_EQ(with("48", "    if tx >= 32:\n      " + load),
           "9:7: ldmatrix_x4 needs all 32 threads of the warp, but thread 48 does not exist, while thread 32 "
           "of block (0) of main executes it; make the number of threads a multiple of the warp");
  CHECK(contains(with("32", "    ldmatrix_x4(address_of(r[0]), address_of(S[tx*4]))\n"),
                 "8:5: S[4]: one access of 16 bytes, but the address is not divisible by 16, in thread 1"));
  CHECK(contains(with("32", "    ldmatrix_x4(address_of(r[2]), address_of(S[tx*8]))\n"),
                 "r[8]: element 8 (of a vector of 8 from 2) is outside [0, 8) in thread 0"));
  CHECK(contains(with("32", "    ldmatrix_x2(address_of(r[1]), address_of(S[tx*8]))\n"),
                 "r[1]: one access of 4 bytes, but the address is not divisible by 4"));
  CHECK(contains(with("32", "    ldmatrix_x4(address_of(r[0]), address_of(A[tx*8]))\n"), "A is not shared"));
}

TEST_CASE("threads by dimension") {
  std::vector<int64_t> c(3 * 64, -1);
  simulate(R"(
func main(C: i64[3, 64]):
  kernel main grid(b: 1) threads(4, 8, 2) thread(tx):
    C[tx] = thread_index(0)
    C[tx + 64] = thread_index(1)
    C[tx + 128] = thread_index(2)
)",
           c);
  for (int t = 0; t < 64; t++) {
    CHECK_EQ(c[size_t(t)], t % 4);
    CHECK_EQ(c[size_t(t + 64)], t / 4 % 8);
    CHECK_EQ(c[size_t(t + 128)], t / 32);
  }
}

TEST_CASE("shuffles: each thread gets another's value, its own where there is no other") {
  std::vector<float> a = counted<float>(64), c(4 * 64, -1);
  std::string text = R"(
func main(A: f32[64], C: f32[4, 64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    C[tx] = shfl(A[tx], tx // 4 % 8)
    C[tx + 64] = shfl_xor(A[tx], 5)
    C[tx + 128] = shfl_up(A[tx], 3)
    C[tx + 192] = shfl_down(A[tx], 30)
)";
  simulate(text, a, c);
  for (int t = 0; t < 64; t++) {
    int lane = t % 32, warp = t - lane;
    CHECK_EQ(c[size_t(t)], warp + t / 4 % 8);
    CHECK_EQ(c[size_t(t + 64)], warp + (lane ^ 5));
    CHECK_EQ(c[size_t(t + 128)], lane >= 3 ? t - 3 : t);
    CHECK_EQ(c[size_t(t + 192)], lane + 30 < 32 ? t + 30 : t);
  }
  text.insert(text.find("    C[tx]"), "    if tx < 40:\n  ");
  CHECK(contains(fault_of(text, a, c),
                 "shfl needs all 32 threads of the warp, but thread 40 of block (0) of main"));
}

TEST_CASE("every scalar function gives what its eval gives, rounded") {
  for (auto& row : scalar_functions()) {
    CAPTURE(row.name);
    std::vector<float> a = {0.25f, 0.5f, 0.75f, 2.5f}, c(4, -7);
    std::string args = row.arity == 1 ? "A[tx]" : row.arity == 2 ? "A[tx], 1.25" : "A[tx], 1.25, -0.3";
    bool is_bool = row.result == Intrinsic::Result::boolean;
    simulate(fmt::format("func main(A: f32[4], C: f32[4]):\n  kernel main grid(b: 1) threads(4) thread(tx):\n"
                         "    C[tx] = {0}{1}({2}){3}\n",
                         is_bool ? "cast<f32>(" : "", row.name, args, is_bool ? ")" : ""),
             a, c);
    for (size_t i = 0; i < 4; i++) {
      double values[] = {a[i], 1.25, double(-0.3f)};
      float wanted = float(row.eval(values));
      CHECK((c[i] == wanted || (std::isnan(c[i]) && std::isnan(wanted))));
    }
  }
}
TEST_CASE("every exact function gives what its row says") {
  for (auto& row : exact_functions()) {
    if (row.takes != Intrinsic::ArgDomain::floats && row.takes != Intrinsic::ArgDomain::singles) continue;
    CAPTURE(row.name);
    std::vector<float> a = {0.25f, 0.3f, 0.75f, 2.5f}, c(4, -7);
    std::string args = row.arity == 1 ? "A[tx]" : row.arity == 2 ? "A[tx], 1.1" : "A[tx], 1.1, -0.3";
    simulate(fmt::format("func main(A: f32[4], C: f32[4]):\n  kernel main grid(b: 1) threads(4) thread(tx):\n"
                         "    C[tx] = {}({})\n",
                         row.name, args),
             a, c);
    for (size_t i = 0; i < 4; i++) {
      Scalar values[] = {{.d = a[i]}, {.d = double(1.1f)}, {.d = double(-0.3f)}};
      DType types[] = {f32, f32, f32};
      CHECK_EQ(c[i], float(row.exact(values, types, f32).d));
    }
  }
}
