// tma_load and tma_store, T.tma_copy in Python: a tile is moved between a tensor and shared memory by the
// tensor memory accelerator, beside the threads.  The first thread of the team starts it, or, with in_groups,
// that of each group of 128 threads for the rows that are the group's.  A load counts its bytes at a barrier
// in memory, at which the program arrives and waits; a store is a group of its own.
//
// A tile moves in boxes of a tensor map (tma_boxes.h), which is asked for as scratch is. Elements outside of
// the tensor are read as 0 and not written; the barrier counts them all the same.
//
//   tma_load(A[i, k], S, full)  ->  if tx == 0:
//                                     mbarrier_expect_tx(address_of(full[0]), 16384)
//                                     cp_async_bulk_tensor_2d_load(address_of(S[0]), "A_128x64", …, i, k, …)
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "base/product.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/atomic.h"
#include "ops/mapping.h"
#include "ops/multicast.h"
#include "ops/tma_boxes.h"
#include "target/effects.h"
#include "target/said.h"

namespace tl {
namespace {

constexpr int64_t row_unit = 16;  // bytes that a row of a box is a multiple of

bool loads(const Tile& t) { return t.op->operands.size() == 3; }
// Does the first thread of each group of the team move the rows of its group?
bool in_groups(const Tile& t) { return t.attrs.get_int("in_groups") != 0; }
const Region& tensor_side(const Tile& t) { return region_of(t, loads(t) ? 0 : 1); }
const Region& tile_side(const Tile& t) { return region_of(t, loads(t) ? 1 : 0); }

void complete_tma_copy(std::vector<Operand>& operands, const Function& f, Span span) {
  complete_pair("tma_copy", std::get<Region>(operands[0]), std::get<Region>(operands[1]), f, span);
  if (operands.size() < 3) return;
  for (auto& range : std::get<Region>(operands[2]).ranges)
    if (!range.extent) range.extent = imm(1), range.point = true;
}

std::string_view where(const BufferInfo& b) {
  return b.scope == Scope::global     ? "a tensor"
         : b.scope == Scope::shared   ? "a shared tile"
         : b.scope == Scope::fragment ? "a fragment"
                                      : "an array of each thread";
}

// ── what is legal ─────────────────────────────────────────────────────────────────────────────────────
// A map of the tensor with the least box: for the rules that do not depend on the tile.
TensorMap least_map(const Function& f, BufferId tensor) {
  const BufferInfo& info = f[tensor];
  TensorMap map{.name = info.name, .tensor = tensor, .box = std::vector<int64_t>(info.shape.size(), 1)};
  if (!map.box.empty()) map.box.back() = std::max<int64_t>(1, row_unit / info.dtype.bytes());
  return map;
}

void check_tma_barrier(const Tile& t, const Function& f) {
  const Region& word = region_of(t, 2);
  const BufferInfo& info = f[word.buffer];
  if (info.scope != Scope::shared || info.dtype != u64)
    fail(t.span, "tma_copy: barrier is one of T.alloc_barrier, but {} is {} of {}", info.name, where(info),
         to_string(info.dtype));
  if (product(region_shape(word)) != 1)
    fail(t.span, "tma_copy: {} is {} barriers, and a copy counts at one: barrier={}[i]", info.name,
         product(region_shape(word)), info.name);
}

// The instruction that combines a stored tile with what is there; null for a plain copy.
const AsyncInstr* reduction_of(const Tile& t, const BufferInfo& tensor) {
  std::string op = t.attrs.get_string("reduce", "");
  if (op.empty()) return nullptr;
  return async_row_of(
      *find_instr(fmt::format("cp_reduce_async_bulk_tensor_{}d_{}", tensor.shape.size(), op)));
}

void check_tma_copy(const Tile& t, const Function& f) {
  const Region &src = region_of(t, 0), &dst = region_of(t, 1);
  const BufferInfo &from = f[src.buffer], &to = f[dst.buffer];
  const BufferInfo &tensor = f[tensor_side(t).buffer], &tile = f[tile_side(t).buffer];
  if (tensor.scope != Scope::global || tile.scope != Scope::shared)
    fail(t.span,
         "tma_copy: it goes from a tensor to a shared tile or back, but {} is {} and {} is {}; T.copy moves "
         "tiles between any two",
         from.name, where(from), to.name, where(to));
  Moving a = moving(t, f, src), b = moving(t, f, dst);
  if (!same_extents(a, b))
    fail(t.span,
         "tma_copy: the source is {} but the destination is {}; their shapes must be equal (dimensions of "
         "extent 1 apart)",
         describe(f, src), describe(f, dst));
  if (from.dtype != to.dtype)
    fail(t.span, "tma_copy: it moves bytes as they are, but {} is {} and {} is {}; T.copy casts on the way",
         from.name, to_string(from.dtype), to.name, to_string(to.dtype));
  if (std::string rule = broken_rule(f, least_map(f, tensor_side(t).buffer)); !rule.empty())
    fail(t.span, "tma_copy: a tensor map cannot describe {}: {}; T.copy moves any tensor", tensor.name, rule);
  const Moving& of_tensor = loads(t) ? a : b;
  bool in_rows = !a.empty() && of_tensor.back().first + 1 == tensor.shape.size();
  int64_t row = in_rows ? a.back().second * from.dtype.bytes() : 0;
  if (!in_rows || row % row_unit)
    fail(t.span,
         "tma_copy: {}, but the tensor memory accelerator moves runs of a multiple of {} bytes of the last "
         "dimension; T.copy moves any tile",
         in_rows ? fmt::format("a row of {} has {} bytes", describe(f, tensor_side(t)), row)
                 : fmt::format("{} is one element of the last dimension of {}", describe(f, tensor_side(t)),
                               tensor.name),
         row_unit);
  if (loads(t)) check_tma_barrier(t, f);
  int64_t mask = t.attrs.get_int("cluster_mask"), issuer = t.attrs.get_int("issuer", -1);
  if (mask && issuer >= 0 && issuer < 63 && !(mask >> issuer & 1))
    fail(t.span, "tma_copy: issuer is one of the blocks of cluster_mask, but {} has no bit in {:#b}", issuer,
         mask);
  if (const AsyncInstr* row = reduction_of(t, tensor); row && !row->combines(tensor.dtype))
    fail(t.span, "tma_copy: the tensor memory accelerator combines elements of {} by {}, not of {}",
         row->types, t.attrs.get_string("reduce", ""), to_string(tensor.dtype));
}

void eval_tma_copy(const Tile& t, const Function&, const EvalContext& ctx) {
  Array out = ctx.read(region_of(t, 0));
  out.shape = region_shape(region_of(t, 1));  // the same but for dimensions of extent 1
  if (std::string op = t.attrs.get_string("reduce", ""); !op.empty())
    combine_with(*find_intrinsic("atomic_" + op), ctx.read(region_of(t, 1)), out);
  ctx.write(region_of(t, 1), out);
}

// ── how it is done ────────────────────────────────────────────────────────────────────────────────────
const Intrinsic& instruction_of(const Tile& t, const Function& f, const Target& target) {
  const BufferInfo& tensor = f[tensor_side(t).buffer];
  size_t rank = tensor.shape.size();
  const Intrinsic* row =
      find_instr(fmt::format("cp_async_bulk_tensor_{}d_{}", rank, loads(t) ? "load" : "store"));
  if (const AsyncInstr* reduction = reduction_of(t, tensor)) row = &reduction->intrinsic;
  internal_check(row, "a copy of boxes for each rank");
  if (!target.has_threads() || target.lacks(*row))
    fail(t.span,
         "tma_copy: {} has no tensor memory accelerator ({} have one); T.copy moves tiles on every target",
         said(target), chips_with(*row));
  return *row;
}

// Is the expression certainly no multiple, whatever the arguments are?
bool is_no_multiple(const Expr& e, int64_t of, const Facts& facts) {
  Modular m = modular_of(e, facts);
  return floor_mod(m.remainder, m.modulus ? std::gcd(m.modulus, of) : of) != 0;
}

bool is_plain_zero(const Expr& e) {
  auto* real = e.as<FloatImm>();
  return real ? real->value == 0 && !std::signbit(real->value) : is_int(e, 0);
}

// What is certain to break a rule of the chip; what only a call can tell is checked when the map is made.
void check_tensor(const Tile& t, const Function& f, const Facts& facts) {
  const Region& region = tensor_side(t);
  const BufferInfo& info = f[region.buffer];
  if (loads(t) && info.safe_value && !is_plain_zero(info.safe_value))
    fail(t.span,
         "tma_copy: what lies outside of {} has the safe value {}, but the tensor memory accelerator gives 0 "
         "there; T.copy gives the safe value",
         info.name, print(info.safe_value, &f));
  int64_t unit = row_unit / std::gcd(row_unit, info.dtype.bytes());
  TensorMap map{.name = info.name, .tensor = region.buffer};
  std::vector<Expr> strides = strides_of(f, map);
  for (size_t d = 0; d + 1 < strides.size(); d++)
    if (is_no_multiple(strides[d], unit, facts))
      fail(t.span,
           "tma_copy: dimension {} of {} has the stride {}, which is never a multiple of {} elements (16 "
           "bytes); T.copy moves such tensors",
           d, info.name, print(strides[d], &f), unit);
  if (is_no_multiple(region.ranges.back().min, unit, facts))
    fail(t.span,
         "tma_copy: the copy begins at {} of the last dimension of {}, which is never a multiple of {} "
         "elements (16 bytes); T.copy begins anywhere",
         print(region.ranges.back().min, &f), info.name, unit);
}

// Of the tile's layouts that boxes fill, those that suit this part of it.
struct TmaCopy {
  const Tile& t;
  const Function& f;
  Facts facts;
  const Region &tensor = tensor_side(t), &tile = tile_side(t);
  std::vector<int64_t> shape = tile_shape(f[tile.buffer]);
  int64_t bytes = f[tile.buffer].dtype.bytes();
  Moving of_tensor = moving(t, f, tensor), of_tile = moving(t, f, tile);

