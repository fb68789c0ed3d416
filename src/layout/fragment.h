// A tile spread over the registers of threads: (dims…, replica) -> (thread, register).
//
// The m16n8 accumulator of mma.sync, 16×8 over 32 lanes with 4 registers each:
//   i: radix 8 (i % 8) -> thread stride 4;  radix 2 (i / 8) -> register stride 2
//   j: radix 2 (j % 2) -> register stride 1; radix 4 (j / 2) -> thread stride 1
// An element may be held by several threads: the replica digit chooses which copy.
#pragma once
#include "layout/layout.h"

namespace tl {

struct Fragment {
  Layout layout;  // inputs: the dims, then the replica; outputs: thread, register
  int64_t threads = 0, registers = 0, replicas = 1;
  std::vector<int64_t> shape() const { return {layout.extents.begin(), layout.extents.end() - 1}; }
};

// The terms' inputs 0 … shape.size()-1 are the dims, shape.size() the replica; output 0 thread, 1 register.
Fragment make_fragment(std::vector<int64_t> shape, int64_t replicas, std::vector<Term> terms);
Fragment fragment_from_map(const IndexMap& map);
Fragment fragment_of(Layout layout);  // inputs: the dims and the replica; outputs: thread, register
bool equal(const Fragment& a, const Fragment& b);
std::string to_string(const Fragment& f);

// ── algebra ───────────────────────────────────────────────────────────────────────────────────────────
// factors[d] copies along every dimension, in new registers or (on_threads) on new threads.  The copies along
// the last dimension are numbered first, or (last_dim_first false) those along the first.
Fragment repeat(const Fragment& f, const std::vector<int64_t>& factors, bool on_threads,
                bool last_dim_first = true);
// n copies of everything, each on threads of its own.
Fragment replicate(const Fragment& f, int64_t n);
// As many replicas as there are different (thread, register) pairs to an element.
Fragment condense(const Fragment& f);
// Every (thread, register) that holds the element, in ascending order.
std::vector<std::pair<int64_t, int64_t>> holders(const Fragment& f, const std::vector<int64_t>& index);
// Why the fragment does not cover its tile once, naming elements; nothing if it does: each register of each
// thread holds exactly one element, and each element has as many holders as there are replicas.
std::optional<std::string> cover_fault(const Fragment& f);
// Two elements in one register of one thread; nothing if each has a register of its own.
struct SharedRegister {
  std::vector<int64_t> first, second;
  int64_t thread, reg;
};
std::optional<SharedRegister> shared_register(const Fragment& f);
// CompileError if the fragment, a loop_layout, gives two iterations to one register: one would not run.
void check_iterations_apart(const Fragment& f, Span span);

// The other direction: which element does (thread, register) hold?  Register digits become loop variables, so
// that no division of a register index remains; the innermost varies fastest.
struct FragmentLoops {
  struct Axis {
    Expr var;                // runs over [0, extent): one digit of the register
    int64_t extent, stride;  // its stride in the register index
  };
  std::vector<Axis> axes;     // outermost first: descending stride
  std::vector<Expr> indices;  // of the dims, over `thread` and the axes' variables
  Expr guard;                 // null, or when the point is inside the tile and the thread takes part
  Expr first_replica;         // null, or when this thread holds the first of the copies
};
FragmentLoops inverse(const Fragment& f, const Expr& thread, int64_t threads);
std::string why_not_inverse(const Fragment& f);  // "" where there is one

}  // namespace tl
