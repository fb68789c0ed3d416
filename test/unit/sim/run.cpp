// The machine: lanes and masks, memory, barriers, and what it refuses, on small functions in text.
#include "sim/run.h"

#include <algorithm>
#include <cmath>

#include "unit/sim/machine_text.h"

using namespace tl;

// ── lanes and masks ───────────────────────────────────────────────────────────────────────────────────
TEST_CASE("each thread has its own trip count, and leaves the loop alone") {
  std::vector<int32_t> c(80, -1);
  simulate(R"(
func main(C: i32[80]):
  kernel main grid(b: 1) threads(80) thread(tx):
    sum = local i32[1] elements(1)
    sum[0] = 0
    for i in serial(tx : +tx % 5):
      sum[0] = sum[0] + cast<i32>(i)
    C[tx] = sum[0]
)",
           c);
  for (int t = 0; t < 80; t++) {
    int sum = 0;
    for (int i = t; i < t + t % 5; i++) sum += i;
    CHECK_EQ(c[size_t(t)], sum);
  }
}

TEST_CASE("a while loop runs as long as a thread wants it, if and else part the warp") {
  std::vector<int32_t> a = counted<int32_t>(64), c(64, -1);
  simulate(R"(
func main(A: i32[64], C: i32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    n = local i32[1] elements(1)
    steps = local i32[1] elements(1)
    n[0] = A[tx] + 1
    steps[0] = 0
    while n[0] != 1:
      if n[0] % 2 == 0:
        n[0] = n[0]//2
      else:
        n[0] = n[0]*3 + 1
      steps[0] = steps[0] + 1
    C[tx] = steps[0]
)",
           a, c);
  for (size_t t = 0; t < 64; t++) {
    int steps = 0;
    for (int64_t n = int64_t(t) + 1; n != 1; n = n % 2 ? n * 3 + 1 : n / 2) steps++;
    CHECK_EQ(c[t], steps);
  }
}

TEST_CASE("a group runs its body on its threads alone, also across warps") {
  std::vector<int32_t> c(96, -1);
  simulate(R"(
func main(C: i32[96]):
  kernel main grid(b: 1) threads(96) thread(tx):
    group(20 : +50):
      C[tx] = 7
)",
           c);
  for (int t = 0; t < 96; t++) CHECK_EQ(c[size_t(t)], t >= 20 && t < 70 ? 7 : -1);
}

TEST_CASE("what an arm or a right side would do wrong is not done where it is not taken") {
  std::vector<int32_t> a = counted<int32_t>(32), c(32, -1), d(32, -1);
  simulate(R"(
func main(A: i32[32], C: i32[32], D: i32[32]):
  kernel main grid(b: 1) threads(32) thread(tx):
    C[tx] = select(tx < 31, A[tx + 1], 99)
    D[tx] = cast<i32>(tx > 0 and 100 // A[tx] > 9)
)",
           a, c, d);
  for (int t = 0; t < 32; t++) {
    CHECK_EQ(c[size_t(t)], t < 31 ? t + 1 : 99);
    CHECK_EQ(d[size_t(t)], t > 0 && 100 / t > 9);
  }
}

TEST_CASE("what was loaded keeps its value when memory changes, in a loop as well") {
  std::vector<int32_t> a = counted<int32_t>(32), c(32, -1);
  simulate(R"(
func main(A: i32[32], C: i32[32]):
  kernel main grid(b: 1) threads(32) thread(tx):
    x = local i32[1] elements(1)
    x[0] = 1
    for i in serial(3):
      old = x[0]
      twice = old*2
      x[0] = 100
      x[0] = twice + old + cast<i32>(i)
    C[tx] = x[0] + A[tx]
)",
           a, c);
  int x = 1;
  for (int i = 0; i < 3; i++) x = 3 * x + i;
  for (int t = 0; t < 32; t++) CHECK_EQ(c[size_t(t)], x + t);
}

TEST_CASE("integers wrap at their width, floor division rounds down, floats round at each step") {
  std::vector<int8_t> a = {127, -128, -7, 100}, sum(4), quotient(4);
  std::vector<float> x = {1e8f, 0.1f, 3.0f, 16777217.0f}, y(4);
  simulate(R"(
func main(A: i8[4], S: i8[4], Q: i8[4], X: f32[4], Y: f32[4]):
  kernel main grid(b: 1) threads(4) thread(tx):
    S[tx] = A[tx] + A[tx]
    Q[tx] = A[tx] // 4
    Y[tx] = X[tx]*X[tx] + 1.0
)",
           a, sum, quotient, x, y);
  CHECK_EQ(sum, std::vector<int8_t>{-2, 0, -14, -56});
  CHECK_EQ(quotient, std::vector<int8_t>{31, -32, -2, 25});
  for (size_t i = 0; i < 4; i++) CHECK_EQ(y[i], float(double(float(double(x[i]) * x[i])) + 1.0));
}

