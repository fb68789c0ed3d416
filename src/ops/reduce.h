// What the files of the reductions share: the operator read once, its arithmetic, and the layout of its
// results.
#pragma once
#include "ops/regions.h"

namespace tl {

enum class Fold : uint8_t { sum, max, min, prod, bit_and, bit_or, bit_xor, any, all, user };

struct Reduce {
  const Tile& tile;
  Region src, dst;
  Fold fold;
  bool absolute = false, clear;
  size_t dim = 0;              // of src's dimensions without points
  std::vector<int64_t> shape;  // src's
  bool keeps_dim = false;      // dst has `dim` too, of extent 1
  DType acc;                   // in which it is computed: f32 for narrower floats, i32 for truth, else dst's
  bool nan_propagate = false;  // of max and min: a NaN wins
  const IndexMap* user = nullptr;  // (a, b) -> (their combination, the identity)
  const Span& at() const { return tile.span; }
};

Reduce read_reduce(const Tile& t, const Function& f);
Fold find_fold(std::string_view word);  // "sum", …: of the language's own
std::span<const std::string_view> fold_words();

// ── indices ───────────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> folded(const Reduce& r, std::vector<Expr> at);  // where element `at` of src ends up

// ── arithmetic ────────────────────────────────────────────────────────────────────────────────────────
Expr identity(const Reduce& r);
Expr combine(const Reduce& r, Expr a, Expr b);
bool uses_twice(const Reduce& r);                    // may its operands stand in it more than once?
Expr contribution(const Reduce& r, Expr x);          // of one element of src, in the type of the results
Expr result(const Reduce& r, Expr old, Expr value);  // what dst becomes, from its element and what src gives

// ── threads ───────────────────────────────────────────────────────────────────────────────────────────

// A digit of the threads that hold parts of one row: (thread % above) / stride, below radix.  Where it ends
// below `above`, as in a fragment that lies as a part of a larger one does, threads between hold nothing.
struct ThreadDigit {
  int64_t stride, radix;
  int64_t above;  // the next larger digit's stride; where it ends, if there is none
};

// The fragment of the results: the digits of the other dimensions stay where they are, the threads' digits of
// the folded one become replicas, its registers go.
struct Rows {
  Fragment fragment;
  std::vector<int64_t> strides;     // per register digit of src, outermost first: its stride here, or 0
  std::vector<ThreadDigit> across;  // threads to combine
};
Rows rows_of(const Reduce& r, const Fragment& src);
// Does each thread reduce for itself, because src or dst is its own array?
bool is_for_each_thread(const Reduce& r, const Function& f);
ParallelNest nest_over(const Reduce& r, const Function& f);  // loads all of src

Stmt reduce_by_threads(const Reduce& r, LowerContext& ctx);  // reduce_threads.cpp
Stmt reduce_by_vectors(const Reduce& r, LowerContext& ctx);  // reduce_simd.cpp: one thread
// Every thread has `registers` partial results in dst, of type r.acc; afterwards all have their combination.
Stmt reduce_parts(const Reduce& r, LowerContext& ctx, int64_t registers);

}  // namespace tl
