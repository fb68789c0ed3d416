// Room for walks over deep trees, whatever stack the caller's thread has.
#pragma once
#include <functional>

namespace tl {

// Runs `work` on a thread with a stack of its own, and waits; what it throws is thrown here.
void on_large_stack(const std::function<void()>& work);

}  // namespace tl