TEST_CASE("vectors: contiguous, scattered, masked as a whole and element by element") {
  std::vector<float> a = counted<float>(128), b(128, -1), c(128, -1), d(128, -1);
  simulate(R"(
func main(A: f32[128], B: f32[128], C: f32[128], D: f32[128]):
  kernel main grid(g: 1) threads(32) thread(tx):
    v = A[ramp(tx*4, 1, 4)]*broadcast(2.0, 4)
    B[ramp(tx*4, 1, 4)] mask(tx < 30) = v
    C[broadcast(tx, 4) + ramp(0, 32, 4)] = A[ramp(tx*4, 1, 4)] mask(tx < 16)
    i = ramp(tx*4, 1, 4)
    even = i % broadcast(2, 4) == broadcast(0, 4)
    D[i] mask(i < broadcast(101, 4)) = select(even, A[i], v)
)",
           a, b, c, d);
  for (size_t i = 0; i < 128; i++) {
    CHECK_EQ(b[i], i < 120 ? 2 * float(i) : -1);
    CHECK_EQ(c[i], i % 32 < 16 ? float(i % 32 * 4 + i / 32) : 0);
    CHECK_EQ(d[i], i > 100 ? -1 : i % 2 ? 2 * float(i) : float(i));
  }
}

// ── blocks, warps, barriers ───────────────────────────────────────────────────────────────────────────
TEST_CASE("threads exchange through shared memory, barrier after barrier in a loop") {
  std::vector<int32_t> c(2 * 96, -1);
  simulate(R"(
func main(C: i32[2, 96]):
  kernel main grid(b: 2) threads(96) thread(tx):
    S = shared i32[96] address(128) elements(96)
    S[tx] = cast<i32>(tx + b*1000)
    for i in serial(3):
      sync_threads()
      x = S[(tx + 1) % 96]
      sync_threads()
      S[tx] = x
    C[b*96 + tx] = S[tx]
)",
           c);
  for (int b = 0; b < 2; b++)
    for (int t = 0; t < 96; t++) CHECK_EQ(c[size_t(b * 96 + t)], (t + 3) % 96 + b * 1000);
}

TEST_CASE("a value that crosses warps without a barrier is not there yet") {
  std::vector<float> c(64, 0);
  simulate_unwatched(R"(
func main(C: f32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    S = shared f32[64] address(0) elements(64)
    S[tx] = 1.0
    C[tx] = S[63 - tx]
)",
                     c);
  for (int t = 0; t < 64; t++) CHECK_EQ(std::isnan(c[size_t(t)]), t < 32);
}

TEST_CASE("memory that was never written is poison, in each block anew") {
  std::vector<float> f(2, 0);
  std::vector<int32_t> i(2, 0);
  std::vector<uint16_t> h(2, 0);
  simulate_unwatched(R"(
func main(F: f32[2], I: i32[2], H: f16[2]):
  kernel main grid(b: 2) threads(32) thread(tx):
    S = shared i32[32] address(256) elements(32)
    x = local f32[2] elements(2)
    y = fragment f16[64] elements(2)
    if tx == 0:
      F[b] = x[1]
      I[b] = S[5]
      H[b] = y[1]
      S[5] = 1
)",
                     f, i, h);
  for (size_t b = 0; b < 2; b++) {
    CHECK(std::isnan(f[b]));
    CHECK_EQ(uint32_t(i[b]), 0xCDCDCDCD);
    CHECK(std::isnan(f16_value(h[b])));
  }
}

TEST_CASE("barriers in divergent flow are refused, with both threads") {
  auto with = [](std::string_view body) {
    std::vector<int32_t> c(64);
    return fault_of(
        fmt::format("func main(C: i32[64]):\n  kernel main grid(b: 1, d: 2) threads(64) thread(tx):\n{}",
                    body),
        c);
  };
  CHECK_EQ(with("    if tx < 16:\n      sync_threads()\n"),
           "4:7: sync_threads in divergent flow: thread 0 of block (0, 0) of main waits here, but thread 16 "
           "of block (0, 0) of main does not arrive; every thread of the block must reach the barrier: move "
           "it out of the condition");
  CHECK_EQ(with("    if tx < 32:\n      sync_threads()\n"),
           "4:7: sync_threads in divergent flow: thread 0 of block (0, 0) of main waits here, but thread 32 "
           "of block (0, 0) of main has ended; every thread of the block must reach the same barrier: move "
           "it out of the condition");
  CHECK_EQ(with("    if tx < 32:\n      sync_threads()\n    else:\n      sync_threads()\n"),
           "4:7: sync_threads in divergent flow: thread 0 of block (0, 0) of main waits here, but thread 32 "
           "of block (0, 0) of main waits at another barrier, on line 6; every thread of the block must "
           "reach the same barrier: move it out of the condition");
  CHECK_EQ(with("    for i in serial(tx // 32 + 1):\n      sync_threads()\n").substr(0, 35),
           "4:7: sync_threads in divergent flow");
  CHECK_EQ(with("    if d < 5:\n      sync_threads()\n"), "");
}

