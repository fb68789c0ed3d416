// The most that a product of lengths in tiles can be, from what is known of the product of the lengths:
// where M*N <= 2^31 - 1, ceildiv(M, 128) * ceildiv(N, 256) is below 2^25, though the ranges of M and N alone
// say 2^47.
#include "arith/products.h"

#include <algorithm>

namespace tl {
namespace {

// (of + more) // by; `of` is a variable that is at least 1.
struct Length {
  const Var* of = nullptr;
  int64_t more = 0, by = 1;
};

Interval range_in(const Facts& facts, const Var* v) {
  auto it = facts.ranges.find(v);
  return it == facts.ranges.end() ? type_range(v->dtype) : it->second;
}

std::optional<Length> as_length(const Expr& e, const Facts& facts) {
  if (auto* v = e.as<Var>(); v && v->dtype.is_int()) return Length{.of = v};
  if (auto* c = e.as<Cast>(); c && c->dtype.is_int()) {  // of a variable whose values the type has
    auto* v = c->a.as<Var>();
    bool keeps =
        v && v->dtype.is_int() && intersect(range_in(facts, v), type_range(c->dtype)) == range_in(facts, v);
    return keeps ? std::optional(Length{.of = v}) : std::nullopt;
  }
  auto* n = e.as<Binary>();
  if (!n) return {};
  auto c = as_int(n->b);
  if (!c) return {};
  auto inner = as_length(n->a, facts);
  if (!inner) return {};
  if (n->op == BinaryOp::add && inner->by == 1 && *c >= 0) return Length{inner->of, inner->more + *c};
  if (n->op == BinaryOp::floordiv && inner->by == 1 && *c > 0) return Length{inner->of, inner->more, *c};
  return {};
}

// A product's factors, or nothing if one of them is no length.
bool take_factors(const Expr& e, const Facts& facts, std::vector<Length>& lengths, Wide& constant) {
  if (auto c = as_int(e)) {
    constant *= *c;
    return *c >= 0 && constant <= INT64_MAX;
  }
  if (auto* n = e.as<Binary>(); n && n->op == BinaryOp::mul)
    return take_factors(n->a, facts, lengths, constant) && take_factors(n->b, facts, lengths, constant);
  auto length = as_length(e, facts);
  if (length) lengths.push_back(*length);
  return length.has_value();
}

// `x*y*… <= most`
struct Known {
  std::vector<const Var*> of;
  int64_t most = 0;
};

// From a sum that is at most zero.
std::optional<Known> as_known(const Expr& sum, const Facts& facts) {
  auto* n = sum.as<Binary>();
  if (!n || (n->op != BinaryOp::add && n->op != BinaryOp::sub)) return {};
  auto c = as_int(n->b);
  if (!c || *c == INT64_MIN) return {};
  std::vector<Length> factors;
  Wide constant = 1;
  if (!take_factors(n->a, facts, factors, constant) || constant < 1 || factors.size() < 2) return {};
  Known known{.of = {}, .most = int64_t((n->op == BinaryOp::sub ? Wide(*c) : -Wide(*c)) / constant)};
  for (auto& f : factors) {
    if (f.more || f.by != 1) return {};
    known.of.push_back(f.of);
  }
  return known;
}

struct Bounds {
  const Facts& facts;
  std::vector<Known> known = {};

  explicit Bounds(const Facts& facts) : facts(facts) {
    for (auto& sum : facts.at_most_zero)
      if (auto k = as_known(sum, facts)) known.push_back(std::move(*k));
  }
  Interval range(const Var* v) const { return range_in(facts, v); }
  bool is_positive(const Var* v) const { return range(v).min >= 1; }
  // Of a product of positive variables: one that has more factors is no smaller.
  Wide most(const std::vector<const Var*>& of) const {
    Wide least = 1;
    for (auto* v : of) least = std::min(least * range(v).max, wide_infinity);
    for (auto& k : known) {
      std::vector<const Var*> rest = k.of;
      bool has_all = std::ranges::all_of(of, [&](auto* v) {
        auto it = std::ranges::find(rest, v);
        if (it == rest.end()) return false;
        rest.erase(it);
        return true;
      });
      if (has_all && std::ranges::all_of(rest, [&](auto* v) { return is_positive(v); }))
        least = std::min(least, Wide(k.most));
    }
    return least;
  }
};

}  // namespace

std::optional<int64_t> most_of_product(const Expr& e, const Facts& facts) {
  constexpr size_t most_factors = 4;
  if (facts.at_most_zero.empty()) return {};
  std::vector<Length> lengths;
  Wide constant = 1;
  if (!take_factors(e, facts, lengths, constant)) return {};
  if (lengths.size() < 2 || lengths.size() > most_factors) return {};
  Bounds bounds(facts);
  if (bounds.known.empty() ||
      !std::ranges::all_of(lengths, [&](auto& l) { return bounds.is_positive(l.of); }))
    return {};
  // (a + x) * (b + y) = a*b + a*y + x*b + x*y: each choice of variables and of constants, one by one
  Wide sum = 0, by = 1;
  for (size_t chosen = 0; chosen < size_t(1) << lengths.size(); chosen++) {
    std::vector<const Var*> of;
    Wide factor = 1;
    for (size_t i = 0; i < lengths.size(); i++)
      if (chosen >> i & 1)
        of.push_back(lengths[i].of);
      else
        factor = std::min(factor * lengths[i].more, Wide(INT64_MAX));
    Wide most = bounds.most(of);
    if (factor && most > INT64_MAX / factor) return {};
    sum += factor * most;
  }
  for (auto& l : lengths)
    if ((by *= l.by) > INT64_MAX) return {};
  Wide most = sum * constant / by;
  return most <= INT64_MAX ? std::optional(int64_t(most)) : std::nullopt;
}

bool is_small_product(const Expr& e, const Facts& facts) {
  auto most = most_of_product(e, facts);
  return most && *most <= type_range(e->dtype).max;
}

}  // namespace tl
