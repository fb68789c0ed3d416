// gemm on a CPU: a register tile of rows × 2 vectors, fed by one broadcast per row and one load per vector.
//
// B is laid out in panels as wide as the register tile, [n / NR][k][n % NR], so that the copy which fills it
// is the packing, and a panel (16 KB at k = 256) stays in L1 while it is multiplied by all rows of A.  A may
// have any constant strides: its elements are broadcast one by one.  Operands of another type than the sums
// are first widened into panels of their own, and so is a transposed B: whole vectors are read and exchanged
// in registers.  8-bit integers are multiplied as floats, which is exact while the sums stay below 2^24.
//
// Where the chip adds dot products of neighbours (target/instr.h, DotInstr), k is taken in groups of so many:
// a panel is [k / group][n % NR][group], always packed here, and A's rows are read by groups.  The
// instruction for 8-bit integers multiplies unsigned by signed: a signed A gets 128 added, and the sums begin
// at -128 times B's columns.
//
//   for panel:  for rows i0, i0 + 6, …:
//     c[0…5, 0…1] = 0;  for k:  b = B[panel, k, :];  c[r, :] += broadcast(A[i0 + r, k]) * b
//     C[i0 + r, panel*16…] += c[r, :]
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/gemm_simd.h"

namespace tl {
namespace simd {

constexpr int64_t chunk_bytes = 128 << 10;  // of A, kept in L2 while the panels of B pass by
constexpr int64_t steps_in_flight = 48;     // multiply-adds in the body of the loop over k

Dot dot_of(const Gemm& g, const Target& target) {
  std::string named = g.tile.attrs.get_string("instruction");
  auto find = [&](DType a, DType b) -> const DotInstr* {
    auto* row = target.dot_for(a, b, g.c_type);
    return row && (named.empty() || named == row->intrinsic.name) ? row : nullptr;
  };
  if (auto* row = find(g.a_type, g.b_type)) return {row};
  if (auto* row = find(g.b_type, g.a_type)) return {row, true};
  bool is_signed = g.a_type == i8 && g.b_type == i8;
  if (auto* row = is_signed ? find(u8, i8) : nullptr) return {row, false, true};
  return {};
}

// The type in which products are summed.
DType compute_type(const Gemm& g, const Dot& dot) {
  if (dot.row) return dot.row->c_type;
  if (g.c_type.is_float()) return g.c_type.bits == 64 ? f64 : f32;
  return g.a_type.bits <= 8 ? f32 : g.c_type;
}

Micro micro_of(const Gemm& g, const Target& target) {
  Micro u{.lanes = target.lanes(compute_type(g, dot_of(g, target))), .vectors = 2, .rows = 0};
  if (g.n <= u.lanes) u.vectors = 1;
  const Attrs& attrs = g.tile.attrs;
  if (int64_t width = attrs.get_int("micro_n", u.width()); width > 0 && width % u.lanes == 0)
    u.vectors = width / u.lanes;
  else
    fail(g.tile.span, "gemm: micro_n={} columns are not whole vectors, which are of {}", width, u.lanes);
  int64_t most = (target.vector_registers - u.vectors - 1) / u.vectors;
  u.rows = attrs.get_int("micro_m", std::min<int64_t>(most, 12));
  if (u.rows < 1 || u.rows > most)
    fail(g.tile.span,
         "gemm: {} has {} vector registers, which do not hold a tile of micro_m={} rows by micro_n={} "
         "columns, {} vectors a row, beside its factors",
         target.name, target.vector_registers, u.rows, u.width(), u.vectors);
  return u;
}

Matrix matrix_of(const Region& r, bool transposed) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].point) dims.push_back(d);
  size_t last = dims.back(), before = dims[dims.size() - 2];
  return transposed ? Matrix{r, last, before} : Matrix{r, before, last};
}

constexpr std::string_view micro_record[] = {"micro_m", "micro_n"};

