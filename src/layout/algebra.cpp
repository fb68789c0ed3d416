// Composition and what follows from it; questions.  The inverse has a file of its own.
#include "layout/algebra.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "layout/table.h"

namespace tl {
namespace {

// outer's terms with inner's outputs for their inputs.
std::optional<std::vector<Term>> composed_terms(const Layout& outer, const Layout& inner) {
  if (!outer.terms || !inner.terms) return std::nullopt;
  std::vector<Sum> sums = sums_of(inner);
  auto digit = [&](const Digit& d) -> std::optional<Sum> {
    size_t in = size_t(d.input);
    auto from = split(sums[in], d.divisor, inner.extents);
    if (!from || d.divisor * d.radix >= outer.extents[in])
      return from ? std::optional(from->high) : std::nullopt;
    auto to = split(from->high, d.radix, inner.extents);
    return to ? std::optional(to->low) : std::nullopt;
  };
  std::vector<Term> out;
  for (auto& t : *outer.terms) {
    auto sum = digit(t.digit);
    for (auto& x : t.xors) {
      auto other = sum ? digit(x) : std::nullopt;
      if (!other) return std::nullopt;
      sum = exclusive_or(*sum, *other, inner.extents);
    }
    if (!sum) return std::nullopt;
    for (Term& piece : scaled(*sum, t.stride)) {
      out.push_back(piece);
      out.back().output = t.output;
    }
  }
  return merged_terms(out);
}

// The layout of these digits; without digits, of these points, with these expressions if there are any.
Layout made(std::vector<int64_t> extents, int outputs, std::optional<std::vector<Term>> terms,
            const std::function<std::vector<int64_t>()>& points, std::vector<Expr> vars,
            std::vector<Expr> exprs) {
  if (terms) return from_terms(std::move(extents), outputs, std::move(*terms));
  if (product(extents) > most_points && !exprs.empty())
    return from_map({.vars = std::move(vars), .extents = std::move(extents), .outputs = std::move(exprs)});
  Layout l = from_points(std::move(extents), outputs, points());
  if (l.terms || exprs.empty()) return l;
  l.vars = std::move(vars);
  l.outputs = std::move(exprs);
  return l;
}

void check_within(const Layout& outer, const Layout& inner) {
  if (inner.ranges.size() != outer.extents.size())
    fail({}, "the first layout gives {} numbers, {}, but the second takes {}, of the extents {}",
         inner.ranges.size(), tuple_text(inner.ranges), outer.extents.size(), tuple_text(outer.extents));
  for (size_t o = 0; o < inner.ranges.size(); o++) {
    if (inner.ranges[o] <= outer.extents[o]) continue;
    std::vector<int64_t> points = table(inner);  // the bound may be higher than any point
    size_t n = inner.ranges.size();
    for (size_t p = 0; p < points.size(); p += n)
      if (points[p + o] >= outer.extents[o])
        fail({}, "the first layout sends the element {} to {}, outside the extents {} of the second",
             tuple_text(point_at(inner.extents, int64_t(p / n))),
             tuple_text({points.begin() + std::ptrdiff_t(p), points.begin() + std::ptrdiff_t(p + n)}),
             tuple_text(outer.extents));
  }
}

// x -> its own indices, or what `change` makes of the sums of them.
std::vector<Sum> identity_sums(const std::vector<int64_t>& extents) {
  std::vector<Sum> sums(extents.size());
  for (size_t d = 0; d < extents.size(); d++) sums[d] = {{.digit = {int(d), 1, extents[d]}}};
  return sums;
}

std::vector<Term> terms_of(const std::vector<Sum>& sums) {
  std::vector<Term> terms;
  for (size_t o = 0; o < sums.size(); o++)
    for (Term t : sums[o]) {
      t.output = int(o);
      terms.push_back(t);
    }
  return terms;
}

bool has_xors(const Layout& l) {
  return std::ranges::any_of(*l.terms, [](const Term& t) { return !t.xors.empty(); });
}

// Without XOR a layout is a sum of functions of one input each: equal if those are.
bool equal_sums(const Layout& a, const Layout& b) {
  for (size_t d = 0; d < a.extents.size(); d++) {
    auto axis = [&](const Layout& l) {
      std::vector<Term> terms;
      for (auto& t : *l.terms)
        if (size_t(t.digit.input) == d) {
          terms.push_back(t);
          terms.back().digit.input = 0;
        }
      return table(from_terms({l.extents[d]}, int(l.ranges.size()), std::move(terms)));
    };
    if (axis(a) != axis(b)) return false;
  }
  return true;
}

}  // namespace

Layout compose(const Layout& outer, const Layout& inner) {
  check_within(outer, inner);
  std::vector<Expr> exprs;
  if (!outer.outputs.empty() && !inner.outputs.empty()) {
    VarMap values;
    for (size_t i = 0; i < outer.vars.size(); i++) values.emplace(outer.vars[i].get(), inner.outputs[i]);
    for (auto& e : outer.outputs) exprs.push_back(substitute(e, values));
  }
  size_t n = outer.ranges.size(), m = outer.extents.size();
  auto points = [&] {
    std::vector<int64_t> first = table(inner), second = table(outer), out;
    out.reserve(size_t(inner.size()) * n);
    for (size_t p = 0; p + m <= first.size(); p += m) {
      int64_t at = 0;
      for (size_t d = 0; d < m; d++) at = at * outer.extents[d] + first[p + d];
      for (size_t o = 0; o < n; o++) out.push_back(second[size_t(at) * n + o]);
    }
    return out;
  };
  return made(inner.extents, int(n), composed_terms(outer, inner), points, inner.vars, std::move(exprs));
}

Layout reshape(const Layout& l, std::vector<int64_t> extents) {
  if (product(extents) != l.size())
    fail({}, "a layout of the extents {} has {} elements and cannot be reshaped to {}, which has {}",
         tuple_text(l.extents), l.size(), tuple_text(extents), product(extents));
  Layout flat = row_major(extents);
  Sum whole = sums_of(flat)[0];
  std::vector<Sum> sums;
  std::vector<Expr> exprs;
  int64_t stride = l.size();
  bool known = true;
  for (size_t d = 0; d < l.extents.size(); d++) {
    stride /= l.extents[d];
    auto from = split(whole, stride, extents);
    auto to = from ? split(from->high, l.extents[d], extents) : std::nullopt;
    known = known && to;
    if (known) sums.push_back(to->low);
    exprs.push_back(floormod(floordiv(flat.outputs[0], stride), l.extents[d]));
  }
  if (known) return compose(l, from_terms(extents, int(l.extents.size()), terms_of(sums)));
  VarMap values;
  for (size_t i = 0; i < l.vars.size(); i++) values.emplace(l.vars[i].get(), exprs[i]);
  std::vector<Expr> outputs;
  for (auto& e : l.outputs) outputs.push_back(substitute(e, values));
  return made(
      extents, int(l.ranges.size()), std::nullopt, [&] { return table(l); }, flat.vars, std::move(outputs));
}

Layout expand(const Layout& l, const std::vector<int64_t>& leading) {
  for (int64_t e : leading)
    if (e < 1) fail({}, "expand: an extent is {} in {}; extents are positive", e, tuple_text(leading));
  int k = int(leading.size());
  std::vector<int64_t> extents = leading;
  extents.insert(extents.end(), l.extents.begin(), l.extents.end());
  std::vector<Term> terms = terms_of(identity_sums(leading));
  std::vector<Expr> vars = input_vars(extents.size()), exprs(vars.begin(), vars.begin() + k);
  if (l.terms)
    for (Term t : *l.terms) {
      t.output += k;
      t.digit.input += k;
      for (auto& x : t.xors) x.input += k;
      terms.push_back(t);
    }
  VarMap values;
  for (size_t i = 0; i < l.vars.size(); i++) values.emplace(l.vars[i].get(), vars[i + size_t(k)]);
  for (auto& e : l.outputs) exprs.push_back(substitute(e, values));
  if (l.outputs.empty()) exprs.clear();
  size_t n = l.ranges.size();
  auto points = [&] {
    std::vector<int64_t> inner = table(l), out;
    for (int64_t b = 0; b < product(leading); b++) {
      std::vector<int64_t> x = point_at(leading, b);
      for (size_t p = 0; p + n <= inner.size(); p += n) {
        out.insert(out.end(), x.begin(), x.end());
        out.insert(out.end(), inner.begin() + std::ptrdiff_t(p), inner.begin() + std::ptrdiff_t(p + n));
      }
    }
    return out;
  };
  return made(std::move(extents), int(n) + k, l.terms ? std::optional(terms) : std::nullopt, points,
              std::move(vars), std::move(exprs));
}

Layout repeat(const Layout& l, size_t dim, int64_t factor) {
  if (dim >= l.extents.size())
    fail({}, "repeat: dimension {} is out of range for a layout of {} dimensions with the extents {}", dim,
         l.extents.size(), tuple_text(l.extents));
  if (factor < 1) fail({}, "repeat: the factor is {}; it must be 1 or more", factor);
  if (factor == 1) return l;
  std::vector<int64_t> extents = l.extents;
  int64_t extent = extents[dim];
  extents[dim] *= factor;
  std::vector<Sum> sums = identity_sums(extents);
  Split parts = *split(sums[dim], extent, extents);
  sums[dim] = parts.low;
  sums.insert(sums.begin(), parts.high);
  return compose(expand(l, {factor}), from_terms(extents, int(sums.size()), terms_of(sums)));
}

Layout flattened(const Layout& l) { return l.ranges.size() == 1 ? l : compose(row_major(l.ranges), l); }

Layout added(const Layout& l, std::vector<Term> terms) {
  if (l.terms) {
    terms.insert(terms.end(), l.terms->begin(), l.terms->end());
    return from_terms(l.extents, int(l.ranges.size()), merged_terms(terms));
  }
  Layout more = from_terms(l.extents, int(l.ranges.size()), std::move(terms));
  VarMap values;
  for (size_t i = 0; i < l.vars.size(); i++) values.emplace(more.vars[i].get(), l.vars[i]);
  std::vector<Expr> exprs;
  for (size_t o = 0; o < l.outputs.size(); o++)
    exprs.push_back(l.outputs[o] + substitute(more.outputs[o], values));
  auto points = [&] {
    std::vector<int64_t> a = table(l), b = table(more);
    for (size_t i = 0; i < a.size(); i++) a[i] += b[i];
    return a;
  };
  return made(l.extents, int(l.ranges.size()), std::nullopt, points, l.vars, std::move(exprs));
}

// ── questions ─────────────────────────────────────────────────────────────────────────────────────────
bool equal(const Layout& a, const Layout& b) {
  if (a.extents != b.extents || a.ranges.size() != b.ranges.size()) return false;
  if (a.points && a.points == b.points) return true;
  if (a.terms && b.terms) {
    if (*a.terms == *b.terms || merged_terms(*a.terms) == merged_terms(*b.terms)) return true;
    if (!has_xors(a) && !has_xors(b)) return equal_sums(a, b);
  }
  return table(a) == table(b);
}

std::optional<std::pair<std::vector<int64_t>, std::vector<int64_t>>> collision(const Layout& l) {
  auto at = find_collision(table(l), l.ranges.size());
  if (!at) return std::nullopt;
  return std::pair(point_at(l.extents, at->first), point_at(l.extents, at->second));
}

bool is_bijective(const Layout& l) {
  if (!is_injective(l)) return false;
  if (product(l.ranges) == l.size()) return true;
  if (l.size() > most_points) return false;
  std::vector<int64_t> points = table(l), ranges(l.ranges.size(), 1);  // the ranges may be bounds only
  for (size_t i = 0; i < points.size(); i++) {
    int64_t& range = ranges[i % ranges.size()];
    range = std::max(range, points[i] + 1);
  }
  return product(ranges) == l.size();
}

}  // namespace tl
