// What the strategies of gemm share: the operator's operands read once, and the choice among strategies.
#pragma once
#include "ops/op.h"

namespace tl {

struct Gemm {
  const Tile& tile;
  Region a, b, c;                    // C += op(A) · op(B); 2-D after dropping points
  int64_t m, n, k;
  bool trans_a, trans_b, clear;      // clear: C = op(A) · op(B)
  std::string policy;                // "square", "full_row", "full_col"
  DType a_type, b_type, c_type;
};
Gemm read_gemm(const Tile& t, const Function& f);

// A strategy: one way to run a gemm.  `applies` answers "" or the reason why not.
struct GemmStrategy {
  std::string_view name;             // "mma.sync", "fma", "simd"
  std::string (*applies)(const Gemm& g, const LayoutContext& ctx);
  LayoutMap (*infer_layout)(const Gemm& g, const LayoutContext& ctx, Strictness level);
  Stmt (*lower)(const Gemm& g, LowerContext& ctx);
};
extern const GemmStrategy gemm_mma, gemm_fma, gemm_simd;

}  // namespace tl
