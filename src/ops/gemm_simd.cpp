// gemm on a CPU: a register tile of rows × 2 vectors, fed by one broadcast per row and one load per vector.
//
// B is wanted in panels as wide as the register tile, [n / NR][k][n % NR], so that the copy which fills it is the
// packing, and a panel (16 KB at k = 256) stays in L1 while all rows of A pass by it.  A may have any constant
// strides: its elements are broadcast one by one.  Operands of another type than the sums are first widened into
// panels of their own.  8-bit integers are multiplied as floats, which is exact while the sums stay below 2^24.
//
// Where the chip adds dot products of neighbours (target/instr.h, DotInstr), k is taken in groups of so many: a panel
// is [k / group][n % NR][group], always packed here, and A's rows are read by groups.  The instruction for 8-bit
// integers multiplies unsigned by signed: a signed A gets 128 added, and the sums begin at -128 times B's columns.
//
//   for panel:  for rows i0, i0 + 6, …:
//     c[0…5, 0…1] = 0;  for k:  b = B[panel, k, :];  c[r, :] += broadcast(A[i0 + r, k]) * b
//     C[i0 + r, panel*16…] += c[r, :]
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/gemm.h"
#include "ops/parallel.h"

namespace tl {
namespace {

constexpr int64_t chunk_bytes = 128 << 10;  // of A, kept in L2 while the panels of B pass by
constexpr int64_t steps_in_flight = 48;     // multiply-adds in the body of the loop over k

// The instruction for these operands, and which of its two a matrix of ours is: `swapped` gives it B, A.
struct Dot {
  const DotInstr* row = nullptr;
  bool swapped = false, shifted = false;  // shifted: A is signed and becomes unsigned
  int64_t group() const { return row ? row->depth : 1; }
};

Dot dot_of(const Gemm& g, const Target& target) {
  if (auto* row = target.dot_for(g.a_type, g.b_type, g.c_type)) return {row};
  if (auto* row = target.dot_for(g.b_type, g.a_type, g.c_type)) return {row, true};
  bool is_signed = g.a_type == i8 && g.b_type == i8;
  if (auto* row = is_signed ? target.dot_for(u8, i8, g.c_type) : nullptr) return {row, false, true};
  return {};
}

// The type in which products are summed.
DType compute_type(const Gemm& g, const Dot& dot) {
  if (dot.row) return dot.row->c_type;
  if (g.c_type.is_float()) return g.c_type.bits == 64 ? f64 : f32;
  return g.a_type.bits <= 8 ? f32 : g.c_type;
}

// The register tile: `rows` × `vectors` accumulators, `vectors` registers for B, one for a broadcast of A.
struct Micro {
  int64_t lanes, vectors, rows;
  int64_t width() const { return lanes * vectors; }
};

Micro micro_of(const Gemm& g, const Target& target) {
  Micro u{.lanes = target.lanes(compute_type(g, dot_of(g, target))), .vectors = 2, .rows = 0};
  if (g.n <= u.lanes) u.vectors = 1;
  u.rows = std::min<int64_t>((target.vector_registers - u.vectors - 1) / u.vectors, 12);
  return u;
}

// A matrix operand: the two dimensions of its buffer that are rows and columns.
struct Matrix {
  const Region& region;
  size_t row, col;
};

Matrix matrix_of(const Region& r, bool transposed) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].point) dims.push_back(d);
  size_t last = dims.back(), before = dims[dims.size() - 2];
  return transposed ? Matrix{r, last, before} : Matrix{r, before, last};
}

std::vector<int64_t> shape_of(const Function& f, BufferId b) {
  std::vector<int64_t> shape;
  for (auto& e : f[b].shape) shape.push_back(*as_int(e));
  return shape;
}

