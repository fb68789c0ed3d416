// The table of tile operators, and what their files share.

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/overlap.h"
#include "ops/user_op.h"

namespace tl {

extern const TileOp copy_op, async_copy_op, fill_op, clear_op, gemm_op;
extern const TileOp atomic_add_op, atomic_max_op, atomic_min_op;
extern const TileOp reduce_sum_op, reduce_max_op, reduce_min_op, reduce_abssum_op, reduce_absmax_op,
    reduce_prod_op, reduce_bitand_op, reduce_bitor_op, reduce_bitxor_op, reduce_any_op, reduce_all_op,
    reduce_by_op;
extern const TileOp tma_load_op, tma_store_op, copy_cluster_op, push_cluster_op;
extern const TileOp cumsum_op, cummax_op, transpose_op, clamp_op, reducer_init_op, finalize_reducer_op;

std::span<const TileOp* const> all_ops() {
  static const TileOp* const rows[] = {&copy_op,          &fill_op,
                                       &clear_op,         &gemm_op,
                                       &reduce_sum_op,    &reduce_max_op,
                                       &reduce_min_op,    &reduce_abssum_op,
                                       &reduce_absmax_op, &reduce_prod_op,
                                       &reduce_bitand_op, &reduce_bitor_op,
                                       &reduce_bitxor_op, &reduce_any_op,
                                       &reduce_all_op,    &reduce_by_op,
                                       &cumsum_op,        &cummax_op,
                                       &transpose_op,     &clamp_op,
                                       &reducer_init_op,  &finalize_reducer_op,
                                       &atomic_add_op,    &atomic_max_op,
                                       &atomic_min_op,    &async_copy_op,
                                       &tma_load_op,      &tma_store_op,
                                       &copy_cluster_op,  &push_cluster_op};
  return rows;
}

const TileOp* find_op(std::string_view name) {
  for (auto* op : all_ops())
    if (op->info.name == name) return op;
  return nullptr;
}
const OpInfo* find_op_info(std::string_view name) {
  const TileOp* op = find_op(name);
  return op ? &op->info : nullptr;
}

Vocabulary text_vocabulary() {
  return {.find_op = find_op_info,
          .find_instr = find_instr,
          .op_names =
              [] {
                std::vector<std::string_view> names;
                for (auto* op : all_ops()) names.push_back(op->info.name);
                return names;
              },
          .user_op = user_op_info};
}

const TileOp& row_of(const Tile& t) {
  for (auto* op : all_ops())
    if (&op->info == t.op) return *op;
  if (auto* op = find_user_op(t.op)) return *op;
  internal_error("a tile operator outside the table");
}

int64_t Array::size() const { return product(shape); }

Array make_array(DType type, std::vector<int64_t> shape) {
  Array a{.dtype = type, .shape = std::move(shape)};
  if (type.is_float())
    a.floats.assign(size_t(a.size()), round_float(0, type));
  else
    a.ints.assign(size_t(a.size()), 0);
  return a;
}

Array as_type(const Array& a, DType type) {
  if (a.dtype == type) return a;
  Array out = make_array(type, a.shape);
  for (size_t i = 0; i < size_t(a.size()); i++) {
    if (type.is_float())
      out.floats[i] =
          a.dtype.is_float() ? round_float(a.floats[i], type) : float_of_int(a.ints[i], a.dtype, type);
    else if (type.is_bool())
      out.ints[i] = a.number(int64_t(i)) != 0;
    else
      out.ints[i] = a.dtype.is_float() ? truncated(a.floats[i], type) : wrap_int(a.ints[i], type);
  }
  return out;
}

void fill(Array& a, const Array& value) {
  Array v = as_type(value, a.dtype);
  for (auto& x : a.floats) x = v.floats[0];
  for (auto& x : a.ints) x = v.ints[0];
}

namespace {

// Missing trailing dimensions are whole; a null extent of a tile's region is left to the row's `complete`.
Region expanded(const Function& f, Region r, Span span) {
  const BufferInfo& info = f[r.buffer];
  if (r.ranges.empty()) return whole(f, r.buffer);
  if (r.ranges.size() > info.shape.size())
    fail(span, "{} has {} dimension{}, but {} indices were given", info.name, info.shape.size(),
         info.shape.size() == 1 ? "" : "s", r.ranges.size());
  for (size_t d = r.ranges.size(); d < info.shape.size(); d++)
    r.ranges.push_back({.min = imm(0), .extent = info.shape[d]});
  return r;
}

void check_bounds(const Function& f, const Region& r, Span span) {
  const BufferInfo& info = f[r.buffer];
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto min = as_int(r.ranges[d].min), extent = as_int(r.ranges[d].extent), size = as_int(info.shape[d]);
    if (extent && *extent < 1)
      fail(span, "{}: the slice of dimension {} is empty ({} elements)", info.name, d, *extent);
    bool tile = info.scope != Scope::global;
    if (min && *min < 0) fail(span, "{}: dimension {} begins at {}, before the buffer", info.name, d, *min);
    if (tile && min && extent && size && *min + *extent > *size)
      fail(span, "{}: dimension {} reaches {}, but its extent is {}", info.name, d, *min + *extent, *size);
  }
}

}  // namespace

