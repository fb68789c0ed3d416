// reduce_sum, reduce_max, … and reduce_by, the user's own: dst = src reduced along one dimension. Here are
// the rows: their meaning and their layouts; the code for many threads is in reduce_threads.cpp, that for one
// in reduce_simd.cpp.
//
// Every thread that holds a part of a row gets its result, so a row's sum is where the row is used.
#include "ops/reduce.h"
#include "ops/combiner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ops/mapping.h"

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

// ── the folds of the language ─────────────────────────────────────────────────────────────────────────
namespace {

constexpr std::string_view words[] = {"sum", "max", "min", "prod", "bitand", "bitor", "bitxor", "any", "all"};

struct FoldRow {
  BinaryOp op;
  bool on_floats, on_ints;  // bools count as integers, except in arithmetic
};
// clang-format off
constexpr FoldRow fold_rows[] = {
    {BinaryOp::add,     true,  true},
    {BinaryOp::max,     true,  true},
    {BinaryOp::min,     true,  true},
    {BinaryOp::mul,     true,  true},
    {BinaryOp::bit_and, false, true},
    {BinaryOp::bit_or,  false, true},
    {BinaryOp::bit_xor, false, true},
    {BinaryOp::bit_or,  true,  true},
    {BinaryOp::bit_and, true,  true},
    {BinaryOp::add,     true,  true},   // the user's: not looked at
};
// clang-format on
const FoldRow& fold_row(Fold fold) { return fold_rows[size_t(fold)]; }
bool is_truth(Fold fold) { return fold == Fold::any || fold == Fold::all; }
bool is_bitwise(Fold fold) { return fold >= Fold::bit_and && fold <= Fold::bit_xor; }

}  // namespace

std::span<const std::string_view> fold_words() { return words; }

Fold find_fold(std::string_view word) {
  if (word.starts_with("abs")) word.remove_prefix(3);
  auto it = std::find(std::begin(words), std::end(words), word);
  return it == std::end(words) ? Fold::user : Fold(it - std::begin(words));
}

Reduce read_reduce(const Tile& t, const Function& f) {
  std::string_view name = t.op->name.substr(std::string_view("reduce_").size());
  Reduce r{.tile = t,
           .src = region_of(t, 0),
           .dst = region_of(t, 1),
           .fold = find_fold(name),
           .absolute = name.starts_with("abs"),
           .clear = t.attrs.get_int("clear") != 0,
           .shape = region_shape(region_of(t, 0)),
           .acc = f[region_of(t, 1).buffer].dtype,
           .nan_propagate = t.attrs.get_int("nan_propagate") != 0};
  if (r.fold == Fold::user)
    if (auto* v = t.attrs.find("combine")) r.user = std::get_if<IndexMap>(v);
  int64_t dim = t.attrs.get_int("dim", -1);
  r.dim = size_t(dim < 0 ? dim + int64_t(r.shape.size()) : dim);
  r.keeps_dim = region_shape(r.dst).size() == r.shape.size();
  if (r.acc.is_float() && r.acc.bits < 32) r.acc = f32;
  if (is_truth(r.fold) || r.acc.is_bool()) r.acc = i32;
  return r;
}

namespace {

// ── what it means ─────────────────────────────────────────────────────────────────────────────────────

std::string shape_text(DType type, const std::vector<int64_t>& shape) {
  return fmt::format("{}[{}]", to_string(type), fmt::join(shape, ", "));
}

void check_reduced(const Tile& t, const Function& f, const Region& r) {
  const BufferInfo& info = f[r.buffer];
  if (info.scope == Scope::global || !info.reducer.empty())
    fail(t.span, "{}: {} is {}; copy it to a fragment or a shared buffer first", t.op->said(), describe(f, r),
         info.scope == Scope::global ? "in global memory" : "a reducer");
  bool part = false;
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = r.ranges[d].extent ? as_int(r.ranges[d].extent) : std::nullopt;
    if (!extent)
      fail(t.span, "{}: {} needs constant extents: give a slice or the whole buffer", t.op->said(),
           info.name);
    part |= r.ranges[d].point || extent != as_int(info.shape[d]);
  }
  if (part && info.scope == Scope::fragment)
    fail(t.span,
         "{}: an index or a slice of {} is given, but it is a fragment; reduce all of it, or copy it to a "
         "shared buffer and reduce a slice of that",
         t.op->said(), info.name);
}

