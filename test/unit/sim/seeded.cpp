// Programs of level machine with one planted bug each, as differences: lines that begin with - are in the faulty program
// alone, those with + in its repaired twin alone.  `# race` marks the lines that the first finding must name if it is a
// race, and so on.  The like for Python is test/seeded.
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "unit/sim/machine_text.h"

using namespace tl;

namespace {

struct Planted {
  const char* name;
  const char* text;  // behind `head`
  int blocks = 1;
};

constexpr Planted planted[] = {
    {"no barrier between a store and ldmatrix", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
      S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]  # race
+     sync_threads()
      ldmatrix_x4(address_of(r[0]), address_of(S[(tx + 32)%64*8]))  # race
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"the barrier at the end of the loop is dropped", R"(
      S = shared f16[512] address(0) elements(512)
      for k in serial(3):
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + k*512, 1, 8)]  # race
        sync_threads()
        B[ramp(tx*8 + k*512, 1, 8)] = S[ramp((63 - tx)*8, 1, 8)]  # race
+       sync_threads()
)"},
    {"a barrier before the stores instead of behind them", R"(
      S = shared f32[64] address(0) elements(64)
-     sync_threads()
      S[tx] = X[tx]  # race
+     sync_threads()
      Y[tx] = S[63 - tx]  # race
)"},
    {"bar_sync for one warp of the two", R"(
      S = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]  # race
-     bar_sync(1, 32)
+     bar_sync(1, 64)
      Y[tx] = S[63 - tx]  # race
)"},
    {"bar_sync for one warp more than there are", R"(
-     bar_sync(1, 96)  # deadlock
+     bar_sync(1, 64)
      Y[tx] = X[tx]
)"},
    {"each warp waits at a barrier of its own", R"(
-     if tx < 32:
-       bar_sync(1, 64)  # deadlock
-     else:
-       bar_sync(2, 64)  # deadlock
+     bar_sync(1, 64)
      Y[tx] = X[tx]
)"},
    {"one warp at a named barrier, the other at the block's", R"(
-     if tx < 32:
-       bar_sync(1, 64)  # deadlock
-     else:
-       sync_threads()  # deadlock
+     sync_threads()
      Y[tx] = X[tx]
)"},
    {"bar_arrive where nobody waits for those that come", R"(
      if tx < 32:
        bar_arrive(1, 64)
-       bar_sync(2, 64)  # deadlock
+       bar_arrive(2, 64)
      else:
        bar_sync(1, 64)
-       Y[tx] = X[tx]
+       bar_sync(2, 64)
)"},
    {"two buffers lie in the same memory, without a barrier between them", R"(
      S = shared f32[64] address(0) elements(64)
      R = shared f32[64] address(0) elements(64)
      S[tx] = X[tx]
      sync_threads()
      Y[tx] = S[63 - tx]  # race
+     sync_threads()
      R[tx] = 2.0  # race
      sync_threads()
      Y[tx] = Y[tx] + R[63 - tx]
)"},
    {"two buffers overlap by a little", R"(
      S = shared f32[64] address(0) elements(64)
-     R = shared f32[64] address(240) elements(64)
+     R = shared f32[64] address(256) elements(64)
      S[tx] = X[tx]  # race
      R[tx] = 2.0  # race
      sync_threads()
      Y[tx] = S[63 - tx] + R[63 - tx]
)"},
    {"a buffer is read after another one took its memory", R"(
      S = shared f32[64] address(0) elements(64)
-     R = shared f32[64] address(0) elements(64)
+     R = shared f32[64] address(256) elements(64)
      S[tx] = X[tx]
      sync_threads()
      R[tx] = 2.0
      sync_threads()
      Y[tx] = S[63 - tx] + R[63 - tx]  # unwritten
)"},
    {"rows of ldmatrix at addresses that 16 does not divide", R"(
      S = shared f16[1024] address(0) elements(1024)
      r = local f16[8] elements(8)
      for i in serial(16):
        S[tx*16 + i] = 0.0
      sync_threads()
-     ldmatrix_x4(address_of(r[0]), address_of(S[tx*12]))  # misaligned
+     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"the last rows of ldmatrix lie outside", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
      S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
-     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8 + 8]))  # outside
+     ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"ldmatrix of a tile of which a row is never filled", R"(
      S = shared f16[512] address(0) elements(512)
      r = local f16[8] elements(8)