namespace {

// T.fill and T.clear open a reducer with their value.
bool opens_reducer(const Function& f, const TileOp& op, std::vector<Operand>& operands) {
  auto* r = operands.empty() ? nullptr : std::get_if<Region>(&operands[0]);
  if (!r || f[r->buffer].reducer.empty() || (&op != &fill_op && &op != &clear_op)) return false;
  if (&op == &clear_op) operands.push_back(zero(f[r->buffer].dtype));
  return true;
}

// Of types of four bits two elements lie in a byte of memory, and bytes are written whole: a part that begins
// or ends within one, or whose neighbours come from two rows, cannot be written by threads beside one
// another.
void check_whole_bytes(const Tile& t, const Function& f) {
  if (t.body) return;  // the user's own operator says itself what it writes
  for (size_t i = 0; i < t.operands.size(); i++) {
    auto* r = std::get_if<Region>(&t.operands[i]);
    Access access = t.op->operands[i].access;
    if (!r || r->ranges.empty() || (access != Access::write && access != Access::update)) continue;
    const BufferInfo& b = f[r->buffer];
    if (!b.dtype.is_packed() || (b.scope != Scope::global && b.scope != Scope::shared)) continue;
    auto begin = as_int(r->ranges.back().min), extent = as_int(r->ranges.back().extent);
    std::string_view said = t.op->said();
    std::string type = to_string(b.dtype);
    if (t.op == &transpose_op.info)
      fail(t.span,
           "{}: {} has packed type {} (two elements per byte), and a transpose takes the two from different "
           "rows: copy src to an i8 tile, transpose that, and copy it to {}",
           said, b.name, type, b.name);
    if ((begin && *begin % 2) || (extent && *extent % 2))
      fail(t.span,
           "{}: {} has packed type {} (two elements per byte), but the written part begins at {} of its last "
           "dimension and has {} elements there: both must be even (give the tile an even last extent)",
           said, b.name, type, begin ? std::to_string(*begin) : print(r->ranges.back().min),
           extent ? std::to_string(*extent) : "some");
  }
}

}  // namespace

Stmt make_tile(const Function& f, const TileOp& op, std::vector<Operand> operands, Attrs attrs, Span span,
               Stmt body) {
  if (opens_reducer(f, op, operands))
    return make_tile(f, reducer_init_op, std::move(operands), std::move(attrs), span, std::move(body));
  const OpInfo& info = op.info;
  if (operands.size() != info.operands.size())
    fail(span, "{} takes {} operands, not {}", info.said(), info.operands.size(), operands.size());
  for (size_t i = 0; i < operands.size(); i++) {
    bool wants_value = info.operands[i].access == Access::value;
    if (wants_value != std::holds_alternative<Expr>(operands[i]))
      fail(span, "{}: operand {} must be a {}", info.said(), info.operands[i].name,
           wants_value ? "value" : "buffer");
    if (auto* r = std::get_if<Region>(&operands[i])) operands[i] = expanded(f, *r, span);
  }
  if (op.complete) op.complete(operands, f, span);
  for (auto& o : operands)
    if (auto* r = std::get_if<Region>(&o)) check_bounds(f, *r, span);
  Stmt s = tile(info, std::move(operands), std::move(attrs), span, std::move(body));
  op.check(*s.as<Tile>(), f);
  check_overlap(*s.as<Tile>(), f);
  check_whole_bytes(*s.as<Tile>(), f);
  return s;
}

Function complete_tiles(Function f) {
  for (Kernel& k : f.kernels)
    k.body = rewrite(k.body, [&](const Tile& t, Rewriter& self) -> Stmt {
      return make_tile(f, row_of(t), t.operands, t.attrs, t.span, t.body ? self(t.body) : t.body);
    });
  check_tiles(f);
  return f;
}

void check_tiles(const Function& f) {
  check_nesting(f);
  check_reducers(f);
  check_iterations(f);
  check_divided(f);
  check_variables(f);
}

const Region& region_of(const Tile& t, size_t operand) { return std::get<Region>(t.operands[operand]); }

std::vector<int64_t> region_shape(const Region& r, bool drop_points) {
  std::vector<int64_t> shape;
  for (auto& range : r.ranges) {
    if (range.point && drop_points) continue;
    auto extent = as_int(range.extent);
    internal_check(extent.has_value(), "a region of constant extents");
    shape.push_back(*extent);
  }
  return shape;
}

std::string describe(const Function& f, const Region& r) {
  std::string shape;
  for (auto& range : r.ranges)
    if (!range.point) shape += (shape.empty() ? "" : ", ") + print(range.extent);
  return f[r.buffer].name + ": " + to_string(f[r.buffer].dtype) + "[" + shape + "]";
}

Expr tensor_offset(const BufferInfo& info, const std::vector<Expr>& index) {
  if (info.layout) return map_index(from_map(*info.layout), index)[0];
  Expr offset = imm(0), stride = imm(1);
  for (size_t d = index.size(); d-- > 0;) {
    offset = index[d] * (info.strides.empty() ? stride : info.strides[d]) + offset;
    stride = stride * info.shape[d];
  }
  return offset;
}

}  // namespace tl
