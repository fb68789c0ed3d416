// gemm: C += op(A) · op(B).  This file reads and checks the operator; gemm_choice.cpp chooses a strategy, and
// each strategy is a file of its own.
#include "ops/gemm.h"

#include <bit>

#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/regions.h"

namespace tl {
namespace {

// The region as a matrix: its dimensions that are not points.
std::vector<int64_t> matrix_shape(const Function& f, const Tile& t, size_t i) {
  const Region& r = region_of(t, i);
  std::string_view operand = t.op->operands[i].name;
  std::vector<int64_t> shape;
  for (auto& range : r.ranges) {
    if (range.point) continue;
    auto extent = range.extent ? as_int(range.extent) : std::nullopt;
    if (!extent)
      fail(t.span, "{}: {} needs constant extents: give a slice or the whole buffer", said_gemm(t), operand);
    shape.push_back(*extent);
  }
  while (shape.size() > 2 && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() != 2)
    fail(t.span, "{}: {} is {}, but must have two dimensions", said_gemm(t), operand, describe(f, r));
  return shape;
}

void check_types(const Gemm& g, const Function& f) {
  Span span = g.tile.span;
  std::string_view name = said_gemm(g.tile);
  bool floats = g.a_type.is_float() && g.c_type.is_float();
  bool ints = g.a_type.is_int() && g.c_type.is_int();
  auto same_family = [&](auto... members) {
    return (... || (g.a_type == members)) && (... || (g.b_type == members));
  };
  if (g.a_type != g.b_type && !same_family(e4m3, e5m2) && !same_family(i8, u8) && !same_family(i4, u4))
    fail(span,
         "{}: A is {} but B is {}; their types must be equal, or both 8-bit floats, or both 8-bit or both "
         "4-bit integers: copy one to a buffer of the other's type",
         name, describe(f, g.a), describe(f, g.b));
  if (!floats && !ints)
    fail(span,
         "{}: A and B are {} but C is {}; floats accumulate in a float type, integers in an integer type",
         name, to_string(g.a_type), to_string(g.c_type));
  if (g.c_type.is_storage())
    fail(span, "{}: C is {}, which cannot hold sums; accumulate in {}", name, to_string(g.c_type),
         to_string(arithmetic_type(g.c_type)));
  if (g.c_type.bits < g.a_type.bits)
    fail(span, "{}: C is {}, narrower than A and B, {}; accumulate in {} or wider", name, to_string(g.c_type),
         to_string(g.a_type), floats ? "f32" : "i32");
}

// In text IR it may be anything.
void check_condition(const Expr& e, Span span) {
  if (e->dtype != boolean) fail(span, "gemm: clear_accum is {}, not a bool", to_string(e->dtype));
  visit(e, [&](const Load&) {
    fail(span,
         "gemm: clear_accum reads memory: give what it reads a name in front of the gemm, and use that");
  });
}

// The transposes under which the three shapes fit, "; did you mean …?"; or the B that fits this A and C.
std::string fitting_transposes(const Tile& t, const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                               const std::vector<int64_t>& c) {
  bool ta = t.attrs.get_int("trans_a"), tb = t.attrs.get_int("trans_b");
  for (auto [turn_a, turn_b] : {std::pair(false, true), {true, false}, {true, true}}) {
    bool x = ta != turn_a, y = tb != turn_b;
    if (a[!x] != b[y] || a[x] != c[0] || b[!y] != c[1]) continue;
    std::string flags;
    if (turn_a) flags = fmt::format("transpose_A={}", x ? "True" : "False");
    if (turn_b) flags += fmt::format("{}transpose_B={}", turn_a ? ", " : "", y ? "True" : "False");
    return fmt::format("; did you mean {}?", flags);
  }
  if (a[!ta] == b[tb]) return "";
  std::string beside = fmt::format("beside this A and C, B is [{}, {}], or [{}, {}] with transpose_B=True",
                                   a[!ta], c[1], c[1], a[!ta]);
  return fmt::format("; no transposes make them fit{}{}", a[ta] == c[0] ? ": " : "",
                     a[ta] == c[0] ? beside : "");
}

void check_shapes(const Tile& t, const Function& f) {
  auto a = matrix_shape(f, t, 0), b = matrix_shape(f, t, 1), c = matrix_shape(f, t, 2);
  bool ta = t.attrs.get_int("trans_a"), tb = t.attrs.get_int("trans_b");
  int64_t m = a[ta], k = a[!ta], kb = b[tb], n = b[!tb];
  if (k == kb && c[0] == m && c[1] == n) return;
  auto said = [&](size_t i, bool turned) {
    return describe(f, region_of(t, i)) + (turned ? " transposed" : "");
  };
  std::string conflict = k != kb ? fmt::format("the inner extents ({}, {}) must be equal", k, kb)
                                 : fmt::format("op(A) · op(B) is [{0}, {1}], so C must be [{0}, {1}]", m, n);
  fail(t.span, "{}: A is {}, B is {} and C is {}; {}{}", said_gemm(t), said(0, ta), said(1, tb),
       said(2, false), conflict, fitting_transposes(t, a, b, c));
}

void check_gemm(const Tile& t, const Function& f) {
  check_shapes(t, f);
  Region A = region_of(t, 0), B = region_of(t, 1), C = region_of(t, 2);
  std::string_view name = said_gemm(t);
  for (auto* r : {&A, &B})
    if (f.storage(r->buffer) == f.storage(C.buffer))
      fail(t.span,
           "{}: {} is both an operand and C: its elements would change while others are still to be "
           "multiplied; copy it to another buffer first",
           name, describe(f, C));
  for (auto* r : {&A, &B})
    if (f[r->buffer].scope == Scope::global)
      fail(t.span, "{}: {} is a global tensor: copy the tile to a shared buffer first", name,
           describe(f, *r));
  if (f[C.buffer].scope == Scope::global)
    fail(t.span, "{}: C is {}, in global memory; it must be a fragment (T.alloc_fragment)", name,
         describe(f, C));
  Gemm g = read_gemm(t, f);
  check_types(g, f);
  if (g.clear_if) check_condition(g.clear_if, t.span);
}

// As the user writes it: C, C[0:64, k:k + 64].
std::string slice_text(const Region& r, const Function& f) {
  if (is_whole(r, f)) return f[r.buffer].name;
  std::vector<std::string> ranges;
  for (auto& range : r.ranges) {
    std::string begin = print(range.min, &f);
    ranges.push_back(
        range.point ? begin : fmt::format("{}:{}", begin, print(simplify(range.min + range.extent), &f)));
  }
  return fmt::format("{}[{}]", f[r.buffer].name, fmt::join(ranges, ", "));
}

void check_threads_gemm(const Tile& t, const Function& f, const Target& target) {
  const Region& C = region_of(t, 2);
  if (const BufferInfo& c = f[C.buffer]; c.scope != Scope::fragment) {
    auto shape = matrix_shape(f, t, 2);
    fail(t.span,
         "{0}: C is {1}, {2}; on {3} it must be a fragment: {4}_local = T.alloc_fragment(({5}, {6}), "
         "\"{7}\"), T.clear({4}_local) or T.copy({8}, {4}_local), give {4}_local to the {0}, and then "
         "T.copy({4}_local, {8})",
         said_gemm(t), describe(f, C),
         c.scope == Scope::shared ? "in shared memory" : "an array of each thread", target.name, c.name,
         shape[0], shape[1], to_string(c.dtype), slice_text(C, f));
  }
  for (size_t i : {0, 1})
    if (const Region& r = region_of(t, i); f[r.buffer].scope == Scope::local)
      fail(t.span,
           "gemm: {} is {}, an array of each thread; on {} it must be a shared tile or a fragment, which the "
           "threads have in common",
           i ? "B" : "A", describe(f, r), target.name);
}

// What wgmma makes of a float: its last 13 bits are not looked at.
double cut_off(double x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(float(x)) & ~uint32_t(0x1FFF));
}

void eval_gemm(const Tile& t, const Function& f, const EvalContext& ctx) {
  Gemm g = read_gemm(t, f);
  Array a = ctx.read(g.a), b = ctx.read(g.b), c = ctx.read(g.c);
  for (auto* m : {&a, &b})
    if (m->dtype == tf32)
      for (double& x : m->floats) x = g.in_flight ? cut_off(x) : round_float(x, tf32);
  bool clears = g.clear || (g.clear_if && ctx.value(g.clear_if).number(0) != 0);
  auto multiply = [&](const auto& x, const auto& y, auto& z) {
    if (clears) std::ranges::fill(z, 0);
    for (int64_t i = 0; i < g.m; i++)
      for (int64_t k = 0; k < g.k; k++) {
        auto v = x[size_t(g.trans_a ? k * g.m + i : i * g.k + k)];
        auto* row = &z[size_t(i * g.n)];
        if (g.trans_b)
          for (int64_t j = 0; j < g.n; j++) row[j] += v * y[size_t(j * g.k + k)];
        else
          for (int64_t j = 0; j < g.n; j++) row[j] += v * y[size_t(k * g.n + j)];
      }
  };
  if (c.dtype.is_float())
    multiply(a.floats, b.floats, c.floats);
  else
    multiply(a.ints, b.ints, c.ints);
  ctx.write(g.c, c);
}

LayoutDecisions infer_layout_gemm(const Tile& t, const LayoutContext& ctx, Strictness level) {
  Gemm g = read_gemm(t, ctx.function);
  GemmChoice c = choose_strategy(g, ctx);
  g.lays_out = c.lays_out;
  g.grid = c.grid;
  LayoutDecisions out = c.strategy->infer_layout(g, ctx, level);
  if (!c.why_not.empty() && ctx.target.has_threads()) out.record.entries["why_not"] = c.why_not;
  return out;
}

// Integers so narrow that one product may be beyond them.
void warn_of_wrapping(const Gemm& g, const LowerContext& ctx) {
  if (g.c_type.is_float() || g.c_type.bits >= std::min(32, 2 * g.a_type.bits)) return;
  const Span& span = g.tile.span;
  ctx.note.warn(
      std::string(said_gemm(g.tile)),
      fmt::format("{}{}: {} is {}, and sums of products of {} wrap in it; accumulate in i32 (\"int32\")",
                  said_gemm(g.tile), span ? fmt::format(" on line {}", span.line) : "",
                  ctx.function[g.c.buffer].name, to_string(g.c_type), to_string(g.a_type)),
      span);
}

Stmt lower_gemm(const Tile& t, LowerContext& ctx) {
  Gemm g = read_gemm(t, ctx.function);
  warn_of_wrapping(g, ctx);
  std::string instruction = t.attrs.get_string("instruction"), why_not = t.attrs.get_string("why_not");
  if (instruction.empty()) fail_unrecorded(g, "instruction");
  const GemmStrategy* strategy = strategy_of(g, instruction, ctx.target);
  std::string text(strategy->name);
  if (!why_not.empty()) text += " (not " + why_not + ")";
  ctx.note("gemm", text + ": " + strategy->describe(g, ctx), t.span, !why_not.empty());
  Stmt multiply = strategy->lower(g, ctx);
  return g.clear_if && !strategy->clears_if
             ? block({if_then(g.clear_if, cleared(g, ctx), {}, t.span), multiply}, t.span)
             : multiply;
}

// Products of warpgroups take whole tiles. A product that others decide for has no plan yet, and of one that
// goes through shared memory each step would.
std::optional<Steps> steps_of_gemm(const Tile& t, const LayoutContext& ctx) {
  GemmChoice c = choose_strategy(read_gemm(t, ctx.function), ctx);
  if (c.strategy == &gemm_wgmma || !c.lays_out) return std::nullopt;
  std::optional<Steps> steps = steps_of_mma(t, ctx);
  if (!steps || c.why_not.empty()) return steps;
  steps->attrs = [attrs = steps->attrs, why_not = c.why_not](int64_t step) {
    Attrs out = attrs(step);
    out.entries.insert_or_assign("why_not", why_not);
    return out;
  };
  return steps;
}

}  // namespace

