// Where the operands of the CPU's gemm are, and how they are packed into panels as wide as the register tile.
#include <algorithm>

#include "arith/prove.h"
#include "ops/gemm_simd.h"

namespace tl::simd {

std::vector<int64_t> shape_of(const Function& f, BufferId b) {
  std::vector<int64_t> shape;
  for (auto& e : f[b].shape) shape.push_back(*as_int(e));
  return shape;
}

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

namespace {

// The stride of one input of a layout, if it is one number.
std::optional<int64_t> stride_of(const Layout& l, size_t input, int output) {
  int64_t covered = 1, stride = 0;
  if (!l.terms) return std::nullopt;
  if (l.extents[input] == 1) return 0;
  std::vector<Term> terms;
  for (const Term& t : *l.terms)
    if (t.output == output && t.digit.input == int(input)) terms.push_back(t);
  std::ranges::sort(terms, [](auto& a, auto& b) { return a.digit.divisor < b.digit.divisor; });
  for (const Term& t : terms) {
    if (covered == 1) stride = t.stride;
    if (!t.xors.empty() || t.digit.divisor != covered || t.stride != stride * covered) return std::nullopt;
    covered *= t.digit.radix;
  }
  return covered >= l.extents[input] ? std::optional(stride) : std::nullopt;
}

}  // namespace

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

// What turn_panel leaves: the last rows of whole panels, and all of the columns behind them, one by one.
void Lowering::rest_of_panels(const Matrix& m, BufferId to, const Layout& l, int64_t turned, int64_t rows,
                              int64_t cols) {
  DType type = ctx.function[m.region.buffer].dtype;
  int64_t whole = cols / u.width() * u.width();
  auto move = [&](int64_t first_row, int64_t first_col, int64_t count, int64_t wide) {
    if (count <= 0 || wide <= 0) return;
    Expr i = facts.loop_var("i", count), j = facts.loop_var("j", wide), row = i + first_row,
         col = j + first_col;
    Expr value = as_operand(sum, load(type, m.region.buffer, {place(m, row, col)}, at), at);
    Stmt body = store(to, {simplify(map_index(l, {row, col})[0], facts)}, value, at);
    before.push_back(for_loop(i, count, Loop::serial, for_loop(j, wide, Loop::serial, body, at), at));
  };
  move(turned, 0, rows - turned, whole);
  move(0, whole, rows, cols - whole);
}

// A panel from columns that each lie in one piece: a vector of each, exchanged in registers.
Stmt Lowering::turn_panel(const Placed& from, BufferId to, const Expr& panel, const Expr& k, int64_t rows) {
  int64_t width = u.width();
  DType type = ctx.function[from.buffer].dtype;
  std::vector<Expr> columns;
  for (int64_t j = 0; j < width; j++) {
    Expr where = from.base + (panel * width + j) * from.col + k * u.lanes;
    Expr column = load(type, from.buffer, {ramp(simplify(where, facts), imm(1), int(u.lanes))}, at);
    columns.push_back(cast(sum.with_lanes(int(u.lanes)), column, at));
  }
  int lanes = int(u.lanes * width);
  Expr first = simplify(panel * (rows * width) + k * (u.lanes * width), facts);
  return store(to, {ramp(first, imm(1), lanes)},
               call(interleave, std::move(columns), sum.with_lanes(lanes), at), at);
}

// Copies a matrix into a scratch buffer of the type of the sums, in panels of `width` columns (0: rows).
Placed Lowering::widen(const Matrix& m, int64_t rows, int64_t cols, int64_t width, const char* name) {
  Layout l = width ? panels({rows, cols}, 0, 1, width) : row_major({rows, cols});
  BufferId to = ctx.scratch({.name = name,
                             .dtype = sum,
                             .shape = {imm(rows), imm(cols)},
                             .scope = Scope::shared,
                             .span = at,
                             .layout = l.map(),
                             .elements = l.ranges[0]});
  int64_t chunk = std::min(u.lanes, width ? width : cols), whole = cols / chunk;
  DType type = ctx.function[m.region.buffer].dtype;
  auto move = [&](const Expr& i, const Expr& j) {
    Expr value = as_operand(sum, load(type, m.region.buffer, {place(m, i, j)}, at), at);
    return store(to, {simplify(map_index(l, {i, j})[0], facts)}, value, at);
  };
  int64_t turned = 0;  // rows of whole panels that are written by turning columns
  auto from = find_strided(m);
  if (width == u.width() && from && from->row == 1 && !type.is_storage()) turned = rows / u.lanes * u.lanes;
  if (turned && cols >= width) {
    Expr panel = facts.loop_var("panel", cols / width), k = facts.loop_var("k", turned / u.lanes);
    Stmt body = for_loop(k, turned / u.lanes, Loop::serial, turn_panel(*from, to, panel, k, rows), at);
    before.push_back(for_loop(panel, cols / width, Loop::serial, body, at));
    rest_of_panels(m, to, l, turned, rows, cols);
    return {to, imm(0), width, 1, rows * width};
  }
  Expr i = facts.loop_var("i", rows);
  std::vector<Stmt> row;
  if (whole) {
    Expr part = facts.loop_var("p", whole), lane = facts.loop_var("v", chunk);
    Stmt body = for_loop(lane, chunk, Loop::vectorized, move(i, part * chunk + lane), at);
    row.push_back(for_loop(part, whole, Loop::serial, body, at));
  }
  if (cols > whole * chunk) {
    Expr rest = facts.loop_var("q", cols - whole * chunk);
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
                      .scope = Scope::shared,
                      .span = at,
                      .layout = l.map(),
                      .elements = l.ranges[0]});
}

