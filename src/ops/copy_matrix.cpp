// ldmatrix moves 8×8 blocks of 16-bit units: lane 8b + r gives the address of row r of block b, and lane l
// receives of each block the units (l / 4, 2 (l % 4)) and the one beside it, or with .trans their mirror.  A
// fragment can be loaded that way if each 32 bits of its registers are such a block for every warp; whether
// they are is seen by enumeration.  The address that a lane gives is that of the first unit of a row, and
// which element that is the fragment's own inverse says: it asks for the lane and the register that will hold
// it.
#include "ops/copy_matrix.h"

#include <algorithm>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "layout/swizzle.h"
#include "ops/mapping.h"

namespace tl {
namespace {

constexpr int lanes = 32;  // that ldmatrix is executed by

// Elements by thread and register.
struct Held {
  int64_t registers;
  std::vector<std::array<int64_t, 2>> elements;
  const std::array<int64_t, 2>& at(int64_t thread, int64_t reg) const {
    return elements[size_t(thread * registers + reg)];
  }
};
Held held_by(const Fragment& f) {
  Held held{f.registers, std::vector<std::array<int64_t, 2>>(size_t(f.threads * f.registers), {-1, -1})};
  std::vector<int64_t> places = table(f.layout);
  int64_t columns = f.layout.extents[1], replicas = f.replicas;
  for (size_t p = 0; p < places.size() / 2; p++) {
    int64_t element = int64_t(p) / replicas;
    held.elements[size_t(places[2 * p] * f.registers + places[2 * p + 1])] = {element / columns,
                                                                              element % columns};
  }
  return held;
}

// Are the registers blocks as ldmatrix delivers them, with .trans or without?  `row` is the dimension along
// which a row of shared memory does not run.
bool are_blocks(const Fragment& f, int per_unit, bool transposed) {
  Held held = held_by(f);
  for (int64_t thread = 0; thread < f.threads; thread++)
    for (int64_t reg = 0; reg < f.registers; reg++) {
      int64_t lane = thread % lanes;
      std::array<int64_t, 2> base = held.at(thread - lane, reg - reg % per_unit);
      if (base[0] < 0 || base[1] % 8) return false;
      int64_t along = lane / 4, within = per_unit * (lane % 4) + reg % per_unit;
      std::array<int64_t, 2> expected = {base[0] + (transposed ? within : along),
                                         base[1] + (transposed ? along : within)};
      if (held.at(thread, reg) != expected) return false;
    }
  return true;
}

struct Move {
  const Store* store;
  const Load* load;
  const Fragment* fragment;
};

// The whole of a two-dimensional fragment, element by element.
std::optional<Move> move_of(const ParallelNest& nest, const Function& f, const LayoutDecisions& known,
                            const Team& team) {
  auto* store = nest.body.as<Store>();
  auto* load = store ? store->value.as<Load>() : nullptr;
  if (!load || store->mask || load->mask || nest.vars.size() != 2) return std::nullopt;
  if (f[store->buffer].scope != Scope::fragment || f[load->buffer].scope != Scope::shared)
    return std::nullopt;
  if (f[store->buffer].dtype != f[load->buffer].dtype || store->index.size() != 2) return std::nullopt;
  for (size_t d = 0; d < 2; d++)
    if (!store->index[d].same(nest.vars[d])) return std::nullopt;
  auto it = known.fragments.find(store->buffer);
  if (it == known.fragments.end()) return std::nullopt;
  const Fragment& fragment = it->second;
  bool whole = fragment.shape() == nest.extents && fragment.threads == team.count;
  return whole && fragment.layout.terms ? std::optional(Move{store, load, &fragment}) : std::nullopt;
}

struct MatrixLoader {
  const Move& move;
  const ParallelNest& nest;
  LowerContext& ctx;
  int per_unit;
  bool transposed;
  Facts facts;

