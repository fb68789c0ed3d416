// copy: moves a tile between any two scopes, casting if the types differ.  Reads outside a tensor give 0,
// writes outside it are dropped.  It is sugar for a parallel loop nest.
//
// async_copy: the same from a tensor to a shared tile, begun by cp.async where the target has it, in a group
// of its own; the tile is to be read after a wait for that group.  Elsewhere it is a copy.
#include "base/error.h"
#include "ops/regions.h"

namespace tl {
namespace {

const Region& source(const Tile& t) { return region_of(t, 0); }
const Region& target_of(const Tile& t) { return region_of(t, 1); }

void complete_copy(std::vector<Operand>& operands, const Function& f, Span span) {
  complete_pair("copy", std::get<Region>(operands[0]), std::get<Region>(operands[1]), f, span);
}
void complete_async_copy(std::vector<Operand>& operands, const Function& f, Span span) {
  complete_pair("async_copy", std::get<Region>(operands[0]), std::get<Region>(operands[1]), f, span);
}

// A whole tensor against a tile of other extents: the tile has its place in the tensor, which was not given.
std::string origin_hint(const Tile& t, const Function& f) {
  bool stores = f[target_of(t).buffer].scope == Scope::global;
  const Region &tensor = stores ? target_of(t) : source(t), &tile = stores ? source(t) : target_of(t);
  size_t rank = tensor.ranges.size();
  if (f[tensor.buffer].scope != Scope::global || f[tile.buffer].scope == Scope::global ||
      tile.ranges.size() != rank || rank == 0 || !is_whole(tensor, f))
    return "";
  static constexpr const char* blocks[] = {"bx", "by", "bz"};
  std::vector<std::string> begin;
  for (size_t d = 0; d < rank; d++) {
    auto extent = tile.ranges[d].extent ? as_int(tile.ranges[d].extent) : std::nullopt;
    size_t block = rank - 1 - d;
    begin.push_back(extent && block < 3 ? fmt::format("{} * {}", blocks[block], *extent) : "0");
  }
  std::string at = fmt::format("{}[{}]", f[tensor.buffer].name, fmt::join(begin, ", ")),
              other = f[tile.buffer].name;
  std::string_view name = t.op->name;
  return stores ? fmt::format("; say where the tile begins, T.{}({}, {}): elements outside of {} are dropped",
                              name, other, at, f[tensor.buffer].name)
                : fmt::format("; say where the tile begins, T.{}({}, {}): elements outside of {} are 0", name,
                              at, other, f[tensor.buffer].name);
}

void check_copy(const Tile& t, const Function& f) {
  Moving src = moving(t, f, source(t)), dst = moving(t, f, target_of(t));
  if (!same_extents(src, dst))
    fail(t.span,
         "{}: the source is {} but the destination is {}; their shapes must be equal (dimensions of extent "
         "1 apart){}",
         t.op->name, describe(f, source(t)), describe(f, target_of(t)), origin_hint(t, f));
  if (auto* v = t.attrs.find("loop_layout")) {
    std::vector<int64_t> extents = extents_of(src);
    if (extents.empty()) extents = {1};
    auto& map = std::get<IndexMap>(*v);
    std::vector<int64_t> given(map.extents.begin(), map.extents.end() - 1);
    if (given != extents)
      fail(t.span,
           "{}: the loop_layout is for extents [{}], but the copy moves [{}] (dimensions of extent 1 apart)",
           t.op->name, fmt::join(given, ", "), fmt::join(extents, ", "));
    check_iterations_apart(fragment_from_map(map), t.span);
  }
  DType a = f[source(t).buffer].dtype, b = f[target_of(t).buffer].dtype;
  if (a.is_handle() || b.is_handle())
    fail(t.span, "{}: there is no cast from {} to {}", t.op->name, to_string(a), to_string(b));
}

std::string_view what_it_is(const BufferInfo& info) {
  return info.scope == Scope::global     ? "a tensor"
         : info.scope == Scope::shared   ? "a shared tile"
         : info.scope == Scope::fragment ? "a fragment"
                                         : "an array of each thread";
}

void check_async_copy(const Tile& t, const Function& f) {
  check_copy(t, f);
  const BufferInfo &from = f[source(t).buffer], &to = f[target_of(t).buffer];
  if (from.scope != Scope::global || to.scope != Scope::shared)
    fail(t.span,
         "async_copy: it goes from a tensor to a shared tile, as cp.async does, but {} is {} and {} is {}; "
         "T.copy moves tiles between any two",
         from.name, what_it_is(from), to.name, what_it_is(to));
  if (from.dtype != to.dtype)
    fail(t.span, "async_copy: it moves bytes as they are, but {} is {} and {} is {}; T.copy casts on the way",
         from.name, to_string(from.dtype), to.name, to_string(to.dtype));
}

void eval_copy(const Tile& t, const Function&, const EvalContext& ctx) {
  Array out = ctx.read(source(t));
  out.shape = region_shape(target_of(t));  // the same but for dimensions of extent 1
  ctx.write(target_of(t), out);            // which casts
}

ParallelNest nest_copy(const Tile& t, const Function& f) {
  Moving src = moving(t, f, source(t)), dst = moving(t, f, target_of(t));
  ParallelNest nest = nest_over(t, extents_of(src));
  BufferId from = source(t).buffer, to = target_of(t).buffer;
  Expr value = cast(f[to].dtype, load(f, from, element_of(source(t), src, nest.vars), t.span), t.span);
  nest.body = store(to, element_of(target_of(t), dst, nest.vars), value, t.span);
  return nest;
}

ParallelNest nest_async_copy(const Tile& t, const Function& f) {
  ParallelNest nest = nest_copy(t, f);
  nest.attrs.entries["engine"] = "cp_async";
  nest.attrs.entries["closes_group"] = int64_t(1);
  return nest;
}

}  // namespace

extern const TileOp copy_op, async_copy_op;
const TileOp copy_op = {
    .info = {.name = "copy",
             .doc = "Moves a tile from src to dst, casting if their types differ.  Reads outside a tensor "
                    "give 0, writes outside it are dropped.",
             .operands = {{"src", Access::read}, {"dst", Access::write}},
             .attrs = {{"coalesced_width", OpInfo::Attr::Type::integer},
                       {"disable_tma", OpInfo::Attr::Type::flag},
                       {"loop_layout", OpInfo::Attr::Type::map}}},
    .complete = complete_copy,
    .check = check_copy,
    .eval = eval_copy,
    .nest = nest_copy,
    .in_place = true,
};

const TileOp async_copy_op = {
    .info =
        {.name = "async_copy",
         .doc =
             "Begins to move a tile from a tensor to shared memory, in a group of copies of its own. Reads "
             "outside the tensor give 0.",
         .operands = {{"src", Access::read}, {"dst", Access::write}},
         .attrs = {{"coalesced_width", OpInfo::Attr::Type::integer},
                   {"loop_layout", OpInfo::Attr::Type::map}}},
    .complete = complete_async_copy,
    .check = check_async_copy,
    .eval = eval_copy,
    .nest = nest_async_copy,
};

}  // namespace tl