// ── faults ────────────────────────────────────────────────────────────────────────────────────────────
TEST_CASE("out of bounds: which buffer, index, block and thread; guarded, it is none") {
  std::vector<float> a(64), c(64);
  auto with = [&](std::string_view body) {
    return fault_of(
        fmt::format("func main(A: f32[64], C: f32[64]):\n  kernel main grid(b: 2) threads(32) thread(tx):\n"
                    "    S = shared f32[40] address(0) elements(40)\n"
                    "    T = shared f32[40] address(256) elements(40)\n"
                    "    x = local f32[4] elements(4)\n{}",
                    body),
        a, c);
  };
  CHECK_EQ(with("    S[tx*2] = 0.0\n"),
           "6:5: S[40]: element 40 is outside [0, 40) in thread 20 of block (0) of main; guard the access "
           "with an if, or make S larger");
  CHECK_EQ(with("    if tx < 20:\n      S[tx*2] = 0.0\n"), "");
  CHECK_EQ(with("    S[tx*2] mask(tx < 20) = 0.0\n"), "");
  CHECK(contains(with("    T[0] = S[tx - 1]\n"), "S[-1]: element -1 is outside [0, 40) in thread 0"));
  CHECK(contains(with("    x[tx % 5] = 0.0\n"), "x[4]: element 4 is outside [0, 4) in thread 4"));
  CHECK(contains(with("    C[b*40 + tx] = 1.0\n"),
                 "C[64]: element 64 is outside [0, 64) in thread 24 of block (1)"));
  CHECK(contains(with("    S[ramp(tx*2, 1, 2)] = A[ramp(tx*2, 1, 2)]\n"),
                 "S[40]: element 40 (of a vector of 2 from 40) is outside [0, 40)"));
  CHECK(contains(with("    for i in serial(5):\n      x[i] = 0.0\n"),
                 "7:7: x[4]: element 4 is outside [0, 4) in thread 0"));
}

TEST_CASE("a vector access whose address does not allow it") {
  std::vector<float> a(64), c(64);
  std::string head = "func main(A: f32[64], C: f32[64]):\n  kernel main grid(b: 1) threads(8) thread(tx):\n";
  CHECK_EQ(fault_of(head + "    C[ramp(tx*4, 1, 4)] = A[ramp(tx*4 + 2, 1, 4)]\n", a, c),
           "3:27: A[2]: one access of 16 bytes, but the address is not divisible by 16, in thread 0 of block "
           "(0) of main; access fewer elements at once, or align where the row begins");
  CHECK_EQ(fault_of(head + "    C[ramp(tx*4, 1, 2)] = A[ramp(tx*4 + 2, 1, 2)]\n", a, c), "");
}

TEST_CASE("division by zero counts where a thread divides") {
  std::vector<int32_t> a = counted<int32_t>(32), c(32);
  std::string head = "func main(A: i32[32], C: i32[32]):\n  kernel main grid(b: 1) threads(32) thread(tx):\n";
  CHECK_EQ(fault_of(head + "    if tx != 5:\n      C[tx] = 10 // (A[tx] - 5)\n", a, c), "");
  CHECK_EQ(fault_of(head + "    C[tx] = 10 // (A[tx] - 5)\n", a, c),
           fmt::format("3:13: division by zero: 10 // 0 in thread 5 of block (0) of main; {}", divisor_help));
  CHECK_EQ(fault_of(head + "    C[tx] = 10 // cast<i32>(tx - 7)\n", a, c),
           fmt::format("3:13: division by zero: 10 // 0 in thread 7 of block (0) of main; {}", divisor_help));
}

TEST_CASE("a choice made of what nobody wrote is no finding until it is used") {
  auto text = [](const char* lanes) {
    return fmt::format(R"(
func main(A: f32[64], C: f32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    x = local f32[1] elements(1)
    if tx < 40:
      x[0] = A[tx]
    v = select(x[0] > 3.0, A[tx] + 1.0, A[63 - tx])
    C[tx] mask(tx < {}) = v
)",
                       lanes);
  };
  std::vector<float> a = counted<float>(64), c(64);
  simulate(text("40"), a, c);
  for (size_t t = 0; t < 40; t++) CHECK_EQ(c[t], t > 3 ? float(t) + 1 : float(63 - t));
  CHECK_THROWS_AS(simulate(text("41"), a, c), SimulationError);
}
