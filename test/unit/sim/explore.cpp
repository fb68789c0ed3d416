// All orders of a small kernel: what needs one of them is found, and what is too large is refused.
#include <set>

#include "unit/sim/machine_text.h"

using namespace tl;

namespace {

SimulationReport explored(std::string_view text, SimulationOptions options) {
  auto simulation = prepare_simulation(machine_function(text), *find_target("sm_90"));
  std::vector<int32_t> x(64), f(4);
  std::vector<HostArg> args;
  for (auto* v : {&x, &f}) {  // each order begins with the same memory
    auto* begin = reinterpret_cast<std::byte*>(v->data());
    args.push_back({.data = begin, .memory = {begin, begin + v->size() * sizeof(int32_t)}});
  }
  return simulate(*simulation, args, options);
}

const SimulationOptions all = {.schedules = all_schedules};

std::string kernel_of(std::string_view body) {
  return fmt::format(
      "func main(X: i32[64], F: i32[4]):\n  kernel main grid(b: 1) threads(64) thread(tx):\n{}", body);
}

std::string first_of(const SimulationReport& report) {
  if (report.findings.empty()) return "";
  const Finding& f = report.findings[0];
  return fmt::format("{}: {}", f.span.line, name_of(f.kind));
}

}  // namespace

TEST_CASE("a bug that needs one particular order is found by all of them, and by no seed") {
  // Wrong only where the second warp comes exactly once between two updates of the first one, and that in the
  // third trip.
  std::string text = kernel_of(R"(
    if tx == 0:
      for k in serial(4):
        first = atomic_add<i32>(address_of(F[0]), 1:i32, "relaxed")
        second = atomic_add<i32>(address_of(F[0]), 1:i32, "relaxed")
        device_assert(first != 104:i32 or second != 205:i32, "the one order", "here")
    if tx == 32:
      for k in serial(4):
        X[k] = atomic_add<i32>(address_of(F[0]), 100:i32, "relaxed")
)");
  CHECK_EQ(first_of(explored(text, {.schedules = 200})), "");
  SimulationReport report = explored(text, all);
  CHECK_EQ(first_of(report), "8: assertion");
  CHECK_GT(report.schedules, 1);
  CHECK_EQ(explored(text, all).schedules, report.schedules);  // the same way each time
}

TEST_CASE("two locks taken in two orders: a deadlock where each warp holds one") {
  auto text = [](int first, int second) {
    return kernel_of(fmt::format(R"(
    if tx == 0:
      while atomic_or<i32>(address_of(F[0]), 1:i32, "acquire") != 0:i32:
        pass
      while atomic_or<i32>(address_of(F[1]), 1:i32, "acquire") != 0:i32:
        pass
      X[0] = X[0] + 1:i32
      atomic_store(address_of(F[1]), 0:i32, "release")
      atomic_store(address_of(F[0]), 0:i32, "release")
    if tx == 32:
      while atomic_or<i32>(address_of(F[{0}]), 1:i32, "acquire") != 0:i32:
        pass
      while atomic_or<i32>(address_of(F[{1}]), 1:i32, "acquire") != 0:i32:
        pass
      X[0] = X[0] + 1:i32
      atomic_store(address_of(F[{1}]), 0:i32, "release")
      atomic_store(address_of(F[{0}]), 0:i32, "release")
)",
                                 first, second));
  };
  CHECK_EQ(first_of(explored(text(0, 1), all)), "");
  std::string found = first_of(explored(text(1, 0), all));
  CHECK_EQ(found, "7: livelock");
}

TEST_CASE("four barriers in four trips, and a ring of bulk copies: few states, all of them seen") {
  SimulationReport named = explored(kernel_of(R"(
    S = shared i32[64] address(0) elements(64)
    for k in serial(4):
      for i in unrolled(4):
        S[tx] = cast<i32>(i)
        bar_sync(1, 64)
        X[tx] = S[63 - tx]
        bar_sync(2, 64)
)"),
                                    all);
  CHECK_EQ(first_of(named), "");
  CHECK_LT(named.schedules, 200);
  SimulationReport ring = explored(kernel_of(R"(
    M = shared u64[4] address(0) elements(4)
    S = shared i32[128] address(128) elements(128)
    if tx == 0:
      for i in serial(2):
        mbarrier_init(address_of(M[i]), 1)
        mbarrier_init(address_of(M[i + 2]), 32)
      fence_mbarrier_init()
    sync_threads()
    if tx == 32:
      for k in serial(4):
        while not mbarrier_try_wait(address_of(M[k%2 + 2]), (k//2 + 1)%2):
          pass
        mbarrier_arrive_expect_tx(address_of(M[k%2]), 256)
        cp_async_bulk_load(address_of(S[k%2*64]), address_of(X[0]), 256, address_of(M[k%2]))
    if tx < 32:
      for k in serial(4):
        while not mbarrier_try_wait(address_of(M[k%2]), k//2%2):
          pass
        F[tx%4] mask(tx < 4) = S[k%2*64 + tx]
        mbarrier_arrive(address_of(M[k%2 + 2]))
)"),
                                   all);
  CHECK_EQ(first_of(ring), "");
  CHECK_GT(ring.schedules, 5);
  CHECK_LT(ring.schedules, 2000);
}

TEST_CASE("a loop that waits for ever is told, and what is too large is refused with what would do") {
  CHECK_EQ(first_of(explored(kernel_of(R"(
    while atomic_load<i32>(address_of(F[0]), "acquire") == 0:i32:
      pass
)"),
                             all)),
           "4: livelock");
  CHECK_THROWS_WITH_AS(
      explored("func main(X: i32[64], F: i32[4]):\n  kernel main grid(b: 8) threads(64) thread(tx):\n    "
               "X[tx] = 0:i32\n",
               all),
      doctest::Contains("all schedules: main would run 8 blocks of 2 warps, but all orders are tried of at "
                        "most 4 warps; take fewer blocks (blocks=), or try a number of schedules"),
      CompileError);
  CHECK_THROWS_WITH_AS(explored(kernel_of(R"(
    if tx%32 == 0:
      for k in serial(100):
        atomic_add(address_of(F[0]), cast<i32>(tx) + 1:i32, "relaxed")
)"),
                                all),
                       doctest::Contains("all schedules: the warps of main meet in more than 10000 orders"),
                       CompileError);
}
