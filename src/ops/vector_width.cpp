// How many neighbours along the last loop of a parallel nest one thread moves at once: as many as all
// accesses to tensors, or where there are none to shared tiles, have next to each other.
#include "ops/mapping.h"

#include <algorithm>
#include <set>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "target/alignment.h"

namespace tl {
namespace {

// How one access behaves along the last loop in blocks of v iterations.
enum class Along : uint8_t { uniform, contiguous, scattered };

// Names in the body whose values differ along the last loop.
bool names_differ(const ParallelNest& nest, const std::vector<Expr>& index) {
  std::set<const ExprNode*> differing{nest.vars.back().get()};
  auto differs = [&](const Expr& e) {
    return contains(e, [&](const Var& v) { return differing.contains(&v); });
  };
  visit(nest.body, [&](const Let& n) {
    if (differs(n.value)) differing.insert(n.var.get());
  });
  differing.erase(nest.vars.back().get());
  return std::ranges::any_of(index, differs);
}

Along along_last_loop(const ParallelNest& nest, const LayoutContext& ctx, const NestAccess& a, int64_t v,
                      const Facts& facts) {
  const BufferInfo& info = ctx.function[a.buffer];
  if (names_differ(nest, a.index)) return Along::scattered;
  Expr outer = var("o"), lane = var("v");
  Facts inner = facts;
  inner.bind(outer, Interval{0, nest.extents.back() / v});
  inner.bind(lane, Interval{0, v - 1});
  VarMap block{{nest.vars.back().get(), outer * v + lane}};
  std::vector<Expr> index;
  for (auto& i : a.index) index.push_back(substitute(i, block));
  Expr offset = info.scope == Scope::global ? tensor_offset(info, index)
                                            : physical_index(ctx.known, ctx.function, a.buffer, index, inner);
  auto linear = linear_in(simplify(offset, inner), lane, inner);
  if (!linear) return Along::scattered;
  if (linear->stride == 0) return Along::uniform;
  if (linear->stride != 1) return Along::scattered;
  if (ctx.target.vector_alignment == 1) return Along::contiguous;
  auto divisible = [&](const Expr& e) {
    Modular m = modular_of(e, inner);
    return floor_mod(m.remainder, v) == 0 && m.modulus % v == 0;
  };
  bool may_be = info.scope != Scope::global ||
                bytes_of(v, info.dtype) <= std::max<int64_t>(1, tensor_alignment(ctx.kernel, ctx.target));
  return may_be && divisible(linear->base) ? Along::contiguous : Along::scattered;
}

// The reads in indices of other accesses.
std::vector<const Load*> index_reads_of(const ParallelNest& nest) {
  std::set<const Load*> found;
  auto look = [&](const std::vector<Expr>& index) {
    for (auto& i : index) visit(i, [&](const Load& n) { found.insert(&n); });
  };
  visit(nest.body, [&](const Store& n) { look(n.index); }, [&](const Load& n) { look(n.index); });
  return {found.begin(), found.end()};
}

// Is it one of these? That is one for all elements that are moved together.
bool is_in_index(const std::vector<const Load*>& index_reads, const NestAccess& a) {
  return !a.is_store && std::ranges::any_of(index_reads, [&](auto* n) {
    return n->buffer == a.buffer &&
           std::ranges::equal(n->index, a.index, [](const Expr& x, const Expr& y) { return x.same(y); });
  });
}

int64_t widest_lanes(const ParallelNest& nest, const LayoutContext& ctx,
                     const std::vector<NestAccess>& accesses) {
  int64_t lanes = ctx.target.vector_bytes;
  std::vector<const Load*> index_reads = index_reads_of(nest);
  for (auto& a : accesses)
    if (!is_in_index(index_reads, a))
      lanes = std::min<int64_t>(lanes, ctx.target.lanes(ctx.function[a.buffer].dtype));
  visit(nest.body, [&](const Call& n) {  // wider ones would only spread a warp's updates over more lines
    if (n.intrinsic->atomic != Intrinsic::Atomic::none)
      lanes = std::min(lanes, ctx.target.atomic_lanes(n, ctx.function));
  });
  if (int64_t wanted =
          nest.attrs.get_int("coalesced_width"))  // the user's: elements that a thread moves at once
    while (lanes > wanted) lanes /= 2;
  while (lanes > 1 && lanes / 2 >= nest.extents.back()) lanes /= 2;
  return lanes;
}

}  // namespace

static bool is_of_pairs(const NestAccess& a, const Function& f) {
  return f[a.buffer].dtype.is_packed() && (a.is_store || f[a.buffer].scope > Scope::shared);
}

bool has_pairs(const ParallelNest& nest, const Function& f) {
  std::vector<NestAccess> all = accesses_of(nest);
  return std::ranges::any_of(all, [&](auto& a) { return is_of_pairs(a, f); });
}

bool parts_pairs(const ParallelNest& nest, const Fragment& mapping, const Function& f) {
  std::vector<NestAccess> all = accesses_of(nest);
  return std::ranges::any_of(all, [&](auto& a) {
    bool along_last = is_of_pairs(a, f) && loop_of(nest, a.index.back()) == nest.vars.size() - 1;
    return along_last && run_length(nest, mapping) % 2;
  });
}

// `may_idle`: some threads may be left without a vector.
static int64_t width_for(const ParallelNest& nest, const LayoutContext& ctx, bool may_idle) {
  std::vector<NestAccess> accesses = accesses_of(nest);
  Facts facts = nest_facts(nest, ctx.function, ctx.kernel);
  int64_t points = product(nest.extents);
  bool pairs = has_pairs(nest, ctx.function);
  for (Scope scope : {Scope::global, Scope::shared})  // global accesses decide; where there are none, shared
    for (int64_t v = widest_lanes(nest, ctx, accesses); v > 1; v /= 2) {
      bool masked = ctx.target.masked_vectors;
      bool idle = !may_idle && points / v < ctx.team.count && !(pairs && v == 2);
      if (!masked && (nest.extents.back() % v || idle)) continue;
      bool fits = true, any = false;
      for (auto& a : accesses) {
        if (ctx.function[a.buffer].scope != scope && !masked) continue;
        Along how = along_last_loop(nest, ctx, a, v, facts);
        any |= how == Along::contiguous;
        fits &= how != Along::scattered || masked;
      }
      if (fits && any) return v;
    }
  return pairs && nest.extents.back() % 2 == 0 ? 2 : 1;
}

int64_t vector_width(const ParallelNest& nest, const LayoutContext& ctx) {
  int64_t lanes = width_for(nest, ctx, false);
  if (nest.attrs.get_string("engine").empty()) return lanes;
  int bits = 0;
  for (auto& a : accesses_of(nest)) bits = std::max<int>(bits, ctx.function[a.buffer].dtype.bits);
  return lanes * bits < least_async_bits ? width_for(nest, ctx, true) : lanes;
}

int64_t moved_together(const ParallelNest& nest, const LayoutContext& ctx) {
  Facts facts = nest_facts(nest, ctx.function, ctx.kernel);
  std::vector<NestAccess> accesses = accesses_of(nest);
  int64_t v = vector_width(nest, ctx);
  std::vector<const Load*> index_reads = index_reads_of(nest);
  auto contiguous = [&](auto& a) {
    Along how = along_last_loop(nest, ctx, a, v, facts);
    return how == Along::contiguous || (how == Along::uniform && is_in_index(index_reads, a));
  };
  while (v > 1 && !std::ranges::all_of(accesses, contiguous)) v /= 2;
  return v;
}

int64_t run_length(const ParallelNest& nest, const Fragment& mapping) {
  int last = int(nest.vars.size()) - 1;
  for (auto& t : *mapping.layout.terms)
    if (t.output == 1 && t.stride == 1 && t.digit.input == last && t.digit.divisor == 1) return t.digit.radix;
  return 1;
}

int64_t access_width(const ParallelNest& nest, const LayoutContext& ctx, const Fragment& mapping,
                     const NestAccess& a) {
  int64_t run = run_length(nest, mapping), v = ctx.target.lanes(ctx.function[a.buffer].dtype);
  Facts facts = nest_facts(nest, ctx.function, ctx.kernel);
  for (; v > 1; v /= 2)
    if (run % v == 0 && along_last_loop(nest, ctx, a, v, facts) != Along::scattered) return v;
  return 1;
}

}  // namespace tl
