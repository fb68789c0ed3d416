// reduce_sum, reduce_max, reduce_min, reduce_abssum, reduce_absmax: dst = src with one dimension folded away.  Here
// are the rows: what they mean and how they lay out; how they are carried out is a file each for many threads
// (reduce_threads.cpp) and for one (reduce_simd.cpp).
//
// The results lie with every thread that holds a part of their row; so a row's sum is where the row is used.
#include "ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tl {
namespace {

std::vector<int64_t> without(std::vector<int64_t> shape, size_t dim, bool keep) {
  if (keep)
    shape[dim] = 1;
  else
    shape.erase(shape.begin() + std::ptrdiff_t(dim));
  return shape;
}

}  // namespace

Reduce read_reduce(const Tile& t, const Function& f) {
  std::string_view name = t.op->name;
  Reduce r{.tile = t,
           .src = region_of(t, 0),
           .dst = region_of(t, 1),
           .fold = Fold::sum,
           .absolute = name.find("abs") != name.npos,
           .clear = t.attrs.get_int("clear") != 0,
           .dim = 0,
           .shape = region_shape(region_of(t, 0)),
           .keeps_dim = false,
           .acc = f[region_of(t, 1).buffer].dtype};
  if (name.ends_with("max")) r.fold = Fold::max;
  if (name.ends_with("min")) r.fold = Fold::min;
  int64_t dim = t.attrs.get_int("dim", -1);
  r.dim = size_t(dim < 0 ? dim + int64_t(r.shape.size()) : dim);
  r.keeps_dim = region_shape(r.dst).size() == r.shape.size();
  if (r.acc.is_float() && r.acc.bits < 32) r.acc = f32;
  return r;
}

namespace {

// ── what it means ─────────────────────────────────────────────────────────────────────────────────────

std::string shape_text(DType type, const std::vector<int64_t>& shape) {
  return fmt::format("{}[{}]", to_string(type), fmt::join(shape, ", "));
}

void check_operand(const Tile& t, const Function& f, const Region& r) {
  const BufferInfo& info = f[r.buffer];
  if (info.scope != Scope::fragment && info.scope != Scope::shared)
    fail(t.span, "{}: {} is in {} memory; copy it to a fragment or a shared buffer first", t.op->name,
         describe(f, r), info.scope == Scope::global ? "global" : "a thread's own");
  bool part = false;
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = r.ranges[d].extent ? as_int(r.ranges[d].extent) : std::nullopt;
    if (!extent)
      fail(t.span, "{}: {} needs constant extents: give a slice or the whole buffer", t.op->name, info.name);
    part |= r.ranges[d].point || extent != as_int(info.shape[d]);
  }
  if (part && info.scope == Scope::fragment)
    fail(t.span,
         "{}: an index or a slice of {} is given, but it is a fragment; reduce all of it, or copy it to a "
         "shared buffer and reduce a slice of that",
         t.op->name, info.name);
}

void check(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  check_operand(t, f, src);
  check_operand(t, f, dst);
  std::vector<int64_t> shape = region_shape(src), given = region_shape(dst);
  int64_t rank = int64_t(shape.size()), dim = t.attrs.get_int("dim", -1);
  if (rank == 0)
    fail(t.span, "{}: {} is a single element; there is nothing to reduce", t.op->name, describe(f, src));
  if (dim < -rank || dim >= rank)
    fail(t.span, "{}: dim is {}, but {} has {} dimension{}: it must lie in [{}, {})", t.op->name, dim,
         describe(f, src), rank, rank == 1 ? "" : "s", -rank, rank);
  size_t d = size_t(dim < 0 ? dim + rank : dim);
  DType from = f[src.buffer].dtype, to = f[dst.buffer].dtype;
  auto dropped = without(shape, d, rank == 1), kept = without(shape, d, true);
  if (given != dropped && given != kept)
    fail(t.span, "{}: src is {} and dim {}, so dst must be {}{}, but it is {}", t.op->name, describe(f, src),
         d, shape_text(to, dropped), rank == 1 ? "" : " or " + shape_text(to, kept), describe(f, dst));
  bool numbers = (from.is_float() && to.is_float()) ||
                 (from.is_int() && to.is_int() && from.is_signed() == to.is_signed());
  if (!numbers || to.bits < from.bits || (to.bits == from.bits && to != from))
    fail(t.span, "{}: src is {} but dst is {}; dst must have src's type, or a wider one of its kind",
         t.op->name, describe(f, src), describe(f, dst));
}