void fail_unrecorded(const Gemm& g, std::string_view name) {
  fail(g.tile.span,
       "gemm: the attribute `{}` is missing: infer_layouts records the instruction and how threads share the "
       "work on the statement, and text that enters after that pass must give them",
       name);
}

int64_t recorded(const Gemm& g, std::string_view name) {
  if (!g.tile.attrs.find(name)) fail_unrecorded(g, name);
  return g.tile.attrs.get_int(name);
}

Expr as_operand(DType type, Expr element, Span span) {
  if (element->dtype == tf32) element = cast(tf32, cast(f32, std::move(element), span), span);
  return cast(type, std::move(element), span);
}

std::array<size_t, 2> matrix_dims(const Region& r) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < r.ranges.size(); d++)
    if (!r.ranges[d].point) dims.push_back(d);
  while (dims.size() > 2 && is_int(r.ranges[dims.front()].extent, 1)) dims.erase(dims.begin());
  internal_check(dims.size() == 2, "a gemm operand of two dimensions");
  return {dims[0], dims[1]};
}

std::string_view said_gemm(const Tile& t) { return t.attrs.get_int("in_flight") ? "wgmma_gemm" : "gemm"; }

Gemm read_gemm(const Tile& t, const Function& f) {
  bool ta = t.attrs.get_int("trans_a"), tb = t.attrs.get_int("trans_b");
  Gemm g{.tile = t,
         .a = region_of(t, 0),
         .b = region_of(t, 1),
         .c = region_of(t, 2),
         .trans_a = ta,
         .trans_b = tb,
         .clear = t.attrs.get_int("clear_accum") != 0,
         .policy = t.attrs.get_string("policy", "square"),
         .in_flight = t.attrs.get_int("in_flight") != 0};
  auto a = matrix_shape(f, t, 0), b = matrix_shape(f, t, 1);
  if (auto* condition = t.attrs.find("clear_accum"))
    if (auto* e = std::get_if<Expr>(condition)) {
      auto known = as_int(*e);
      g.clear = known.value_or(0) != 0;
      if (!known) g.clear_if = *e;
    }
  g.m = a[ta];
  g.k = a[!ta];
  g.n = b[!tb];
  g.a_type = f[g.a.buffer].dtype;
  g.b_type = f[g.b.buffer].dtype;
  g.c_type = f[g.c.buffer].dtype;
  if (g.in_flight) g.keeps_rows = "";
  return g;
}

