// Phases of barriers in memory that are waited for by the states that arrivals gave.
#include "unit/sim/machine_text.h"
#include "unit/sim/planted.h"

using namespace tl;

namespace {

constexpr std::string_view state_head = R"(
func main(X: i32[64], Y: i32[64]):
  kernel main grid(b: 1) threads(64) thread(tx):
    M = shared u64[2] address(0) elements(2)
    S = shared i32[64] address(128) elements(64)
    if tx == 0:
      mbarrier_init(address_of(M[0]), 64)
      mbarrier_init(address_of(M[1]), 64)
      fence_mbarrier_init()
    sync_threads()
)";

// "line: kind: text" of the first finding, where the body's first line is 1; "" if there is none.  Y is
// written to `y`.
std::string state_told(std::string_view body, uint64_t seed = 0, std::vector<int32_t>* y = nullptr) {
  std::string text(state_head);
  int lines = int(std::ranges::count(text, '\n'));
  std::string line;
  for (char c : body) line += c == '\n' ? "\n    " : std::string(1, c);
  auto simulation = prepare_simulation(machine_function(text + "    " + line + "\n"), *find_target("sm_90"));
  std::vector<int32_t> x = counted<int32_t>(64), out(64, -1);
  std::vector<HostArg> args = {{.data = x.data()}, {.data = (y ? *y : out).data()}};
  SimulationReport report = simulate(*simulation, args, {.seed = seed});
  if (report.findings.empty()) return "";
  const Finding& f = report.findings[0];
  return fmt::format("{}: {}: {}", f.span.line - lines, name_of(f.kind), f.text);
}

constexpr Planted states[] = {
    {"the wait is by the state of the other barrier", R"(
      M = shared u64[2] address(0) elements(2)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
        mbarrier_init(address_of(M[1]), 64)
      sync_threads()
      s = mbarrier_arrive_state(address_of(M[0]))
-     while not mbarrier_test_wait_state(address_of(M[1]), s):  # barrier
+     while not mbarrier_test_wait_state(address_of(M[0]), s):
        pass
)"},
    {"a phase ends without one of those that write", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
-       mbarrier_init(address_of(M[0]), 32)
+       mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      S[tx] = X[tx]  # race
      s = mbarrier_arrive_state(address_of(M[0]))
      while not mbarrier_test_wait_state(address_of(M[0]), s):
        pass
      Y[tx] = S[63 - tx]  # race
)"},
    {"one arrival more is counted than comes", R"(
      M = shared u64[1] address(0) elements(1)
      if tx == 0:
-       mbarrier_init(address_of(M[0]), 65)
+       mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      s = mbarrier_arrive_state(address_of(M[0]))  # deadlock
      while not mbarrier_test_wait_state(address_of(M[0]), s):  # deadlock
        pass
)"},
    {"what has not landed is read, as the test does not wait", R"(
      M = shared u64[1] address(0) elements(1)
      S = shared f32[64] address(16) elements(64)
      if tx == 0:
        mbarrier_init(address_of(M[0]), 64)
      sync_threads()
      S[tx] = X[tx]  # race, unwritten2
      s = mbarrier_arrive_state(address_of(M[0]))
-     e = mbarrier_test_wait_state(address_of(M[0]), s)
+     while not mbarrier_test_wait_state(address_of(M[0]), s):
+       pass
      Y[tx] = S[63 - tx]  # race, unwritten
)"},
};

}  // namespace

TEST_CASE("planted bugs of waits by states are found, and their twins are clean") { check_planted(states); }

TEST_CASE("a state serves for its phase and until the next one ends; of what else it is, is told") {
  // All arrive in a phase and wait for its end, n times; then one asks for the first of them.
  auto after = [](int n, uint64_t seed) {
    std::string text;
    for (int i = 0; i < n; i++)
      text += fmt::format(
          "s{0} = mbarrier_arrive_state(address_of(M[0]))\n"
          "while not mbarrier_try_wait_state(address_of(M[0]), s{0}):\n  pass\n",
          i);
    return state_told(text +
                          "if tx == 0:\n  e = mbarrier_try_wait_state(address_of(M[0]), s0)\n"
                          "  Y[0] = cast<i32>(e)",
                      seed);
  };
  for (uint64_t seed = 0; seed < 6; seed++) {
    CHECK_EQ(after(1, seed), "");
    CHECK_EQ(after(2, seed),
             "8: barrier: mbarrier_try_wait_state: thread 0 of block (0) of main asks for a phase of M[0] by "
             "the state of phase 0, but phase 2 is under way; a state serves for the phase under way and the "
             "one before it: let this thread wait, or arrive again, before the next phase can end");
  }
  auto by = [](std::string_view value) {
    return state_told(
        fmt::format("s = mbarrier_arrive_state(address_of(M[1]))\nwhile not "
                    "mbarrier_try_wait_state(address_of(M[0]), {}):\n  pass",
                    value));
  };
  std::string asks =
      "2: barrier: mbarrier_try_wait_state: thread 0 of block (0) of main asks for a phase of "
      "M[0] by {}; it takes what an arrival at this barrier gave";
  CHECK_EQ(by("s"), fmt::format(fmt::runtime(asks), "a state of M[1]"));
  CHECK_EQ(by("0:u64"), fmt::format(fmt::runtime(asks), "a value that is the state of no phase"));
  CHECK(contains(state_told("s = mbarrier_arrive_state(address_of(M[0]))\nsync_threads()\nif tx == 0:\n  "
                            "mbarrier_init(address_of(M[0]), 64)\nsync_threads()\nwhile not "
                            "mbarrier_try_wait_state(address_of(M[0]), s):\n  pass"),
                 "by a state of a barrier that has been initialised again; it takes"));
}

TEST_CASE("a wait by a state that never ends says what is missing; a test does not wait") {
  CHECK_EQ(
      state_told("if tx < 32:\n  s = mbarrier_arrive_state(address_of(M[1]))\n  while not "
                 "mbarrier_try_wait_state(address_of(M[1]), s):\n    pass"),
      "3: deadlock: thread 0 of block (0) of main waits for phase 0 of M[1] (by its state), and no other "
      "thread can go on; missing: 32 of 64 arrivals; threads [0, 32) (line 12) came");
  std::vector<int32_t> y(64, -1);
  CHECK_EQ(state_told("if tx < 32:\n  s = mbarrier_arrive_state(address_of(M[1]))\n  e = "
                      "mbarrier_try_wait_state(address_of(M[1]), s)\n  Y[tx] = cast<i32>(e)",
                      0, &y),
           "");
  CHECK_EQ(y[0], 0);
}

TEST_CASE("a state makes known what the parity does, and counts bytes as well") {
  for (uint64_t seed = 0; seed < 12; seed++) {
    CAPTURE(seed);
    std::vector<int32_t> y(64, -1);
    CHECK_EQ(state_told(R"(s = mbarrier_arrive_expect_tx_state(address_of(M[0]), select(tx == 0, 256, 0))
if tx == 0:
  cp_async_bulk_load(address_of(S[0]), address_of(X[0]), 256, address_of(M[0]))
while not mbarrier_try_wait_state(address_of(M[0]), s):
  pass
Y[tx] = S[63 - tx])",
                        seed, &y),
             "");
    for (int i = 0; i < 64; i++) CHECK_EQ(y[size_t(i)], 63 - i);
  }
}
