// The CPU's gemm in parts: gemm_simd.cpp chooses and multiplies, gemm_simd_operands.cpp addresses A and B, or
// packs them.
#pragma once
#include "arith/prove.h"
#include "ops/gemm.h"
#include "ops/parallel.h"

namespace tl::simd {

// The instruction for these operands, and their order: `swapped` gives it B, A.
struct Dot {
  const DotInstr* row = nullptr;
  bool swapped = false, shifted = false;  // shifted: A is signed and becomes unsigned
  int64_t group() const { return row ? row->depth : 1; }
};

Dot dot_of(const Gemm& g, const Target& target);
// The type in which products are summed.
DType compute_type(const Gemm& g, const Dot& dot);

// The register tile: `rows` × `vectors` accumulators, `vectors` registers for B, one for a broadcast of A.
struct Micro {
  int64_t lanes, vectors, rows;
  int64_t width() const { return lanes * vectors; }
};

Micro micro_of(const Gemm& g, const Target& target);

// A matrix operand: the two dimensions of its buffer that are rows and columns.
struct Matrix {
  const Region& region;
  size_t row, col;
};

Matrix matrix_of(const Region& r, bool transposed);

std::vector<int64_t> shape_of(const Function& f, BufferId b);
// Panels of `width` columns; the last one is padded.  Leading dimensions (slots of a tile) follow each
// other.
Layout panels(const std::vector<int64_t>& shape, size_t row, size_t col, int64_t width);

// The offset of element (i, j) of a matrix: base + i*row + j*col, or for panels base + j/width*panel +
// i*width + j%width.
struct Placed {
  BufferId buffer;
  Expr base;
  int64_t row, col, panel;
};

struct Lowering {
  const Gemm& g;
  LowerContext& ctx;
  Micro u = micro_of(g, ctx.target);
  Dot dot = dot_of(g, ctx.target);
  DType sum = compute_type(g, dot);
  int64_t group = dot.group(), depth = ceil_of(g.k, group);  // k, and in groups
  std::optional<BufferId> start = {};                        // what the sums of each column begin with
  Span at = g.tile.span;
  Facts facts = facts_of(ctx.function, ctx.kernel);
  std::vector<Stmt> before = {};  // statements that widen or pack operands

  int64_t target_lanes(DType type) const { return ctx.target.lanes(type); }
  std::vector<Expr> index(const Matrix& m, const Expr& i, const Expr& j) const {
    std::vector<Expr> out;
    for (auto& r : m.region.ranges) out.push_back(r.min);
    out[m.row] = out[m.row] + i;
    out[m.col] = out[m.col] + j;
    return out;
  }
  Expr place(const Matrix& m, const Expr& i, const Expr& j) const {
    return physical_index(ctx.layouts, ctx.function, m.region.buffer, index(m, i, j), facts);
  }

  std::optional<Placed> find_strided(const Matrix& m) const;
  std::optional<Placed> find_panels(const Matrix& m) const;
  Stmt turn_panel(const Placed& from, BufferId to, const Expr& panel, const Expr& k, int64_t rows);
  void rest_of_panels(const Matrix& m, BufferId to, const Layout& l, int64_t turned, int64_t rows,
                      int64_t cols);
  Placed widen(const Matrix& m, int64_t rows, int64_t cols, int64_t width, const char* name);

  BufferId scratch(const char* name, DType type, std::vector<int64_t> shape);
  Placed group_rows(const Matrix& m);
  Placed group_panels(const Matrix& m);
  Stmt pack_group(const Matrix& m, const std::optional<Placed>& from, BufferId to, const Expr& panel,
                  const Expr& kk, int64_t cols, int64_t steps);
  void start_sums(const Placed& b);

  Stmt micro(const Placed& a, const Placed& b, const Expr& row, const Expr& panel, int64_t rows, int64_t cols,
             const Expr& k0, int64_t depth, BufferId acc);
  Stmt steps(const Placed& a, const Placed& b, const Expr& row, const Expr& panel, int64_t rows,
             int64_t vectors, const Expr& k, int64_t count, BufferId acc);
  Stmt update(const Expr& row, const Expr& panel, int64_t rows, int64_t cols, bool overwrite, BufferId acc);
  Stmt rows(const Placed& a, const Placed& b, int64_t count, int64_t height, int64_t first, const Expr& k0,
            int64_t depth, BufferId acc);
  Stmt run();
};

}  // namespace tl::simd