extern const TileOp gemm_op;
const TileOp gemm_op = {
    .info = {.name = "gemm",
             .doc = "C += op(A) · op(B) for an m×k tile A, a k×n tile B (transposed by the flags) and an m×n "
                    "fragment C; in_flight: the program waits for it (wgmma_wait_group).",
             .operands = {{"A", Access::read}, {"B", Access::read}, {"C", Access::update}},
             .attrs = {{"trans_a", OpInfo::Attr::Type::flag},
                       {"trans_b", OpInfo::Attr::Type::flag},
                       {"clear_accum", OpInfo::Attr::Type::condition},
                       {"k_pack", OpInfo::Attr::Type::integer},
                       {"in_flight", OpInfo::Attr::Type::flag},
                       {"policy", OpInfo::Attr::Type::choice, {"square", "full_row", "full_col"}}},
             .record = {{"instruction", OpInfo::Attr::Type::choice},
                        {"tail", OpInfo::Attr::Type::choice},
                        {"warps_m", OpInfo::Attr::Type::integer},
                        {"warps_n", OpInfo::Attr::Type::integer},
                        {"warpgroups_m", OpInfo::Attr::Type::integer},
                        {"warpgroups_n", OpInfo::Attr::Type::integer},
                        {"threads_m", OpInfo::Attr::Type::integer},
                        {"threads_n", OpInfo::Attr::Type::integer},
                        {"vector", OpInfo::Attr::Type::integer},
                        {"micro_m", OpInfo::Attr::Type::integer},
                        {"micro_n", OpInfo::Attr::Type::integer},
                        {"why_not", OpInfo::Attr::Type::choice}}},
    .check = check_gemm,
    .check_threads = check_threads_gemm,
    .eval = eval_gemm,
    .infer_layout = infer_layout_gemm,
    .lower = lower_gemm,
    .steps = steps_of_gemm,
};

}  // namespace tl
