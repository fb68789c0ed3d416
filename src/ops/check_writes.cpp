// Iterations of T.Parallel are independent: two that write one element write the same value there, or the
// program is refused.  Values are the same where they are made of the same: the same elements, by indices
// that are equal in both iterations.
#include <algorithm>
#include <numeric>

#include "arith/prove.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/iteration_accesses.h"

namespace tl {
namespace {

// ── stores of which no two iterations can meet ────────────────────────────────────────────────────────
// One dimension of an index: Σ stride · counter, beyond what all iterations share.
using Strides = std::map<const ExprNode*, int64_t>;

struct Placed {
  const IterationAccess* store = nullptr;
  std::vector<Expr> shared = {};
  std::vector<int64_t> offset = {};   // from the first store of its class
  std::vector<Strides> strides = {};  // by dimension
  bool is_linear = true;
};

Placed placed(const Iterations& nest, const IterationAccess& a) {
  Placed p{.store = &a};
  Facts facts;
  std::vector<LoopCounter> counters = nest.counters_of(a);
  for (auto& c : counters) facts.bind(c.var, Interval{0, std::max<int64_t>(c.extent, 1) - 1});
  for (Expr rest : nest.own_parts(a, p.shared)) {
    rest = simplify(rest, facts);
    Strides strides;
    for (auto& c : counters) {
      auto linear = linear_in(rest, c.var, facts);
      if (!linear) break;
      if (linear->stride && c.extent > 1) strides.emplace(c.var.get(), linear->stride);
      rest = simplify(linear->base, facts);
    }
    p.is_linear &= is_int(rest, 0);
    p.strides.push_back(std::move(strides));
  }
  return p;
}

using Extents = std::map<const ExprNode*, int64_t>;

// How far a dimension reaches below and above its offset.
Interval reach_of(const Strides& strides, const Extents& extents) {
  Interval all{0, 0};
  for (auto& [var, stride] : strides) (stride < 0 ? all.min : all.max) += stride * (extents.at(var) - 1);
  return all;
}

// Does a dimension name its counters, as digits of one number?
bool are_digits(const Strides& strides, const Extents& extents) {
  std::vector<std::pair<int64_t, int64_t>> digits;
  for (auto& [var, stride] : strides) digits.emplace_back(std::abs(stride), extents.at(var));
  std::ranges::sort(digits);
  int64_t below = 0;
  for (auto& [stride, extent] : digits) {
    if (stride <= below) return false;
    below += stride * (extent - 1);
  }
  return true;
}

bool names_its_iteration(const Placed& p, const Iterations& nest, const Extents& extents) {
  return p.is_linear && std::ranges::all_of(nest.loops, [&](auto& loop) {
           return loop.extent <= 1 || std::ranges::any_of(p.strides, [&](auto& strides) {
                    return strides.contains(loop.var.get()) && are_digits(strides, extents);
                  });
         });
}

// Have two stores of one class no element in common, at least not in two iterations?
bool never_meet(const Placed& a, const Placed& b, const Extents& extents) {
  if (!a.is_linear || !b.is_linear) return false;
  for (size_t d = 0; d < a.offset.size(); d++) {
    int64_t apart = b.offset[d] - a.offset[d], common = 0;
    Interval first = reach_of(a.strides[d], extents), second = reach_of(b.strides[d], extents);
    if (second.max + apart < first.min || second.min + apart > first.max) return true;
    for (auto* strides : {&a.strides[d], &b.strides[d]})
      for (auto& [var, stride] : *strides) common = std::gcd(common, stride);
    if (common ? apart % common : apart) return true;
  }
  return a.offset == b.offset && a.strides == b.strides;  // each iteration's own, if it is for one of them
}

// ── values ────────────────────────────────────────────────────────────────────────────────────────────
// What a stored value is made of, as far as it differs among iterations: numbers that loops give.
struct Origins final : Rewriter {
  const Iterations& nest;
  const IterationAccesses& accesses;
  std::vector<LoopCounter> counters;
  std::vector<Expr> numbers = {};
  std::set<const ExprNode*> seen = {};
  std::set<BufferId> filled = {};
  VarMap zeros = {};
  CounterValues begin = {};

