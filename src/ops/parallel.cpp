// Parallel loop nests: mapping iterations to (thread, register), and one thread's loops.
//
// A mapping is a Fragment over the nest's own index space.  It comes from a fragment the nest touches (strictly
// laid out by another operator), else from plan_free: the widest legal vector per thread along the last loop,
// then neighbouring threads along the last loops, so that global accesses coalesce; the rest are registers.
#include "ops/parallel.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "arith/prove.h"
#include "base/error.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

struct AccessOf {
  BufferId buffer;
  std::vector<Expr> index;
  bool is_store;
  Span span;
};

std::vector<AccessOf> accesses_of(const ParallelNest& nest) {
  std::vector<AccessOf> out;
  visit(nest.body,
        [&](const Load& n) { out.push_back({n.buffer, n.index, false, n.span}); },
        [&](const Store& n) { out.push_back({n.buffer, n.index, true, n.span}); });
  return out;
}

std::optional<size_t> loop_of(const ParallelNest& nest, const Expr& index) {
  for (size_t d = 0; d < nest.vars.size(); d++)
    if (nest.vars[d].same(index)) return d;
  return std::nullopt;
}

Facts nest_facts(const ParallelNest& nest, const Function& f, const Kernel& k) {
  Facts facts = facts_of(f, k);
  for (size_t d = 0; d < nest.vars.size(); d++) facts.bind(nest.vars[d], Interval{0, nest.extents[d] - 1});
  return facts;
}

// The element offset of a global access.
Expr global_offset(const BufferInfo& info, const std::vector<Expr>& index) {
  Expr offset = imm(0), stride = imm(1);
  for (size_t d = index.size(); d-- > 0;) {
    offset = index[d] * (info.strides.empty() ? stride : info.strides[d]) + offset;
    stride = stride * info.shape[d];
  }
  return offset;
}

// ── choosing a vector width ───────────────────────────────────────────────────────────────────────────

// How one access behaves along the last loop in blocks of v iterations.
enum class Along : uint8_t { uniform, contiguous, scattered };

Along along_last_loop(const ParallelNest& nest, const LayoutContext& ctx, const AccessOf& a, int64_t v, const Facts& facts) {
  const BufferInfo& info = ctx.function[a.buffer];
  Expr outer = var("o"), lane = var("v");
  Facts inner = facts;
  inner.bind(outer, Interval{0, nest.extents.back() / v});
  inner.bind(lane, Interval{0, v - 1});
  VarMap block{{nest.vars.back().get(), outer * v + lane}};
  std::vector<Expr> index;
  for (auto& i : a.index) index.push_back(substitute(i, block));
  Expr offset = info.scope == Scope::global ? global_offset(info, index)
                                            : physical_index(ctx.known, ctx.function, a.buffer, index, inner);
  auto linear = linear_in(simplify(offset, inner), lane, inner);
  if (!linear) return Along::scattered;
  if (linear->stride == 0) return Along::uniform;
  if (linear->stride != 1) return Along::scattered;
  if (ctx.target.vector_alignment == 1) return Along::contiguous;
  Modular m = modular_of(linear->base, inner);
  bool aligned = floor_mod(m.remainder, v) == 0 && m.modulus % v == 0;
  bool whole = info.scope != Scope::global || modular_of(info.shape.back(), inner) == Modular{0, 0} ||
               (modular_of(info.shape.back(), inner).modulus % v == 0 &&
                modular_of(info.shape.back(), inner).remainder % v == 0);
  return aligned && whole ? Along::contiguous : Along::scattered;
}

int64_t widest_lanes(const ParallelNest& nest, const LayoutContext& ctx, const std::vector<AccessOf>& accesses) {
  int64_t lanes = ctx.target.vector_bytes;
  for (auto& a : accesses) lanes = std::min<int64_t>(lanes, ctx.target.lanes(ctx.function[a.buffer].dtype));
  while (lanes > 1 && lanes / 2 >= nest.extents.back()) lanes /= 2;
  return lanes;
}

int64_t vector_width(const ParallelNest& nest, const LayoutContext& ctx) {
  std::vector<AccessOf> accesses = accesses_of(nest);
  Facts facts = nest_facts(nest, ctx.function, ctx.kernel);
  int64_t points = std::accumulate(nest.extents.begin(), nest.extents.end(), int64_t(1), std::multiplies<>());
  for (Scope scope : {Scope::global, Scope::shared})     // global accesses decide; where there are none, shared
    for (int64_t v = widest_lanes(nest, ctx, accesses); v > 1; v /= 2) {
      bool masked = ctx.target.masked_vectors;
      if (!masked && (nest.extents.back() % v || points / v < ctx.threads)) continue;
      bool fits = true, any = false;
      for (auto& a : accesses) {
        if (ctx.function[a.buffer].scope != scope && !masked) continue;
        Along how = along_last_loop(nest, ctx, a, v, facts);
        any |= how == Along::contiguous;
        fits &= how != Along::scattered || masked;
      }
      if (fits && any) return v;
    }
  return 1;
}

