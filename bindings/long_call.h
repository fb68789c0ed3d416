// A call that may take long.  For its life the interpreter's lock is let go, signals are heard (Ctrl-C ends
// the call by the exception of Python's handler), and from the third second on a terminal shows what is going
// on.
#pragma once
#include "base/interrupt.h"
#include "gil.h"

class LongCall {
 public:
  LongCall(const char* doing, const std::string& name);  // which outlive it
  LongCall(const LongCall&) = delete;
  ~LongCall();
  // It was ended, but a thread goes on that uses what the call was given.
  bool has_left_a_thread() const { return task->left_behind; }

 private:
  GilReleased released;
  std::shared_ptr<tl::Task> task;
  tl::Working working;
};

// Where the interpreter ends: work on other threads is told to.
void begin_exit();