// Panels of `width` columns; the last one is padded.  Leading dimensions (versions of a tile) follow each other.
Layout panels(const std::vector<int64_t>& shape, size_t row, size_t col, int64_t width) {
  int64_t depth = shape[row], count = ceil_of(shape[col], width), size = count * depth * width;
  std::vector<Term> terms;
  for (size_t d = shape.size(); d-- > 0;) {
    if (d == row || d == col || shape[d] == 1) continue;
    terms.push_back({.output = 0, .stride = size, .digit = {int(d), 1, shape[d]}});
    size *= shape[d];
  }
  int column = int(col), r = int(row);
  if (count > 1) terms.push_back({.output = 0, .stride = depth * width, .digit = {column, width, count}});
  if (depth > 1) terms.push_back({.output = 0, .stride = width, .digit = {r, 1, depth}});
  terms.push_back({.output = 0, .stride = 1, .digit = {column, 1, std::min(width, shape[col])}});
  Layout l = from_terms(shape, 1, std::move(terms));
  l.ranges[0] = size;
  return l;
}

std::string applies_simd(const Gemm&, const LayoutContext& ctx) {
  return ctx.target.has_threads() ? "this target runs many threads per block" : "";
}

LayoutMap infer_layout_simd(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  LayoutMap out;
  bool shared = ctx.function[g.b.buffer].scope == Scope::shared;
  Dot dot = dot_of(g, ctx.target);
  if (level != Strictness::strict || !shared || dot.row || g.b_type != compute_type(g, dot)) return out;
  Matrix b = matrix_of(g.b, g.trans_b);
  int64_t width = micro_of(g, ctx.target).width();
  out.shared.emplace(g.b.buffer, panels(shape_of(ctx.function, g.b.buffer), b.row, b.col, width));
  return out;
}

// ── reading the operands ──────────────────────────────────────────────────────────────────────────────

// Where element (i, j) of a matrix lies: base + i*row + j*col, or for panels base + j/width*panel + i*width + j%width.
struct Placed {
  BufferId buffer;
  Expr base;
  int64_t row, col, panel;
};

// The stride of one input of a layout, if it is one number.
std::optional<int64_t> stride_of(const Layout& l, size_t input, int output) {
  int64_t covered = 1, stride = 0;
  if (!l.terms) return std::nullopt;
  if (l.extents[input] == 1) return 0;
  std::vector<Term> terms;
  for (const Term& t : *l.terms)
    if (t.output == output && t.digit.input == int(input)) terms.push_back(t);
  std::sort(terms.begin(), terms.end(), [](auto& a, auto& b) { return a.digit.divisor < b.digit.divisor; });
  for (const Term& t : terms) {
    if (covered == 1) stride = t.stride;
    if (!t.xors.empty() || t.digit.divisor != covered || t.stride != stride * covered) return std::nullopt;
    covered *= t.digit.radix;
  }
  return covered >= l.extents[input] ? std::optional(stride) : std::nullopt;
}

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
  Expr bound(const char* name, int64_t extent) {
    Expr v = var(name);
    facts.bind(v, Interval{0, extent - 1});
    return v;
  }
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
  Placed widen(const Matrix& m, int64_t rows, int64_t cols, int64_t width, const char* name);

  BufferId scratch(const char* name, DType type, std::vector<int64_t> shape);
  Placed group_rows(const Matrix& m);
  Placed group_panels(const Matrix& m);
  Stmt pack_group(const Matrix& m, const std::optional<Placed>& from, BufferId to, const Expr& panel, const Expr& kk,
                  int64_t cols, int64_t steps);
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

std::optional<Placed> Lowering::find_strided(const Matrix& m) const {
  BufferId buffer = m.region.buffer;
  auto shared = ctx.layouts.shared.find(buffer);
  auto fragment = ctx.layouts.fragments.find(buffer);
  bool is_shared = shared != ctx.layouts.shared.end();
  if (!is_shared && fragment == ctx.layouts.fragments.end()) return std::nullopt;
  const Layout& l = is_shared ? shared->second : fragment->second.layout;
  int output = is_shared ? 0 : 1;
  auto row = stride_of(l, m.row, output), col = stride_of(l, m.col, output);
  if (!row || !col) return std::nullopt;
  return Placed{buffer, place(m, imm(0), imm(0)), *row, *col, 0};
}