// The fold of plain numbers.  A NaN loses against a number in max and min, as everywhere in the language.
double combine(Fold fold, double a, double b) {
  return fold == Fold::sum ? a + b : fold == Fold::max ? std::fmax(a, b) : std::fmin(a, b);
}
int64_t combine(Fold fold, int64_t a, int64_t b, DType type) {
  BinaryOp op = fold == Fold::sum ? BinaryOp::add : fold == Fold::max ? BinaryOp::max : BinaryOp::min;
  return fold_int(op, a, b, type);
}

void eval(const Tile& t, const Function& f, const EvalContext& ctx) {
  Reduce r = read_reduce(t, f);
  Array in = ctx.read(r.src), out = ctx.read(r.dst);
  DType type = out.dtype;
  if (r.clear) {
    Expr first = identity(r);
    if (auto* x = first.as<FloatImm>()) std::fill(out.floats.begin(), out.floats.end(), x->value);
    if (auto* x = first.as<IntImm>()) std::fill(out.ints.begin(), out.ints.end(), x->value);
  }
  int64_t inner = std::accumulate(r.shape.begin() + std::ptrdiff_t(r.dim) + 1, r.shape.end(), int64_t(1),
                                  std::multiplies<>());
  for (int64_t i = 0; i < in.size(); i++) {
    size_t to = size_t(i / (inner * r.shape[r.dim]) * inner + i % inner), from = size_t(i);
    if (type.is_float()) {
      double x = r.absolute ? std::fabs(in.floats[from]) : in.floats[from];
      out.floats[to] = combine(r.fold, out.floats[to], x);
    } else {
      int64_t x = in.ints[from];
      if (r.absolute && x < 0 && type.is_signed()) x = wrap_int(int64_t(0 - uint64_t(x)), type);
      out.ints[to] = combine(r.fold, out.ints[to], x, type);
    }
  }
  ctx.write(r.dst, out);
}

}  // namespace

// ── the same in the program ───────────────────────────────────────────────────────────────────────────

Expr identity(const Reduce& r) {
  bool largest = r.fold == Fold::min;
  if (r.fold == Fold::sum || (r.absolute && !largest)) return zero(r.acc);
  if (r.acc.is_float()) return fimm(largest ? INFINITY : -INFINITY, r.acc);
  if (r.acc.is_unsigned()) return imm(largest ? -1 : 0, r.acc);
  int64_t top = INT64_MAX >> (64 - r.acc.bits);
  return imm(largest ? top : -top - 1, r.acc);
}

Expr combine(const Reduce& r, Expr a, Expr b) {
  BinaryOp op = r.fold == Fold::sum ? BinaryOp::add : r.fold == Fold::max ? BinaryOp::max : BinaryOp::min;
  return binary(op, std::move(a), std::move(b), r.at());
}

Expr contribution(const Reduce& r, Expr x) {
  x = cast(r.acc, std::move(x), r.at());
  if (!r.absolute || r.acc.is_unsigned()) return x;
  if (r.acc.is_float()) return call(*find_callee("abs"), {x}, r.at());
  return binary(BinaryOp::max, x, unary(UnaryOp::neg, x, r.at()), r.at());
}

Expr result(const Reduce& r, Expr old, Expr value) {
  DType to = old->dtype;
  if (!r.clear) value = combine(r, cast(r.acc, std::move(old), r.at()), std::move(value));
  return cast(to, std::move(value), r.at());
}

std::vector<Expr> folded(const Reduce& r, std::vector<Expr> at) {
  at[r.dim] = imm(0);
  if (!r.keeps_dim) at.erase(at.begin() + std::ptrdiff_t(r.dim));
  return at;
}

std::vector<Expr> in_buffer(const Region& r, const std::vector<Expr>& at) {
  std::vector<Expr> index;
  size_t next = 0;
  for (auto& range : r.ranges) index.push_back(range.point ? range.min : range.min + at[next++]);
  return index;
}

// ── layouts ───────────────────────────────────────────────────────────────────────────────────────────