  BoxPlan plan(const BoxLayout& lies) const { return {lies, tile, shape, bytes, of_tile, facts}; }
  std::vector<BoxLayout> layouts() const {
    std::vector<BoxLayout> out;
    std::string first;
    for (auto& l : box_layouts(shape, int(bytes * 8))) {
      std::string why;
      if (plan(l).boxes(why)) out.push_back(l);
      if (first.empty()) first = why;
    }
    if (out.empty())
      fail(t.span, "tma_copy: boxes cannot make up {}: {}; T.copy moves any part of a tile",
           describe(f, tile), first);
    return out;
  }
  const BoxLayout* layout_of(const std::vector<BoxLayout>& all, const Layout& given) const {
    for (auto& l : all)
      if (equal(l.layout, given)) return &l;
    return nullptr;
  }
};

LayoutDecisions infer_layout_tma_copy(const Tile& t, const LayoutContext& ctx, Strictness level) {
  LayoutDecisions out;
  TmaCopy copy{t, ctx.function, facts_of(ctx.function, ctx.kernel)};
  if (level == Strictness::strict) {
    instruction_of(t, ctx.function, ctx.target);
    check_tensor(t, ctx.function, copy.facts);
    check_multicast(t, ctx.function, ctx.kernel);
  }
  std::vector<BoxLayout> all = copy.layouts();
  for (auto& l : all) out.required[copy.tile.buffer].push_back(l.layout);
  return out;
}

// ── lowering ──────────────────────────────────────────────────────────────────────────────────────────
struct TmaLowering {
  const TmaCopy& copy;
  LowerContext& ctx;
  BoxPlan plan;
  Boxes boxes;
  const Tile& t = copy.t;

