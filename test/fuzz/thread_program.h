// Random thread-level programs as text: registers of many types, conditions, loops and jumps that depend on
// the thread, shared memory, shuffles, votes, atomics, named barriers, early returns, copies and barriers
// in memory that go on beside the threads.  Half of them place all barriers themselves, and skip
// insert_sync.  They are free of races and deterministic by construction: between two barriers a shared
// array is read, or each thread writes to its own elements of it, or it is updated by one kind of atomic;
// buffers of a step beside the threads are the step's own.  Floats are small integers, so that every order
// gives the same result.
#pragma once
#include "fuzz/tile_program.h"

namespace tl::fuzz {

Program random_thread_program(uint64_t seed);

}  // namespace tl::fuzz
