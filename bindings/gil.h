// The interpreter's lock, let go and taken again.  While the interpreter ends, CPython before 3.14 ends a
// thread that asks for the lock by unwinding its stack, and a C++ frame on it that lets nothing through ends
// the process (SIGABRT).  Such a thread sleeps here instead, as it does from 3.14 on: it has nothing left to
// do, and goes with the process.
#pragma once
#include <cxxabi.h>
#include <Python.h>
#include <unistd.h>

#include <atomic>

[[noreturn]] inline void sleep_for_good() {
  for (;;) pause();
}

// What `body` returns, which may run code of Python's, and so may ask for the lock at any time.
template <class Body>
decltype(auto) or_sleep_at_exit(Body&& body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    sleep_for_good();
  }
}

// The thread on which the interpreter ends; 0: it does not.
inline std::atomic<unsigned long> ending_thread{0};
inline bool ends_elsewhere() {
  unsigned long ending = ending_thread.load(std::memory_order_relaxed);
  return ending && ending != PyThread_get_thread_ident();
}

class GilReleased {
 public:
  GilReleased() = default;
  GilReleased(const GilReleased&) = delete;
  ~GilReleased() {
    if (ends_elsewhere()) sleep_for_good();
    or_sleep_at_exit([&] { PyEval_RestoreThread(state); });
  }

 private:
  PyThreadState* state = PyEval_SaveThread();
};

class GilHeld {
 public:
  GilHeld() = default;
  GilHeld(const GilHeld&) = delete;
  ~GilHeld() { PyGILState_Release(state); }

 private:
  static PyGILState_STATE take() {
    if (ends_elsewhere()) sleep_for_good();
    return or_sleep_at_exit([] { return PyGILState_Ensure(); });
  }
  PyGILState_STATE state = take();
};