-     if tx != 17:
+     if tx != 99:
        S[ramp(tx*8, 1, 8)] = A[ramp(tx*8, 1, 8)]
      sync_threads()
      ldmatrix_x4(address_of(r[0]), address_of(S[tx*8]))  # unwritten
      B[ramp(tx*8, 1, 8)] = r[ramp(0, 1, 8)]
)"},
    {"mma in half of a warp", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
-     if tx % 32 < 16:
+     if tx < 64:
        mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # divergence
      Y[tx] = c[0]
)"},
    {"mma adds to what nobody wrote", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
      a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
+     c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # unwritten
      Y[tx] = c[0]
)"},
    {"mma of a fragment of which half was loaded", R"(
      a = local f16[8] elements(8)
      w = local f16[4] elements(4)
      c = local f32[4] elements(4)
-     a[ramp(0, 1, 4)] = A[ramp(tx*8, 1, 4)]
+     a[ramp(0, 1, 8)] = A[ramp(tx*8, 1, 8)]
      w[ramp(0, 1, 4)] = A[ramp(tx*4, 1, 4)]
      c[ramp(0, 1, 4)] = broadcast(0.0, 4)
      mma_m16n8k16_f16_f32(address_of(c[0]), address_of(a[0]), address_of(w[0]))  # unwritten
      Y[tx] = c[0]
)"},
    {"a vector of global memory, misaligned", R"(
-     B[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + 4, 1, 8)]  # misaligned
+     B[ramp(tx*8, 1, 8)] = A[ramp(tx*8 + 8, 1, 8)]
)"},
    {"a vector of shared memory, misaligned", R"(
      S = shared f32[260] address(0) elements(260)
-     S[ramp(tx*4 + 1, 1, 4)] = broadcast(1.0, 4)  # misaligned
+     S[ramp(tx*4 + 4, 1, 4)] = broadcast(1.0, 4)
)"},
    {"a vector beyond shared memory", R"(
      S = shared f32[252] address(0) elements(252)
-     S[ramp(tx*4, 1, 4)] = broadcast(1.0, 4)  # outside
+     S[ramp(tx*4, 1, 4)] mask(tx < 63) = broadcast(1.0, 4)
)"},
    {"a ragged store without its mask", R"(
-     Z[b*64 + tx] = X[tx]  # outside
+     Z[b*64 + tx] mask(b*64 + tx < 100) = X[tx]
)", 2},
    {"a register beyond its array", R"(
      x = local f32[4] elements(4)
      x[ramp(0, 1, 4)] = broadcast(1.0, 4)
-     Y[tx] = x[tx % 5]  # outside
+     Y[tx] = x[tx % 4]
)"},
    {"a register before its array", R"(
      x = local f32[4] elements(4)
      x[ramp(0, 1, 4)] = broadcast(1.0, 4)
      for i in serial(4):
-       x[i] = x[i - 1] + 1.0  # outside
+       x[i] = x[max(i - 1, 0)] + 1.0
      Y[tx] = x[3]
)"},
    {"a register that one arm only sets", R"(
      x = local f32[1] elements(1)
-     if tx > 3:
+     if tx >= 0:
        x[0] = X[tx]
-     Y[tx] = x[0] + 1.0  # unwritten
+     Y[tx] = x[0] + 1.0
)"},
    {"an index from a register that nobody wrote", R"(
      x = local i32[2] elements(2)
      x[0] = 3
-     Y[tx] = X[x[1]]  # unwritten
+     Y[tx] = X[x[0]]
)"},
    {"shared memory is new in every block", R"(
      S = shared f32[64] address(0) elements(64)
-     if b == 0:
+     if b >= 0:
        S[tx] = X[tx]
      sync_threads()
-     if b == 1:
-       Z[tx] = S[63 - tx]  # unwritten
+     if b == 1:
+       Z[tx] = S[63 - tx]
)", 2},
    {"a barrier in the body of a group", R"(
      group(0 : +32):
        Y[tx] = X[tx]
-       sync_threads()  # barrier
+     sync_threads()
)"},
    {"a barrier in a loop whose count depends on the warp", R"(
-     for i in serial(tx//32 + 1):
-       sync_threads()  # barrier
+     for i in serial(2):
+       sync_threads()
      Y[tx] = X[tx]
)"},
    {"both arms have a barrier, but not the same one", R"(
-     if tx < 32:
-       sync_threads()  # barrier
-     else:
-       sync_threads()  # barrier
+     sync_threads()
      Y[tx] = X[tx]
)"},
    {"all threads store to one element", R"(
-     Y[tx//2] = X[tx]  # race
+     Y[tx] = X[tx]
)"},
    {"two blocks store to one element", R"(
-     Y[tx] = X[tx] + cast<f32>(b)  # race
+     Y[tx] = X[tx]
)", 2},
    {"atomic updates meet a plain store", R"(
-     Y[0] = 1.0  # race
-     atomic_add(address_of(Y[0]), X[tx], "relaxed")  # race
+     atomic_add(address_of(Y[0]), X[tx], "relaxed")
)"},
    {"a loop waits for what its own warp would write behind it", R"(
-     while F[0] == 0:  # livelock
-       pass
      F[0] = 1
)"},
    {"a loop waits by plain reads for what the other arm writes", R"(
      if tx < 16:
-       while F[0] == 0:  # race
-         pass
+       Y[tx] = X[tx]
      else:
        F[0] = 1  # race
)"},
};

constexpr const char* head =
    "func main(A: f16[4096], B: f16[4096], X: f32[64], Y: f32[64], Z: f32[100], F: i32[4]):\n"
    "  kernel main grid(b: {}) threads(64) thread(tx):\n";

// The program without the lines that begin with `drop`, and per kind of finding the lines that are marked.
struct Program {
  std::string text;
  std::map<std::string, std::set<int>> marked = {};
};
Program program_of(const Planted& p, char drop) {
  Program out{.text = fmt::format(fmt::runtime(head), p.blocks)};
  std::istringstream lines(p.text);
  std::string line;
  int number = 2;
  while (std::getline(lines, line)) {
    if (line.size() < 2 || line[0] == drop) continue;
    number++;
    out.text += line.substr(2) + "\n";
    if (size_t at = line.find("  # "); at != line.npos) out.marked[line.substr(at + 4)].insert(number);
  }
  return out;
}

SimulationReport simulate_seeded(const std::string& text, uint64_t seed) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_80"));
  std::vector<uint16_t> a(4096, 0x3C00), b(4096);
  std::vector<float> x(64), y(64), z(100);
  for (size_t i = 0; i < 64; i++) x[i] = float(i) + 1;
  std::vector<int32_t> f(4);
  std::vector<HostArg> args = {{.data = a.data()}, {.data = b.data()}, {.data = x.data()},
                               {.data = y.data()}, {.data = z.data()}, {.data = f.data()}};
  return simulate(*simulation, args, {.seed = seed, .schedules = 3});
}

}  // namespace

TEST_CASE("planted bugs are found at their lines, within three schedules from any seed; repaired, there are none") {
  bool all_seeds = std::getenv("TL_FULL") != nullptr;
  for (auto& p : planted) {
    CAPTURE(std::string(p.name));
    Program faulty = program_of(p, '+'), repaired = program_of(p, '-');
    REQUIRE(!faulty.marked.empty());
    for (uint64_t seed = 0; seed < 20; seed += all_seeds ? 1 : 7) {  // else 0, 7, 14: three kinds of schedule
      CAPTURE(seed);
      SimulationReport report = simulate_seeded(faulty.text, seed);
      REQUIRE(!report.findings.empty());
      const Finding& first = report.findings[0];
      CAPTURE(first.text);
      std::set<int> lines = {first.span.line};
      if (first.other) lines.insert(first.other.line);
      auto text = [](const std::set<int>& of) { return fmt::format("{}", fmt::join(of, ", ")); };
      CHECK_EQ(text(lines), text(faulty.marked[std::string(name_of(first.kind))]));
      SimulationReport twin = simulate_seeded(repaired.text, seed);
      CHECK_EQ(twin.findings.empty() ? "" : twin.findings[0].text, "");
    }
  }
}
