// What a thread-level program means, written down a second time for the tests: all threads of a block go in
// step, each statement first gets its values in every thread and then takes effect.  It shares nothing with
// the simulator, has no notion of a race, and is right for programs in which no order of threads matters.
#pragma once
#include "trial.h"

namespace tl::test {

// Makes of the arguments what f, at level tile, makes of them.  Throws std::logic_error where f has something
// that is not known here, or no meaning: a barrier that not all threads reach, an index outside of a tile.
// `wraps`: 64-bit integers that leave their type wrap, as those of data do; else that is no meaning, as of
// indices.
void run_lockstep(const Function& f, Trial& trial, bool wraps = false);

// Does f have thread indices, shuffles, barriers, …: what the reference and the CPU refuse?
bool is_thread_level(const Function& f);

}  // namespace tl::test
