// Loads a matrix instruction's operand A or B from shared memory into a warp's registers: by ldmatrix where
// that delivers the instruction's fragment, else element by element, neighbours along a row together.
#pragma once
#include "ops/gemm.h"

namespace tl {

// A or B, and a warp's share of it: `tiles` instruction tiles along m or n, of `all_tiles` in the matrix.
struct WarpShare {
  SharedMatrix memory = {};
  bool is_b, transposed;  // the fragments are k×n, not m×k; memory holds the matrix transposed
  BufferId registers;
  DType factor;         // of the registers: what is multiplied
  int64_t tile_stride;  // of a tile's registers
  int64_t tiles, all_tiles, parts;
  Expr part;  // which of the `parts` warps along m or n this is
};

// "" or why ldmatrix cannot load this row's fragment from there.
std::string why_not_ldmatrix(const MatrixInstr& row, const WarpShare& s, const Region& r,
                             const LowerContext& ctx, const Facts& facts);
// All of the warp's tiles of one step, which begins at `k`.  Binds its loops in `facts`.
Stmt load_share(const MatrixInstr& row, const WarpShare& s, const Expr& k, const Expr& lane,
                const LowerContext& ctx, Facts& facts, Span span);

}  // namespace tl
