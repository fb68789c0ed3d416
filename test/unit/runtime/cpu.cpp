// Text to object to numbers on the thread pool, by whichever libLLVM this machine has.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "runtime/executable.h"
#include "runtime/half.h"
#include "runtime/object.h"
#include "runtime/pool.h"

using namespace tl;
using Op = Formula::Op;

namespace {

// f(A, B, n): one block per 256 elements; B gets something of A.
Program elementwise(const std::string& name, const std::string& body) {
  Formula n{{{Op::integer, 0}}};
  Program p;
  p.name = name;
  p.language = "llvm";
  p.chip = host_cpu();
  p.text =
      "define void @entry(ptr %slots, i64 %bx, i64 %by, i64 %bz, ptr %arena) nounwind {\n"
      "  %a = load ptr, ptr %slots\n"
      "  %bp = getelementptr ptr, ptr %slots, i64 1\n  %b = load ptr, ptr %bp\n"
      "  %np = getelementptr i64, ptr %slots, i64 2\n  %n = load i64, ptr %np\n"
      "  %base = mul i64 %bx, 256\n" +
      body;
  p.params = {{"A", true, "f32", 32, {n}, {Formula::constant(1)}, false},
              {"B", true, "f32", 32, {n}, {Formula::constant(1)}, true}};
  p.integers = {{"n", 0, IntegerSource::From::extent, 0}};
  EntrySpec entry{
      .name = "entry", .grid = {}, .threads = {1, 1, 1}, .shared_bytes = 0, .arena_bytes = 4096, .args = {}};
  entry.grid = {
      {{{Op::integer, 0}, {Op::constant, 255}, {Op::add, 0}, {Op::constant, 256}, {Op::floordiv, 0}}}};
  entry.args = {
      {EntrySpec::Arg::From::param, 0}, {EntrySpec::Arg::From::param, 1}, {EntrySpec::Arg::From::integer, 0}};
  p.entries = {entry};
  return p;
}

// Per element, guarded: B[i] = step(A[i]).
Program scalar_loop(const std::string& name, const std::string& step, const std::string& declarations = "") {
  return elementwise(name,
                     "  br label %loop\nloop:\n"
                     "  %j = phi i64 [0, %0], [%j1, %next]\n  %i = add i64 %base, %j\n"
                     "  %in = icmp slt i64 %i, %n\n  br i1 %in, label %do, label %next\ndo:\n"
                     "  %p = getelementptr float, ptr %a, i64 %i\n  %x = load float, ptr %p\n" +
                         step +
                         "  %q = getelementptr float, ptr %b, i64 %i\n  store float %y, ptr %q\n"
                         "  br label %next\nnext:\n"
                         "  %j1 = add i64 %j, 1\n  %more = icmp slt i64 %j1, 256\n"
                         "  br i1 %more, label %loop, label %end\nend:\n  ret void\n}\n" +
                         declarations);
}

std::vector<float> run(Executable& f, const std::vector<float>& input) {
  std::vector<float> output(input.size(), -1);
  const int64_t shape[] = {int64_t(input.size())};
  TensorView a{.data = const_cast<float*>(input.data()), .ndim = 1, .shape = shape, .readonly = true};
  TensorView b{.data = output.data(), .ndim = 1, .shape = shape};
  const Argument arguments[] = {a, b};
  f.call(arguments);
  return output;
}

Executable compiled(Program p) {
  p.alignment = 4;
  DeviceBinary binary = build(p);
  return Executable(std::move(p), std::move(binary));
}

std::vector<float> ramp(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; i++) x[i] = float(i) * 0.01f - 5;
  return x;
}

}  // namespace

TEST_CASE("cpu: a loop runs over every block, for 0, 1, many elements and threads") {
  Executable f = compiled(scalar_loop("twice", "  %y = fadd float %x, %x\n"));
  CHECK(f.binary.toolchain.starts_with("LLVM "));
  for (int threads : {1, 2, 5, 0}) {
    set_num_threads(threads);
    for (size_t n : {0, 1, 255, 256, 257, 100003}) {
      std::vector<float> x = ramp(n), y = run(f, x);
      bool right = true;
      for (size_t i = 0; i < n; i++) right = right && y[i] == 2 * x[i];
      CHECK(right);
    }
  }
}