std::optional<Placed> Lowering::find_panels(const Matrix& m) const {
  BufferId buffer = m.region.buffer;
  auto it = ctx.layouts.shared.find(buffer);
  if (it == ctx.layouts.shared.end()) return std::nullopt;
  std::vector<int64_t> shape = shape_of(ctx.function, buffer);
  Modular first = modular_of(m.region.ranges[m.col].min, facts);
  bool aligned = first.modulus % u.width() == 0 && floor_mod(first.remainder, u.width()) == 0;
  if (!aligned || !equal(it->second, panels(shape, m.row, m.col, u.width()))) return std::nullopt;
  return Placed{buffer, place(m, imm(0), imm(0)), u.width(), 1, shape[m.row] * u.width()};
}

// Copies a matrix into a scratch buffer of the type of the sums, in panels of `width` columns (0: rows).
Placed Lowering::widen(const Matrix& m, int64_t rows, int64_t cols, int64_t width, const char* name) {
  Layout l = width ? panels({rows, cols}, 0, 1, width) : row_major({rows, cols});
  BufferId to = ctx.scratch({.name = name,
                             .dtype = sum,
                             .shape = {imm(rows), imm(cols)},
                             .strides = {},
                             .scope = Scope::shared,
                             .span = at,
                             .layout = l.map(),
                             .elements = l.ranges[0]});
  int64_t chunk = std::min(u.lanes, width ? width : cols), whole = cols / chunk;
  DType type = ctx.function[m.region.buffer].dtype;
  auto move = [&](const Expr& i, const Expr& j) {
    Expr value = as_factor(sum, load(type, m.region.buffer, {place(m, i, j)}, at), at);
    return store(to, {simplify(map_index(l, {i, j})[0], facts)}, value, at);
  };
  Expr i = bound("i", rows);
  std::vector<Stmt> row;
  if (whole) {
    Expr part = bound("p", whole), lane = bound("v", chunk);
    Stmt body = for_loop(lane, chunk, Loop::vectorized, move(i, part * chunk + lane), at);
    row.push_back(for_loop(part, whole, Loop::serial, body, at));
  }
  if (cols > whole * chunk) {
    Expr rest = bound("q", cols - whole * chunk);
    row.push_back(for_loop(rest, cols - whole * chunk, Loop::serial, move(i, rest + whole * chunk), at));
  }
  before.push_back(for_loop(i, rows, Loop::serial, block(std::move(row), at), at));
  return {to, imm(0), width ? width : cols, 1, rows * width};
}

// ── operands for dot products ─────────────────────────────────────────────────────────────────────────
BufferId Lowering::scratch(const char* name, DType type, std::vector<int64_t> shape) {
  Layout l = row_major(shape);
  std::vector<Expr> extents;
  for (int64_t e : shape) extents.push_back(imm(e));
  return ctx.scratch({.name = name,
                      .dtype = type,
                      .shape = extents,
                      .strides = {},
                      .scope = Scope::shared,
                      .span = at,
                      .layout = l.map(),
                      .elements = l.ranges[0]});
}

