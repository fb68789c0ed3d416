// How warpgroups share a gemm by wgmma: which instruction, the grid of warpgroups, the fragments and the
// tiles in shared memory that follow.  It is chosen in infer_layouts and recorded on the statement; lowering
// reads it there.
//
// A tile of C whose rows are no multiple of an instruction's 64 (there are fewer, mostly) is computed
// transposed, as the product of B and A: its columns are then the instruction's rows.
#pragma once
#include "ops/gemm.h"
#include "target/hopper.h"

namespace tl {

struct WgmmaPlan {
  const WarpgroupInstr* row = nullptr;
  bool transposed = false;                  // m and n, A and B are those of C transposed
  int64_t rows = 1, cols = 1;               // of the grid: warpgroups along m and n
  int64_t m_tiles = 1, n_tiles = 1, n = 8;  // of one warpgroup; columns of an instruction
  std::array<int64_t, 3> cost = {};  // the policy, what is read of shared memory, the shape of the grid

  // Warpgroups along the rows and the columns of C, which the record counts.
  std::array<int64_t, 2> grid() const { return transposed ? std::array{cols, rows} : std::array{rows, cols}; }

  int64_t steps(const Gemm& g) const { return g.k / row->k; }
  int64_t sums() const { return n / 2; }          // registers of a tile of C
  int64_t factors() const { return row->k / 2; }  // of A, if it is in registers
};

// What is multiplied, C or C transposed, and how.
struct WgmmaChoice {
  Gemm g;
  std::vector<WgmmaPlan> plans = {};  // that are possible, the best first
  std::string why_not = {};           // "" where there is one
};
WgmmaChoice choose_wgmma(const Gemm& g, const LayoutContext& ctx);
Attrs record_of(const WgmmaPlan& p);
// What is recorded on the statement; CompileError where that is nothing, or impossible.
struct RecordedWgmma {
  Gemm g;
  WgmmaPlan plan;
};
RecordedWgmma recorded_wgmma(const Gemm& g, const LowerContext& ctx);

// The fragments in which the instruction has C and A.
Fragment wgmma_sums(const Gemm& g, const WgmmaPlan& p);
Fragment wgmma_factors(const Gemm& g, const WgmmaPlan& p);

// An operand as a tile in shared memory: along its rows lies k, or (turned) m or n.
struct TileOperand {
  const Region& region;
  bool turned;
  int64_t part;  // of m or n: where instructions begin
};
TileOperand a_tile(const Gemm& g);
TileOperand b_tile(const Gemm& g, const WgmmaPlan& p);
// Those that lie in shared memory.
std::vector<TileOperand> operands_in_tiles(const Gemm& g, const WgmmaPlan& p);
// Of one of their buffers, all layouts in which each operand there can be read: as the instruction's
// descriptors can say it, and the copy engine writes it; best first.
std::vector<Layout> layouts_of(BufferId buffer, const Gemm& g, const WgmmaPlan& p, const LayoutContext& ctx);

}  // namespace tl