  Origins(const Iterations& nest, const IterationAccesses& accesses, const IterationAccess& store)
      : nest(nest),
        accesses(accesses),
        counters(nest.counters_of(store)) {
    for (auto& c : counters) zeros.emplace(c.var.get(), zero(c.var->dtype)), begin.emplace(c.var.get(), 0);
    (*this)(store.value);
  }

  bool is_number(const Expr& e) {
    bool whole = e->dtype.lanes == 1 && (e->dtype.is_int() || e->dtype.is_bool());
    if (!whole || !contains(e, [&](const Var& v) { return begin.contains(&v); })) return false;
    Expr own = e->dtype.is_bool() ? e : simplify(e - substitute(e, zeros));
    if (!value_under(own, begin)) return false;
    numbers.push_back(own);
    return true;
  }
  // What this buffer holds is what the iteration put there.
  void filler(BufferId buffer) {
    if (!filled.insert(buffer).second) return;
    for (auto& a : accesses.found) {
      if (!a.is_store || a.buffer != buffer) continue;
      for (auto& i : a.index) (*this)(i);
      for (auto& c : a.conditions) (*this)(c);
      (*this)(a.value);
    }
  }
  Expr operator()(const Expr& e) override {
    if (!seen.insert(e.get()).second || is_number(e)) return e;
    if (auto let = accesses.lets.find(e.get()); let != accesses.lets.end()) (*this)(let->second);
    if (auto* load = e.as<Load>()) filler(load->buffer);
    return children(e);
  }
};

// ── two iterations that meet ──────────────────────────────────────────────────────────────────────────
struct Write {
  const Placed* by = nullptr;
  int64_t iteration = 0, point = 0;
};

struct Meetings {
  const Iterations& nest;
  const IterationAccesses& accesses;
  std::map<const IterationAccess*, Origins> origins = {};

  const std::vector<Expr>& numbers_of(const IterationAccess& store) {
    return origins.try_emplace(&store, nest, accesses, store).first->second.numbers;
  }
  CounterValues values_of(const Write& w) const { return nest.values_at(*w.by->store, w.point); }
  Expr substituted(const Expr& e, const Write& w) const {
    VarMap at;
    CounterValues values = values_of(w);
    for (auto& c : nest.counters_of(*w.by->store))
      at.emplace(c.var.get(), imm(values.at(c.var.get()), c.var->dtype));
    return simplify(substitute(e, at));
  }
  bool are_equal(const Write& a, const Write& b) {
    const IterationAccess &first = *a.by->store, &second = *b.by->store;
    if (a.by != b.by) {
      if (!equal(substituted(first.value, a), substituted(second.value, b))) return false;
      if (!contains(first.value, [&](const Var& v) { return accesses.lets.contains(&v); })) return true;
    }
    const std::vector<Expr>&x = numbers_of(first), &y = numbers_of(second);
    if (x.size() != y.size()) return false;
    if (x.empty()) return true;
    CounterValues there = values_of(a), here = values_of(b);
    for (size_t i = 0; i < x.size(); i++) {
      auto one = value_under(x[i], there), other = value_under(y[i], here);
      if (one && other && *one != *other) return false;
    }
    return true;
  }

  [[noreturn]] void refuse(const Write& a, const Write& b) const {
    const IterationAccess& store = *b.by->store;
    std::string element, apart;
    for (auto& i : store.index) element += (element.empty() ? "" : ", ") + print(substituted(i, b), &nest.f);
    CounterValues there = values_of(a), here = values_of(b);
    for (auto& l : nest.loops)
      if (there.at(l.var.get()) != here.at(l.var.get()))
        apart += fmt::format("{}{}", apart.empty() ? "" : ", ", l.var.template as<Var>()->hint);
    std::string line =
        a.by->store->span.line == store.span.line ? "" : fmt::format(" (on line {})", a.by->store->span.line);
    fail(store.span,
         "the iterations of T.Parallel run in any order, but iteration {}{} and iteration {} write different "
         "values to {}[{}]: let the loop over {} be T.serial, reduce over it (T.reduce_sum, …), or use "
         "T.atomic_add, T.atomic_max, …",
         nest.name_of(a.iteration), line, nest.name_of(b.iteration), nest.f[store.buffer].name, element,
         apart);
  }

