// Extents that only a call knows, of tiles and of what tile operators are given.
//
//   copy(A[0 : +n], S[0 : +n])   ->   for i in parallel(n):
//                                       if i < 64: S[i] = A[i]
#include <algorithm>

#include "api/builder.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/text.h"
#include "ops/parallel.h"

namespace tl {

// Bits of the shared memory that every GPU gives a block without being asked, which no tile has taken yet.
int64_t Builder::memory_left() const {
  int64_t left = int64_t(48 << 10) * 8;
  for (const BufferInfo& b : draft->function.buffers) {
    if (b.scope != Scope::shared || b.alias_of) continue;
    int64_t bits = b.dtype.bits;
    for (auto& n : b.shape) bits *= as_int(n).value_or(1);
    left -= bits;
  }
  return left;
}

// The most elements that a dimension of a shared tile may have; every call is checked for it.  Where nothing
// bounds the extent it is what fits into the memory that is left, an element of it taking `slice` bits.
Expr Builder::room_for(const std::string& name, size_t dimension, const Expr& extent, int64_t slice) {
  int64_t most = interval_of(extent, facts_here()).max;
  auto* widened = extent.as<Cast>();  // as the user wrote it
  std::string text = print(widened ? widened->a : extent, &draft->function);
  bool says_nothing = most == interval_of(extent, {}).max;  // its type alone
  if (says_nothing) most = slice > 0 ? memory_left() / slice : 0;
  if (most < 1)
    fail(here(),
         "{}: extent {} is {}, which is known only when the kernel is called, and nothing says how much it "
         "is at most: T.assume({} <= 1024) above it makes room for 1024",
         name, dimension, text, text);
  Expr fits = le(extent, imm(most));
  std::string place = here().file ? fmt::format("{}:{}", *here().file, here().line) : "";
  std::string message = fmt::format("{} has room for {} elements along dimension {}, {} <= {}", name, most,
                                    dimension, text, most);
  if (says_nothing) {
    message += fmt::format(
        " (nothing says how large it is: T.assume({} <= …) above the tile makes room for more)", text);
    draft->function.facts.push_back(fits);  // of every call that gets beyond the check
    draft->function.notes.push_back(
        {.pass = "alloc_shared",
         .subject = name,
         .text = fmt::format("has room for {} elements along dimension {}, as nothing bounds {}: T.assume "
                             "says how many are enough",
                             most, dimension, text),
         .span = here()});
  }
  draft->function.checks.push_back({.cond = fits, .message = message, .place = place, .span = here()});
  return imm(most);
}

namespace {

// The extents of an operator's regions that only the run knows, and a number that stands for each while the
// operator is made.
struct OpenExtents {
  const VarMap& lets;
  int64_t largest = 2;  // no constant one is larger; even, as are the numbers that stand for others
  std::vector<Expr> known = {};