// The function takes two values of the type it is computed in, and gives one.
void check_combiner(const Reduce& r) {
  const Span& at = r.at();
  if (!r.user) fail(at, "{}: `combine`, a function of two values, is missing", r.tile.op->said());
  const IndexMap& m = *r.user;
  bool right = m.vars.size() == 2 && m.outputs.size() == 2;
  for (auto* list : {&m.vars, &m.outputs})
    for (auto& e : *list) right &= e->dtype == r.acc;
  if (!right)
    fail(at,
         "{}: combine must have the form (a: {}, b: {}) -> (their combination, the identity), all of the "
         "type that it is computed in",
         r.tile.op->said(), to_string(r.acc), to_string(r.acc));
  for (auto& e : m.outputs)
    visit_nodes(e, [&](const Node& n) {
      if (n.kind == Kind::Load)
        fail(at, "{}: combine reads a buffer; it may use its two arguments and scalars of the kernel only",
             r.tile.op->said());
      if (n.kind == Kind::Call && static_cast<const Call&>(n).intrinsic->effect != Intrinsic::Effect::pure)
        fail(at, "{}: combine calls {}, whose result does not depend on the two arguments alone",
             r.tile.op->said(), static_cast<const Call&>(n).intrinsic->name);
    });
  for (auto& v : m.vars)
    if (uses_var(m.outputs[1], v))
      fail(at, "{}: the identity depends on an argument of combine", r.tile.op->said());
}

void check_fold(const Tile& t, const Function& f) {
  Reduce r = read_reduce(t, f);
  DType from = f[r.src.buffer].dtype, to = f[r.dst.buffer].dtype;
  const FoldRow& row = fold_row(r.fold);
  if (r.fold == Fold::user) check_combiner(r);
  if (is_truth(r.fold)) {
    if (!to.is_bool() && !to.is_int())
      fail(t.span, "{}: out is {}; it must hold bool or integers", t.op->said(), describe(f, r.dst));
    return;
  }
  if ((from.is_float() && !row.on_floats) || (from.is_bool() && !is_bitwise(r.fold)))
    fail(t.span, "{}: buffer is {}; it must hold {}", t.op->said(), describe(f, r.src),
         from.is_float() ? "integers or bool" : "numbers: cast it first");
  bool numbers = (from.is_float() && to.is_float()) || (from.is_bool() && to.is_bool()) ||
                 (from.is_int() && to.is_int() && from.is_signed() == to.is_signed());
  if (!numbers || to.bits < from.bits || (to.bits == from.bits && to != from))
    fail(t.span, "{}: buffer is {} but out is {}; out must have buffer's type, or a wider one of its kind",
         t.op->said(), describe(f, r.src), describe(f, r.dst));
}

void check_reduce(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  check_reduced(t, f, src);
  check_reduced(t, f, dst);
  std::vector<int64_t> shape = region_shape(src), given = region_shape(dst);
  int64_t rank = int64_t(shape.size()), dim = t.attrs.get_int("dim", -1);
  if (rank == 0)
    fail(t.span, "{}: {} is a single element; there is nothing to reduce", t.op->said(), describe(f, src));
  if (dim < -rank || dim >= rank)
    fail(t.span, "{}: dim is {}, but {} has {} dimension{}: it must lie in [{}, {})", t.op->said(), dim,
         describe(f, src), rank, rank == 1 ? "" : "s", -rank, rank);
  size_t d = size_t(dim < 0 ? dim + rank : dim);
  DType to = f[dst.buffer].dtype;
  if (t.attrs.get_int("batch", 1) < 1)
    fail(t.span, "{}: batch is {}; it counts results that are combined at once", t.op->said(),
         t.attrs.get_int("batch"));
  auto dropped = without(shape, d, rank == 1), kept = without(shape, d, true);
  if (given != dropped && given != kept)
    fail(t.span, "{}: buffer is {} and dim {}, so out must be {}{}, but it is {}", t.op->said(),
         describe(f, src), d, shape_text(to, dropped), rank == 1 ? "" : " or " + shape_text(to, kept),
         describe(f, dst));
  check_fold(t, f);
}

