// Fragments repeated, replicated, condensed (paper 4.1), and asked what they cover.
//
//   ldmatrix, 16×16 a warp    .repeat({2, 1}, registers)     32×16 a warp
//                             .repeat({4, 1}, threads)       128×16 for four warps
//                             .replicate(2)                  the same for each of two columns of warps
#include <algorithm>
#include <set>

#include "base/error.h"
#include "layout/algebra.h"
#include "layout/fragment.h"
#include "layout/table.h"

namespace tl {
namespace {

std::vector<int64_t> place_of(const std::vector<int64_t>& points, size_t p) {
  return {points[2 * p], points[2 * p + 1]};
}

std::string element_text(const Fragment& f, int64_t point) {
  return tuple_text(point_at(f.shape(), point / f.replicas));
}

// The replica as the digits that the map looks at; nothing if one of them is XORed or overlaps another.
std::optional<Fragment> condensed_digits(const Fragment& f) {
  int replica = int(f.layout.extents.size()) - 1;
  std::set<std::pair<int64_t, int64_t>> used;  // divisor, radix
  for (auto& t : *f.layout.terms) {
    for (auto& x : t.xors)
      if (x.input == replica) return std::nullopt;
    if (t.digit.input != replica) continue;
    if (t.output != 0 || !t.xors.empty()) return std::nullopt;
    used.insert({t.digit.divisor, t.digit.radix});
  }
  std::map<int64_t, int64_t> divisors;  // old -> new
  int64_t replicas = 1, end = 1;
  for (auto& [divisor, radix] : used) {
    if (divisor % end ||
        (divisor * radix < f.replicas ? f.replicas % (divisor * radix) : f.replicas % divisor))
      return std::nullopt;
    divisors[divisor] = replicas;
    end = divisor * radix;
    replicas *= std::min(radix, f.replicas / divisor);
  }
  std::vector<Term> terms = *f.layout.terms;
  for (auto& t : terms)
    if (t.digit.input == replica) t.digit.divisor = divisors.at(t.digit.divisor);
  return make_fragment(f.shape(), replicas, std::move(terms));
}

}  // namespace

Fragment repeat(const Fragment& f, const std::vector<int64_t>& factors, bool on_threads,
                bool last_dim_first) {
  std::vector<int64_t> shape = f.shape();
  if (factors.size() != shape.size())
    fail({}, "repeat: {} factors, {}, for a fragment of {} dimensions, {}", factors.size(),
         tuple_text(factors), shape.size(), tuple_text(shape));
  std::vector<int64_t> extents = f.layout.extents;
  for (size_t d = 0; d < factors.size(); d++) {
    if (factors[d] < 1)
      fail({}, "repeat: factor {} of dimension {} in {}; factors are 1 or more", factors[d], d,
           tuple_text(factors));
    extents[d] *= factors[d];
  }
  std::vector<Term> inner, copies;
  int64_t stride = on_threads ? f.threads : f.registers;
  for (size_t d = 0; d < extents.size(); d++)
    inner.push_back({.output = int(d), .stride = 1, .digit = {int(d), 1, f.layout.extents[d]}});
  for (size_t i = 0; i < factors.size(); i++) {
    size_t d = last_dim_first ? factors.size() - 1 - i : i;
    copies.push_back(
        {.output = on_threads ? 0 : 1, .stride = stride, .digit = {int(d), shape[d], factors[d]}});
    stride *= factors[d];
  }
  Layout within = compose(f.layout, from_terms(extents, int(extents.size()), std::move(inner)));
  return fragment_of(added(within, std::move(copies)));
}

Fragment replicate(const Fragment& f, int64_t n) {
  if (n < 1) fail({}, "replicate: {} copies; it must be 1 or more", n);
  std::vector<int64_t> extents = f.layout.extents;
  extents.back() *= n;
  int replica = int(extents.size()) - 1;
  std::vector<Term> inner;
  for (size_t d = 0; d < extents.size(); d++)
    inner.push_back({.output = int(d), .stride = 1, .digit = {int(d), 1, f.layout.extents[d]}});
  Layout within = compose(f.layout, from_terms(extents, int(extents.size()), std::move(inner)));
  return fragment_of(added(within, {{.output = 0, .stride = f.threads, .digit = {replica, f.replicas, n}}}));
}

Fragment condense(const Fragment& f) {
  if (f.replicas == 1) return f;
  if (f.layout.terms)
    if (auto out = condensed_digits(f)) return *out;
  std::vector<int64_t> points = table(f.layout), shape = f.shape(), rows;
  std::vector<std::set<std::vector<int64_t>>> held(points.size() / 2 / size_t(f.replicas));
  size_t most = 0;
  for (size_t p = 0; p < points.size() / 2; p++) held[p / size_t(f.replicas)].insert(place_of(points, p));
  for (auto& pairs : held) most = std::max(most, pairs.size());
  for (auto& pairs : held) {
    for (auto& pair : pairs) rows.insert(rows.end(), pair.begin(), pair.end());
    for (size_t more = pairs.size(); more < most; more++)
      rows.insert(rows.end(), pairs.begin()->begin(), pairs.begin()->end());
  }
  shape.push_back(int64_t(most));
  return fragment_of(from_points(std::move(shape), 2, std::move(rows)));
}

std::vector<std::pair<int64_t, int64_t>> holders(const Fragment& f, const std::vector<int64_t>& index) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  if (index.size() + 1 != f.layout.extents.size())
    fail({}, "the fragment has {} dimensions, {}, but {} indices are given: {}", f.layout.extents.size() - 1,
         tuple_text(f.shape()), index.size(), tuple_text(index));
  for (int64_t r = 0; r < f.replicas; r++) {
    std::vector<int64_t> x = index;
    x.push_back(r);
    std::vector<int64_t> place = locate(f.layout, x);
    pairs.insert({place[0], place[1]});
  }
  return {pairs.begin(), pairs.end()};
}