  // Where rows of the tile are shorter than the most that L2 fetches at once, and a loop goes along them, its
  // next turn finds its own there (measured: 0.2 to 3 % of a product); elsewhere it is up to 7 % slower
  // (bench/results/2026-11-28-thin.md).
  int64_t fetch() const {
    constexpr int64_t most = 256;
    const Range& along = copy.tensor.ranges.back();
    auto extent = as_int(along.extent);
    if (!loads(t) || !extent || *extent * copy.bytes >= most) return 0;
    std::vector<const Let*> names;
    visit(ctx.kernel.body, [&](const Let& n) { names.push_back(&n); });
    Expr first = along.min;
    for (size_t i = names.size(); i-- > 0;)
      first = substitute(first, {{names[i]->var.get(), names[i]->value}});
    bool goes_along = false;
    visit(ctx.kernel.body, [&](const For& n) {
      auto turns = linear_in(first, n.var, copy.facts);
      goes_along |= turns && std::abs(turns->stride) == *extent;
    });
    return goes_along ? most : 0;
  }

  std::string map() const {
    const BufferInfo& info = copy.f[copy.tensor.buffer];
    TensorMap m{.name = info.name,
                .tensor = copy.tensor.buffer,
                .box = std::vector<int64_t>(info.shape.size(), 1),
                .swizzle = plan.lies.swizzle,
                .fetch = fetch(),
                .span = t.span};
    for (size_t i = 0; i < boxes.extents.size(); i++) m.box[copy.of_tensor[i].first] = boxes.extents[i];
    if (std::string rule = broken_rule(copy.f, m); !rule.empty())
      fail(t.span, "tma_copy: a tensor map cannot describe {}: {}; T.copy moves any tensor", info.name, rule);
    return ctx.map(m);
  }

