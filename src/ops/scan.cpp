// cumsum and cummax: inclusive scans along one dimension, in place or into another tile.  They run on shared
// memory (fragments go through it): a line of the tile belongs to as many neighbouring threads of a warp as
// there are threads to spare, each takes a run of consecutive elements.
//
//   sum = of my run;  sum = of the runs before mine (shuffles);  for n in my run: sum += src[n];  dst[n] =
//   sum
//
// With one thread a line is a loop, beside each other in vectors where the scanned dimension is not the last.
#include <algorithm>

#include "arith/prove.h"
#include "base/error.h"
#include "ops/regions.h"

namespace tl {
namespace {

struct Scan {
  const Tile& tile;
  Region src, dst;
  BinaryOp op;
  bool reverse;
  size_t dim = 0;
  std::vector<int64_t> shape;
  DType acc;
  const Span& at() const { return tile.span; }
  int64_t length() const { return shape[dim]; }
  int64_t lines() const { return product(shape) / length(); }
};

Scan read_scan(const Tile& t, const Function& f) {
  Scan s{.tile = t,
         .src = region_of(t, 0),
         .dst = region_of(t, 1),
         .op = t.op->name == "cummax" ? BinaryOp::max : BinaryOp::add,
         .reverse = t.attrs.get_int("reverse") != 0,
         .shape = region_shape(region_of(t, 0)),
         .acc = f[region_of(t, 1).buffer].dtype};
  int64_t dim = t.attrs.get_int("dim");
  s.dim = size_t(dim < 0 ? dim + int64_t(s.shape.size()) : dim);
  if (s.acc.is_float() && s.acc.bits < 32) s.acc = f32;
  return s;
}

Expr scan_identity(const Scan& s) {
  if (s.op == BinaryOp::add) return zero(s.acc);
  if (s.acc.is_float()) return fimm(-INFINITY, s.acc);
  return imm(s.acc.is_unsigned() ? 0 : -(INT64_MAX >> (64 - s.acc.bits)) - 1, s.acc);
}

// ── what it means ─────────────────────────────────────────────────────────────────────────────────────
void check_scanned(const Tile& t, const Function& f, const Region& r) {
  const BufferInfo& info = f[r.buffer];
  if (info.scope != Scope::fragment && info.scope != Scope::shared)
    fail(t.span, "{}: {} is in {} memory; copy it to a shared buffer or a fragment first", t.op->name,
         describe(f, r), info.scope == Scope::global ? "global" : "a thread's own");
  for (auto& range : r.ranges)
    if (!range.extent || !as_int(range.extent))
      fail(t.span, "{}: {} needs constant extents: give a slice or the whole buffer", t.op->name, info.name);
}

void check_scan(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  check_scanned(t, f, src);
  check_scanned(t, f, dst);
  std::vector<int64_t> shape = region_shape(src);
  int64_t rank = int64_t(shape.size()), dim = t.attrs.get_int("dim");
  if (rank == 0)
    fail(t.span, "{}: {} is a single element; there is nothing to scan", t.op->name, describe(f, src));
  if (dim < -rank || dim >= rank)
    fail(t.span, "{}: dim is {}, but {} has {} dimension{}: it must lie in [{}, {})", t.op->name, dim,
         describe(f, src), rank, rank == 1 ? "" : "s", -rank, rank);
  if (shape != region_shape(dst))
    fail(t.span, "{}: src is {} but dst is {}; their shapes must be equal", t.op->name, describe(f, src),
         describe(f, dst));
  DType from = f[src.buffer].dtype, to = f[dst.buffer].dtype;
  bool numbers = (from.is_float() && to.is_float()) ||
                 (from.is_int() && to.is_int() && from.is_signed() == to.is_signed());
  if (!numbers || to.bits < from.bits || (to.bits == from.bits && to != from))
    fail(t.span, "{}: src is {} but dst is {}; dst must have src's type, or a wider one of its kind",
         t.op->name, describe(f, src), describe(f, dst));
}

void eval_scan(const Tile& t, const Function& f, const EvalContext& ctx) {
  Scan s = read_scan(t, f);
  Array in = ctx.read(s.src), out = make_array(s.acc, region_shape(s.dst));
  int64_t inner = product(std::span(s.shape).subspan(s.dim + 1));
  int64_t n = s.length();
  bool largest = s.op == BinaryOp::max;
  for (int64_t line = 0; line < s.lines(); line++) {
    double sum = largest ? -INFINITY : 0;
    int64_t whole = 0;
    for (int64_t k = 0; k < n; k++) {
      int64_t at = s.reverse ? n - 1 - k : k;
      size_t i = size_t((line / inner * n + at) * inner + line % inner);
      if (out.dtype.is_float()) {
        out.floats[i] = sum = largest ? max_number(sum, in.floats[i]) : sum + in.floats[i];
      } else {
        whole = k == 0 ? in.ints[i] : fold_int(s.op, whole, in.ints[i], out.dtype);
        out.ints[i] = whole;
      }
    }
  }
  ctx.write(s.dst, out);
}

// ── how it is carried out ─────────────────────────────────────────────────────────────────────────────
struct ScanLowering {
  const Scan& s;
  LowerContext& ctx;
  Facts facts = facts_of(ctx.function, ctx.kernel);
  BufferId sum = {};

