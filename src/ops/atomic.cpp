// atomic_add, atomic_max, atomic_min on tiles: every element of dst is updated, indivisibly, by that of src.  Sugar
// for a parallel loop of scalar updates; vectorize joins neighbours where the chip has such instructions.
#include "ops/atomic.h"

#include <algorithm>

#include "base/error.h"
#include "ops/parallel.h"

namespace tl {
namespace {

const Region& target_of(const Tile& t) { return region_of(t, 0); }
const Region& source(const Tile& t) { return region_of(t, 1); }
const Callee& callee_of(const Tile& t) { return *find_callee(t.op->name); }

bool is_base(const Region& r) {
  return std::any_of(r.ranges.begin(), r.ranges.end(), [](auto& range) { return !range.extent; });
}

// Gives a base element the extents of the other operand: trailing dimensions match, leading ones are points.
void take_extents(Region& base, const Region& other, const Function& f, Span span) {
  std::vector<Expr> wanted;
  for (auto& range : other.ranges)
    if (!range.point && !(is_int(range.extent, 1) && other.ranges.size() > base.ranges.size())) wanted.push_back(range.extent);
  if (wanted.size() > base.ranges.size())
    fail(span, "{} has {} dimensions, but the other operand, {}, has {}", f[base.buffer].name, base.ranges.size(),
         describe(f, other), wanted.size());
  size_t leading = base.ranges.size() - wanted.size();
  for (size_t d = 0; d < base.ranges.size(); d++) {
    base.ranges[d].point = d < leading;
    base.ranges[d].extent = d < leading ? imm(1) : wanted[d - leading];
  }
}

void complete(std::vector<Operand>& operands, const Function& f, Span span) {
  Region &dst = std::get<Region>(operands[0]), &src = std::get<Region>(operands[1]);
  if (is_base(dst) && is_base(src)) {             // one element
    for (Region* r : {&src, &dst})
      for (auto& range : r->ranges) range = {.min = range.min, .extent = imm(1), .point = true};
  } else if (is_base(src)) {
    take_extents(src, dst, f, span);
  } else if (is_base(dst)) {
    take_extents(dst, src, f, span);
  }
}

// The region's dimensions that have an extent other than 1, and those extents.
std::vector<std::pair<size_t, int64_t>> moving(const Tile& t, const Function& f, const Region& r) {
  std::vector<std::pair<size_t, int64_t>> dims;
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = as_int(r.ranges[d].extent);
    if (!extent)
      fail(t.span, "{}: the extent of dimension {} of {} must be a constant; a tile has a constant shape", t.op->name, d,
           f[r.buffer].name);
    if (!r.ranges[d].point && *extent != 1) dims.emplace_back(d, *extent);
  }
  return dims;
}

void check(const Tile& t, const Function& f) {
  auto dst = moving(t, f, target_of(t)), src = moving(t, f, source(t));
  bool same = src.size() == dst.size();
  for (size_t i = 0; same && i < src.size(); i++) same = src[i].second == dst[i].second;
  if (!same)
    fail(t.span, "{}: the values are {} but the destination is {}; their shapes must be equal (dimensions of extent 1 "
                 "apart)", t.op->name, describe(f, source(t)), describe(f, target_of(t)));
  const BufferInfo& info = f[target_of(t).buffer];
  if (info.scope != Scope::global && info.scope != Scope::shared)
    fail(t.span, "{}: {} lies in registers, which no other thread reaches; atomics update tensors and shared tiles",
         t.op->name, describe(f, target_of(t)));
  check_atomic_type(t.op->name, callee_of(t).atomic, info.dtype, t.span);
}

void eval(const Tile& t, const Function&, const EvalContext& ctx) {
  Array in = ctx.read(source(t)), out = ctx.read(target_of(t));
  auto op = callee_of(t).atomic;
  for (int64_t i = 0; i < out.size(); i++) {
    auto at = size_t(i);
    if (out.dtype.is_float())
      out.floats[at] = combine(op, out.floats[at], round_float(in.number(i), out.dtype), out.dtype);
    else
      out.ints[at] = combine(op, out.ints[at], in.dtype.is_float() ? int64_t(in.floats[at]) : in.ints[at], out.dtype);
  }
  ctx.write(target_of(t), out);
}

ParallelNest nest_of(const Tile& t, const Function& f) {
  auto src = moving(t, f, source(t)), dst = moving(t, f, target_of(t));
  static const char* names[] = {"i", "j", "k", "l"};
  ParallelNest nest{.vars = {}, .extents = {}, .body = {}, .attrs = t.attrs, .span = t.span};
  for (size_t i = 0; i < src.size(); i++) {
    nest.vars.push_back(var(names[i % 4]));
    nest.extents.push_back(src[i].second);
  }
  if (src.empty()) {                              // one element: a loop of one iteration
    nest.vars.push_back(var("i"));
    nest.extents.push_back(1);
  }
  auto index = [&](const Region& r, const auto& dims) {
    std::vector<Expr> at;
    for (auto& range : r.ranges) at.push_back(range.min);
    for (size_t i = 0; i < dims.size(); i++) at[dims[i].first] = at[dims[i].first] + nest.vars[i];
    return at;
  };
  BufferId from = source(t).buffer, to = target_of(t).buffer;
  Expr value = cast(f[to].dtype, load(f, from, index(source(t), src), t.span), t.span);
  Expr place = address(load(f, to, index(target_of(t), dst), t.span), "", t.span);
  Expr order = string_imm(t.attrs.get_string("memory_order", std::string(memory_orders()[0])));
  nest.body = tl::eval(call(callee_of(t), {place, value, order}, t.span), t.span);
  return nest;
}

TileOp row(std::string_view name, std::string_view doc) {
  auto orders = memory_orders();
  return {.info = {.name = name,
                   .doc = doc,
                   .operands = {{"dst", Access::update}, {"value", Access::read}},
                   .attrs = {{"memory_order", OpInfo::Attr::Type::choice, {orders.begin(), orders.end()}}}},
          .complete = complete,
          .check = check,
          .eval = eval,
          .nest = nest_of};
}

}  // namespace

