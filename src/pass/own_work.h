// Which tile operators and parallel loops each thread runs for itself, as a whole, rather than its part.
#pragma once
#include "pass/varying.h"

namespace tl {

// Does a tile operator or parallel loop work on the thread's own arrays alone, or on a place that the
// thread's number names?  Every thread has its own then, and nothing is divided.
bool is_own_work(const Stmt& s, const Function& f, const Varying& varying);
// Does the thread's number, rather than what a warp or memory gives to a thread, decide the value?
bool names_thread(const Expr& e, const Varying& varying);
// The statement, marked for infer_layouts and lower_tile_ops as a thread's own.
Stmt as_own_work(const Stmt& s);

}  // namespace tl
