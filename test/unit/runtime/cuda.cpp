// CUDA text to cubins without a GPU; launches where there is one.
#include <doctest/doctest.h>

#include "base/error.h"
#include "runtime/executable.h"
#include "runtime/find.h"

using namespace tl;
using Op = Formula::Op;

namespace {

bool has_nvrtc() {
  if (find_nvrtc()) return true;
  MESSAGE("NVRTC is not installed: skipped");
  return false;
}

Program scale(const std::string& chip) {
  Formula n{{{Op::integer, 0}}};
  Program p;
  p.name = "scale";
  p.language = "cuda";
  p.chip = chip;
  p.text =
      "extern \"C\" __global__ void __launch_bounds__(128) scale_main(const float* __restrict__ A,\n"
      "    float* __restrict__ B, float s, long long n) {\n"
      "  extern __shared__ float tile[];\n  __shared__ float fixed[128];\n"
      "  long long i = blockIdx.x * 128ll + threadIdx.x;\n"
      "  tile[threadIdx.x] = i < n ? A[i] : 0.f;\n  fixed[threadIdx.x ^ 1] = tile[threadIdx.x];\n"
      "  __syncthreads();\n  if (i < n) B[i] = s * fixed[threadIdx.x ^ 1];\n}\n";
  p.params = {{"A", true, "f32", 32, {n}, {Formula::constant(1)}, false},
              {"B", true, "f32", 32, {n}, {Formula::constant(1)}, true},
              {"s", false, "f32", 32, {}, {}, false}};
  p.integers = {{"n", 0, IntegerSource::From::extent, 0}};
  using From = EntrySpec::Arg::From;
  EntrySpec entry{.name = "scale_main",
                  .grid = {},
                  .threads = {128, 1, 1},
                  .shared_bytes = 512,
                  .arena_bytes = 0,
                  .args = {}};
  entry.grid = {
      {{{Op::integer, 0}, {Op::constant, 127}, {Op::add, 0}, {Op::constant, 128}, {Op::floordiv, 0}}}};
  entry.args = {{From::param, 0}, {From::param, 1}, {From::param, 2}, {From::integer, 0}};
  p.entries = {entry};
  return p;
}

}  // namespace

TEST_CASE("nvrtc: cubins for the chips, with what they take") {
  if (!has_nvrtc()) return;
  CHECK(!toolchain_id("cuda").empty());
  for (const char* chip :
       {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"}) {
    DeviceBinary binary = build(scale(chip));
    CHECK_EQ(binary.bytes.substr(1, 3), "ELF");
    CHECK(binary.toolchain.starts_with("NVRTC 1"));
    REQUIRE_EQ(binary.resources.size(), 1);
    CHECK_EQ(binary.resources[0].entry, "scale_main");
    CHECK(binary.resources[0].registers > 0);
    CHECK_EQ(binary.resources[0].static_shared, 512);
    CHECK_EQ(binary.resources[0].spill_stores, 0);
    CHECK_EQ(binary.resources[0].spill_loads, 0);
  }
}

TEST_CASE(
    "nvrtc: a refusal of the text is told in the compiler's words; an unknown chip is no such refusal") {
  if (!has_nvrtc()) return;
  Program p = scale("sm_90");
  p.text += "int nonsense(";
  try {
    build(p);
    CHECK(false);
  } catch (const BuildError& e) {
    CHECK(e.flag.empty());
    CHECK(std::string(e.what()).find("scale: NVRTC") != std::string::npos);
    CHECK(std::string(e.what()).find("scale.cu") != std::string::npos);
  }
  CHECK_THROWS_AS(build(scale("sm_30")), RuntimeError);
}

TEST_CASE("nvrtc: a chip that it does not know gets PTX for the chip that the text is written for") {
  if (!has_nvrtc()) return;
  Program p = scale("sm_990");
  CHECK_THROWS_AS(build(p), RuntimeError);
  p.described = "sm_90";
  DeviceBinary binary = build(p);
  CHECK(binary.bytes.find(".target sm_90\n") != std::string::npos);
  CHECK(ptx_of(p).find(".target sm_90\n") != std::string::npos);
  CHECK_EQ(binary.resources.at(0).registers, -1);  // only the driver will know
  p.chip = "sm_100a";                              // known: its own code
  p.described = "sm_100";
  CHECK_EQ(build(p).bytes.substr(1, 3), "ELF");
}

TEST_CASE("cuda: without a GPU the reason is told") {
  if (cuda_count() > 0) return;
  std::string reason;
  CHECK(!cuda_device(0, &reason));
  CHECK(reason.find("NVIDIA") != std::string::npos);
  CHECK_EQ(cuda_current_ordinal(), 0);
  CHECK(!cuda_pointer_device(&reason));
  Executable f(scale("sm_90"), DeviceBinary{});
  const int64_t shape[] = {4};
  TensorView a{.data = reinterpret_cast<void*>(4096), .ndim = 1, .shape = shape, .device_type = 2}, b = a;
  b.data = reinterpret_cast<void*>(8192);
  const Argument arguments[] = {a, b, 2.0};
  CHECK_THROWS_AS(f.call(arguments), RuntimeError);
}

TEST_CASE("cuda: a launch") {
  if (cuda_count() == 0 || !has_nvrtc()) return;
  Device& gpu = *cuda_device(0);
  Program p = scale(gpu.chip);
  p.entries[0].shared_bytes = 64 << 10;  // must be asked for
  Executable f(p, build(p));
  constexpr int64_t n = 100003;
  std::vector<float> x(n), y(n);
  for (int64_t i = 0; i < n; i++) x[size_t(i)] = float(i);
  void *a = gpu.allocate(n * 4, 0), *b = gpu.allocate(n * 4, 0);
  CHECK_EQ(cuda_pointer_device(a), 0);
  CHECK(!cuda_pointer_device(x.data()));
  gpu.copy_in(a, x.data(), n * 4, 0);
  TensorView A{.data = a, .ndim = 1, .shape = &n, .device_type = 2},
      B{.data = b, .ndim = 1, .shape = &n, .device_type = 2};
  const Argument arguments[] = {A, B, 0.5};
  f.call(arguments);
  uint64_t begin = gpu.record(0);
  for (int i = 0; i < 100; i++) f.call(arguments);
  MESSAGE("100 launches, ms on the GPU: " << gpu.elapsed_ms(begin, gpu.record(0)));
  gpu.copy_out(y.data(), b, n * 4, 0);
  bool right = true;
  for (int64_t i = 0; i < n; i++) right = right && y[size_t(i)] == 0.5f * float(i);
  CHECK(right);
  gpu.release(a, 0);
  gpu.release(b, 0);
  gpu.synchronize(0);

  Program other = scale("sm_75");
  CHECK_THROWS_AS(gpu.load(other, f.binary), RuntimeError);
  p.entries[0].shared_bytes = 1 << 20;
  CHECK_THROWS_AS(gpu.load(p, f.binary), RuntimeError);
}