  void make_sum(int64_t width) {
    sum = ctx.scratch({.name = "sum",
                       .dtype = s.acc,
                       .shape = {imm(width)},
                       .scope = Scope::local,
                       .span = s.at(),
                       .elements = width});
  }
  Expr held(const Expr& i = imm(0)) const { return load(s.acc, sum, {i}); }
  Stmt hold(Expr value, const Expr& i = imm(0)) const { return store(sum, {i}, std::move(value), s.at()); }
  Expr join(Expr a, Expr b) const { return binary(s.op, std::move(a), std::move(b), s.at()); }

  Expr place(const Region& r, std::vector<Expr> at, const Expr& n) const {
    at[s.dim] = s.reverse ? imm(s.length() - 1) - n : n;
    std::vector<Expr> index;
    size_t next = 0;
    for (auto& range : r.ranges) index.push_back(range.point ? range.min : range.min + at[next++]);
    return physical_index(ctx.layouts, ctx.function, r.buffer, index, facts);
  }
  Expr element(const std::vector<Expr>& at, const Expr& n) const {
    return cast(s.acc, load(ctx.function, s.src.buffer, {place(s.src, at, n)}, s.at()), s.at());
  }
  Stmt put(const std::vector<Expr>& at, const Expr& n, const Expr& value) const {
    return store(s.dst.buffer, {place(s.dst, at, n)}, cast(ctx.function[s.dst.buffer].dtype, value, s.at()),
                 s.at());
  }
  Stmt step(const std::vector<Expr>& at, const Expr& n, const Expr& i = imm(0)) const {
    return block({hold(join(held(i), element(at, n)), i), put(at, n, held(i))}, s.at());
  }