  // Of each value that an element is given, the writes by two iterations are kept.
  void meet(std::vector<Write>& before, const Write& write) {
    int64_t same = 0;
    for (auto& other : before)
      if (are_equal(other, write)) {
        if (other.iteration == write.iteration) return;
        same++;
      } else if (other.iteration != write.iteration) {
        refuse(other, write);
      }
    if (same < 2) before.push_back(write);
  }

  // Of the stores of one class.
  void look(const std::vector<const Placed*>& stores) {
    std::map<std::vector<int64_t>, std::vector<Write>> writes;
    for (auto* p : stores) {
      std::vector<Expr> shared;
      std::vector<std::pair<std::vector<int64_t>, Write>> found;
      bool known =
          nest.points(*p->store, shared, [&](int64_t n, std::vector<int64_t> element, int64_t point) {
            for (size_t d = 0; d < element.size(); d++) element[d] += p->offset[d];
            found.emplace_back(std::move(element), Write{p, n, point});
          });
      if (known)
        for (auto& [element, write] : found) meet(writes[element], write);
    }
  }
};

// The stores to a buffer, by classes of which the places differ by constants.
std::vector<std::vector<Placed>> classes_of(const Iterations& nest, const IterationAccesses& accesses,
                                            BufferId buffer) {
  std::vector<std::vector<Placed>> classes;
  for (auto& a : accesses.found) {
    if (!a.is_store || a.buffer != buffer) continue;
    Placed p = placed(nest, a);
    auto joins = [&](const Placed& first) {
      std::vector<int64_t> offset;
      for (size_t d = 0; d < p.shared.size(); d++) {
        auto apart = as_int(simplify(p.shared[d] - first.shared[d]));
        if (!apart) return false;
        offset.push_back(*apart);
      }
      p.offset = std::move(offset);
      return true;
    };
    auto it = std::ranges::find_if(classes, [&](auto& c) { return joins(c.front()); });
    if (it == classes.end()) {
      p.offset.assign(p.shared.size(), 0);
      classes.push_back({std::move(p)});
    } else {
      it->push_back(std::move(p));
    }
  }
  return classes;
}

// Those that may meet another, or themselves.
std::vector<const Placed*> meeting(const Iterations& nest, const std::vector<Placed>& all) {
  Extents extents;
  for (auto& p : all)
    for (auto& c : nest.counters_of(*p.store)) extents.emplace(c.var.get(), c.extent);
  std::vector<char> meets(all.size(), 0);
  for (size_t i = 0; i < all.size(); i++) {
    if (!names_its_iteration(all[i], nest, extents)) meets[i] = 1;
    for (size_t j = 0; j < i; j++)
      if (!never_meet(all[j], all[i], extents)) meets[i] = meets[j] = 1;
  }
  std::vector<const Placed*> out;
  for (size_t i = 0; i < all.size(); i++)
    if (meets[i]) out.push_back(&all[i]);
  return out;
}

}  // namespace

void check_writes(const Iterations& nest, const IterationAccesses& accesses) {
  std::set<BufferId> looked_at;
  for (auto& a : accesses.found) {
    const BufferInfo& info = nest.f[a.buffer];
    if (!a.is_store || info.scope == Scope::local || !info.reducer.empty()) continue;
    if (!looked_at.insert(a.buffer).second) continue;
    for (auto& stores : classes_of(nest, accesses, a.buffer))
      if (auto some = meeting(nest, stores); !some.empty())
        Meetings{.nest = nest, .accesses = accesses}.look(some);
  }
}

}  // namespace tl