// A as rows of groups: where it lies, if k is contiguous there; else a copy, whose last group is filled up with 0.
Placed Lowering::group_rows(const Matrix& m) {
  auto from = find_strided(m);
  bool contiguous = from && from->col == 1;
  if (contiguous && g.k % group == 0 && !dot.shifted) return {from->buffer, from->base, from->row, group, 0};
  DType type = g.a_type, wanted = dot.shifted ? u8 : type;
  int64_t width = depth * group, chunk = target_lanes(type);
  BufferId to = scratch("A_rows", wanted, {g.m, width});
  Expr i = bound("i", g.m);
  auto converted = [&](Expr e) {
    if (!dot.shifted) return e;
    DType t = u8.with_lanes(e->dtype.lanes);
    return binary(BinaryOp::bit_xor, cast(t, std::move(e), at), imm(128, t), at);
  };
  std::vector<Stmt> row;
  int64_t whole = contiguous ? g.k / chunk : 0;
  if (whole) {
    Expr p = bound("p", whole);
    Expr source = ramp(from->base + i * from->row + p * chunk, imm(1), int(chunk));
    row.push_back(for_loop(p, whole, Loop::serial,
                           store(to, {ramp(i * width + p * chunk, imm(1), int(chunk))},
                                 converted(load(type, from->buffer, {source}, at)), at),
                           at));
  }
  if (int64_t rest = g.k - whole * chunk) {
    Expr q = bound("q", rest), k = q + whole * chunk;
    row.push_back(for_loop(q, rest, Loop::serial,
                           store(to, {i * width + k}, converted(load(type, m.region.buffer, {place(m, i, k)}, at)), at),
                           at));
  }
  for (int64_t k = g.k; k < width; k++) row.push_back(store(to, {i * width + k}, zero(wanted), at));
  before.push_back(for_loop(i, g.m, Loop::serial, block(std::move(row), at), at));
  return {to, imm(0), width, group, 0};
}

// One group of k, number kk, of which `steps` rows exist, of the `cols` columns of a panel.
Stmt Lowering::pack_group(const Matrix& m, const std::optional<Placed>& from, BufferId to, const Expr& panel,
                          const Expr& kk, int64_t cols, int64_t steps) {
  DType type = g.b_type;
  Expr first = (panel * depth + kk) * (u.width() * group);
  std::vector<Stmt> out;
  if (from && from->col == 1) {  // rows of B: whole vectors, interleaved
    for (int64_t v = 0; v < u.vectors; v++) {
      int lanes = int(u.lanes);
      int64_t rest = std::clamp<int64_t>(cols - v * u.lanes, 0, u.lanes);
      Expr mask;
      if (rest < u.lanes) mask = lt(ramp(imm(0), imm(1), lanes), broadcast(imm(rest), lanes));
      std::vector<Expr> rows;
      for (int64_t d = 0; d < group; d++) {
        Expr where = from->base + (kk * group + d) * from->row + panel * u.width() + v * u.lanes;
        bool exists = d < steps && rest > 0;
        rows.push_back(exists ? load(type, from->buffer, {ramp(where, imm(1), lanes)}, at, mask)
                              : zero(type.with_lanes(lanes)));
      }
      DType all = type.with_lanes(int(lanes * group));
      out.push_back(store(to, {ramp(first + v * (u.lanes * group), imm(1), all.lanes)},
                          call(interleave, std::move(rows), all, at), at));
    }
    return block(std::move(out), at);
  }
  Expr j = bound("j", cols);
  bool together = from && from->row == 1 && steps == group;  // columns of B: a group lies together
  if (together) {
    Expr where = from->base + kk * group + (panel * u.width() + j) * from->col;
    out.push_back(store(to, {ramp(first + j * group, imm(1), int(group))},
                        load(type, from->buffer, {ramp(where, imm(1), int(group))}, at), at));
  }
  for (int64_t d = 0; d < group && !together; d++) {
    Expr value = d < steps ? load(type, m.region.buffer, {place(m, kk * group + d, panel * u.width() + j)}, at)
                           : zero(type);
    out.push_back(store(to, {first + j * group + d}, value, at));
  }
  Stmt columns = for_loop(j, cols, Loop::serial, block(std::move(out), at), at);
  if (cols == u.width()) return columns;
  Expr q = bound("q", (u.width() - cols) * group);
  return block({columns, for_loop(q, (u.width() - cols) * group, Loop::serial,
                                  store(to, {first + cols * group + q}, zero(type), at), at)},
               at);
}

