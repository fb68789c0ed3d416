// What the strategies of gemm share: the operator's operands read once, the choice among strategies, and
// copies of operands to where a strategy needs them.
#pragma once
#include <array>

#include "base/round.h"
#include "ops/op.h"

namespace tl {

struct Gemm {
  const Tile& tile;
  Region a, b, c;  // C += op(A) · op(B); 2-D after dropping points
  int64_t m = 0, n = 0, k = 0;
  bool trans_a, trans_b, clear;  // clear: C = op(A) · op(B)
  Expr clear_if = {};            // a condition: clear where it holds; null: `clear` says it
  std::string policy;            // "square", "full_row", "full_col"
  bool in_flight = false;        // begun by wgmma, and waited for by the program
  // Why wgmma may not compute C transposed, where that is lower than an instruction; "": it may.
  std::string_view keeps_rows = "its product is waited for at once";
  DType a_type = {}, b_type = {}, c_type = {};
  // What choose_strategy says of C: whether this product lays it out, and in which grid of warpgroups.
  bool lays_out = true;
  std::optional<std::array<int64_t, 2>> grid = {};
};
Gemm read_gemm(const Tile& t, const Function& f);
std::string_view said_gemm(const Tile& t);  // as the program has called it

// A strategy: one way to run a gemm.  `infer_layout` decides, within what the statement's attributes say, and
// records it; `lower` reads the record.
struct GemmStrategy {
  std::string_view name;  // "wgmma", "mma.sync", "fma", "simd"
  // Attributes of its record beside the instruction.
  std::span<const std::string_view> record;
  bool (*runs)(std::string_view instruction, const Target& target);
  bool (*offered)(const Target& target);  // has the target such instructions at all?  null: all have
  // "" or the reason why it cannot run this.
  std::string (*applies)(const Gemm& g, const LayoutContext& ctx);
  LayoutDecisions (*infer_layout)(const Gemm& g, const LayoutContext& ctx, Strictness level);
  Stmt (*lower)(const Gemm& g, LowerContext& ctx);
  // The record in words, for the report.
  std::string (*describe)(const Gemm& g, const LowerContext& ctx);
  bool clears_if = false;  // `lower` minds `clear_if` itself, wherever the product goes
};
extern const GemmStrategy gemm_wgmma, gemm_mma, gemm_fma, gemm_simd;

// ── gemm_choice.cpp ───────────────────────────────────────────────────────────────────────────────────
struct GemmChoice {
  const GemmStrategy* strategy = nullptr;
  std::string why_not = {};                         // the better ones, and what kept them out
  std::string with_others = {};                     // why it is not by wgmma, though that could run it alone
  bool lies = true;                                 // does C lie as it wants, at this product?
  bool lays_out = true;                             // … because it is of those that say so
  std::optional<std::array<int64_t, 2>> grid = {};  // of warpgroups, that the products of C have in common
};
GemmChoice choose_strategy(const Gemm& g, const LayoutContext& ctx);
// The products that add to C, and how often each runs: an extent that only the run knows counts as several.
std::vector<std::pair<const Tile*, double>> products_of(const Stmt& body, BufferId sums);
// "", or why it is not by wgmma, alone or for the products that add to the same accumulator.
std::string why_not_by_warpgroups(const Gemm& g, const LayoutContext& ctx);
// The strategy of an instruction that the target has.
const GemmStrategy* strategy_of(const Gemm& g, std::string_view instruction, const Target& target);
// Dense operations a clock, of tensor cores on operands of that type; 0: not known.
int64_t tensor_rate(const Target& target, DType type);
// Does a loop run it more than once?
bool is_repeated(const Gemm& g, const Kernel& kernel);

// The steps of k of a gemm by matrix instructions whose operands are multiplied as they are.
std::optional<Steps> steps_of_mma(const Tile& t, const LayoutContext& ctx);

// The number of that name in the statement's record; CompileError where it is missing.
int64_t recorded(const Gemm& g, std::string_view name);
[[noreturn]] void fail_unrecorded(const Gemm& g, std::string_view name);
// Is this number of the record equal to this, or not given?
inline bool may_be(const Gemm& g, std::string_view name, int64_t n) {
  return !g.tile.attrs.find(name) || g.tile.attrs.get_int(name) == n;
}
inline bool is_fragment(const Region& r, const Function& f) { return f[r.buffer].scope == Scope::fragment; }

// An element of A or B as the number that is multiplied: tf32 is rounded from what is stored, to nearest,
// ties away.
Expr as_operand(DType type, Expr element, Span span);

// The two dimensions of an operand's region that are its rows and its columns.
std::array<size_t, 2> matrix_dims(const Region& r);

// ── gemm_scratch.cpp ──────────────────────────────────────────────────────────────────────────────────
// A matrix in shared memory: the region of a buffer that lies there, or a fragment's copy in a scratch tile.
struct SharedMatrix {
  BufferId buffer;
  DType type;
  Layout layout;                  // of the whole buffer
  std::vector<Expr> starts = {};  // where the region begins
  std::array<size_t, 2> dims;     // of the buffer: the matrix's rows and columns
  Expr at(const Expr& row, const Expr& col, const Facts& facts) const;  // index of an element in the buffer
};

bool is_whole_matrix(const Region& r, const Function& f);  // all of a two-dimensional buffer
bool same_fragment(const Fragment& a, const Fragment& b);  // equal, told quickly where they are not
// Does the region, a whole fragment, have this layout? An unknown layout will.
bool lies_as(const Region& r, const Function& f, const LayoutDecisions& known, const Fragment& wanted);
BufferId local_registers(const Gemm& g, LowerContext& ctx, std::string name, DType type, int64_t n);
// The region in shared memory.
SharedMatrix shared_matrix(const LowerContext& ctx, const Region& r);
// An empty scratch tile of that layout.
SharedMatrix scratch_matrix(const Gemm& g, LowerContext& ctx, std::string name, DType type, Layout layout);
// Copies a fragment's region to a scratch tile; `why` goes into the report.
SharedMatrix to_scratch(const Gemm& g, LowerContext& ctx, const Region& r, Layout layout,
                        std::string_view why, std::vector<Stmt>& out);
Stmt cleared(const Gemm& g, LowerContext& ctx);  // zeros in C's region
// C's region becomes the product of that layout over `registers`, or grows by it, by way of a scratch tile.
Stmt store_via_scratch(const Gemm& g, LowerContext& ctx, BufferId registers, const Fragment& product,
                       std::string_view why);

}  // namespace tl