// The fold of plain numbers.  A NaN loses against a number in max and min, as everywhere in the language,
// unless it is to propagate.
double combine(const Reduce& r, double a, double b) {
  if (r.nan_propagate && (std::isnan(a) || std::isnan(b))) return NAN;
  switch (r.fold) {
    case Fold::max:
      return max_number(a, b);
    case Fold::min:
      return min_number(a, b);
    case Fold::prod:
      return a * b;
    default:
      return a + b;
  }
}

// All of src's slices along dim, one after the other, through the user's function.
void eval_user(const Reduce& r, const Array& in, Array& out, int64_t inner, const EvalContext& ctx) {
  int64_t n = r.shape[r.dim];
  auto slice = [&](int64_t k) {
    Array x = make_array(r.acc, out.shape);
    for (int64_t i = 0; i < x.size(); i++) {
      size_t from = size_t((i / inner * n + k) * inner + i % inner);
      if (r.acc.is_float())
        x.floats[size_t(i)] = in.floats[from];
      else
        x.ints[size_t(i)] = in.ints[from];
    }
    return x;
  };
  if (r.clear) {
    IndexMap identity = *r.user;
    identity.outputs = {r.user->outputs[1]};
    out = ctx.apply(identity, {out, out});
  }
  for (int64_t k = 0; k < n; k++) out = ctx.apply(*r.user, {out, slice(k)});
}

int64_t fold_element(const Reduce& r, const Array& in, size_t from, int64_t old, DType type) {
  BinaryOp op = fold_row(r.fold).op;
  if (is_truth(r.fold)) return fold_int(op, old != 0, in.number(int64_t(from)) != 0, type);
  int64_t x = in.ints[from];
  if (r.absolute && x < 0 && type.is_signed()) x = wrap_int(int64_t(0 - uint64_t(x)), type);
  return fold_int(op, old, x, type);
}

void eval_reduce(const Tile& t, const Function& f, const EvalContext& ctx) {
  Reduce r = read_reduce(t, f);
  Array in = ctx.read(r.src), out = as_type(ctx.read(r.dst), r.acc);
  int64_t inner = product(std::span(r.shape).subspan(r.dim + 1));
  if (r.user) {
    eval_user(r, in, out, inner, ctx);
    return ctx.write(r.dst, out);
  }
  if (r.clear) {
    Expr first = identity(r);
    if (auto* x = first.as<FloatImm>()) std::ranges::fill(out.floats, x->value);
    if (auto* x = first.as<IntImm>()) std::ranges::fill(out.ints, x->value);
  }
  bool from_zero = !r.clear && r.absolute && r.fold == Fold::max && r.acc.is_float();
  for (double& old : out.floats)  // which the identity meets, even if all of src are NaN
    if (from_zero) old = combine(r, old, 0);
  for (int64_t i = 0; i < in.size(); i++) {
    size_t to = size_t(i / (inner * r.shape[r.dim]) * inner + i % inner), from = size_t(i);
    if (r.acc.is_float()) {
      double x = r.absolute ? std::fabs(in.floats[from]) : in.floats[from];
      out.floats[to] = combine(r, out.floats[to], x);
    } else {
      out.ints[to] = fold_element(r, in, from, out.ints[to], r.acc);
    }
  }
  ctx.write(r.dst, out);
}

}  // namespace

// ── the same in the program ───────────────────────────────────────────────────────────────────────────

Expr identity(const Reduce& r) {
  if (r.user) return r.user->outputs[1];
  bool largest = r.fold == Fold::min;
  switch (r.fold) {
    case Fold::max:
    case Fold::min:
      break;
    case Fold::prod:
    case Fold::all:
      return imm(1, r.acc);
    case Fold::bit_and:
      return imm(-1, r.acc);
    default:
      return zero(r.acc);
  }
  if (r.absolute && !r.acc.is_int()) return zero(r.acc);  // of integers |least| is least, and below 0
  if (r.acc.is_float()) return fimm(largest ? INFINITY : -INFINITY, r.acc);
  if (r.acc.is_unsigned()) return imm(largest ? -1 : 0, r.acc);
  int64_t top = INT64_MAX >> (64 - r.acc.bits);
  return imm(largest ? top : -top - 1, r.acc);
}