Rows rows_of(const Reduce& r, const Fragment& src) {
  std::vector<int64_t> shape = without(r.shape, r.dim, r.keeps_dim);
  Rows rows;
  std::vector<Term> terms;
  int rank = int(r.shape.size()), dim = int(r.dim);
  int64_t replicas = src.replicas, top = 0;
  auto place = [&](Term t) {
    if (t.digit.input == rank)
      t.digit.input = int(shape.size());
    else if (t.digit.input > dim && !r.keeps_dim)
      t.digit.input--;
    terms.push_back(t);
  };
  std::vector<Term> registers;
  for (const Term& t : *src.layout.terms) {
    if (t.output == 0) top = std::max(top, t.stride);
    if (t.output == 1) registers.push_back(t);  // in descending strides, as from_terms keeps them
  }
  for (Term t : *src.layout.terms) {
    if (t.output == 1) continue;
    if (t.digit.input == dim) {  // no more threads than the outermost digit has elements for
      if (t.stride == top)
        t.digit.radix = std::min(t.digit.radix, (r.shape[r.dim] - 1) / t.digit.divisor + 1);
      rows.across.push_back({t.stride, t.digit.radix});
      t.digit = {.input = rank, .divisor = replicas, .radix = t.digit.radix};
      replicas *= t.digit.radix;
    }
    place(t);
  }
  rows.strides.assign(registers.size(), 0);
  int64_t stride = 1;
  for (size_t i = registers.size(); i-- > 0;) {
    Term t = registers[i];
    if (t.digit.input == dim) continue;
    rows.strides[i] = t.stride = stride;
    stride *= t.digit.radix;
    place(t);
  }
  rows.fragment = make_fragment(shape, replicas, std::move(terms));
  return rows;
}

// A loop over all of src, from which a mapping is planned as for any other.
ParallelNest nest_over(const Reduce& r, const Function& f) {
  static const char* names[] = {"i", "j", "k", "l"};
  ParallelNest nest{.vars = {}, .extents = r.shape, .body = {}, .attrs = {}, .span = r.at()};
  for (size_t d = 0; d < r.shape.size(); d++) nest.vars.push_back(var(names[d % 4]));
  nest.body = eval(load(f, r.src.buffer, in_buffer(r.src, nest.vars), r.at()), r.at());
  return nest;
}

namespace {

LayoutMap infer_layout(const Tile& t, const LayoutContext& ctx, Strictness level) {
  if (level == Strictness::strict || !ctx.target.has_threads()) return {};
  Reduce r = read_reduce(t, ctx.function);
  LayoutMap out;
  std::optional<Fragment> from = ctx.known.loop;
  bool fragment = ctx.function[r.src.buffer].scope == Scope::fragment;
  if (auto it = ctx.known.fragments.find(r.src.buffer); fragment && it != ctx.known.fragments.end())
    from = it->second;
  if (!from && level == Strictness::free) {
    out = infer_parallel(nest_over(r, ctx.function), ctx, level);
    from = out.loop;
  }
  if (!from) return {};
  if (ctx.function[r.dst.buffer].scope == Scope::fragment && !ctx.known.fragments.contains(r.dst.buffer))
    out.fragments.emplace(r.dst.buffer, rows_of(r, *from).fragment);
  if (fragment) out.loop.reset();  // its fragment says it
  return out;
}

Stmt lower(const Tile& t, LowerContext& ctx) {
  Reduce r = read_reduce(t, ctx.function);
  return ctx.target.has_threads() ? reduce_by_threads(r, ctx) : reduce_by_vectors(r, ctx);
}

TileOp row(std::string_view name, std::string_view doc) {
  return {.info = {.name = name,
                   .doc = doc,
                   .operands = {{"src", Access::read}, {"dst", Access::update}},
                   .attrs = {{"dim", OpInfo::Attr::Type::integer},
                             {"clear", OpInfo::Attr::Type::flag},
                             {"batch", OpInfo::Attr::Type::integer}}},
          .complete = nullptr,
          .check = check,
          .eval = eval,
          .infer_layout = infer_layout,
          .lower = lower};
}

}  // namespace

extern const TileOp reduce_sum_op, reduce_max_op, reduce_min_op, reduce_abssum_op, reduce_absmax_op;
const TileOp reduce_sum_op =
    row("reduce_sum", "dst = the sums of src along dim; without clear they are added to dst.");
const TileOp reduce_max_op =
    row("reduce_max", "dst = the maxima of src along dim; without clear of dst and those.");
const TileOp reduce_min_op =
    row("reduce_min", "dst = the minima of src along dim; without clear of dst and those.");
const TileOp reduce_abssum_op = row("reduce_abssum", "As reduce_sum, of the absolute values of src.");
const TileOp reduce_absmax_op = row("reduce_absmax", "As reduce_max, of the absolute values of src.");

}  // namespace tl
