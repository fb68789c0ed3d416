// How warps share a gemm by matrix instructions: which instruction, the grid of warps, and the fragments that
// follow.  It is chosen in infer_layouts, by what is known of the fragments then, and recorded on the
// statement; lowering reads it there.
#pragma once
#include "ops/gemm.h"

namespace tl {

struct MmaPlan {
  const MatrixInstr* row = nullptr;
  const MatrixInstr* tail = nullptr;  // for the rest of k, where row does not divide it; may be null
  int64_t rows = 1, cols = 1;         // of the grid: warps along m and n
  int64_t m_tiles = 1, n_tiles = 1;   // of one warp, at most
  int warp = 32;

  int64_t all_m(const Gemm& g) const { return g.m / row->m; }
  int64_t all_n(const Gemm& g) const { return g.n / row->n; }
  int64_t steps(const Gemm& g) const { return (g.k + row->k - 1) / row->k; }
};

// The fragments in which the instruction needs A, B and C.
Fragment mma_a(const Gemm& g, const MmaPlan& p);
Fragment mma_b(const Gemm& g, const MmaPlan& p);
Fragment mma_accumulator(const Gemm& g, const MmaPlan& p);

// "" or the reason why no instruction fits, within the statement's attributes.
std::string why_no_mma(const Gemm& g, const Target& target, int64_t threads);
// The best plan within the given attributes, for all products that add to C where nothing laid it out yet;
// CompileError where the attributes are impossible.
MmaPlan choose_plan(const Gemm& g, const LayoutContext& ctx);
// Is there a plan whose sums lie so?
bool may_sum_as(const Gemm& g, const LayoutContext& ctx, const Fragment& fragment);
Attrs record_of(const MmaPlan& p);
// The plan recorded on the statement; CompileError where there is none, or an impossible one.
MmaPlan recorded_plan(const Gemm& g, const Target& target, int64_t threads);

}  // namespace tl