bool runs(std::string_view instruction, const Target& target) {
  return !target.has_threads() && (instruction == "fma" || std::ranges::any_of(target.dots, [&](auto* row) {
                                     return row->intrinsic.name == instruction;
                                   }));
}

std::string applies(const Gemm& g, const LayoutContext& ctx) {
  if (ctx.target.has_threads()) return "this target runs many threads per block";
  std::string named = g.tile.attrs.get_string("instruction", "fma");
  if (named == "fma" || dot_of(g, ctx.target).row) return "";
  return fmt::format("{} does not multiply {} × {} -> {}", named, to_string(g.a_type), to_string(g.b_type),
                     to_string(g.c_type));
}

Attrs micro_record_of(const Gemm& g, const Target& target) {
  Micro u = micro_of(g, target);
  auto* row = dot_of(g, target).row;
  return {.entries = {{"instruction", std::string(row ? row->intrinsic.name : "fma")},
                      {"micro_m", u.rows},
                      {"micro_n", u.width()}}};
}

LayoutDecisions infer_layout(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  LayoutDecisions out{.record = micro_record_of(g, ctx.target)};
  if (level == Strictness::strict && ctx.function[g.c.buffer].scope == Scope::shared)
    out.required[g.c.buffer] = {row_major(shape_of(ctx.function, g.c.buffer))};
  bool shared = ctx.function[g.b.buffer].scope == Scope::shared;
  Dot dot = dot_of(g, ctx.target);
  bool as_is = !g.trans_b && !dot.row && g.b_type == compute_type(g, dot);
  if (level != Strictness::strict || !shared || !as_is) return out;
  Matrix b = matrix_of(g.b, g.trans_b);
  int64_t width = micro_of(g, ctx.target).width();
  out.shared.emplace(g.b.buffer, panels(shape_of(ctx.function, g.b.buffer), b.row, b.col, width));
  return out;
}

// ── the register tile ─────────────────────────────────────────────────────────────────────────────────

// `count` steps of k, from step k on: the sums are read once, and written once at the end.
Stmt Lowering::steps(const Placed& a, const Placed& b, const Expr& row, const Expr& panel, int64_t rows,
                     int64_t vectors, const Expr& k, int64_t count, BufferId acc) {
  int lanes = int(u.lanes);
  std::vector<Stmt> out;
  auto named = [&](std::string hint, Expr value) {
    Expr v = var(std::move(hint), value->dtype);
    out.push_back(let(v, std::move(value), at));
    return v;
  };
  auto vector_at = [&](BufferId buffer, const Expr& i, int64_t of = 1) {
    return load(ctx.function[buffer].dtype, buffer, {ramp(i, imm(1), int(lanes * of))}, at);
  };
  Expr from_a = named("a_at", simplify(a.base + row * a.row + k * a.col, facts));
  Expr from_b = named("b_at", simplify(b.base + panel * b.panel + k * b.row, facts));
  std::vector<Expr> c;
  for (int64_t i = 0; i < rows * vectors; i++) c.push_back(named("c", vector_at(acc, imm(i * u.lanes))));
  for (int64_t s = 0; s < count; s++) {
    std::vector<Expr> bs;
    for (int64_t v = 0; v < vectors; v++)
      bs.push_back(named("b", vector_at(b.buffer, from_b + (s * b.row + v * u.lanes * group), group)));
    for (int64_t i = 0; i < rows; i++) {
      Expr from = from_a + (i * a.row + s * a.col), first = dot.row ? ramp(from, imm(1), int(group)) : from;
      Expr x = named("a", load(ctx.function[a.buffer].dtype, a.buffer, {first}, at));
      for (int64_t v = 0; v < vectors; v++) {
        Expr& ci = c[size_t(i * vectors + v)];
        const Expr& y = bs[size_t(v)];
        if (dot.row)
          ci = named("c",
                     call(dot.row->intrinsic, {ci, dot.swapped ? y : x, dot.swapped ? x : y}, ci->dtype, at));
        else
          ci = named("c", binary(BinaryOp::add, ci, binary(BinaryOp::mul, broadcast(x, lanes), y)));
      }
    }
  }
  for (int64_t i = 0; i < rows * vectors; i++)
    out.push_back(store(acc, {ramp(imm(i * u.lanes), imm(1), lanes)}, c[size_t(i)], at));
  return block(std::move(out), at);
}

