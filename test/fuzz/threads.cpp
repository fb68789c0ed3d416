// Random thread-level programs: the simulator finds nothing in them, whatever the schedule, and they compute
// what their statements say.
#include <doctest/doctest.h>

#include "fuzz/harness.h"
#include "fuzz/seeds.h"
#include "fuzz/thread_program.h"

using namespace tl;

namespace {

// The program with one wait less, or one for the wrong phase of a barrier; and what tells whether that line
// is reached.
struct Broken {
  std::string text, asserted;
};
std::vector<Broken> broken(const std::string& text) {
  std::vector<Broken> all;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    std::string line = text.substr(begin, end - begin), before = text.substr(0, begin),
                after = text.substr(end);
    std::string space = line.substr(0, line.find_first_not_of(' ')), what = line.substr(space.size());
    size_t parity = line.rfind(", ") + 2;
    if (what.starts_with("while not mbarrier_"))
      line =
          fmt::format("{}1 - ({})):", line.substr(0, parity), line.substr(parity, line.size() - parity - 2));
    else if (what.starts_with("cp_async_bulk_wait_"))
      line = space + "pass";
    else
      continue;
    all.push_back({before + line + after, fmt::format("{}{}device_assert(x < 0, \"\", \"\")\n{}{}", before,
                                                      space, space, what + after)});
  }
  return all;
}

}  // namespace

TEST_CASE("thread-level programs only read their inputs and write their outputs") {
  for (uint64_t seed = 0; seed < 60; seed++) {
    std::string text = fuzz::random_thread_program(seed).text;
    CAPTURE(text);
    auto kernel = compile_kernel(parse(text, "program.ir", text_vocabulary()), "sim:sm_90");
    for (auto& p : kernel->program.params)
      if (p.is_tensor) CHECK_MESSAGE(p.is_written == (p.name[0] == 'Y'), p.name);
  }
}

TEST_CASE("thread-level programs have every barrier, exchange, jump and asynchronous instruction") {
  std::string all;
  for (uint64_t seed = 0; seed < 400; seed++) all += fuzz::random_thread_program(seed).text;
  for (auto& row : find_target("sm_90")->async)
    if (row.operands.find('t') == row.operands.npos &&  // no tensor maps
        row.does != AsyncInstr::AsyncKind::clock)       // nor what is another number in each run
      CHECK_MESSAGE(all.find(std::string(row.intrinsic.name) + "(") != all.npos, row.intrinsic.name);
  for (std::string word : {"shfl_sync(",
                           "shfl_xor_sync(",
                           "shfl_up_sync(",
                           "shfl_down_sync(",
                           "any_sync(",
                           "all_sync(",
                           "ballot_sync(",
                           "match_any_sync(",
                           "match_all_sync(",
                           "sync_threads(",
                           "sync_threads_count(",
                           "sync_threads_and(",
                           "sync_threads_or(",
                           "sync_warp(",
                           "bar_sync(",
                           "bar_arrive(",
                           "atomic_add(",
                           "atomic_add<",
                           "atomic_max(",
                           "atomic_min(",
                           "atomic_or(",
                           "break()",
                           "continue()",
                           "thread_return()",
                           "while ",
                           "group(",
                           "else:",
                           "parallel("})
    CHECK_MESSAGE(all.find(word) != all.npos, word);
}

TEST_CASE("thread-level programs compute what they mean in every schedule" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "threads",
                      .programs = 60,
                      .fresh = 20,
                      .make = fuzz::random_thread_program,
                      .oracle = fuzz::ask_lockstep,
                      .targets = {"sim"}});
}

TEST_CASE(
    "thread-level programs need each of their waits: without one of them the simulator finds something") {
  int64_t reached = 0, found = 0;
  int64_t enough = fuzz::is_full() ? 40 : 20;
  for (uint64_t seed = 0; reached < enough; seed++) {
    fuzz::Program p = fuzz::random_thread_program(seed);
    if (p.skip.empty()) continue;  // the compiler's barriers stand in for many a wait
    Test test{.target = "sim:sm_90",
              .options = {.skip = p.skip, .stop_after = "", .flags = {}},
              .given = {p.given},
              .inputs = Inputs::whole,
              .oracle = [](const Function&, Trial&) { return false; }};
    for (auto& b : broken(p.text)) {
      bool is_found = judge(b.text, test).kind == Verdict::Kind::finding;
      found += is_found;
      reached += is_found || judge(b.asserted, test).what == "assertion";
    }
  }
  CHECK_GE(found * 10, reached * 9);  // a thread needs no wait for what it has stored itself
}
