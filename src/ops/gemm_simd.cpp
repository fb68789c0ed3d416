// gemm on a CPU: a register tile of rows × 2 vectors, fed by one broadcast per row and one load per vector.
//
// B is wanted in panels as wide as the register tile, [n / NR][k][n % NR], so that the copy which fills it is the
// packing, and a panel (16 KB at k = 256) stays in L1 while all rows of A pass by it.  A may have any constant
// strides: its elements are broadcast one by one.  Operands of another type than the sums are first widened into
// panels of their own.  8-bit integers are multiplied as floats, which is exact while the sums stay below 2^24.
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

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The type in which products are summed.
DType compute_type(const Gemm& g) {
  if (g.c_type.is_float()) return g.c_type.bits == 64 ? f64 : f32;
  return g.a_type.bits == 8 ? f32 : g.c_type;
}

// The register tile: `rows` × `vectors` accumulators, `vectors` registers for B, one for a broadcast of A.
struct Micro {
  int64_t lanes, vectors, rows;
  int64_t width() const { return lanes * vectors; }
};

Micro micro_of(const Gemm& g, const Target& target) {
  Micro u{.lanes = target.lanes(compute_type(g)), .vectors = 2, .rows = 0};
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

std::string applies(const Gemm&, const LayoutContext& ctx) {
  return ctx.target.has_threads() ? "this target runs many threads per block" : "";
}

LayoutMap infer_layout(const Gemm& g, const LayoutContext& ctx, Strictness level) {
  LayoutMap out;
  bool shared = ctx.function[g.b.buffer].scope == Scope::shared;
  if (level != Strictness::strict || !shared || g.b_type != compute_type(g)) return out;
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
  DType sum = compute_type(g);
  Span at = g.tile.span;
  Facts facts = facts_of(ctx.function, ctx.kernel);
  std::vector<Stmt> before = {};  // statements that widen or pack operands

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
    Expr value = cast(sum, load(type, m.region.buffer, {place(m, i, j)}, at), at);
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
  auto vector_at = [&](BufferId buffer, const Expr& i) {
    return load(sum, buffer, {ramp(i, imm(1), lanes)}, at);
  };
  Expr from_a = named("a_at", simplify(a.base + row * a.row + k * a.col, facts));
  Expr from_b = named("b_at", simplify(b.base + panel * b.panel + k * b.row, facts));
  std::vector<Expr> c;
  for (int64_t i = 0; i < rows * vectors; i++) c.push_back(named("c", vector_at(acc, imm(i * u.lanes))));
  for (int64_t s = 0; s < count; s++) {
    std::vector<Expr> bs;
    for (int64_t v = 0; v < vectors; v++)
      bs.push_back(named("b", vector_at(b.buffer, from_b + (s * b.row + v * u.lanes))));
    for (int64_t i = 0; i < rows; i++) {
      Expr x = named("a", load(sum, a.buffer, {from_a + (i * a.row + s * a.col)}, at)),
           xs = broadcast(x, lanes);
      for (int64_t v = 0; v < vectors; v++) {
        Expr& ci = c[size_t(i * vectors + v)];
        ci = named("c", binary(BinaryOp::add, ci, binary(BinaryOp::mul, xs, bs[size_t(v)])));
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
    Expr where = ramp(imm(i * u.lanes), imm(1), int(u.lanes));
    out.push_back(store(acc, {where}, zero(sum.with_lanes(int(u.lanes))), at));
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
  int64_t bytes = height * depth * sum.bytes(), most = std::max<int64_t>(chunk_bytes / bytes, 1);
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
  if (g.c_type.is_float() || g.a_type.bits != 8) return g.k;
  int64_t largest = g.a_type.is_signed() ? 128 * 128 : 255 * 255;
  return std::min(g.k, (int64_t(1) << 24) / largest / 4 * 4);
}

Stmt Lowering::run() {
  Matrix a = matrix_of(g.a, g.trans_a), b = matrix_of(g.b, g.trans_b);
  std::optional<Placed> left, right;
  if (g.a_type == sum) left = find_strided(a);
  if (g.b_type == sum) right = find_panels(b);
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
  int64_t blocks = ceil_of(g.m, u.rows), few = g.m / blocks, larger = g.m % blocks, depth = exact_depth(g);
  std::vector<Stmt> out = std::move(before);
  for (int64_t k = 0; k < g.k; k += depth) {
    int64_t steps = std::min(depth, g.k - k);
    if (larger) out.push_back(rows(*left, *right, larger, few + 1, 0, imm(k), steps, acc));
    out.push_back(rows(*left, *right, blocks - larger, few, larger * (few + 1), imm(k), steps, acc));
  }
  return block(std::move(out), at);
}

Stmt lower(const Gemm& g, LowerContext& ctx) { return Lowering{.g = g, .ctx = ctx}.run(); }

}  // namespace

const GemmStrategy gemm_simd = {
    .name = "simd", .applies = applies, .infer_layout = infer_layout, .lower = lower};

}  // namespace tl