  // Of one box: where it lies in shared memory, which one of the tensor it is.
  Stmt one(const Intrinsic& row, const std::vector<Expr>& numbers, const Expr& mask) const {
    const BufferInfo &info = copy.f[copy.tensor.buffer], &tile = copy.f[copy.tile.buffer];
    std::vector<Expr> coordinates, zeros(info.shape.size(), imm(0));
    for (auto& range : copy.tensor.ranges) coordinates.push_back(cast(i64, range.min));
    for (size_t i = 0; i < numbers.size(); i++) {
      Expr& c = coordinates[copy.of_tensor[i].first];
      c = c + numbers[i] * boxes.extents[i];
    }
    for (auto& c : coordinates) c = cast(i32, simplify(c, copy.facts));
    Expr at = address(load(tile.dtype, copy.tile.buffer, {plan.offset(boxes, numbers)}, t.span));
    Expr tensor = address(load(info.dtype, copy.tensor.buffer, zeros, t.span));
    std::vector<Expr> args{string_imm(map()), tensor};
    args.insert(args.end(), coordinates.begin(), coordinates.end());
    args.insert(loads(t) ? args.begin() : args.end(), at);
    if (mask) args.push_back(mask);
    if (loads(t)) args.push_back(word());
    return eval(call(row, std::move(args), t.span), t.span);
  }
  Expr word() const {
    const Region& r = region_of(t, 2);
    std::vector<Expr> index;
    for (auto& range : r.ranges) index.push_back(range.min);
    Expr at = physical_index(ctx.layouts, copy.f, r.buffer, index, copy.facts);
    return address(load(u64, r.buffer, {at}, t.span));
  }
  Stmt call_of(std::string_view name, std::vector<Expr> args) const {
    return eval(call(*find_instr(name), std::move(args), t.span), t.span);
  }

  void note_begin() const {
    const Expr& begin = copy.tensor.ranges.back().min;
    int64_t unit = row_unit / std::gcd(row_unit, copy.bytes);
    if (!is_multiple(begin, unit, copy.facts))
      ctx.note(
          std::string(t.op->name),
          fmt::format("begins at {} of the last dimension of {}, which is not known to be a multiple of {} "
                      "elements (16 bytes): where it is not, the instruction is illegal",
                      print(begin, &copy.f), copy.f[copy.tensor.buffer].name, unit),
          t.span, true);
  }

  // What the one thread does.
  Stmt all_boxes(const Intrinsic& row, const Expr& mask = {}) const {
    constexpr int64_t most_unrolled = 16;
    std::vector<Expr> numbers;
    Facts facts = copy.facts;
    for (size_t i = 0; i < boxes.counts.size(); i++)
      numbers.push_back(boxes.counts[i] == 1 ? imm(0) : facts.loop_var(loop_name(i), boxes.counts[i]));
    Stmt s = one(row, numbers, mask);
    for (size_t i = boxes.counts.size(); i-- > 0;)
      if (boxes.counts[i] > 1)
        s = for_loop(numbers[i], boxes.counts[i],
                     product(boxes.counts) <= most_unrolled ? Loop::unrolled : Loop::serial, s, t.span);
    return s;
  }