// B as panels of groups, [n / NR][k / group][n % NR][group], filled up with 0.
Placed Lowering::group_panels(const Matrix& m) {
  int64_t whole = g.n / u.width(), rest = g.n % u.width(), count = whole + (rest > 0);
  BufferId to = scratch("B_panels", g.b_type, {count * depth * u.width() * group});
  auto from = find_strided(m);
  auto fill = [&](const Expr& panel, int64_t cols) {
    Expr kk = bound("kk", g.k / group);
    std::vector<Stmt> out;
    if (g.k / group)
      out.push_back(for_loop(kk, g.k / group, Loop::serial, pack_group(m, from, to, panel, kk, cols, group), at));
    if (g.k % group) out.push_back(pack_group(m, from, to, panel, imm(g.k / group), cols, g.k % group));
    return block(std::move(out), at);
  };
  Expr panel = bound("panel", whole);
  if (whole) before.push_back(for_loop(panel, whole, Loop::serial, fill(panel, u.width()), at));
  if (rest) before.push_back(fill(imm(whole), rest));
  return {to, imm(0), u.width() * group, 1, depth * u.width() * group};
}

// -128 times the sum of each column of B.
void Lowering::start_sums(const Placed& b) {
  int64_t count = ceil_of(g.n, u.width()), vectors = count * u.vectors;
  int lanes = int(u.lanes);
  BufferId to = scratch("B_sums", sum, {vectors * u.lanes});
  start = to;
  Expr p = bound("p", count), kk = bound("kk", depth);
  DType wide = u8.with_lanes(int(group));
  std::vector<Stmt> clear, add, scale;
  for (int64_t v = 0; v < u.vectors; v++) {
    Expr where = ramp(p * u.width() + v * u.lanes, imm(1), lanes);
    Expr old = load(sum, to, {where}, at);
    Expr column = ramp(p * b.panel + kk * b.row + v * u.lanes * group, imm(1), int(lanes * group));
    clear.push_back(store(to, {where}, zero(sum.with_lanes(lanes)), at));
    add.push_back(store(to, {where},
                        call(dot.row->callee, {old, imm(1, wide), load(g.b_type, b.buffer, {column}, at)}, old->dtype, at),
                        at));
    scale.push_back(store(to, {where}, binary(BinaryOp::mul, old, imm(-128, old->dtype), at), at));
  }
  Stmt all = for_loop(kk, depth, Loop::serial, block(std::move(add), at), at);
  before.push_back(for_loop(p, count, Loop::serial, block({block(std::move(clear)), all, block(std::move(scale))}, at), at));
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
          ci = named("c", call(dot.row->callee, {ci, dot.swapped ? y : x, dot.swapped ? x : y}, ci->dtype, at));
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
    Expr k = bound("k", turns);
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
  int64_t bytes = height * depth * group * ctx.function[a.buffer].dtype.bytes(), most = std::max<int64_t>(chunk_bytes / bytes, 1);
  int64_t chunks = ceil_of(count, most), size = ceil_of(count, chunks);
  int64_t whole = g.n / u.width(), rest = g.n % u.width();
  Expr chunk = bound("chunk", chunks), start = simplify(chunk * size, facts);
  Expr extent = chunks * size == count ? imm(size) : min(imm(size), imm(count) - start);
  auto against = [&](const Expr& panel, int64_t cols) {
    Expr i = bound("i", count);
    return for_loop(i, start, extent, Loop::serial,
                    micro(a, b, i * height + first, panel, height, cols, k0, depth, acc), at);
  };
  std::vector<Stmt> out;
  Expr panel = bound("panel", whole);
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
                              .strides = {},
                              .scope = Scope::local,
                              .span = at,
                              .layout = {},
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

Stmt lower_simd(const Gemm& g, LowerContext& ctx) { return Lowering{.g = g, .ctx = ctx}.run(); }

}  // namespace

const GemmStrategy gemm_simd = {
    .name = "simd", .applies = applies_simd, .infer_layout = infer_layout_simd, .lower = lower_simd};

}  // namespace tl
