// What goes on beside the threads: it gives the same numbers whenever it lands, and what is missing is told.
#include <set>

#include "unit/sim/machine_text.h"

using namespace tl;

namespace {

constexpr uint64_t seeds = 24;  // every kind of schedule with every kind of landing

// "line: kind: text" of the first finding; "" if there is none.
template <class... T>
std::string found(std::string_view text, const SimulationOptions& options, std::vector<T>&... tensors) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_90"));
  std::vector<HostArg> args;
  (args.push_back({.data = tensors.data()}), ...);
  SimulationReport report = simulate(*simulation, args, options);
  if (report.findings.empty()) return "";
  const Finding& f = report.findings[0];
  return fmt::format("{}: {}: {}", f.span.line, name_of(f.kind), f.text);
}

}  // namespace

TEST_CASE("cp.async of 4, 8 and 16 bytes: what is not given is 0, whenever it lands") {
  for (int bytes : {4, 8, 16})
    for (uint64_t seed = 0; seed < seeds; seed++) {
      CAPTURE(bytes);
      CAPTURE(seed);
      std::vector<int32_t> x = counted<int32_t>(256), y(256, -1);
      CHECK_EQ(found(fmt::format(R"(
func main(X: i32[256], Y: i32[256]):
  kernel main grid(b: 1) threads(64) thread(tx):
    S = shared i32[256] address(0) elements(256)
    for k in serial(2):
      cp_async_{0}_zfill(address_of(S[tx*{1}]), address_of(X[tx*{1}]), select(tx == 5, 4 - k*4, {0}))
      cp_async_commit_group()
      cp_async_wait_group(0)
      sync_threads()
      for i in serial({1}):
        Y[tx*{1} + i] = S[(63 - tx)*{1} + i]
      sync_threads()
)",
                                 bytes, bytes / 4),
                     {.seed = seed}, x, y),
               "");
      int n = bytes / 4;
      for (int t = 0; t < 64; t++)
        for (int i = 0; i < n; i++) CHECK_EQ(y[size_t(t * n + i)], 63 - t == 5 ? 0 : (63 - t) * n + i);
    }
}

TEST_CASE("before its wait a copy has landed, or not, or in part, as the schedule likes") {
  std::set<int> landed;
  for (uint64_t seed = 0; seed < seeds; seed++) {
    std::vector<int32_t> x(128, 1), y(64, -1);
    CHECK_EQ(found(R"(
func main(X: i32[128], Y: i32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    S = shared i32[128] address(0) elements(128)
    S[tx] = 0
    S[tx + 64] = 0
    sync_threads()
    cp_async_8(address_of(S[tx*2]), address_of(X[tx*2]))
    sync_threads()
    Y[tx] = S[tx*2]
    cp_async_wait_all()
)",
                   {.seed = seed, .watch = false}, x, y),
             "");
    int all = 0;
    for (int v : y) all += v;
    landed.insert(all);
  }
  CHECK(landed.contains(0));
  CHECK(landed.contains(64));
  CHECK_GT(landed.size(), 2);
}