std::optional<std::string> cover_fault(const Fragment& f) {
  std::vector<int64_t> points = table(f.layout), owner(size_t(f.threads * f.registers), -1);
  for (size_t p = 0; p < points.size() / 2; p++) {
    int64_t thread = points[2 * p], reg = points[2 * p + 1];
    int64_t& o = owner[size_t(thread * f.registers + reg)];
    if (o >= 0 && o / f.replicas == int64_t(p) / f.replicas)
      return fmt::format("two replicas of the element {} are both register {} of thread {}",
                         element_text(f, o), reg, thread);
    if (o >= 0)
      return fmt::format("the elements {} and {} are both register {} of thread {}", element_text(f, o),
                         element_text(f, int64_t(p)), reg, thread);
    o = int64_t(p);
  }
  for (size_t s = 0; s < owner.size(); s++)
    if (owner[s] < 0)
      return fmt::format("register {} of thread {} holds no element of {}", int64_t(s) % f.registers,
                         int64_t(s) / f.registers, tuple_text(f.shape()));
  return std::nullopt;
}

std::optional<SharedRegister> shared_register(const Fragment& f) {
  Fragment once = condense(f);  // replicas that coincide are one holder
  if (is_injective(once.layout)) return std::nullopt;
  auto [a, b] = *collision(once.layout);
  std::vector<int64_t> place = map_index(once.layout, a);
  a.pop_back();
  b.pop_back();
  return SharedRegister{.first = a, .second = b, .thread = place[0], .reg = place[1]};
}

void check_iterations_apart(const Fragment& f, Span span) {
  if (auto at = shared_register(f))
    fail(span,
         "this loop_layout puts the iterations {} and {} into one register, {} of thread {}: one of them "
         "would not run; give each iteration of a thread a register of its own",
         tuple_text(at->first), tuple_text(at->second), at->reg, at->thread);
}

}  // namespace tl
