// Operands of gemm that are not where a strategy needs them go through a scratch tile in shared memory: a
// fragment that another operator laid out, a slice of one, a product whose destination is on other threads.
// insert_sync places the barriers.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/gemm.h"
#include "ops/mapping.h"
#include "ops/regions.h"

namespace tl {
namespace {

bool is_vector(const FragmentLoops::Axis& axis) {
  return axis.stride == 1 && (axis.extent == 2 || axis.extent == 4 || axis.extent == 8);
}

// One element that a thread holds: its indices, its register, and whether this is the first of its copies (or
// null).
struct Held {
  std::vector<Expr> index;
  Expr reg, first;
};

// `body` for each element of a fragment that this thread holds.  Its loops are bound in `facts`.
template <class F>
Stmt each_held(const Fragment& f, const LowerContext& ctx, Facts& facts, Span span, F body) {
  Attrs independent{.entries = {{"independent", int64_t(1)}}};
  if (why_not_inverse(f).empty()) {
    FragmentLoops loops = inverse(f, ctx.thread, ctx.team.count);
    Expr reg = imm(0);
    for (auto& axis : loops.axes) {
      facts.bind(axis.var, Interval{0, axis.extent - 1});
      reg = reg + axis.var * axis.stride;
    }
    Stmt s = if_then(loops.guard, body(Held{loops.indices, reg, loops.first_replica}), {}, span);
    for (size_t i = loops.axes.size(); i-- > 0;) {
      bool vector = i + 1 == loops.axes.size() && is_vector(loops.axes[i]);
      s = for_loop(loops.axes[i].var, loops.axes[i].extent, vector ? Loop::vectorized : Loop::unrolled, s,
                   span, independent);
    }
    return s;
  }
  std::vector<Expr> x;  // no digits: ask of every element whether it lies here
  for (size_t d = 0; d < f.layout.extents.size(); d++) {
    x.push_back(var("e" + std::to_string(d)));
    facts.bind(x.back(), Interval{0, f.layout.extents[d] - 1});
  }
  std::vector<Expr> place = map_index(f.layout, x), index(x.begin(), x.end() - 1);
  Expr first = f.replicas == 1 ? Expr{} : eq(x.back(), imm(0));
  Stmt s = if_then(eq(place[0], ctx.thread), body(Held{index, place[1], first}), {}, span);
  for (size_t d = x.size(); d-- > 0;)
    s = for_loop(x[d], f.layout.extents[d], Loop::serial, s, span, independent);
  return s;
}

// The element relative to the region's start, and the condition that it lies inside.
struct InRegion {
  std::array<Expr, 2> at;  // row, column
  Expr inside;             // null: always
};

InRegion relative(const Region& r, const std::vector<Expr>& index, const Function& f) {
  InRegion out;
  auto dims = matrix_dims(r);
  for (size_t d = 0; d < r.ranges.size(); d++) {
    Expr x = index[d] - r.ranges[d].min;
    if (d == dims[0]) out.at[0] = x;
    if (d == dims[1]) out.at[1] = x;
    if (is_int(r.ranges[d].min, 0) && as_int(r.ranges[d].extent) == as_int(f[r.buffer].shape[d])) continue;
    out.inside = both(
        out.inside, both(le(r.ranges[d].min, index[d]), lt(index[d], r.ranges[d].min + r.ranges[d].extent)));
  }
  return out;
}

int64_t bytes_of(const SharedMatrix& m) { return m.layout.ranges[0] * m.type.bits / 8; }

// A layout for a product: rows of pairs of columns, four rows apart in the banks.
Layout product_layout(int64_t m, int64_t n, int bits, bool pad) {
  int64_t words = std::max<int64_t>(1, 32 / bits), stride = n;
  while (pad && n % (8 * words) == 0 && stride % (16 * words) != 8 * words) stride += 8 * words;
  return strided({m, n}, {stride, 1});
}

}  // namespace

Expr SharedMatrix::at(const Expr& row, const Expr& col, const Facts& facts) const {
  std::vector<Expr> index = starts;
  index[dims[0]] = index[dims[0]] + row;
  index[dims[1]] = index[dims[1]] + col;
  return simplify(map_index(layout, index)[0], facts);
}

bool is_whole_matrix(const Region& r, const Function& f) { return r.ranges.size() == 2 && is_whole(r, f); }

bool same_fragment(const Fragment& a, const Fragment& b) {
  if (a.replicas != b.replicas || a.layout.extents != b.layout.extents) return false;
  for (size_t d = 0; d < a.layout.extents.size(); d++)  // what differs mostly does so at a power of two
    for (int64_t step = 1; step < a.layout.extents[d]; step *= 2) {
      std::vector<int64_t> x(a.layout.extents.size(), 0);
      x[d] = step;
      if (map_index(a.layout, x) != map_index(b.layout, x)) return false;
    }
  return equal(a, b);
}

bool lies_as(const Region& r, const Function& f, const LayoutDecisions& known, const Fragment& wanted) {
  auto it = known.fragments.find(r.buffer);
  return is_whole_matrix(r, f) && (it == known.fragments.end() || same_fragment(it->second, wanted));
}

BufferId local_registers(const Gemm& g, LowerContext& ctx, std::string name, DType type, int64_t n) {
  return ctx.scratch({.name = std::move(name),
                      .dtype = type,
                      .shape = {imm(n)},
                      .scope = Scope::local,
                      .span = g.tile.span,
                      .elements = n});
}

SharedMatrix shared_matrix(const LowerContext& ctx, const Region& r) {
  const BufferInfo& info = ctx.function[r.buffer];
  std::vector<int64_t> shape;
  for (auto& e : info.shape) shape.push_back(*as_int(e));
  auto known = ctx.layouts.shared.find(r.buffer);
  SharedMatrix m{.buffer = r.buffer,
                 .type = info.dtype,
                 .layout = known == ctx.layouts.shared.end() ? row_major(shape) : known->second,
                 .dims = matrix_dims(r)};
  for (auto& range : r.ranges) m.starts.push_back(range.min);
  return m;
}

SharedMatrix scratch_matrix(const Gemm& g, LowerContext& ctx, std::string name, DType type, Layout layout) {
  BufferId id = ctx.scratch({.name = std::move(name),
                             .dtype = type,
                             .shape = {imm(layout.extents[0]), imm(layout.extents[1])},
                             .scope = Scope::shared,
                             .span = g.tile.span,
                             .layout = layout.map(),
                             .elements = layout.ranges[0]});
  return {
      .buffer = id, .type = type, .layout = std::move(layout), .starts = {imm(0), imm(0)}, .dims = {0, 1}};
}

SharedMatrix to_scratch(const Gemm& g, LowerContext& ctx, const Region& r, Layout layout,
                        std::string_view why, std::vector<Stmt>& out) {
  std::string name = ctx.function[r.buffer].name;
  DType type = ctx.function[r.buffer].dtype;
  SharedMatrix tile = scratch_matrix(g, ctx, name + "_scratch", type, std::move(layout));
  Facts facts = facts_of(ctx.function, ctx.kernel);
  out.push_back(each_held(ctx.layouts.fragments.at(r.buffer), ctx, facts, g.tile.span, [&](const Held& e) {
    InRegion in = relative(r, e.index, ctx.function);
    Expr value = load(type, r.buffer, {simplify(e.reg, facts)}, g.tile.span);
    Stmt s = store(tile.buffer, {tile.at(in.at[0], in.at[1], facts)}, value, g.tile.span, e.first);
    return if_then(in.inside, s, {}, g.tile.span);
  }));
  ctx.note("gemm", fmt::format("{} goes through {} bytes of shared memory: {}", name, bytes_of(tile), why),
           g.tile.span, true);
  return tile;
}

// A whole fragment register by register; on targets without threads, whose registers lie in memory, vectors
// of them.
Stmt cleared(const Gemm& g, LowerContext& ctx) {
  Span span = g.tile.span;
  const Fragment& c = ctx.layouts.fragments.at(g.c.buffer);
  if (!is_whole(g.c, ctx.function)) {
    Facts facts = facts_of(ctx.function, ctx.kernel);
    return each_held(c, ctx, facts, span, [&](const Held& e) {
      Stmt s = store(g.c.buffer, {simplify(e.reg, facts)}, zero(g.c_type), span);
      return if_then(relative(g.c, e.index, ctx.function).inside, s, {}, span);
    });
  }
  int64_t n = c.registers, lanes = ctx.target.has_threads() ? 1 : ctx.target.vector_bytes / g.c_type.bytes();
  while (lanes > 1 && n % lanes) lanes /= 2;
  Expr r = var("r"), lane = var("lane");
  Stmt one = store(g.c.buffer, {lanes > 1 ? r * lanes + lane : r}, zero(g.c_type), span);
  if (lanes > 1) one = for_loop(lane, lanes, Loop::vectorized, one, span);
  return for_loop(r, n / std::max<int64_t>(lanes, 1),
                  ctx.target.has_threads() ? Loop::unrolled : Loop::serial, one, span);
}

Stmt store_via_scratch(const Gemm& g, LowerContext& ctx, BufferId registers, const Fragment& product,
                       std::string_view why) {
  std::string name = ctx.function[g.c.buffer].name;
  Span span = g.tile.span;
  SharedMatrix tile = scratch_matrix(g, ctx, name + "_scratch", g.c_type,
                                     product_layout(g.m, g.n, g.c_type.bits, may_pad(ctx.kernel)));
  Facts facts = facts_of(ctx.function, ctx.kernel);
  Stmt put = each_held(product, ctx, facts, span, [&](const Held& e) {
    Expr value = load(g.c_type, registers, {simplify(e.reg, facts)}, span);
    return store(tile.buffer, {tile.at(e.index[0], e.index[1], facts)}, value, span, e.first);
  });
  Stmt take = each_held(ctx.layouts.fragments.at(g.c.buffer), ctx, facts, span, [&](const Held& e) {
    InRegion in = relative(g.c, e.index, ctx.function);
    Expr reg = simplify(e.reg, facts);
    Expr value = load(g.c_type, tile.buffer, {tile.at(in.at[0], in.at[1], facts)}, span);
    if (!g.clear) value = binary(BinaryOp::add, load(g.c_type, g.c.buffer, {reg}, span), value, span);
    return if_then(in.inside, store(g.c.buffer, {reg}, value, span), {}, span);
  });
  std::string how = fmt::format("{} goes through {} bytes of shared memory", name, bytes_of(tile));
  if (is_repeated(g, ctx.kernel))
    ctx.note.warn(
        "gemm",
        fmt::format("{} at each product: {}; let the products that add to it be of one kind, or give this "
                    "one a fragment of its own",
                    how, why),
        span);
  else
    ctx.note("gemm", how + ": " + std::string(why), span, true);
  return block({put, take}, span);
}

}  // namespace tl
