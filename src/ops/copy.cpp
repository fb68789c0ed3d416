// copy: moves a tile between any two scopes, casting if the types differ.  Reads outside a tensor give 0, writes
// outside it are dropped.  It is sugar for a parallel loop nest.
#include "base/error.h"
#include "ops/parallel.h"

namespace tl {
namespace {

const Region& source(const Tile& t) { return region_of(t, 0); }
const Region& target_of(const Tile& t) { return region_of(t, 1); }

bool is_base(const Region& r) {
  for (auto& range : r.ranges)
    if (!range.extent) return true;
  return false;
}

// Gives a base element the extents of the other operand: trailing dimensions match, leading ones are points.
void take_extents(Region& base, const Region& other, const Function& f, Span span) {
  std::vector<Expr> wanted;
  for (auto& range : other.ranges)
    if (!range.point && !(is_int(range.extent, 1) && other.ranges.size() > base.ranges.size())) wanted.push_back(range.extent);
  if (wanted.size() > base.ranges.size())
    fail(span, "copy: {} has {} dimensions, but the other operand, {}, has {}", f[base.buffer].name,
         base.ranges.size(), describe(f, other), wanted.size());
  size_t leading = base.ranges.size() - wanted.size();
  for (size_t d = 0; d < base.ranges.size(); d++) {
    base.ranges[d].point = d < leading;
    base.ranges[d].extent = d < leading ? imm(1) : wanted[d - leading];
  }
}

void complete(std::vector<Operand>& operands, const Function& f, Span span) {
  Region &src = std::get<Region>(operands[0]), &dst = std::get<Region>(operands[1]);
  if (is_base(src) && is_base(dst)) {             // one element
    for (Region* r : {&src, &dst})
      for (auto& range : r->ranges) range = {.min = range.min, .extent = imm(1), .point = true};
  } else if (is_base(src)) {
    take_extents(src, dst, f, span);
  } else if (is_base(dst)) {
    take_extents(dst, src, f, span);
  }
}

// The region's dimensions that have an extent other than 1, and those extents.
std::vector<std::pair<size_t, int64_t>> moving(const Function& f, const Region& r, Span span) {
  std::vector<std::pair<size_t, int64_t>> dims;
  for (size_t d = 0; d < r.ranges.size(); d++) {
    auto extent = as_int(r.ranges[d].extent);
    if (!extent)
      fail(span, "copy: the extent of dimension {} of {} must be a constant; a tile has a constant shape", d,
           f[r.buffer].name);
    if (!r.ranges[d].point && *extent != 1) dims.emplace_back(d, *extent);
  }
  return dims;
}

void check(const Tile& t, const Function& f) {
  auto src = moving(f, source(t), t.span), dst = moving(f, target_of(t), t.span);
  bool same = src.size() == dst.size();
  for (size_t i = 0; same && i < src.size(); i++) same = src[i].second == dst[i].second;
  if (!same)
    fail(t.span, "copy: the source is {} but the destination is {}; their shapes must be equal (dimensions of extent 1 "
                 "apart)", describe(f, source(t)), describe(f, target_of(t)));
  if (auto* v = t.attrs.find("loop_layout")) {
    std::vector<int64_t> extents;
    for (auto& d : src) extents.push_back(d.second);
    auto& map = std::get<IndexMap>(*v);
    std::vector<int64_t> given(map.extents.begin(), map.extents.end() - 1);
    if (given != extents)
      fail(t.span, "copy: the loop_layout is for extents [{}], but the copy moves [{}] (dimensions of extent 1 apart)",
           fmt::join(given, ", "), fmt::join(extents, ", "));
  }
  DType a = f[source(t).buffer].dtype, b = f[target_of(t).buffer].dtype;
  if (a.is_handle() || b.is_handle()) fail(t.span, "copy: there is no cast from {} to {}", to_string(a), to_string(b));
}

void eval(const Tile& t, const Function& f, const EvalContext& ctx) {
  Array in = ctx.read(source(t)), out = make_array(f[target_of(t).buffer].dtype, region_shape(target_of(t)));
  bool floats = out.dtype.is_float();
  for (int64_t i = 0; i < out.size(); i++) {
    if (floats)
      out.floats[size_t(i)] = in.number(i);
    else
      out.ints[size_t(i)] = in.dtype.is_float() ? int64_t(in.floats[size_t(i)]) : in.ints[size_t(i)];
  }
  ctx.write(target_of(t), out);
}

ParallelNest nest_of(const Tile& t, const Function& f) {
  auto src = moving(f, source(t), t.span), dst = moving(f, target_of(t), t.span);
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
  nest.body = store(to, index(target_of(t), dst), value, t.span);
  return nest;
}

}  // namespace

extern const TileOp copy_op;
const TileOp copy_op = {
    .info = {.name = "copy",
             .doc = "Moves a tile from src to dst, casting if their types differ.  Reads outside a tensor give 0, "
                    "writes outside it are dropped.",
             .operands = {{"src", Access::read}, {"dst", Access::write}},
             .attrs = {{"coalesced_width", OpInfo::Attr::Type::integer}, {"disable_tma", OpInfo::Attr::Type::flag},
                       {"loop_layout", OpInfo::Attr::Type::map}}},
    .complete = complete,
    .check = check,
    .eval = eval,
    .nest = nest_of,
};

}  // namespace tl
