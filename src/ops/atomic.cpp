// atomic_add_tile and its like: every element of dst is updated atomically by that of src.  Sugar for a
// parallel loop of scalar updates; vectorize joins neighbours where the chip has such instructions.
#include "ops/atomic.h"

#include "base/error.h"
#include "ops/regions.h"
#include "target/said.h"

namespace tl {
namespace {

const Region& updated(const Tile& t) { return region_of(t, 0); }
const Region& values(const Tile& t) { return region_of(t, 1); }
// The update of one element; the operator is called after it, atomic_add_tile.
const Intrinsic& intrinsic_of(const Tile& t) {
  return *find_intrinsic(t.op->name.substr(0, t.op->name.rfind('_')));
}

void complete_atomic(std::vector<Operand>& operands, const Function& f, Span span) {
  complete_pair("an atomic update", std::get<Region>(operands[0]), std::get<Region>(operands[1]), f, span);
}

void check_atomic(const Tile& t, const Function& f) {
  if (!same_extents(moving(t, f, updated(t)), moving(t, f, values(t))))
    fail(t.span,
         "{}: the values are {} but the destination is {}; their shapes must be equal (dimensions of extent "
         "1 apart)",
         t.op->said(), describe(f, values(t)), describe(f, updated(t)));
  check_atomic_type(t.op->said(), intrinsic_of(t).atomic, f[updated(t).buffer].dtype, t.span);
}

void check_threads_atomic(const Tile& t, const Function& f, const Target& target) {
  Scope scope = f[updated(t).buffer].scope;
  if (scope != Scope::global && scope != Scope::shared)
    fail(t.span,
         "{}: {} is in registers, which other threads cannot access; on {} atomics update tensors and shared "
         "tiles",
         t.op->said(), describe(f, updated(t)), said(target));
}

void eval_atomic(const Tile& t, const Function&, const EvalContext& ctx) {
  Array old = ctx.read(updated(t)), in = as_type(ctx.read(values(t)), old.dtype);
  combine_with(intrinsic_of(t), old, in);
  in.shape = old.shape;
  ctx.write(updated(t), in);
}

ParallelNest nest_atomic(const Tile& t, const Function& f) {
  Moving src = moving(t, f, values(t)), dst = moving(t, f, updated(t));
  ParallelNest nest = nest_over(t, extents_of(src));
  BufferId from = values(t).buffer, to = updated(t).buffer;
  Expr value = cast(f[to].dtype, load(f, from, element_of(values(t), src, nest.vars), t.span), t.span);
  Expr place = address(load(f, to, element_of(updated(t), dst, nest.vars), t.span), "", t.span);
  Expr order = string_imm(t.attrs.get_string("memory_order", std::string(memory_orders()[0])));
  nest.body = eval(call(intrinsic_of(t), {place, value, order}, t.span), t.span);
  return nest;
}

TileOp atomic_row(std::string_view name, std::string_view doc) {
  auto orders = memory_orders();
  return {.info = {.name = name,
                   .doc = doc,
                   .operands = {{"dst", Access::update}, {"value", Access::read}},
                   .attrs = {{"memory_order", OpInfo::Attr::Type::choice, {orders.begin(), orders.end()}},
                             {"use_tma", OpInfo::Attr::Type::flag}},
                   .published = name.substr(0, name.rfind('_'))},
          .complete = complete_atomic,
          .check = check_atomic,
          .check_threads = check_threads_atomic,
          .eval = eval_atomic,
          .nest = nest_atomic,
          .in_place = true};
}

}  // namespace

void combine_with(const Intrinsic& update, const Array& old, Array& with) {
  for (size_t i = 0; i < size_t(with.size()); i++)
    if (with.dtype.is_float())
      with.floats[i] = combine(update.atomic, old.floats[i], with.floats[i], with.dtype);
    else
      with.ints[i] = combine(update.atomic, old.ints[i], with.ints[i], with.dtype);
}

double combine(Intrinsic::Atomic op, double old, double value, DType type) {
  switch (op) {
    case Intrinsic::Atomic::add:
      return fold_float(BinaryOp::add, old, value, type);
    case Intrinsic::Atomic::max:
      return fold_float(BinaryOp::max, old, value, type);
    case Intrinsic::Atomic::min:
      return fold_float(BinaryOp::min, old, value, type);
    case Intrinsic::Atomic::store:
      return value;
    default:
      return old;
  }
}

int64_t combine(Intrinsic::Atomic op, int64_t old, int64_t value, DType type) {
  switch (op) {
    case Intrinsic::Atomic::add:
      return fold_int(BinaryOp::add, old, value, type);
    case Intrinsic::Atomic::max:
      return fold_int(BinaryOp::max, old, value, type);
    case Intrinsic::Atomic::min:
      return fold_int(BinaryOp::min, old, value, type);
    case Intrinsic::Atomic::bit_or:
      return fold_int(BinaryOp::bit_or, old, value, type);
    case Intrinsic::Atomic::store:
      return wrap_int(value, type);
    default:
      return old;
  }
}

void check_atomic_type(std::string_view name, Intrinsic::Atomic op, DType type, Span span) {
  using Atomic = Intrinsic::Atomic;
  bool access = op == Atomic::load || op == Atomic::store;
  bool number =
      type == f16 || type == bf16 || type == f32 || type == f64 || (type.is_int() && type.bits >= 32);
  bool small = type.is_int() && type.bits >= 8;
  if (!number && !(access && small))
    fail(span, "{} of {}: in one atomic access the chips {}; use int32", name, to_string(type),
         access ? "move integers of 8 to 64 bits and floats of 16, 32 and 64"
                : "update integers of 32 and 64 bits and floats of 16, 32 and 64");
  if (op == Atomic::bit_or && !type.is_int())
    fail(span, "{} takes an integer element, not {}", name, to_string(type));
}

extern const TileOp atomic_add_op, atomic_max_op, atomic_min_op;
const TileOp atomic_add_op =
    atomic_row("atomic_add_tile", "dst += value, element by element, each indivisibly.");
const TileOp atomic_max_op =
    atomic_row("atomic_max_tile", "dst = max(dst, value), element by element, each indivisibly.");
const TileOp atomic_min_op =
    atomic_row("atomic_min_tile", "dst = min(dst, value), element by element, each indivisibly.");

}  // namespace tl
