// Random thread-level programs: the simulator finds nothing in them, whatever the schedule, and they compute
// what their statements say.
#include <doctest/doctest.h>

#include "fuzz/harness.h"
#include "fuzz/thread_program.h"

using namespace tl;

TEST_CASE("thread-level programs have every barrier, exchange and jump") {
  std::string all;
  for (uint64_t seed = 0; seed < 1200; seed++) all += fuzz::random_thread_program(seed).text;
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
                           "else:",
                           "parallel("})
    CHECK_MESSAGE(all.find(word) != all.npos, word);
}

TEST_CASE("thread-level programs compute what they mean in every schedule") {
  fuzz::run_programs({.name = "threads",
                      .programs = 60,
                      .make = fuzz::random_thread_program,
                      .oracle = fuzz::ask_lockstep,
                      .targets = {"sim:sm_80"}});
}