TEST_CASE("cpu: a call into libm, and one through the vector library's name") {
  Executable f = compiled(scalar_loop("exponential", "  %y = call float @expf(float %x)\n",
                                      "declare float @expf(float) nounwind\n"));
  std::vector<float> x = ramp(1000), y = run(f, x);
  for (size_t i = 0; i < x.size(); i++) CHECK(y[i] == doctest::Approx(std::exp(x[i])).epsilon(1e-6));
  if (!cpu_runs("haswell")) return;
  Executable g = compiled(elementwise("vector_exponential",
                                      "  %p = getelementptr float, ptr %a, i64 %base\n"
                                      "  %x = load <8 x float>, ptr %p, align 4\n"
                                      "  %y = call <8 x float> @_ZGVdN8v_expf(<8 x float> %x)\n"
                                      "  %q = getelementptr float, ptr %b, i64 %base\n"
                                      "  store <8 x float> %y, ptr %q, align 4\n  ret void\n}\n"
                                      "declare <8 x float> @_ZGVdN8v_expf(<8 x float>) nounwind\n"));
  x = ramp(8), y = run(g, x);
  for (size_t i = 0; i < 8; i++) CHECK(y[i] == doctest::Approx(std::exp(x[i])).epsilon(1e-6));
}

TEST_CASE("cpu: vectors, constants, and the private arena") {
  if (!cpu_runs("haswell")) return;
  Program p =
      elementwise("axpy",
                  "  %p = getelementptr float, ptr %a, i64 %base\n"
                  "  %x = load <8 x float>, ptr %p, align 4\n"
                  "  %c = load <8 x float>, ptr @table, align 32\n"
                  "  store <8 x float> %x, ptr %arena, align 32\n"
                  "  %z = load volatile <8 x float>, ptr %arena, align 32\n"
                  "  %y = call <8 x float> @llvm.fma.v8f32(<8 x float> %z, <8 x float> %c, <8 x float> %x)\n"
                  "  %q = getelementptr float, ptr %b, i64 %base\n"
                  "  store <8 x float> %y, ptr %q, align 4\n  ret void\n}\n"
                  "declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)\n"
                  "@table = private constant <8 x float> <float 1.0, float 2.0, float 3.0, float 4.0, float "
                  "5.0, float 6.0, float 7.0, float 8.0>\n");
  p.chip = "haswell";
  p.entries[0].arena_bytes = 3 << 20;
  Executable f = compiled(p);
  std::vector<float> x = ramp(8), y = run(f, x);
  for (size_t i = 0; i < 8; i++) CHECK_EQ(y[i], std::fma(x[i], float(i + 1), x[i]));
}

TEST_CASE("cpu: 16-bit floats on a machine without instructions for them") {
  Program p = scalar_loop("through_half",
                          "  %h = fptrunc float %x to half\n  %g = fpext half %h to float\n"
                          "  %w = fptrunc float %g to bfloat\n  %y = fpext bfloat %w to float\n");
  p.chip = "x86-64";
  Executable f = compiled(p);
  std::vector<float> x = ramp(500), y = run(f, x);
  for (size_t i = 0; i < x.size(); i++) {
    double half = half_to_double(half_from_double(x[i]));
    CHECK_EQ(y[i], std::bit_cast<float>(uint32_t(bfloat_from_double(half)) << 16));
  }
}

TEST_CASE("cpu: several entries and a workspace") {
  Program p = scalar_loop("twice_twice", "  %y = fadd float %x, %x\n");
  p.workspaces = {{"w", {{{Op::integer, 0}, {Op::constant, 4}, {Op::mul, 0}}}}};
  using From = EntrySpec::Arg::From;
  EntrySpec second = p.entries[0];
  p.entries[0].args = {{From::param, 0}, {From::workspace, 0}, {From::integer, 0}};
  second.args = {{From::workspace, 0}, {From::param, 1}, {From::integer, 0}};
  p.entries.push_back(second);
  Executable f = compiled(p);
  for (int repeat = 0; repeat < 3; repeat++) {
    std::vector<float> x = ramp(40000), y = run(f, x);
    CHECK_EQ(y[39999], 4 * x[39999]);
  }
}