// C += sums.
Stmt Lowering::update(const Expr& row, const Expr& panel, int64_t rows, int64_t cols, bool overwrite,
                      BufferId acc) {
  Matrix m = matrix_of(g.c, false);
  auto c = find_strided(m);
  internal_check(c && c->col <= 1, "gemm: C is not row-major");
  DType type = g.c_type;
  int lanes = int(u.lanes);
  std::vector<Stmt> out;
  Expr to = var("c_at");
  out.push_back(let(to, simplify(c->base + row * c->row + panel * u.width(), facts), at));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t v = 0; v * u.lanes < cols; v++) {
      Expr steps = ramp(imm(0), imm(1), lanes), mask;
      if (cols - v * u.lanes < lanes) mask = lt(steps, broadcast(imm(cols - v * u.lanes), lanes));
      Expr where = ramp(to + (i * c->row + v * u.lanes), imm(1), lanes);
      int64_t from = (i * ceil_of(cols, u.lanes) + v) * u.lanes;
      Expr value = load(sum, acc, {ramp(imm(from), imm(1), lanes)}, at);
      DType exact = type.is_float() ? sum : type;  // 16-bit floats are rounded once, after the addition
      if (sum.is_float() && type.is_int()) value = cast(i32.with_lanes(lanes), value, at);
      value = cast(exact.with_lanes(lanes), value, at);
      Expr old = cast(exact.with_lanes(lanes), load(type, g.c.buffer, {where}, at, mask), at);
      if (!overwrite) value = binary(BinaryOp::add, old, value, at);
      value = cast(type.with_lanes(lanes), value, at);
      out.push_back(store(g.c.buffer, {where}, value, at, mask));
    }
  return block(std::move(out), at);
}

Stmt Lowering::micro(const Placed& a, const Placed& b, const Expr& row, const Expr& panel, int64_t rows,
                     int64_t cols, const Expr& k0, int64_t depth, BufferId acc) {
  int64_t vectors = ceil_of(cols, u.lanes),
          unroll = std::clamp<int64_t>(steps_in_flight / (rows * vectors), 1, 8);
  int64_t turns = depth / unroll, rest = depth % unroll;
  std::vector<Stmt> out;
  for (int64_t i = 0; i < rows * vectors; i++) {
    Expr where = ramp(imm(i * u.lanes), imm(1), int(u.lanes)), first = zero(sum.with_lanes(int(u.lanes)));
    if (start)
      first = load(sum, *start, {ramp(panel * u.width() + i % vectors * u.lanes, imm(1), int(u.lanes))}, at);
    out.push_back(store(acc, {where}, first, at));
  }
  if (turns) {
    Expr k = facts.loop_var("k", turns);
    out.push_back(for_loop(k, turns, Loop::serial,
                           steps(a, b, row, panel, rows, vectors, k0 + k * unroll, unroll, acc), at));
  }
  if (rest) out.push_back(steps(a, b, row, panel, rows, vectors, k0 + turns * unroll, rest, acc));
  out.push_back(update(row, panel, rows, cols, g.clear && is_int(k0, 0), acc));
  return block(std::move(out), at);
}