// ── choosing a mapping ────────────────────────────────────────────────────────────────────────────────

// How many of `rest` neighbouring blocks go to neighbouring threads, of `threads` left.
int64_t thread_radix(int64_t rest, int64_t threads) {
  if (rest >= threads) return threads;
  int64_t common = std::gcd(rest, threads);
  return common >= 16 ? common : rest;
}

Fragment plan_free(const ParallelNest& nest, const LayoutContext& ctx, int64_t v) {
  int64_t threads = ctx.threads, thread_stride = 1, register_stride = 1;
  std::vector<Term> terms;
  auto add = [&](int output, int64_t& stride, size_t d, int64_t divisor, int64_t radix) {
    if (radix > 1) terms.push_back({.output = output, .stride = stride, .digit = {int(d), divisor, radix}});
    stride *= radix;
  };
  for (size_t d = nest.extents.size(); d-- > 0;) {
    int64_t divisor = d + 1 == nest.extents.size() ? v : 1;
    if (divisor > 1) add(1, register_stride, d, 1, v);
    int64_t rest = (nest.extents[d] + divisor - 1) / divisor;
    int64_t radix = thread_radix(rest, threads);
    add(0, thread_stride, d, divisor, radix);
    threads /= radix;
    add(1, register_stride, d, divisor * radix, (rest + radix - 1) / radix);
  }
  return make_fragment(nest.extents, 1, std::move(terms));
}

// The mapping under which each iteration runs on the thread that holds its element of a fragment: possible if
// the access names every loop once.
std::optional<Fragment> follow(const ParallelNest& nest, const AccessOf& a, const Fragment& fragment) {
  if (!fragment.layout.terms) return std::nullopt;
  std::vector<int> loop_at(a.index.size(), -1);
  std::set<size_t> named;
  for (size_t d = 0; d < a.index.size(); d++) {
    if (auto l = loop_of(nest, a.index[d])) {
      if (!named.insert(*l).second || nest.extents[*l] > fragment.layout.extents[d]) return std::nullopt;
      loop_at[d] = int(*l);
    } else if (fragment.layout.extents[d] != 1) {
      return std::nullopt;
    }
  }
  if (named.size() != nest.vars.size()) return std::nullopt;
  std::vector<Term> terms;
  for (Term t : *fragment.layout.terms) {
    size_t input = size_t(t.digit.input);
    if (input == a.index.size())
      t.digit.input = int(nest.vars.size());
    else if (loop_at[input] < 0)
      continue;
    else
      t.digit.input = loop_at[input];
    terms.push_back(t);
  }
  return make_fragment(nest.extents, fragment.replicas, std::move(terms));
}

// The layout a fragment takes from a nest's mapping: digits of loops it is indexed by stay; the thread digits of
// the other loops become replicas; dimensions that no loop runs over lie in registers.
std::optional<Fragment> project(const ParallelNest& nest, const Fragment& loop, const AccessOf& a,
                                const std::vector<int64_t>& shape) {
  size_t rank = shape.size(), loops = nest.vars.size();
  std::vector<int> dim_of(loops + 1, -1);
  std::vector<bool> covered(rank, false);
  for (size_t d = 0; d < rank; d++)
    if (auto l = loop_of(nest, a.index[d])) {
      if (dim_of[*l] >= 0 || nest.extents[*l] != shape[d]) return std::nullopt;
      dim_of[*l] = int(d);
      covered[d] = true;
    } else {
      for (auto& v : nest.vars)
        if (uses_var(a.index[d], v)) return std::nullopt;
    }
  std::vector<Term> terms, registers;
  int64_t replicas = 1;
  for (Term t : *loop.layout.terms) {
    int dim = dim_of[size_t(t.digit.input)];
    if (dim < 0 && t.output == 0) {
      t.digit = {.input = int(rank), .divisor = replicas, .radix = t.digit.radix};
      replicas *= t.digit.radix;
      terms.push_back(t);
    } else if (dim >= 0) {
      t.digit.input = dim;
      (t.output == 0 ? terms : registers).push_back(t);
    }
  }
  std::sort(registers.begin(), registers.end(), [](auto& x, auto& y) { return x.stride < y.stride; });
  int64_t stride = 1;
  for (Term& t : registers) {
    t.stride = stride;
    stride *= t.digit.radix;
    terms.push_back(t);
  }
  for (size_t d = rank; d-- > 0;)
    if (!covered[d] && shape[d] > 1) {
      terms.push_back({.output = 1, .stride = stride, .digit = {int(d), 1, shape[d]}});
      stride *= shape[d];
    }
  return make_fragment(shape, replicas, std::move(terms));
}

