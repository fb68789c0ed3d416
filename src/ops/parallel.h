// A nest of parallel loops: what T.Parallel makes, and what copy, fill and clear are sugar for.
#pragma once
#include "ops/op.h"

namespace tl {

struct ParallelNest {
  std::vector<Expr> vars = {};  // outermost first
  std::vector<int64_t> extents = {};
  Stmt body = {};
  Attrs attrs;  // of the outermost loop
  Span span;
};

// The nest that begins at this loop: all directly nested parallel loops.  Their extents are constants.
ParallelNest read_nest(const For& loop);
Stmt make_nest(const ParallelNest& nest);
// The nest that begins at this loop with constant extents only; the loop itself if they are.
Stmt with_constant_extents(const Function& f, const For& loop, int64_t threads);

// common: follow a fragment whose layout is known.  free: choose a mapping of iterations to threads and
// vector lanes.  Either way lay out the nest's other fragments to match.
LayoutDecisions infer_parallel(const ParallelNest& nest, const LayoutContext& ctx, Strictness level);

// One thread's part, as loops over the registers of ctx.layouts.loop.
Stmt lower_parallel(const ParallelNest& nest, LowerContext& ctx);

// What the simulator checks of an access to a tile whose index became `physical`; nothing where it is proven.
Claim claim_of(const Function& f, BufferId buffer, const std::vector<Expr>& index, const Expr& physical,
               const Facts& facts, const Target& target);
// The physical index of an element of a shared, local or fragment buffer.
Expr physical_index(const LayoutDecisions& layouts, const Function& f, BufferId buffer,
                    const std::vector<Expr>& index, const Facts& facts);

}  // namespace tl
