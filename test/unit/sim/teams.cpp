// Teams of threads at tile level, through every pass: programs whose roles exchange tiles by barriers in
// memory and by named barriers, against their serial twins, and each wait, arrival and barrier left out.
#include <doctest/doctest.h>

#include <random>
#include <sstream>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/text.h"
#include "sim/reference.h"
#include "sim/run.h"
#include "trial.h"

using namespace tl;

namespace {

struct Roles {
  std::string_view text, twin;   // … the same statements in one loop
  std::vector<size_t> elements;  // of each parameter
  std::vector<DType> types;
};

const Roles ring = {R"(
func main(A: f16[256, 64], B: f32[256, 64]):
  kernel main grid(bx: 1) threads(256):
    As = shared f16[3, 32, 64]
    full = shared u64[3]
    empty = shared u64[3]
    Af = fragment f16[32, 64]
    Bf = fragment f32[32, 64]
    tx = thread_index(0)
    if tx == 0:
      for s in serial(3):
        mbarrier_init(address_of(full[s]), 128:u32)
        mbarrier_init(address_of(empty[s]), 128:u32)
    if tx < 128:
      for k in serial(8):
        while not mbarrier_try_wait(address_of(empty[k % 3]), cast<u32>(((k // 3) + 1) % 2)):
          pass
        copy(A[k*32 : +32, 0 : +64], As[k % 3, 0 : +32, 0 : +64])
        mbarrier_arrive(address_of(full[k % 3]))
    else:
      for k in serial(8):
        while not mbarrier_try_wait(address_of(full[k % 3]), cast<u32>((k // 3) % 2)):
          pass
        copy(As[k % 3, 0 : +32, 0 : +64], Af)
        mbarrier_arrive(address_of(empty[k % 3]))
        for i in parallel(32):
          for j in parallel(64):
            Bf[i, j] = cast<f32>(Af[i, j]) * 2.0:f32
        copy(Bf, B[k*32 : +32, 0 : +64])
)",
                    R"(
func main(A: f16[256, 64], B: f32[256, 64]):
  kernel main grid(bx: 1) threads(256):
    Af = fragment f16[32, 64]
    Bf = fragment f32[32, 64]
    for k in serial(8):
      copy(A[k*32 : +32, 0 : +64], Af)
      for i in parallel(32):
        for j in parallel(64):
          Bf[i, j] = cast<f32>(Af[i, j]) * 2.0:f32
      copy(Bf, B[k*32 : +32, 0 : +64])
)",
                    {256 * 64, 256 * 64},
                    {f16, f32}};

const Roles named = {R"(
func main(A: f32[128, 64], B: f32[128, 64]):
  kernel main grid(bx: 1) threads(192):
    As = shared f32[16, 64]
    Bf = fragment f32[16, 64]
    tx = thread_index(0)
    if tx < 64:
      for k in serial(8):
        bar_sync(9:i32, 192:i32)
        copy(A[k*16 : +16, 0 : +64], As)
        bar_arrive(8:i32, 192:i32)
    else:
      bar_arrive(9:i32, 192:i32)
      for k in serial(8):
        bar_sync(8:i32, 192:i32)
        copy(As, Bf)
        if k < 7:
          bar_arrive(9:i32, 192:i32)
        for i in parallel(16):
          for j in parallel(64):
            Bf[i, j] = Bf[i, j] + 1.0:f32
        copy(Bf, B[k*16 : +16, 0 : +64])
)",
                     R"(
func main(A: f32[128, 64], B: f32[128, 64]):
  kernel main grid(bx: 1) threads(192):
    Bf = fragment f32[128, 64]
    copy(A, Bf)
    for i in parallel(128):
      for j in parallel(64):
        Bf[i, j] = Bf[i, j] + 1.0:f32
    copy(Bf, B)
)",
                     {128 * 64, 128 * 64},
                     {f32, f32}};

const Roles multiply = {R"(
func main(A: f16[128, 256], B: f16[256, 64], C: f32[128, 64]):
  kernel main grid(bx: 1) threads(160):
    As = shared f16[3, 128, 32]
    Bs = shared f16[3, 32, 64]
    full = shared u64[3]
    empty = shared u64[3]
    Cl = fragment f32[128, 64]
    Cs = shared f32[128, 64]
    tx = thread_index(0)
    if tx == 0:
      for s in serial(3):
        mbarrier_init(address_of(full[s]), 32:u32)
        mbarrier_init(address_of(empty[s]), 128:u32)
    if tx >= 128:
      for k in serial(8):
        while not mbarrier_try_wait(address_of(empty[k % 3]), cast<u32>((k // 3 + 1) % 2)):
          pass
        copy(A[0 : +128, k*32 : +32], As[k % 3, 0 : +128, 0 : +32])
        copy(B[k*32 : +32, 0 : +64], Bs[k % 3, 0 : +32, 0 : +64])
        mbarrier_arrive(address_of(full[k % 3]))
    else:
      clear(Cl)
      for k in serial(8):
        while not mbarrier_try_wait(address_of(full[k % 3]), cast<u32>((k // 3) % 2)):
          pass
        gemm(As[k % 3, 0 : +128, 0 : +32], Bs[k % 3, 0 : +32, 0 : +64], Cl)
        mbarrier_arrive(address_of(empty[k % 3]))
      copy(Cl, Cs)
      copy(Cs, C)
)",
                        R"(
func main(A: f16[128, 256], B: f16[256, 64], C: f32[128, 64]):
  kernel main grid(bx: 1) threads(160):
    As = shared f16[128, 32]
    Bs = shared f16[32, 64]
    Cl = fragment f32[128, 64]
    clear(Cl)
    for k in serial(8):
      copy(A[0 : +128, k*32 : +32], As)
      copy(B[k*32 : +32, 0 : +64], Bs)
      gemm(As, Bs, Cl)
    copy(Cl, C)
)",
                        {128 * 256, 256 * 64, 128 * 64},
                        {f16, f16, f32}};

struct Memory {
  std::vector<std::vector<std::byte>> tensors;
  std::vector<HostArg> args() {
    std::vector<HostArg> list;
    for (auto& t : tensors) list.push_back({.data = t.data(), .memory = {t.data(), t.data() + t.size()}});
    return list;
  }
};

// Small numbers, whose sums and products are exact; the last one, the output, is poisoned.
Memory random_memory(const Roles& roles) {
  std::mt19937 random(5);
  Memory m;
  for (size_t p = 0; p < roles.types.size(); p++) {
    auto& bytes = m.tensors.emplace_back(roles.elements[p] * size_t(roles.types[p].bytes()), std::byte(0xFF));
    for (size_t i = 0; p + 1 < roles.types.size() && i < roles.elements[p]; i++) {
      double value = double(random() % 9) - 4;
      if (roles.types[p] == f16) {
        auto bits = uint16_t(float_bits(value, f16));
        std::memcpy(&bytes[i * 2], &bits, 2);
      } else {
        auto x = float(value);
        std::memcpy(&bytes[i * 4], &x, 4);
      }
    }
  }
  return m;
}

Function tile_function(std::string_view text) {
  return complete_tiles(parse(text, "teams.ir", text_vocabulary()));
}

SimulationReport simulated(std::string_view text, Memory& memory, int64_t schedules) {
  const Target& target = *find_target("sm_90");
  Function machine = compile(tile_function(text), target).function;
  auto args = memory.args();
  return simulate(*prepare_simulation(machine, target), args, {.schedules = schedules});
}

std::string without_line(std::string_view text, size_t line, size_t count) {
  std::string out;
  size_t number = 0;
  for (size_t at = 0; at < text.size(); number++) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (number < line || number >= line + count) out += text.substr(at, end - at);
    at = end;
  }
  return out;
}

void check_roles(const Roles& roles) {
  Memory expected = random_memory(roles), found = expected;
  run_reference(tile_function(roles.twin), expected.args());
  SimulationReport report = simulated(roles.text, found, 100);
  CHECK_EQ(report.findings.size(), 0);
  CHECK(found.tensors.back() == expected.tensors.back());
}

// Every line that waits, arrives or is a barrier, left out.
void check_mutants(const Roles& roles) {
  std::istringstream lines{std::string(roles.text)};
  std::string text, above;
  for (size_t line = 0; std::getline(lines, text); line++, above = text) {
    bool waits = text.find("while not") != text.npos, is_init = text.find("_init") != text.npos;
    bool signals = text.find("mbarrier_arrive") != text.npos || text.find("bar_") != text.npos;
    if (is_init || !(waits || signals)) continue;
    CAPTURE(text);
    bool is_alone = above.find("if k") != above.npos;  // in its arm
    Memory memory = random_memory(roles);
    std::string mutant = without_line(roles.text, line - is_alone, waits || is_alone ? 2 : 1);
    CHECK_GT(simulated(mutant, memory, 20).findings.size(), 0);
  }
}

// On the GPU, where there is one, in a process of its own: a program that hangs ends with it.
void check_on_gpu(const Roles& roles) {
  Test test{.target = "cuda", .inputs = Inputs::whole, .oracle = [&](const Function&, Trial& trial) {
              std::vector<HostArg> args;
              for (auto& t : trial.tensors)
                args.push_back(
                    {.data = t.bytes.data(), .memory = {t.bytes.data(), t.bytes.data() + t.bytes.size()}});
              run_reference(tile_function(roles.twin), args);
              return true;
            }};
  for (test.seed = 1; test.seed <= 20; test.seed++) {
    Verdict verdict = judge_apart(std::string(roles.text), test, 6);
    if (test.seed == 1 && verdict.kind == Verdict::Kind::refused) {
      MESSAGE("not run on a GPU: " << verdict.text);
      return;
    }
    CHECK_EQ(to_string(verdict), "right");
  }
}

}  // namespace

TEST_CASE("teams: a ring of three slots between two of them") {
  check_roles(ring);
  check_mutants(ring);
  check_on_gpu(ring);
}

TEST_CASE("teams: named barriers between two of different size") {
  check_roles(named);
  check_mutants(named);
  check_on_gpu(named);
}

TEST_CASE("teams: one warp fills, four warps multiply, and meet at a barrier of their own") {
  check_roles(multiply);
  check_mutants(multiply);
  check_on_gpu(multiply);
}