  bool same(const Expr& a, const Expr& b) const {
    return equal(simplify(substitute(a, lets)), simplify(substitute(b, lets)));
  }
  int64_t stand_in(const Expr& extent) {
    auto it = std::ranges::find_if(known, [&](auto& e) { return same(e, extent); });
    if (it == known.end()) it = known.insert(it, extent);
    return largest + 2 * (1 + (it - known.begin()));
  }
  Expr original(int64_t n) const { return n > largest ? known[size_t((n - largest) / 2 - 1)] : imm(n); }
};

std::vector<Region*> regions_in(std::vector<Operand>& operands) {
  std::vector<Region*> out;
  for (auto& o : operands)
    if (auto* r = std::get_if<Region>(&o)) out.push_back(r);
  return out;
}

bool is_open(const Range& r) { return r.extent && !as_int(r.extent); }

std::string part_text(const Region& r, const Function& f) {
  std::vector<std::string> extents;
  for (auto& range : r.ranges)
    if (!range.point) extents.push_back(print(range.extent, &f));
  return fmt::format("[{}] of {}", fmt::join(extents, ", "), f[r.buffer].name);
}

// Dimensions of extent 1 apart.
void check_extents(const TileOp& op, const Region& a, const Region& b, const OpenExtents& open,
                   const Function& f, Span span) {
  auto moved = [](const Region& r) {
    std::vector<Expr> out;
    for (auto& range : r.ranges)
      if (!range.point && !is_int(range.extent, 1)) out.push_back(range.extent);
    return out;
  };
  auto same = [&](const Expr& x, const Expr& y) { return open.same(x, y); };
  if (!std::ranges::equal(moved(a), moved(b), same))
    fail(span, "{}: one part is {} and the other {}; their extents must be the same expressions",
         op.info.said(), part_text(a, f), part_text(b, f));
}

// Is the element inside of its tile? Null: it is, or it is one of a tensor, which are guarded anyway.
Expr inside_tile(const Function& f, const std::vector<Region*>& regions, BufferId buffer,
                 const std::vector<Expr>& index) {
  Expr inside;
  if (f[buffer].scope == Scope::global) return inside;
  for (auto* r : regions)
    for (size_t d = 0; r->buffer == buffer && d < index.size(); d++) {
      if (!is_open(r->ranges[d])) continue;
      if (auto first = as_int(r->ranges[d].min); !first || *first < 0)
        inside = both(inside, le(imm(0), index[d]));
      inside = both(inside, lt(index[d], f[buffer].shape[d]));
    }
  return inside;
}

// Elements outside of a tile are not moved.
Stmt with_guards(const Stmt& body, const Function& f, const std::vector<Region*>& regions) {
  Expr inside;
  auto guard = [&](BufferId buffer, const std::vector<Expr>& index) {
    if (Expr i = inside_tile(f, regions, buffer, index)) inside = both(inside, i);
  };
  visit(
      body, [&](const Load& n) { guard(n.buffer, n.index); },
      [&](const Store& n) { guard(n.buffer, n.index); });
  return inside ? if_then(inside, body, {}, body->span) : body;
}

}  // namespace

namespace {

// With all their dimensions, and the extents that one operand takes from the other.
void complete_regions(const TileOp& op, std::vector<Operand>& operands, const Function& f, Span span) {
  for (auto* r : regions_in(operands))
    for (size_t d = r->ranges.size(); d < f[r->buffer].shape.size(); d++)
      r->ranges.push_back({.min = imm(0), .extent = f[r->buffer].shape[d]});
  if (op.complete) op.complete(operands, f, span);
}

// With numbers for its open extents, and a buffer that has room for them.
void with_numbers(Region& r, OpenExtents& open, Function& roomy) {
  for (size_t d = 0; d < r.ranges.size(); d++) {
    Range& range = r.ranges[d];
    if (!is_open(range)) continue;
    int64_t n = open.stand_in(range.extent), end = as_int(range.min).value_or(0) + n;
    range.extent = imm(n);
    Expr& extent = roomy[r.buffer].shape[d];
    if (auto size = as_int(extent); size && *size < end) extent = imm(end);
  }
}

// Of types of four bits an even number is written: two lie in a byte.
void check_whole_bytes(const TileOp& op, const std::vector<Operand>& operands, const Function& f, Span span) {
  for (size_t i = 0; i < operands.size(); i++) {
    auto* r = std::get_if<Region>(&operands[i]);
    Access access = op.info.operands[i].access;
    if (!r || (access != Access::write && access != Access::update) || !f[r->buffer].dtype.is_packed())
      continue;
    const Expr& extent = r->ranges.back().extent;
    auto* widened = extent.as<Cast>();  // as the user wrote it
    if (as_int(extent) || is_int(simplify(floormod(extent, imm(2))), 0)) continue;
    fail(span,
         "{}: {} has packed type {} (two elements per byte), but the written part has {} elements in its "
         "last dimension, which may be odd: write an even number, 2 * n",
         op.info.said(), f[r->buffer].name, to_string(f[r->buffer].dtype),
         print(widened ? widened->a : extent, &f));
  }
}

// Does it take a dimension of the buffer that has no elements?
bool is_empty(const Function& f, const Region& r) {
  const std::vector<Expr>& shape = f[r.buffer].shape;
  for (size_t d = 0; d < shape.size(); d++) {
    bool taken = d >= r.ranges.size() || (r.ranges[d].extent && is_int(r.ranges[d].extent, 0));
    if (taken && is_int(shape[d], 0)) return true;
  }
  return false;
}

}  // namespace

// An operator that is sugar for a parallel loop, on a tensor without elements: nothing is done.
bool Builder::does_nothing(const TileOp& op, std::vector<Operand> operands) {
  const Function& f = draft->function;
  auto regions = regions_in(operands);
  if (!op.nest || std::ranges::none_of(regions, [&](auto* r) { return is_empty(f, *r); })) return false;
  complete_regions(op, operands, f, here());
  if (regions.size() == 2)
    check_extents(op, *regions[0], *regions[1], OpenExtents{.lets = draft->lets}, f, here());
  return true;
}

// An operator that is sugar for a parallel loop, on parts whose extents only the run knows: the loop.
bool Builder::emit_as_loops(const TileOp& op, std::vector<Operand> operands, const Attrs& attrs) {
  const Function& f = draft->function;
  auto regions = regions_in(operands);
  auto any_open = [&] {
    return std::ranges::any_of(regions, [](auto* r) { return std::ranges::any_of(r->ranges, is_open); });
  };
  if (!op.nest || !any_open()) return false;
  complete_regions(op, operands, f, here());
  auto is_constant = [](auto* r) { return std::ranges::none_of(r->ranges, is_open); };
  if (std::ranges::any_of(regions, is_constant)) return false;  // the other one's extents are no constants
  OpenExtents open{.lets = draft->lets};
  for (auto* r : regions)
    for (auto& range : r->ranges)
      open.largest = std::max(open.largest, (as_int(range.extent).value_or(1) + 1) / 2 * 2);
  if (regions.size() == 2) check_extents(op, *regions[0], *regions[1], open, f, here());
  check_whole_bytes(op, operands, f, here());
  std::vector<Operand> closed = operands;
  Function roomy = f;
  for (auto* r : regions_in(closed)) with_numbers(*r, open, roomy);
  Stmt tile = make_tile(roomy, op, closed, attrs, here());
  ParallelNest nest = op.nest(*tile.as<Tile>(), roomy);
  if (nest.attrs.find("engine")) return false;  // what an engine carries out has constant extents
  Stmt body = with_guards(nest.body, f, regions);
  for (size_t d = nest.vars.size(); d-- > 0;)
    body = for_loop(nest.vars[d], imm(0), open.original(nest.extents[d]), Loop::parallel, body, here(),
                    d == 0 ? nest.attrs : Attrs{});
  emit(std::move(body));
  return true;
}

}  // namespace tl