  int64_t whole_warps() const { return ctx.team.count / ctx.target.warp * ctx.target.warp; }
  int64_t lanes_a_line() const;
  std::vector<Expr> line_at(Expr line) const;
  Stmt before_mine(const Expr& lane, int64_t lanes) const;
  Stmt by_threads();
  Stmt by_one();
  Stmt beside(const std::vector<Expr>& at, const Expr& first, int64_t width);
};

// Neighbouring threads of a warp for a line: a power of two, as few as keep all threads busy.
int64_t ScanLowering::lanes_a_line() const {
  int64_t lanes = 1;
  while (lanes * 2 <= std::min<int64_t>(ctx.target.warp, s.length()) && s.lines() * lanes < whole_warps())
    lanes *= 2;
  return lanes;
}

// The indices of a line, neighbours along the last dimension; that of the scanned one is open.
std::vector<Expr> ScanLowering::line_at(Expr line) const {
  std::vector<Expr> at(s.shape.size(), imm(0));
  int64_t below = 1, lines = s.lines();
  for (size_t d = s.shape.size(); d-- > 0;) {
    if (d == s.dim) continue;
    Expr i = floordiv(line, below);
    below *= s.shape[d];
    at[d] = simplify(below < lines ? floormod(i, s.shape[d]) : i, facts);
  }
  return at;
}

// Of each thread's sum, that of the threads of its line before it.
Stmt ScanLowering::before_mine(const Expr& lane, int64_t lanes) const {
  static const Intrinsic& shfl_up = *find_intrinsic("shfl_up");
  std::vector<Stmt> out;
  for (int64_t d = 1; d < lanes; d *= 2) {
    Expr other = var("other", s.acc);
    out.push_back(let(other, call(shfl_up, {held(), imm(d)}, s.at()), s.at()));
    out.push_back(hold(select(le(imm(d), lane), join(other, held()), held(), s.at())));
  }
  Expr other = var("other", s.acc);
  out.push_back(let(other, call(shfl_up, {held(), imm(1)}, s.at()), s.at()));
  out.push_back(hold(select(le(imm(1), lane), other, scan_identity(s), s.at())));
  return block(std::move(out), s.at());
}

Stmt ScanLowering::by_threads() {
  int64_t lanes = lanes_a_line(),
          threads = lanes > 1 ? whole_warps() : ctx.team.count;  // shuffles need all of a warp
  int64_t together = threads / lanes, n = s.length();
  int64_t turns = (s.lines() + together - 1) / together, run = (n + lanes - 1) / lanes;
  Expr thread = ctx.thread, turn = facts.loop_var("turn", turns), k = facts.loop_var("k", run);
  Expr lane = lanes > 1 ? simplify(floormod(thread, lanes), facts) : imm(0);
  Expr line = turn * together + simplify(floordiv(thread, lanes), facts);
  Expr guard, mine = lane * run + k;
  if (turns * together > s.lines()) guard = lt(line, imm(s.lines()));
  if (run * lanes > n) guard = both(guard, lt(mine, imm(n)));
  std::vector<Expr> at = line_at(line);
  make_sum(1);
  auto over_run = [&](Stmt body) {
    return for_loop(k, run, Loop::serial, if_then(guard, std::move(body), {}, s.at()), s.at());
  };
  std::vector<Stmt> out{hold(scan_identity(s))};
  if (lanes > 1) {
    out.push_back(over_run(hold(join(held(), element(at, mine)))));
    out.push_back(before_mine(lane, lanes));
  }
  out.push_back(over_run(step(at, mine)));
  Stmt all = for_loop(turn, turns, Loop::serial, block(std::move(out), s.at()), s.at(),
                      Attrs{.entries = {{"independent", int64_t(1)}}});
  return threads < ctx.team.count ? if_then(lt(thread, imm(threads)), all, {}, s.at()) : all;
}

// `width` neighbouring lines.
Stmt ScanLowering::beside(const std::vector<Expr>& at, const Expr& first, int64_t width) {
  Expr n = facts.loop_var("n", s.length()), v = facts.loop_var("v", width), w = facts.loop_var("v", width);
  std::vector<Expr> here = at;
  here.back() = first + v;
  Stmt start = for_loop(w, width, Loop::vectorized, hold(scan_identity(s), w), s.at());
  Stmt all = for_loop(n, s.length(), Loop::serial,
                      for_loop(v, width, Loop::vectorized, step(here, n, v), s.at()), s.at());
  return block({start, all}, s.at());
}

Stmt ScanLowering::by_one() {
  std::vector<Expr> at;
  for (size_t d = 0; d < s.shape.size(); d++) at.push_back(facts.loop_var(loop_name(d), s.shape[d]));
  std::vector<Expr> loops = at;
  std::vector<Stmt> out;
  size_t last = s.shape.size() - 1;
  if (s.dim == last) {
    make_sum(1);
    Expr n = facts.loop_var("n", s.length());
    out = {hold(scan_identity(s)), for_loop(n, s.length(), Loop::serial, step(at, n), s.at())};
  } else {
    int64_t width = 1;
    while (width * 2 <= std::min<int64_t>(s.shape[last], 4 * ctx.target.lanes(s.acc))) width *= 2;
    make_sum(width);
    int64_t turns = s.shape[last] / width, done = turns * width;
    Expr c = facts.loop_var("c", turns);
    out.push_back(for_loop(c, turns, Loop::serial, beside(at, c * width, width), s.at()));
    for (int64_t n = width / 2; n; n /= 2)  // a rest in ever shorter vectors
      if ((s.shape[last] - done) & n) {
        out.push_back(beside(at, imm(done), n));
        done += n;
      }
  }
  Stmt all = block(std::move(out), s.at());
  for (size_t d = last + 1; d-- > 0;)
    if (d != s.dim && (s.dim == last || d != last))
      all = for_loop(loops[d], s.shape[d], Loop::serial, all, s.at());
  return all;
}

// Fragments go through shared memory, whatever their layout.
LayoutDecisions infer_layout_scan(const Tile& t, const LayoutContext& ctx, Strictness) {
  LayoutDecisions out;
  if (!ctx.target.has_threads()) return out;
  for (size_t i : {0, 1})
    if (BufferId b = region_of(t, i).buffer; ctx.function[b].scope == Scope::fragment) out.relayout.insert(b);
  return out;
}

Stmt lower_scan(const Tile& t, LowerContext& ctx) {
  Scan s = read_scan(t, ctx.function);
  ScanLowering lowering{.s = s, .ctx = ctx};
  return ctx.target.has_threads() ? lowering.by_threads() : lowering.by_one();
}

TileOp scan_row(std::string_view name, std::string_view doc) {
  return {.info = {.name = name,
                   .doc = doc,
                   .operands = {{"src", Access::read}, {"dst", Access::write}},
                   .attrs = {{"dim", OpInfo::Attr::Type::integer}, {"reverse", OpInfo::Attr::Type::flag}}},
          .check = check_scan,
          .eval = eval_scan,
          .infer_layout = infer_layout_scan,
          .lower = lower_scan,
          .takes_shared = true,
          .in_place = true};
}

}  // namespace

extern const TileOp cumsum_op, cummax_op;
const TileOp cumsum_op = scan_row(
    "cumsum",
    "dst = the sums of src's elements along dim up to each one, itself included; reverse: from each on.");
const TileOp cummax_op = scan_row(
    "cummax",
    "dst = the maxima of src's elements along dim up to each one, itself included; reverse: from each on.");

}  // namespace tl