// `count` blocks of `height` rows, from row `first` on, against all panels.  The rows of a chunk stay in L2.
Stmt Lowering::rows(const Placed& a, const Placed& b, int64_t count, int64_t height, int64_t first,
                    const Expr& k0, int64_t depth, BufferId acc) {
  int64_t bytes = height * depth * group * ctx.function[a.buffer].dtype.bytes(),
          most = std::max<int64_t>(chunk_bytes / bytes, 1);
  int64_t chunks = ceil_of(count, most), size = ceil_of(count, chunks);
  int64_t whole = g.n / u.width(), rest = g.n % u.width();
  Expr chunk = facts.loop_var("chunk", chunks), start = simplify(chunk * size, facts);
  Expr extent = chunks * size == count ? imm(size) : min(imm(size), imm(count) - start);
  auto against = [&](const Expr& panel, int64_t cols) {
    Expr i = facts.loop_var("i", count);
    return for_loop(i, start, extent, Loop::serial,
                    micro(a, b, i * height + first, panel, height, cols, k0, depth, acc), at);
  };
  std::vector<Stmt> out;
  Expr panel = facts.loop_var("panel", whole);
  if (whole) out.push_back(for_loop(panel, whole, Loop::serial, against(panel, u.width()), at));
  if (rest) out.push_back(against(imm(whole), rest));
  return for_loop(chunk, chunks, Loop::serial, block(std::move(out), at), at);
}

// The longest run of k whose sums are exact: all of it, except for 8-bit integers.
int64_t exact_depth(const Gemm& g) {
  if (g.c_type.is_float() || g.a_type.bits > 8) return g.k;
  auto largest = [](DType t) { return int64_t(1) << (t.bits - t.is_signed()); };
  return std::min(g.k, (int64_t(1) << 24) / (largest(g.a_type) * largest(g.b_type)) / 4 * 4);
}

Stmt Lowering::run() {
  Matrix a = matrix_of(g.a, g.trans_a), b = matrix_of(g.b, g.trans_b);
  std::optional<Placed> left, right;
  if (dot.row) {
    left = group_rows(a);
    right = group_panels(b);
    if (dot.shifted) start_sums(*right);
  }
  if (!left && g.a_type == sum) left = find_strided(a);
  if (!right && g.b_type == sum) right = find_panels(b);
  if (!left) left = widen(a, g.m, g.k, 0, "A_wide");
  if (!right) right = widen(b, g.k, g.n, u.width(), "B_panels");
  BufferId acc = ctx.scratch({.name = "acc",
                              .dtype = sum,
                              .shape = {imm(u.rows * u.width())},
                              .scope = Scope::local,
                              .span = at,
                              .elements = u.rows * u.width()});
  // m is cut into the fewest blocks, which differ by one row at most.
  int64_t blocks = ceil_of(g.m, u.rows), few = g.m / blocks, larger = g.m % blocks;
  int64_t longest = dot.row ? depth : exact_depth(g);
  std::vector<Stmt> out = std::move(before);
  for (int64_t k = 0; k < depth; k += longest) {
    int64_t steps = std::min(longest, depth - k);
    if (larger) out.push_back(rows(*left, *right, larger, few + 1, 0, imm(k), steps, acc));
    out.push_back(rows(*left, *right, blocks - larger, few, larger * (few + 1), imm(k), steps, acc));
  }
  return block(std::move(out), at);
}

Stmt lower(const Gemm& g, LowerContext& ctx) {
  for (std::string_view name : micro_record) recorded(g, name);  // so that nothing is chosen here
  return Lowering{.g = g, .ctx = ctx}.run();
}

std::string describe(const Gemm& g, const LowerContext& ctx) {
  Micro u = micro_of(g, ctx.target);
  return fmt::format("{}, {}×{} sums at once in {} registers of {}", g.tile.attrs.get_string("instruction"),
                     u.rows, u.width(), u.rows * u.vectors, u.lanes);
}

}  // namespace simd

const GemmStrategy gemm_simd = {.name = "simd",
                                .record = simd::micro_record,
                                .runs = simd::runs,
                                .offered = nullptr,
                                .applies = simd::applies,
                                .infer_layout = simd::infer_layout,
                                .lower = simd::lower,
                                .describe = simd::describe,
                                .clears_if = false};

}  // namespace tl