// A as rows of groups: where it lies, if k is contiguous there; else a copy, whose last group is filled up
// with 0.
Placed Lowering::group_rows(const Matrix& m) {
  auto from = find_strided(m);
  bool contiguous = from && from->col == 1;
  if (contiguous && g.k % group == 0 && !dot.shifted) return {from->buffer, from->base, from->row, group, 0};
  DType type = g.a_type, wanted = dot.shifted ? u8 : type;
  int64_t width = depth * group, chunk = target_lanes(type);
  BufferId to = scratch("A_rows", wanted, {g.m, width});
  Expr i = facts.loop_var("i", g.m);
  auto converted = [&](Expr e) {
    if (!dot.shifted) return e;
    DType t = u8.with_lanes(e->dtype.lanes);
    return binary(BinaryOp::bit_xor, cast(t, std::move(e), at), imm(128, t), at);
  };
  std::vector<Stmt> row;
  int64_t whole = contiguous ? g.k / chunk : 0;
  if (whole) {
    Expr p = facts.loop_var("p", whole);
    Expr source = ramp(from->base + i * from->row + p * chunk, imm(1), int(chunk));
    row.push_back(for_loop(p, whole, Loop::serial,
                           store(to, {ramp(i * width + p * chunk, imm(1), int(chunk))},
                                 converted(load(type, from->buffer, {source}, at)), at),
                           at));
  }
  if (int64_t rest = g.k - whole * chunk) {
    Expr q = facts.loop_var("q", rest), k = q + whole * chunk;
    row.push_back(for_loop(
        q, rest, Loop::serial,
        store(to, {i * width + k}, converted(load(type, m.region.buffer, {place(m, i, k)}, at)), at), at));
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
  Expr j = facts.loop_var("j", cols);
  bool together = from && from->row == 1 && steps == group;  // columns of B: a group lies together
  if (together) {
    Expr where = from->base + kk * group + (panel * u.width() + j) * from->col;
    out.push_back(store(to, {ramp(first + j * group, imm(1), int(group))},
                        load(type, from->buffer, {ramp(where, imm(1), int(group))}, at), at));
  }
  for (int64_t d = 0; d < group && !together; d++) {
    Expr value = d < steps
                     ? load(type, m.region.buffer, {place(m, kk * group + d, panel * u.width() + j)}, at)
                     : zero(type);
    out.push_back(store(to, {first + j * group + d}, value, at));
  }
  Stmt columns = for_loop(j, cols, Loop::serial, block(std::move(out), at), at);
  if (cols == u.width()) return columns;
  Expr q = facts.loop_var("q", (u.width() - cols) * group);
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
    Expr kk = facts.loop_var("kk", g.k / group);
    std::vector<Stmt> out;
    if (g.k / group)
      out.push_back(
          for_loop(kk, g.k / group, Loop::serial, pack_group(m, from, to, panel, kk, cols, group), at));
    if (g.k % group) out.push_back(pack_group(m, from, to, panel, imm(g.k / group), cols, g.k % group));
    return block(std::move(out), at);
  };
  Expr panel = facts.loop_var("panel", whole);
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
  Expr p = facts.loop_var("p", count), kk = facts.loop_var("kk", depth);
  DType wide = u8.with_lanes(int(group));
  std::vector<Stmt> clear, add, scale;
  for (int64_t v = 0; v < u.vectors; v++) {
    Expr where = ramp(p * u.width() + v * u.lanes, imm(1), lanes);
    Expr old = load(sum, to, {where}, at);
    Expr column = ramp(p * b.panel + kk * b.row + v * u.lanes * group, imm(1), int(lanes * group));
    clear.push_back(store(to, {where}, zero(sum.with_lanes(lanes)), at));
    add.push_back(store(
        to, {where},
        call(dot.row->intrinsic, {old, imm(1, wide), load(g.b_type, b.buffer, {column}, at)}, old->dtype, at),
        at));
    scale.push_back(store(to, {where}, binary(BinaryOp::mul, old, imm(-128, old->dtype), at), at));
  }
  Stmt all = for_loop(kk, depth, Loop::serial, block(std::move(add), at), at);
  before.push_back(for_loop(p, count, Loop::serial,
                            block({block(std::move(clear)), all, block(std::move(scale))}, at), at));
}

}  // namespace tl::simd
