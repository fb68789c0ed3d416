// Work on a thread of its own: with room for walks over deep trees, whatever stack the caller's thread has,
// and so that the caller hears what is said to it meanwhile.
#pragma once
#include <functional>

namespace tl {

// Runs `work` and waits; what it throws is thrown here.  Where the caller's call is to end, `work` is told
// (poll), and waited for.
void on_large_stack(const std::function<void()>& work);

// The same for work that may be in foreign hands for minutes, and so must own all that it touches: where the
// call is to end, it is left to itself unless it ends at once.
void on_thread_of_its_own(std::function<void()> work);

}  // namespace tl