Expr combine(const Reduce& r, Expr a, Expr b) {
  if (r.user) return substitute(r.user->outputs[0], {{r.user->vars[0].get(), a}, {r.user->vars[1].get(), b}});
  Expr plain = binary(fold_row(r.fold).op, a, b, r.at());
  if (!r.nan_propagate || !r.acc.is_float()) return plain;
  auto is_nan = [&](const Expr& e) { return call(*find_intrinsic("isnan"), {e}, r.at()); };
  return select(is_nan(a), a, select(is_nan(b), b, plain, r.at()), r.at());
}

bool uses_twice(const Reduce& r) { return r.user || (r.nan_propagate && r.acc.is_float()); }

Expr contribution(const Reduce& r, Expr x) {
  if (is_truth(r.fold)) return cast(r.acc, binary(BinaryOp::ne, x, zero(x->dtype), r.at()), r.at());
  x = cast(r.acc, std::move(x), r.at());
  if (!r.absolute || r.acc.is_unsigned()) return x;
  if (r.acc.is_float()) return call(*find_intrinsic("abs"), {x}, r.at());
  return binary(BinaryOp::max, x, unary(UnaryOp::neg, x, r.at()), r.at());
}

Expr result(const Reduce& r, Expr old, Expr value) {
  DType to = old->dtype;
  if (!r.clear)
    value = combine(r, is_truth(r.fold) ? contribution(r, old) : cast(r.acc, std::move(old), r.at()), value);
  if (to.is_bool()) return binary(BinaryOp::ne, value, zero(r.acc), r.at());
  return cast(to, std::move(value), r.at());
}

std::vector<Expr> folded(const Reduce& r, std::vector<Expr> at) {
  at[r.dim] = imm(0);
  if (!r.keeps_dim) at.erase(at.begin() + std::ptrdiff_t(r.dim));
  return at;
}

// ── layouts ───────────────────────────────────────────────────────────────────────────────────────────

namespace {

// Of the thread's digit that follows on one of stride `stride`; 0 if none does.
int64_t next_stride(const Fragment& f, int64_t stride) {
  int64_t next = 0;
  for (const Term& t : *f.layout.terms)
    if (t.output == 0 && t.stride > stride && (!next || t.stride < next)) next = t.stride;
  return next;
}

}  // namespace