  // One block loads for all of the mask; those without a bit for themselves.
  Stmt for_cluster(const Intrinsic& alone) const {
    Expr mask = number_of("cluster_mask"), issuer = number_of("issuer");
    Expr rank = cast(i32, simplify(rank_in_cluster(ctx.kernel), copy.facts));
    auto bit = [&](const Expr& which) { return binary(BinaryOp::shl, imm(1, i32), which); };
    auto known = as_int(mask);
    if (!issuer && known) issuer = imm(std::countr_zero(uint64_t(*known)), i32);
    Expr lowest = binary(BinaryOp::bit_and, mask, unary(UnaryOp::neg, mask));
    Expr issues = issuer ? eq(rank, issuer) : eq(lowest, bit(rank));
    std::string name(alone.name);
    name.replace(name.rfind("load"), 4, "multicast");
    Stmt together = if_then(issues, all_boxes(*find_instr(name), mask), {}, t.span);
    ctx.note(std::string(t.op->name),
             fmt::format("one block of the cluster loads it for those of the mask {}",
                         known ? std::to_string(*known) : print(mask, &copy.f)),
             t.span);
    if (known && *known == (int64_t(1) << cluster_size(ctx.kernel)) - 1) return together;
    Expr member = binary(BinaryOp::bit_and, mask, bit(rank));
    return if_then(eq(member, imm(0, i32)), all_boxes(alone), together, t.span);
  }
  Expr number_of(const char* attr) const {
    const AttrValue* v = t.attrs.find(attr);
    if (!v) return {};
    auto* number = std::get_if<int64_t>(v);
    return number ? imm(*number, i32) : cast(i32, std::get<Expr>(*v));
  }

