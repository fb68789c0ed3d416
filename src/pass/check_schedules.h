#pragma once
#include "ir/kernel.h"

namespace tl {

// Does the program give the pipelined loop its order and stages?
bool has_given_schedule(const For& loop);

// CompileError at the first pipelined loop whose order and stage are no schedule of its body, or would change
// what it computes.  Asked of every program, since executors that run loops in order read neither.
void check_given_schedules(const Function& f);

}  // namespace tl