std::vector<int64_t> constant_shape(const BufferInfo& info) {
  std::vector<int64_t> shape;
  for (auto& e : info.shape) shape.push_back(*as_int(e));
  return shape;
}

// Does every iteration find its element of the fragment on its own thread?
bool agrees(const ParallelNest& nest, const Fragment& loop, const AccessOf& a, const Fragment& fragment) {
  auto wanted = project(nest, loop, a, fragment.shape());
  if (wanted && equal(*wanted, fragment)) return true;
  std::set<std::vector<int64_t>> held;  // element…, thread
  std::vector<int64_t> x(fragment.layout.extents.size(), 0);
  auto next = [](std::vector<int64_t>& p, const std::vector<int64_t>& extents) {
    for (size_t d = p.size(); d-- > 0; p[d] = 0)
      if (++p[d] < extents[d]) return true;
    return false;
  };
  do {
    std::vector<int64_t> row(x.begin(), x.end() - 1);
    row.push_back(map_index(fragment.layout, x)[0]);
    held.insert(std::move(row));
  } while (next(x, fragment.layout.extents));
  std::vector<int64_t> p(loop.layout.extents.size(), 0);
  do {
    std::vector<int64_t> row;
    for (auto& index : a.index) {
      auto l = loop_of(nest, index);
      if (!l && !as_int(index)) return false;
      row.push_back(l ? p[*l] : *as_int(index));
    }
    row.push_back(map_index(loop.layout, p)[0]);
    if (!held.contains(row)) return false;
  } while (next(p, loop.layout.extents));
  return true;
}

}  // namespace

ParallelNest read_nest(const For& loop) {
  ParallelNest nest{.vars = {}, .extents = {}, .body = {}, .attrs = loop.attrs, .span = loop.span};
  for (const For* l = &loop; l && l->loop == Loop::parallel; l = nest.body.as<For>()) {
    auto extent = as_int(l->extent);
    if (!extent)
      fail(l->span, "a parallel loop needs a constant extent in this version: run it over the whole tile and guard "
                    "its body with an if");
    nest.vars.push_back(l->var);
    nest.extents.push_back(*extent);
    nest.body = l->body;
  }
  return nest;
}

Stmt make_nest(const ParallelNest& nest) {
  Stmt s = nest.body;
  for (size_t d = nest.vars.size(); d-- > 0;)
    s = for_loop(nest.vars[d], nest.extents[d], Loop::parallel, s, nest.span, d == 0 ? nest.attrs : Attrs{});
  return s;
}

LayoutMap infer_parallel(const ParallelNest& nest, const LayoutContext& ctx, Strictness level) {
  LayoutMap out;
  std::vector<AccessOf> accesses = accesses_of(nest);
  std::erase_if(accesses, [&](auto& a) { return ctx.function[a.buffer].scope != Scope::fragment; });
  out.loop = ctx.known.loop;
  if (!out.loop && level == Strictness::common && ctx.target.has_threads())
    for (auto& a : accesses)
      if (auto it = ctx.known.fragments.find(a.buffer); !out.loop && it != ctx.known.fragments.end())
        out.loop = follow(nest, a, it->second);
  if (!out.loop && level == Strictness::free) {
    out.lanes = vector_width(nest, ctx);
    out.loop = plan_free(nest, ctx, out.lanes);
  }
  if (!out.loop || !ctx.target.has_threads()) return out;
  for (auto& a : accesses) {
    const BufferInfo& info = ctx.function[a.buffer];
    auto known = ctx.known.fragments.find(a.buffer);
    if (known != ctx.known.fragments.end()) {
      if (!agrees(nest, *out.loop, a, known->second))
        fail(a.span, "this loop runs iteration -> thread as {}, but the elements of {} that it needs lie on other "
                     "threads ({}): copy {} to a shared buffer first and read that",
             to_string(*out.loop), info.name, to_string(known->second), info.name);
    } else if (!out.fragments.contains(a.buffer)) {
      auto f = project(nest, *out.loop, a, constant_shape(info));
      if (!f)
        fail(a.span, "{} is a fragment, so its indices must be loop variables of the parallel loops, each over the "
                     "whole extent, or not depend on them; use a shared buffer for other indices", info.name);
      out.fragments.emplace(a.buffer, std::move(*f));
    }
  }
  return out;
}

