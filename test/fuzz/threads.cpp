// Random thread-level programs: the simulator finds nothing in them, whatever the schedule, and they compute what their
// statements say.
#include <doctest/doctest.h>

#include <stdexcept>

#include "fuzz/evaluate.h"
#include "fuzz/harness.h"
#include "fuzz/lockstep.h"
#include "fuzz/thread_program.h"

using namespace tl;

TEST_CASE("thread-level programs compute what they mean in every schedule") {
  fuzz::run_programs({.name = "threads",
                      .programs = 60,
                      .make = fuzz::random_thread_program,
                      .oracle = fuzz::ask_lockstep,
                      .targets = {"sim:sm_80"}});
}