Rows rows_of(const Reduce& r, const Fragment& src) {
  std::vector<int64_t> shape = without(r.shape, r.dim, r.keeps_dim);
  Rows rows;
  std::vector<Term> terms;
  int rank = int(r.shape.size()), dim = int(r.dim);
  int64_t replicas = src.replicas;
  auto place = [&](Term t) {
    if (t.digit.input == rank)
      t.digit.input = int(shape.size());
    else if (t.digit.input > dim && !r.keeps_dim)
      t.digit.input--;
    terms.push_back(t);
  };
  std::vector<Term> registers;
  for (const Term& t : *src.layout.terms)
    if (t.output == 1) registers.push_back(t);  // in descending strides, as from_terms keeps them
  for (Term t : *src.layout.terms) {
    if (t.output == 1) continue;
    if (t.digit.input == dim) {  // no more threads than the outermost digit has elements for
      int64_t above = next_stride(src, t.stride);
      if (!above) t.digit.radix = std::min(t.digit.radix, (r.shape[r.dim] - 1) / t.digit.divisor + 1);
      rows.across.push_back({t.stride, t.digit.radix, above ? above : t.stride * t.digit.radix});
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

// Each thread has all of its own array, as it has of a fragment of which every thread holds a copy.
bool is_for_each_thread(const Reduce& r, const Function& f) {
  return f[r.src.buffer].scope == Scope::local || f[r.dst.buffer].scope == Scope::local;
}

// A loop over all of src, from which a mapping is planned as for any other.
ParallelNest nest_over(const Reduce& r, const Function& f) {
  ParallelNest nest = nest_over(r.tile, r.shape);
  nest.attrs = {};
  nest.body = eval(load(f, r.src.buffer, in_buffer(r.src, nest.vars), r.at()), r.at());
  return nest;
}

namespace {

LayoutDecisions infer_layout_reduce(const Tile& t, const LayoutContext& ctx, Strictness level) {
  if (level == Strictness::strict || !ctx.target.has_threads()) return {};
  Reduce r = read_reduce(t, ctx.function);
  LayoutDecisions out;
  std::optional<Fragment> from = ctx.known.loop;
  bool fragment = ctx.function[r.src.buffer].scope == Scope::fragment;
  if (!fragment && is_for_each_thread(r, ctx.function)) from = replicated(r.shape, ctx.team.count);
  if (auto it = ctx.known.fragments.find(r.src.buffer); fragment && it != ctx.known.fragments.end())
    from = it->second;
  if (!from && level == Strictness::free) {
    out = infer_parallel(nest_over(r, ctx.function), ctx, level);
    from = out.loop;
  }
  if (!from) return {};
  if (ctx.function[r.dst.buffer].scope == Scope::fragment && !ctx.known.fragments.contains(r.dst.buffer))
    out.fragments.emplace(r.dst.buffer, rows_of(r, *from).fragment);
  if (fragment || is_for_each_thread(r, ctx.function)) out.loop.reset();  // its operands say it
  return out;
}

Stmt lower_reduce(const Tile& t, LowerContext& ctx) {
  Reduce r = read_reduce(t, ctx.function);
  if (r.user)
    if (std::string law = broken_law(*r.user); !law.empty())
      ctx.note.warn(
          std::string(t.op->name),
          fmt::format("{}{}: elements are joined in any order, each thread from the identity on, but {}; "
                      "give an associative and commutative function, and its identity",
                      t.op->said(), t.span ? fmt::format(" on line {}", t.span.line) : "", law),
          t.span);
  return ctx.target.has_threads() ? reduce_by_threads(r, ctx) : reduce_by_vectors(r, ctx);
}

TileOp reduce_row(std::string_view name, std::string_view doc) {
  using Type = OpInfo::Attr::Type;
  TileOp op = {.info = {.name = name,
                        .doc = doc,
                        .operands = {{"src", Access::read}, {"dst", Access::update}},
                        .attrs = {{"dim", Type::integer}, {"clear", Type::flag}, {"batch", Type::integer}}},
               .check = check_reduce,
               .eval = eval_reduce,
               .infer_layout = infer_layout_reduce,
               .lower = lower_reduce};
  if (name.ends_with("max") || name.ends_with("min")) op.info.attrs.push_back({"nan_propagate", Type::flag});
  if (name == "reduce_by") {
    op.info.attrs.push_back({"combine", Type::function});
    op.info.published = "reduce";
  }
  return op;
}

}  // namespace

extern const TileOp reduce_sum_op, reduce_max_op, reduce_min_op, reduce_abssum_op, reduce_absmax_op,
    reduce_prod_op, reduce_bitand_op, reduce_bitor_op, reduce_bitxor_op, reduce_any_op, reduce_all_op,
    reduce_by_op;
const TileOp reduce_sum_op =
    reduce_row("reduce_sum", "dst = the sums of src along dim; without clear they are added to dst.");
const TileOp reduce_max_op = reduce_row("reduce_max",
                                        "dst = the maxima of src along dim; without clear of dst and those.  "
                                        "A NaN loses against a number, or (nan_propagate) wins.");
const TileOp reduce_min_op = reduce_row("reduce_min",
                                        "dst = the minima of src along dim; without clear of dst and those.  "
                                        "A NaN loses against a number, or (nan_propagate) wins.");
const TileOp reduce_abssum_op = reduce_row("reduce_abssum", "As reduce_sum, of the absolute values of src.");
const TileOp reduce_absmax_op = reduce_row("reduce_absmax", "As reduce_max, of the absolute values of src.");
const TileOp reduce_prod_op = reduce_row(
    "reduce_prod", "dst = the products of src along dim; without clear dst is multiplied by them.");
const TileOp reduce_bitand_op =
    reduce_row("reduce_bitand",
               "dst = the bitwise and of src's integers or bools along dim; without clear of dst and those.");
const TileOp reduce_bitor_op = reduce_row("reduce_bitor", "As reduce_bitand, with or.");
const TileOp reduce_bitxor_op = reduce_row("reduce_bitxor", "As reduce_bitand, with exclusive or.");
const TileOp reduce_any_op = reduce_row(
    "reduce_any", "dst = whether any of src's elements along dim is not 0; without clear, or dst is not 0.");
const TileOp reduce_all_op = reduce_row(
    "reduce_all", "dst = whether none of src's elements along dim is 0; without clear, and dst is not 0.");
const TileOp reduce_by_op =
    reduce_row("reduce_by",
               "dst = src along dim, joined by the user's function `combine`, (a, b) -> (their combination, "
               "the identity), which is associative and commutative; without clear dst takes part.");

}  // namespace tl