Expr physical_index(const LayoutMap& layouts, const Function& f, BufferId buffer, const std::vector<Expr>& index,
                    const Facts& facts) {
  if (auto it = layouts.shared.find(buffer); it != layouts.shared.end()) return simplify(map_index(it->second, index)[0], facts);
  if (auto it = layouts.fragments.find(buffer); it != layouts.fragments.end()) {
    std::vector<Expr> inputs = index;
    inputs.push_back(imm(0));
    return simplify(map_index(it->second.layout, inputs)[1], facts);
  }
  return simplify(map_index(row_major(constant_shape(f[buffer])), index)[0], facts);
}

namespace {

// The body at one point of the nest, its accesses to tiles made physical.
Stmt body_at(const ParallelNest& nest, const FragmentLoops& loops, LowerContext& ctx, const Facts& facts) {
  VarMap point;
  for (size_t d = 0; d < nest.vars.size(); d++) point.emplace(nest.vars[d].get(), loops.indices[d]);
  auto is_tile = [&](BufferId b) { return ctx.function[b].scope != Scope::global; };
  return rewrite(
      substitute(nest.body, point),
      [&](const Load& n, Rewriter& self) -> Expr {
        if (!is_tile(n.buffer)) return self.children(n);
        std::vector<Expr> index;
        for (auto& i : n.index) index.push_back(self(i));
        return load(n.dtype, n.buffer, {physical_index(ctx.layouts, ctx.function, n.buffer, index, facts)}, n.span);
      },
      [&](const Store& n, Rewriter& self) -> Stmt {
        Scope scope = ctx.function[n.buffer].scope;
        std::vector<Expr> index;
        for (auto& i : n.index) index.push_back(self(i));
        if (is_tile(n.buffer)) index = {physical_index(ctx.layouts, ctx.function, n.buffer, index, facts)};
        bool once = scope == Scope::global || scope == Scope::shared;   // copies write once
        return store(n.buffer, index, self(n.value), n.span, once ? both(n.mask, loops.first_replica) : n.mask);
      });
}

// Cuts the loop over consecutive elements of the last dimension, if there is one, into blocks of `lanes`: the last
// axis is then the vector, of that many lanes or all of them.  Returns whether there is such an axis.
bool cut_vector(FragmentLoops& loops, const ParallelNest& nest, const Fragment& mapping, int64_t lanes, const Target& target) {
  int last = int(nest.vars.size()) - 1;
  bool along = std::any_of(mapping.layout.terms->begin(), mapping.layout.terms->end(), [&](const Term& t) {
    return t.output == 1 && t.stride == 1 && t.digit.input == last && t.digit.divisor == 1;
  });
  if (!along || loops.axes.empty() || loops.axes.back().stride != 1) return false;
  auto axis = loops.axes.back();
  if (lanes == 1 || (lanes == 0 && axis.extent > target.vector_bytes)) return false;
  if (lanes == 0 || axis.extent <= lanes) return true;
  FragmentLoops::Axis lane{.var = var("v"), .extent = lanes, .stride = 1};
  loops.axes.back() = {.var = var(axis.var.as<Var>()->hint), .extent = (axis.extent + lanes - 1) / lanes, .stride = lanes};
  Expr whole = loops.axes.back().var * lanes + lane.var;
  VarMap cut{{axis.var.get(), whole}};
  for (Expr& e : loops.indices) e = substitute(e, cut);
  if (loops.guard) loops.guard = substitute(loops.guard, cut);
  if (axis.extent % lanes) loops.guard = both(loops.guard, lt(whole, imm(axis.extent)));
  loops.axes.push_back(lane);
  return true;
}

}  // namespace

Stmt lower_parallel(const ParallelNest& nest, LowerContext& ctx) {
  const Fragment& mapping = *ctx.layouts.loop;
  FragmentLoops loops = inverse(mapping, ctx.kernel.thread, ctx.threads);
  bool vector = cut_vector(loops, nest, mapping, ctx.layouts.lanes, ctx.target);
  Facts facts = facts_of(ctx.function, ctx.kernel);
  int64_t trips = 1;
  for (auto& axis : loops.axes) {
    facts.bind(axis.var, Interval{0, axis.extent - 1});
    trips *= axis.extent;
  }
  bool registers = false;
  for (auto& a : accesses_of(nest)) registers |= ctx.function[a.buffer].scope == Scope::fragment;
  bool unroll = ctx.target.has_threads() && (registers || trips <= 64);
  Stmt s = if_then(loops.guard, body_at(nest, loops, ctx, facts), {}, nest.span);
  for (size_t i = loops.axes.size(); i-- > 0;) {
    auto& axis = loops.axes[i];
    Loop kind = vector && i + 1 == loops.axes.size() ? Loop::vectorized : unroll ? Loop::unrolled : Loop::serial;
    Attrs attrs{.entries = {{"independent", int64_t(1)}}};
    s = for_loop(axis.var, axis.extent, kind, s, nest.span, attrs);
  }
  return s;
}

}  // namespace tl
