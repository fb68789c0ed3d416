// Mappings of parallel nests: all questions are answered from digits.
//
// A fragment's digits never mix inputs, so the thread of an element is a sum of one number per index. Whether
// two maps agree is then a question about a few differences per loop, not about all points.
#include "ops/mapping.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "arith/prove.h"
#include "base/round.h"
#include "ir/rewrite.h"
#include "ops/neighbours.h"
#include "target/alignment.h"

namespace tl {

namespace {

// `if i == 0: F[0, j] = …` moves along i like F[i, j]: an index is the loop variable that a condition holds
// at its value.
struct AccessReader {
  const ParallelNest& nest;
  Facts facts = {};  // of the conditions around
  std::vector<NestAccess> out = {};

  void under(const Expr& condition, auto&& walk) {
    Facts outer = facts;
    for (size_t d = 0; outer.ranges.empty() && d < nest.vars.size(); d++)
      facts.bind(nest.vars[d], Interval{0, nest.extents[d] - 1});
    facts.assume(condition);
    walk();
    facts = std::move(outer);
  }
  std::vector<Expr> named(std::vector<Expr> index) const {
    if (facts.ranges.empty()) return index;
    for (auto& e : index)
      for (size_t d = 0; is_const(e) && d < nest.vars.size(); d++) {
        bool held = nest.extents[d] > 1 && interval_of(nest.vars[d], facts) == Interval::point(*as_int(e));
        if (held && std::ranges::none_of(index, [&](auto& i) { return uses_var(i, nest.vars[d]); }))
          e = nest.vars[d];
      }
    return index;
  }
  void read() {
    rewrite(
        nest.body,
        [&](const Load& n, Rewriter& self) -> Expr {
          out.push_back({n.buffer, named(n.index), false, n.span});
          return self.children(n);
        },
        [&](const Store& n, Rewriter& self) -> Stmt {
          out.push_back({n.buffer, named(n.index), true, n.span});
          return self.children(n);
        },
        [&](const Select& n, Rewriter& self) -> Expr {
          self(n.cond);
          under(n.cond, [&] { self(n.a); });
          under(unary(UnaryOp::logical_not, n.cond), [&] { self(n.b); });
          return Expr(&n);
        },
        [&](const If& n, Rewriter& self) -> Stmt {
          self(n.cond);
          under(n.cond, [&] { self(n.then_body); });
          if (n.else_body) under(unary(UnaryOp::logical_not, n.cond), [&] { self(n.else_body); });
          return Stmt(&n);
        });
  }
};

}  // namespace

std::vector<NestAccess> accesses_of(const ParallelNest& nest) {
  AccessReader reader{.nest = nest};
  reader.read();
  return std::move(reader.out);
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

Fragment replicated(const std::vector<int64_t>& shape, int64_t threads) {
  std::vector<Term> terms;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
    terms.push_back({.output = 1, .stride = stride, .digit = {int(d), 1, shape[d]}});
  terms.push_back({.output = 0, .stride = 1, .digit = {int(shape.size()), 1, threads}});
  return make_fragment(shape, threads, std::move(terms));
}

std::vector<int64_t> tile_shape(const BufferInfo& info) {
  std::vector<int64_t> shape;
  for (auto& e : info.shape) shape.push_back(*as_int(e));
  return shape;
}

bool may_pad(const Kernel& k) { return !k.attrs.find("unpadded"); }

int64_t room_for(BufferId buffer, const Function& f, const Kernel& k, const Target& target,
                 const LayoutDecisions& known) {
  if (!may_pad(k)) return element_count(f[buffer]);
  int64_t left = target.shared_bytes;
  for (size_t i = 0; i < f.buffers.size(); i++) {
    const BufferInfo& info = f.buffers[i];
    if (info.scope != Scope::shared || info.alias_of || BufferId{int(i)} == f.storage(buffer)) continue;
    int64_t elements = element_count(info);
    auto at = known.shared.find(BufferId{int(i)});
    if (at != known.shared.end()) elements = at->second.ranges[0];
    left -= round_up(elements * info.dtype.bytes(), alignment_of(info));
  }
  return std::max<int64_t>(0, left) / f[buffer].dtype.bytes();
}

// ── choosing a mapping ────────────────────────────────────────────────────────────────────────────────
namespace {

// How many of `rest` neighbouring blocks go to neighbouring threads, of `threads` left.
int64_t thread_radix(int64_t rest, int64_t threads) {
  if (rest >= threads) return threads;
  int64_t common = std::gcd(rest, threads);
  return common >= 16 ? common : rest;
}

}  // namespace

Fragment plan_free(const ParallelNest& nest, const LayoutContext& ctx, int64_t v) {
  int64_t threads = ctx.team.count, thread_stride = 1, register_stride = 1;
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

namespace {

// What each value of one input adds to the thread; digits only.
std::vector<int64_t> thread_parts(const Fragment& f, size_t input) {
  std::vector<int64_t> part(size_t(f.layout.extents[input]), 0);
  for (auto& t : *f.layout.terms)
    if (t.output == 0 && size_t(t.digit.input) == input)
      for (size_t x = 0; x < part.size(); x++)
        part[x] += int64_t(x) / t.digit.divisor % t.digit.radix * t.stride;
  return part;
}

// Every element along that dimension lies on one thread.
bool in_registers(const Fragment& f, size_t dimension) {
  return std::ranges::none_of(*f.layout.terms, [&](const Term& t) {
    return t.output == 0 && t.digit.radix > 1 && size_t(t.digit.input) == dimension;
  });
}

// An access to groups of neighbours, and the fragment of these; nothing where it is to single elements.
std::optional<std::pair<NestAccess, Fragment>> of_groups(const ParallelNest& nest, const NestAccess& a,
                                                         const Fragment& fragment) {
  auto access = group_access(nest, a, fragment.shape());
  auto of = access ? fragment_of_groups(fragment, access->groups) : std::nullopt;
  if (!of) return std::nullopt;
  return std::pair(access->access, std::move(*of));
}

// The loop that runs along a dimension of a fragment: the index is its variable, or leads from there to
// elements on the same threads, as F[i, j + 64] does where 64 columns and the next lie alike.
std::optional<size_t> loop_along(const ParallelNest& nest, const NestAccess& a, const Fragment& fragment,
                                 size_t dimension) {
  const Expr& index = a.index[dimension];
  if (auto l = loop_of(nest, index)) return l;
  auto uses = [](const Expr& e) { return [&e](const Expr& v) { return uses_var(e, v); }; };
  auto first = std::ranges::find_if(nest.vars, uses(index));
  auto linear = first == nest.vars.end() ? std::nullopt : linear_in(index, *first, {});
  if (!linear || linear->stride != 1 || std::ranges::any_of(nest.vars, uses(linear->base)))
    return std::nullopt;
  size_t l = size_t(first - nest.vars.begin());
  std::vector<int64_t> part = thread_parts(fragment, dimension);
  int64_t extent = nest.extents[l], last = int64_t(part.size()) - extent;
  auto constant = as_int(linear->base);
  Modular m = constant ? Modular{int64_t(part.size()), *constant} : modular_of(linear->base, {});
  if (last < 0 || m.modulus <= 0 || (constant && (*constant < 0 || *constant > last))) return std::nullopt;
  for (int64_t begin = m.remainder; begin <= last; begin += m.modulus)
    if (!std::equal(part.begin(), part.begin() + extent, part.begin() + begin)) return std::nullopt;
  return l;
}

// For each dimension of a fragment the loop that runs over it, or -1 where the index is a constant whose
// elements start at thread part 0, or one that a statement inside gives to a dimension in registers.  Nothing
// if an index is anything else, or a loop runs over two dimensions.
std::optional<std::vector<int>> loops_over(const ParallelNest& nest, const NestAccess& a,
                                           const Fragment& fragment) {
  std::vector<int> loop_at(a.index.size(), -1);
  std::set<size_t> named;
  for (size_t d = 0; d < a.index.size(); d++) {
    if (auto l = loop_along(nest, a, fragment, d)) {
      if (!named.insert(*l).second || nest.extents[*l] > fragment.layout.extents[d]) return std::nullopt;
      loop_at[d] = int(*l);
    } else if (as_int(a.index[d]) || !in_registers(fragment, d)) {
      auto c = as_int(a.index[d]);
      if (!c || *c < 0 || *c >= fragment.layout.extents[d] || thread_parts(fragment, d)[size_t(*c)])
        return std::nullopt;
    }
  }
  return loop_at;
}

}  // namespace

std::optional<Fragment> derive_mapping(const ParallelNest& nest, const NestAccess& a,
                                       const Fragment& fragment) {
  if (auto groups = of_groups(nest, a, fragment)) return derive_mapping(nest, groups->first, groups->second);
  if (!fragment.layout.terms) return std::nullopt;
  auto loop_at = loops_over(nest, a, fragment);
  if (!loop_at) return std::nullopt;
  for (size_t l = 0; l < nest.vars.size(); l++)  // a loop of one iteration may go unnamed
    if (nest.extents[l] > 1 && std::ranges::find(*loop_at, int(l)) == loop_at->end()) return std::nullopt;
  std::vector<Term> terms;
  for (Term t : *fragment.layout.terms) {
    size_t input = size_t(t.digit.input);
    if (input < a.index.size() && (*loop_at)[input] < 0) continue;
    t.digit.input = input == a.index.size() ? int(nest.vars.size()) : (*loop_at)[input];
    terms.push_back(t);
  }
  return make_fragment(nest.extents, fragment.replicas, std::move(terms));
}

std::optional<Fragment> derive_partial_mapping(const ParallelNest& nest, const NestAccess& a,
                                               const Fragment& fragment, int64_t lanes) {
  if (auto groups = of_groups(nest, a, fragment))
    return derive_partial_mapping(nest, groups->first, groups->second, lanes);
  if (!fragment.layout.terms) return std::nullopt;
  auto loop_at = loops_over(nest, a, fragment);
  if (!loop_at) return std::nullopt;
  std::vector<Term> terms, replicas;
  std::vector<bool> named(nest.vars.size(), false);
  int64_t registers = lanes;
  for (Term t : *fragment.layout.terms) {
    size_t input = size_t(t.digit.input);
    if (input == a.index.size()) {
      replicas.push_back(t);
    } else if ((*loop_at)[input] >= 0) {
      t.digit.input = (*loop_at)[input];
      named[size_t(t.digit.input)] = true;
      if (t.output == 1) {
        t.stride = registers;
        registers *= t.digit.radix;
      }
      terms.push_back(t);
    }
  }
  for (int l : *loop_at)
    if (l >= 0) named[size_t(l)] = true;
  std::ranges::sort(replicas, [](auto& x, auto& y) { return x.stride < y.stride; });
  size_t next = 0;
  for (size_t l = nest.vars.size(); l-- > 0;) {
    if (named[l]) continue;
    int64_t done = 1;
    if (l + 1 == nest.vars.size() && lanes > 1) {
      terms.push_back({.output = 1, .stride = 1, .digit = {int(l), 1, lanes}});
      done = lanes;
    }
    int64_t rest = (nest.extents[l] + done - 1) / done;
    for (; rest > 1 && next < replicas.size(); next++) {
      int64_t copies = replicas[next].digit.radix, radix = std::min(rest, copies);
      if (copies % radix) break;  // threads beyond a part of the copies could not be read off their numbers
      terms.push_back({.output = 0, .stride = replicas[next].stride, .digit = {int(l), done, radix}});
      done *= radix;
      rest = (rest + radix - 1) / radix;
    }
    if (rest > 1) terms.push_back({.output = 1, .stride = registers, .digit = {int(l), done, rest}});
    registers *= rest;
  }
  return make_fragment(nest.extents, 1, std::move(terms));
}

std::optional<Fragment> project(const ParallelNest& nest, const Fragment& loop, const NestAccess& a,
                                const std::vector<int64_t>& shape) {
  if (auto groups = group_access(nest, a, shape)) {
    std::vector<int64_t> counts = shape;
    for (size_t d = 0; d < counts.size(); d++) counts[d] /= groups->groups[d];
    auto fragment = project(nest, loop, groups->access, counts);
    return fragment ? std::optional(fragment_of_elements(*fragment, groups->groups)) : std::nullopt;
  }
  if (auto common = common_read(nest, a, loop, shape))
    return project(common->nest, common->mapping, common->access, shape);
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
  std::ranges::sort(registers, [](auto& x, auto& y) { return x.stride < y.stride; });
  int64_t stride = 1;
  auto whole = [&](size_t d) {
    if (!covered[d] && shape[d] > 1) {
      terms.push_back({.output = 1, .stride = stride, .digit = {int(d), 1, shape[d]}});
      stride *= shape[d];
    }
    covered[d] = true;
  };
  for (size_t d = rank; d-- > 0 && !covered[d];) whole(d);  // next to each other, as in memory
  for (Term& t : registers) {
    t.stride = stride;
    stride *= t.digit.radix;
    terms.push_back(t);
  }
  for (size_t d = rank; d-- > 0;) whole(d);
  return make_fragment(shape, replicas, std::move(terms));
}

bool agrees(const ParallelNest& nest, const Fragment& loop, const NestAccess& a, const Fragment& fragment) {
  if (auto groups = of_groups(nest, a, fragment)) return agrees(nest, loop, groups->first, groups->second);
  if (!loop.layout.terms || !fragment.layout.terms) return false;
  if (auto common = common_read(nest, a, loop, fragment.shape()))
    return agrees(common->nest, common->mapping, common->access, fragment);
  // All values that (the iteration's thread) - (the first thread that holds its element) may take …
  std::vector<std::vector<int64_t>> difference;
  for (size_t l = 0; l <= nest.vars.size(); l++) difference.push_back(thread_parts(loop, l));
  int64_t constant = 0;
  for (size_t d = 0; d < a.index.size(); d++) {
    std::vector<int64_t> part = thread_parts(fragment, d);
    if (auto l = loop_along(nest, a, fragment, d)) {
      if (difference[*l].size() > part.size()) return false;
      for (size_t x = 0; x < difference[*l].size(); x++) difference[*l][x] -= part[x];
    } else if (as_int(a.index[d]) || !in_registers(fragment, d)) {
      auto c = as_int(a.index[d]);
      if (!c || *c < 0 || *c >= int64_t(part.size())) return false;
      constant += part[size_t(*c)];
    }
  }
  std::vector<int64_t> copies = thread_parts(fragment, a.index.size());
  std::set<int64_t> held(copies.begin(), copies.end()), taken{-constant};
  bool same_for_all = true;  // iterations: of those of a loop that the index leaves out, one may store alone
  for (size_t l = 0; l < difference.size(); l++) {
    std::set<int64_t> distinct(difference[l].begin(), difference[l].end()), sums;
    same_for_all &= l == nest.vars.size() || distinct.size() == 1;
    for (int64_t x : taken)
      for (int64_t y : distinct) sums.insert(x + y);
    taken = std::move(sums);
    if (taken.size() > 4096) return false;
  }
  // … must be among those that lead from the first copy to another; a store must reach every copy.
  if (a.is_store) return same_for_all && taken == held;
  return std::includes(held.begin(), held.end(), taken.begin(), taken.end());
}

}  // namespace tl