  // The physical index in shared memory of the `element`-th of the row for which this lane gives the address.
  Expr row_address(const Expr& first_unit, const Expr& element) {
    Expr lane = floormod(ctx.thread, lanes), warp = floordiv(ctx.thread, lanes) * lanes;
    Expr block = floordiv(lane, 8), row = floormod(lane, 8);
    Expr thread = transposed ? warp + floordiv(row, per_unit) : warp + row * 4;
    Expr reg = (first_unit + block) * per_unit;
    if (transposed) reg = reg + floormod(row, per_unit);
    Expr holder = var("thread");
    FragmentLoops loops = inverse(*move.fragment, holder, ctx.team.count);
    VarMap at{{holder.get(), thread}};
    for (auto& axis : loops.axes)
      at.emplace(axis.var.get(), floormod(floordiv(reg, axis.stride), axis.extent));
    VarMap point;
    for (size_t d = 0; d < 2; d++)
      point.emplace(nest.vars[d].get(), simplify(substitute(loops.indices[d], at), facts));
    point.at(nest.vars[1].get()) = point.at(nest.vars[1].get()) + element;
    std::vector<Expr> index;
    for (auto& i : move.load->index) index.push_back(substitute(i, point));
    return physical_index(ctx.layouts, ctx.function, move.load->buffer, index, facts);
  }

  // Do the elements of each row lie together, at a multiple of 16 bytes?
  bool is_aligned(const Expr& first_unit) {
    int64_t chunk = 128 / ctx.function[move.load->buffer].dtype.bits;
    Expr v = facts.loop_var("v", chunk);
    auto linear = linear_in(row_address(first_unit, v), v, facts);
    if (!linear || linear->stride != 1) return false;
    Modular start = modular_of(linear->base, facts);
    return start.modulus % chunk == 0 && floor_mod(start.remainder, chunk) == 0;
  }

  std::optional<Stmt> run() {
    int64_t units = move.fragment->registers / per_unit, at_once = std::min<int64_t>(4, units & -units);
    const CopyInstr* row =
        ctx.target.copy_named(fmt::format("ldmatrix_x{}{}", at_once, transposed ? "_trans" : ""));
    Expr q = facts.loop_var("q", units / at_once), first = q * at_once;
    if (!row || !is_aligned(first)) return std::nullopt;
    DType type = ctx.function[move.store->buffer].dtype;
    auto address = [&](BufferId b, const Expr& index) { return tl::address(load(type, b, {index})); };
    Stmt move_one = eval(call(row->intrinsic, {address(move.store->buffer, first * per_unit),
                                               address(move.load->buffer, row_address(first, imm(0)))}),
                         nest.span);
    return for_loop(q, units / at_once, Loop::unrolled, move_one, nest.span);
  }
};

// Elements of a register, and whether .trans delivers them; nullopt where ldmatrix does not.
struct Delivery {
  int per_unit;
  bool transposed;
};
std::optional<Delivery> delivery_of(const Fragment& fragment, int bits, const Target& target) {
  if (target.copies.empty() || target.warp != lanes || bits > 32 || bits < 8) return std::nullopt;
  int per_unit = 32 / bits;
  if (fragment.registers % per_unit || fragment.threads % lanes) return std::nullopt;  // by whole warps
  for (bool transposed : {false, true})
    if (!(transposed && bits != 16) && are_blocks(fragment, per_unit, transposed))
      return Delivery{per_unit, transposed};
  return std::nullopt;
}

}  // namespace

Layout layout_for_matrices(BufferId tile, const LayoutContext& ctx) {
  const BufferInfo& info = ctx.function[tile];
  std::vector<int64_t> shape = tile_shape(info);
  Layout layout = conflict_free(shape, info.dtype.bits, true);
  if (layout.ranges[0] > room_for(tile, ctx.function, ctx.kernel, ctx.target, ctx.known))
    layout = swizzled(shape, info.dtype.bits);
  return layout;
}

std::optional<BufferId> read_by_ldmatrix(const ParallelNest& nest, const LayoutContext& ctx) {
  auto move = move_of(nest, ctx.function, ctx.known, ctx.team);
  if (!move || ctx.known.shared.contains(move->load->buffer)) return std::nullopt;
  int bits = ctx.function[move->store->buffer].dtype.bits;
  return delivery_of(*move->fragment, bits, ctx.target) ? std::optional(move->load->buffer) : std::nullopt;
}

std::optional<Stmt> copy_by_ldmatrix(const ParallelNest& nest, LowerContext& ctx) {
  auto move = move_of(nest, ctx.function, ctx.layouts, ctx.team);
  if (!move) return std::nullopt;
  auto delivery = delivery_of(*move->fragment, ctx.function[move->store->buffer].dtype.bits, ctx.target);
  if (!delivery) return std::nullopt;
  MatrixLoader loader{.move = *move,
                      .nest = nest,
                      .ctx = ctx,
                      .per_unit = delivery->per_unit,
                      .transposed = delivery->transposed,
                      .facts = facts_of(ctx.function, ctx.kernel)};
  return loader.run();
}

}  // namespace tl
