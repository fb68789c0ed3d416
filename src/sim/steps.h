// Every operation that flat code is made of, by what it computes.  An operation does one thing for all lanes
// of a warp, so it is decoded once for all its threads.
#pragma once
#include "sim/machine.h"

namespace tl::sim {

// ── lanes.cpp: registers only; no fault is possible, so inactive lanes compute along ──────────────────
void constant(Warp& w, const Operation& o);  // value
void splat(Warp& w, const Operation& o);     // one slot to all lanes
void copy(Warp& w, const Operation& o);
void repeat(Warp& w, const Operation& o);  // a, as each element of a vector
void ramp(Warp& w, const Operation& o);    // a + i * b, as element i of a vector
void select(Warp& w, const Operation& o);  // a ? b : c
Run unary_run(UnaryOp op, DType type);
Run binary_run(BinaryOp op, DType type);  // of operands of that type
Run cast_run(DType from, DType to);
void to_integer(Warp& w, const Operation& o);  // a cast of a float; of what does not fit, nothing is defined
Run fma_run(DType type);                       // null where it is not a * b + c in double
// These may: division by zero, a shift by too much.  A constant that is neither needs no check.
void checked_binary(Warp& w, const Operation& o);
bool needs_check(BinaryOp op, const Expr& right);

// ── memory.cpp: a is the index, of the first element where a vector's lie side by side; b the mask ────
Run load_run(DType element, bool uniform_index);
Run store_run(DType element, bool uniform_index);  // c: the value
void address(Warp& w, const Operation& o);         // an index to a handle: bytes from the buffer's beginning
void begin_buffer(Warp& w, const Operation& o);    // an Alloc

// ── control.cpp ───────────────────────────────────────────────────────────────────────────────────────
void for_begin(Warp& w,
               const Operation& o);  // one trip count for the warp: to runs from a, b times; c: its end
void for_next(Warp& w, const Operation& o);
void lanes_begin(Warp& w, const Operation& o);  // each thread its own trip count
void lanes_next(Warp& w, const Operation& o);
void narrow(Warp& w, const Operation& o);        // to the threads where a holds; jumps where there is none
void narrow_group(Warp& w, const Operation& o);  // to threads [value, value + count)
void narrow_else(Warp& w, const Operation& o);   // to those that `narrow` left out
void widen(Warp& w, const Operation& o);
void enter_while(Warp& w, const Operation& o);  // the loop `value`
void save(Warp& w, const Operation& o);         // the mask, for a while loop
void narrow_on(Warp& w, const Operation& o);    // further, until no thread is left
void jump(Warp& w, const Operation& o);
// Jumps of some threads.  `row` of an operation that may go forward is a label, whose place is found at the
// end.
void label(Warp& w, const Operation& o);
void widen_or_go(Warp& w, const Operation& o);  // widen, and to the label if no thread is left
void go_if_empty(Warp& w, const Operation& o);  // to the label if no thread is left
void enter_jumping(Warp& w, const Operation& o);
void begin_trip(Warp& w, const Operation& o);
void end_trip(Warp& w, const Operation& o);  // to the label if no thread goes on
void leave_jumping(Warp& w, const Operation& o);
void break_threads(Warp& w, const Operation& o);
void continue_threads(Warp& w, const Operation& o);
void return_threads(Warp& w, const Operation& o);
void end(Warp& w, const Operation& o);
void call(Warp& w, const Operation& o);         // row: an index into the kernel's calls
void scalar_call(Warp& w, const Operation& o);  // the same for a scalar function: its `eval`

}  // namespace tl::sim