  Stmt run() const {
    const Intrinsic& row = instruction_of(t, copy.f, ctx.target);
    ctx.align(copy.tile.buffer, plan.lies.alignment());
    note_begin();
    int64_t bytes = product(extents_of(copy.of_tile)) * copy.bytes;
    std::vector<Stmt> by_one;
    if (loads(t)) by_one.push_back(call_of("mbarrier_expect_tx", {word(), imm(bytes, i32)}));
    by_one.push_back(t.attrs.find("cluster_mask") ? for_cluster(row) : all_boxes(row));
    if (!loads(t)) by_one.push_back(call_of("cp_async_bulk_commit_group", {}));
    int64_t count = product(boxes.counts);
    ctx.note(std::string(t.op->name),
             fmt::format(
                 "{} of {} elements, {}", count == 1 ? "a box" : fmt::format("{} boxes", count),
                 fmt::join(boxes.extents, "x"),
                 plan.lies.swizzle ? fmt::format("swizzled by {} bytes", plan.lies.swizzle) : "not swizzled"),
             t.span);
    Expr first = in_groups(t) ? floormod(ctx.thread, Team::group) : ctx.thread;
    return if_then(eq(first, imm(0)), block(std::move(by_one), t.span), {}, t.span);
  }
};

// The rows that are those of the thread's group.
Stmt rows_of_group(const Tile& t, LowerContext& ctx) {
  std::vector<Operand> operands = t.operands;
  for (auto& o : operands) {
    Region& region = std::get<Region>(o);
    auto [dim, extent] = moving(t, ctx.function, region)[0];
    Range& range = region.ranges[dim];
    int64_t groups = ctx.team.count / Team::group, rows = groups ? extent / groups : 0;
    constexpr int64_t pattern = 8;  // rows, of a swizzle
    if (ctx.team.count % Team::group || ctx.team.first % Team::group || !rows || extent % (groups * pattern))
      fail(t.span,
           "tma_store: in_groups shares {} rows among the groups of {} of the threads [{}, {}): let these "
           "be whole groups, and each share be a multiple of {} rows",
           extent, Team::group, ctx.team.first, ctx.team.first + ctx.team.count, pattern);
    range.min = range.min + floordiv(ctx.thread, Team::group) * rows;
    range.extent = imm(rows);
  }
  return make_tile(ctx.function, row_of(t), std::move(operands), t.attrs, t.span);
}

Stmt lower_tma_copy(const Tile& whole, LowerContext& ctx) {
  const Stmt own = in_groups(whole) ? rows_of_group(whole, ctx) : Stmt(&whole);
  const Tile& t = *own.as<Tile>();
  TmaCopy copy{t, ctx.function, facts_of(ctx.function, ctx.kernel)};
  std::vector<BoxLayout> all = copy.layouts();
  const BoxLayout* lies = copy.layout_of(all, ctx.layouts.shared.at(copy.tile.buffer));
  internal_check(lies, "a layout that the copy requires");
  BoxPlan plan = copy.plan(*lies);
  std::string why;
  return TmaLowering{copy, ctx, plan, *plan.boxes(why)}.run();
}

// Is all known that the chip demands of the tensor and of where the copy begins?
std::string why_not_certain(const TmaCopy& copy) {
  int64_t unit = row_unit / std::gcd(row_unit, copy.bytes);
  const BufferInfo& info = copy.f[copy.tensor.buffer];
  TensorMap map{.name = info.name, .tensor = copy.tensor.buffer};
  std::vector<Expr> strides = strides_of(copy.f, map);
  for (size_t d = 0; d + 1 < strides.size(); d++)
    if (!is_multiple(strides[d], unit, copy.facts))
      return fmt::format(
          "dimension {} of {} has the stride {}, which is not known to be a multiple of {} elements (16 "
          "bytes)",
          d, info.name, print(strides[d], &copy.f), unit);
  if (const Expr& begin = copy.tensor.ranges.back().min; !is_multiple(begin, unit, copy.facts))
    return fmt::format(
        "it begins at {} of the last dimension of {}, which is not known to be a multiple of {}",
        print(begin, &copy.f), info.name, unit);
  const auto& given = copy.f[copy.tile.buffer].layout;
  if (given && !copy.layout_of(copy.layouts(), from_map(*given)))
    return fmt::format("{} has a layout of the program's that boxes do not fill",
                       copy.f[copy.tile.buffer].name);
  return "";
}

}  // namespace

extern const TileOp tma_load_op, tma_store_op;

Stmt tma_copy_of(const Function& f, const Kernel& k, const Target& target,
                 const std::vector<Operand>& operands, Span span, std::string& why_not) {
  try {
    Stmt s = make_tile(f, operands.size() == 3 ? tma_load_op : tma_store_op, operands, {}, span);
    const Tile& t = *s.as<Tile>();
    TmaCopy copy{t, f, facts_of(f, k)};
    instruction_of(t, f, target);
    check_tensor(t, f, copy.facts);
    copy.layouts();
    why_not = why_not_certain(copy);
    return s;
  } catch (const CompileError& error) {
    why_not = error.text.substr(0, error.text.rfind("; T.copy"));
    if (why_not.starts_with("tma_copy: ")) why_not.erase(0, 10);
    return {};
  }
}
const TileOp tma_load_op = {
    .info = {.name = "tma_load",
             .doc = "Begins to move a tile from a tensor to shared memory by the tensor memory accelerator; "
                    "`barrier` counts its bytes. Reads outside the tensor give 0.",
             .operands = {{"src", Access::read}, {"dst", Access::write}, {"barrier", Access::update}},
             .attrs = {{"cluster_mask", OpInfo::Attr::Type::index}, {"issuer", OpInfo::Attr::Type::index}},
             .published = "tma_copy"},
    .complete = complete_tma_copy,
    .check = check_tma_copy,
    .eval = eval_tma_copy,
    .infer_layout = infer_layout_tma_copy,
    .lower = lower_tma_copy,
    .by_one = true,
};
const TileOp tma_store_op = {
    .info =
        {.name = "tma_store",
         .doc =
             "Begins to move a tile from shared memory to a tensor by the tensor memory accelerator, in "
             "a group of its own. Writes outside the tensor are dropped. With `reduce` each element is "
             "combined with what is there, indivisibly; with `in_groups` each 128 threads of the team store "
             "a share of the rows.",
         .operands = {{"src", Access::read}, {"dst", Access::write}},
         .attrs = {{"reduce", OpInfo::Attr::Type::choice, {"none", "add", "min", "max"}},
                   {"in_groups", OpInfo::Attr::Type::flag}},
         .published = "tma_copy"},
    .complete = complete_tma_copy,
    .check = check_tma_copy,
    .eval = eval_tma_copy,
    .infer_layout = infer_layout_tma_copy,
    .lower = lower_tma_copy,
    .by_one = true,
};

}  // namespace tl