double combine(Callee::Atomic op, double old, double value, DType type) {
  switch (op) {
    case Callee::Atomic::add: return fold_float(BinaryOp::add, old, value, type);
    case Callee::Atomic::max: return fold_float(BinaryOp::max, old, value, type);
    case Callee::Atomic::min: return fold_float(BinaryOp::min, old, value, type);
    case Callee::Atomic::store: return value;
    default: return old;
  }
}

int64_t combine(Callee::Atomic op, int64_t old, int64_t value, DType type) {
  switch (op) {
    case Callee::Atomic::add: return fold_int(BinaryOp::add, old, value, type);
    case Callee::Atomic::max: return fold_int(BinaryOp::max, old, value, type);
    case Callee::Atomic::min: return fold_int(BinaryOp::min, old, value, type);
    case Callee::Atomic::bit_or: return fold_int(BinaryOp::bit_or, old, value, type);
    case Callee::Atomic::store: return wrap_int(value, type);
    default: return old;
  }
}

void check_atomic_type(std::string_view name, Callee::Atomic op, DType type, Span span) {
  using Atomic = Callee::Atomic;
  bool access = op == Atomic::load || op == Atomic::store;
  bool number = type == f16 || type == bf16 || type == f32 || type == f64 || (type.is_int() && type.bits >= 32);
  bool small = type.is_int() && type.bits >= 8;
  if (!number && !(access && small))
    fail(span, "{} of {}: the chips {} by one indivisible access; use int32", name, to_string(type),
         access ? "move integers of 8 to 64 bits and floats of 16, 32 and 64"
                : "update integers of 32 and 64 bits and floats of 16, 32 and 64");
  if (op == Atomic::bit_or && !type.is_int()) fail(span, "{} takes an integer element, not {}", name, to_string(type));
}

extern const TileOp atomic_add_op, atomic_max_op, atomic_min_op;
const TileOp atomic_add_op = row("atomic_add", "dst += value, element by element, each indivisibly.");
const TileOp atomic_max_op = row("atomic_max", "dst = max(dst, value), element by element, each indivisibly.");
const TileOp atomic_min_op = row("atomic_min", "dst = min(dst, value), element by element, each indivisibly.");

}  // namespace tl