TEST_CASE("a ring of bulk loads, handed over by mbarriers, and bulk stores") {
  const char* text = R"(
func main(X: i32[512], Y: i32[512]):
  kernel main grid(b: 1) threads(64) thread(tx):
    M = shared u64[4] address(0) elements(4)
    S = shared i32[128] address(128) elements(128)
    R = shared i32[64] address(1024) elements(64)
    if tx == 0:
      for i in serial(2):
        mbarrier_init(address_of(M[i]), 1)
        mbarrier_init(address_of(M[i + 2]), 32)
      fence_mbarrier_init()
    sync_threads()
    if tx >= 32:
      if tx == 32:
        for k in serial(8):
          while not mbarrier_try_wait(address_of(M[k%2 + 2]), (k//2 + 1)%2):
            pass
          mbarrier_arrive_expect_tx(address_of(M[k%2]), 256)
          cp_async_bulk_load(address_of(S[k%2*64]), address_of(X[k*64]), 256, address_of(M[k%2]))
    else:
      for k in serial(8):
        while not mbarrier_try_wait(address_of(M[k%2]), k//2%2):
          pass
        if tx == 0:
          cp_async_bulk_wait_group_read(0)
        sync_warp(4294967295:u32)
        for i in serial(2):
          R[tx + i*32] = S[k%2*64 + 63 - tx - i*32] + cast<i32>(k)
        mbarrier_arrive(address_of(M[k%2 + 2]))
        fence_proxy_async()
        sync_warp(4294967295:u32)
        if tx == 0:
          cp_async_bulk_store(address_of(Y[k*64]), address_of(R[0]), 256)
          cp_async_bulk_commit_group()
      if tx == 0:
        cp_async_bulk_wait_group(0)
)";
  for (uint64_t seed = 0; seed < seeds; seed++) {
    CAPTURE(seed);
    for (bool watch : {true, false}) {
      std::vector<int32_t> x = counted<int32_t>(512), y(512, -1);
      CHECK_EQ(found(text, {.seed = seed, .watch = watch, .count = watch}, x, y), "");
      for (int i = 0; i < 512; i++) CHECK_EQ(y[size_t(i)], i / 64 * 64 + 63 - i % 64 + i / 64);
    }
  }
}

TEST_CASE("a wait that never ends says what is missing, and who has come") {
  auto wait = [](std::string_view count, std::string_view body, int parity) {
    std::vector<int32_t> x(64);
    return found(fmt::format(R"(
func main(X: i32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    M = shared u64[2] address(0) elements(2)
    S = shared i32[64] address(128) elements(64)
    if tx == 0:
      mbarrier_init(address_of(M[1]), {})
      fence_mbarrier_init()
    sync_threads()
    if tx % 32 == 0:
      {}
    while not mbarrier_try_wait(address_of(M[1]), {}):
      pass
)",
                             count, body, parity),
                 {}, x);
  };
  CHECK_EQ(wait("3", "mbarrier_arrive(address_of(M[1]))", 0),
           "12: deadlock: thread 0 of block (0) of main waits for phase 0 of M[1] (parity 0), and no other "
           "thread can go on; missing: 1 of 3 arrivals; thread 0 (line 11), thread 32 (line 11) came");
  CHECK_EQ(
      wait("2", "mbarrier_arrive_expect_tx(address_of(M[1]), 64)", 0),
      "12: deadlock: thread 0 of block (0) of main waits for phase 0 of M[1] (parity 0), and no other thread "
      "can go on; missing: 128 bytes that were expected; thread 0 (line 11), thread 32 (line 11) came");
  CHECK_EQ(wait("2", "mbarrier_arrive(address_of(M[1]))\n    sync_threads()", 1),
           "13: deadlock: thread 0 of block (0) of main waits for phase 1 of M[1] (parity 1), and no other "
           "thread can go on; missing: 2 of 2 arrivals; no thread has arrived; the phase before has ended: "
           "was parity 0 meant?");
  CHECK_EQ(wait("2", "mbarrier_arrive(address_of(M[1]))", 1),
           "12: barrier: thread 0 of block (0) of main waits here for the phase before phase 0 of M[1], and "
           "nothing makes phase 0 wait for that: if it ends first, this wait is for phase 1, of the same "
           "parity, maybe for ever; was parity 0 meant?");
  CHECK_EQ(wait("1", "pass", 2),
           "12: fault: mbarrier_try_wait: the parity is 2, in thread 0 of block (0) of main; it must be 0 "
           "(even phases) or 1 (odd phases)");
}

TEST_CASE("a row that the chip does not have, or an operand in other memory, is refused") {
  auto refused = [](std::string_view statement) -> std::string {
    Function f =
        machine_function(fmt::format("func main(X: f32[64]):\n  kernel main grid(b: 1) threads(64) "
                                     "thread(tx):\n    S = shared u64[64] address(0) elements(64)\n"
                                     "    {}\n",
                                     statement));
    try {
      prepare_simulation(f, *find_target("sm_80"));
    } catch (const CompileError& e) {
      return e.text;
    }
    return "";
  };
  CHECK_EQ(refused("mbarrier_expect_tx(address_of(S[0]), 16)"),
           "sm_80 has no mbarrier_expect_tx; sm_90 has it");
  CHECK_EQ(refused("cp_async_4(address_of(S[tx]), address_of(S[tx]))"),
           "cp_async_4: its argument 2 must be in global memory, but S is not");
  CHECK_EQ(refused("cp_async_4(address_of(X[tx]), address_of(X[tx]))"),
           "cp_async_4: its argument 1 must be in shared memory, but X is not");
  auto text =
      "func main(X: f32[64]):\n  kernel main grid(b: 1) threads(64) thread(tx):\n    "
      "cp_async_wait_group(tx)\n";
  auto finding = check(parse(text, "machine.ir", {find_op_info, find_row}), Level::machine);
  REQUIRE(bool(finding));
  CHECK_EQ(finding->text,
           "argument 1 of cp_async_wait_group is part of the instruction: it must be a constant, at least 0");
}