TEST_CASE("cpu: a refusal of the text is told in the compiler's words") {
  Program p = scalar_loop("broken", "  %y = nonsense float %x\n");
  CHECK_THROWS_AS(build(p), BuildError);
  try {
    build(p);
  } catch (const BuildError& e) {
    CHECK(e.flag.empty());
    CHECK(std::string(e.what()).find("broken: LLVM") != std::string::npos);
    CHECK(std::string(e.what()).find("nonsense") != std::string::npos);
  }
  CHECK_THROWS_AS(build(scalar_loop("typed", "  %y = call float @expf(float %x)\n")), BuildError);
  Program q = scalar_loop("missing", "  %y = call float @no_such_function(float %x)\n",
                          "declare float @no_such_function(float)\n");
  Executable f = compiled(q);
  CHECK_THROWS_AS(f.prepare(cpu_device()), RuntimeError);
  q.language = "fortran";
  CHECK_THROWS_AS(build(q), InternalError);
}

TEST_CASE("cpu: an object is read with care") {
  Program p = scalar_loop("whole", "  %y = call float @expf(float %x)\n", "declare float @expf(float)\n");
  std::string bytes = build(p).bytes;
  CHECK_NOTHROW(load_object(bytes, {"entry"}));
  CHECK_THROWS_AS(load_object(bytes, {"exit"}), RuntimeError);
  for (size_t size = 0; size < bytes.size(); size += 13)
    CHECK_THROWS_AS(load_object(std::string_view(bytes).substr(0, size), {"entry"}), RuntimeError);
}

TEST_CASE("cpu: an object for another processor is refused") {
  for (const std::string& chip : known_cpus()) {
    if (cpu_runs(chip)) continue;
    Program p = scalar_loop("foreign", "  %y = fadd float %x, %x\n");
    p.chip = chip;
    CHECK_THROWS_AS(compiled(p).prepare(cpu_device()), RuntimeError);
    break;
  }
  CHECK(cpu_runs(host_cpu()));
  CHECK(!cpu_runs("pdp11"));
}

namespace {
std::atomic<int64_t> sum{0}, count{0};
void add_block(const uint64_t* slots, int64_t bx, int64_t by, int64_t bz, void* arena) {
  sum += int64_t(slots[0]) + bx + 100 * by + 10000 * bz;
  count++;
  if (reinterpret_cast<uintptr_t>(arena) % 64 != 0) sum += 1 << 30;
}
int64_t run_blocks(int64_t x, int64_t y, int64_t z) {
  const uint64_t slots[] = {0};
  sum = count = 0;
  run_grid({.entry = add_block, .slots = slots, .grid = {x, y, z}, .arena_bytes = 100});
  return sum;
}
}  // namespace

TEST_CASE("pool: each block once, in three dimensions") {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 200; repeat++) {
      CHECK_EQ(run_blocks(7, 5, 3), 105 * 3 + 100 * 21 * 10 + 10000 * 35 * 3);
      CHECK_EQ(count, 105);
    }
  }
  CHECK_EQ(run_blocks(0, 5, 3), 0);
  set_num_threads(0);
}

TEST_CASE("pool: several callers at once, and a forked child") {
  Executable f = compiled(scalar_loop("parallel_callers", "  %y = fadd float %x, %x\n"));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; t++)
    callers.emplace_back([&] {
      for (int i = 0; i < 20; i++) {
        std::vector<float> x = ramp(3000), y = run(f, x);
        for (size_t k = 0; k < x.size(); k++) wrong += y[k] != 2 * x[k];
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK_EQ(wrong, 0);
  set_num_threads(3);
  run_blocks(50, 1, 1);
  pid_t child = fork();
  if (child == 0) _exit(run_blocks(50, 1, 1) == 1225 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  set_num_threads(0);
}
