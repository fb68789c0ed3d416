// Sums of digits: split, XORed, merged, read out of expressions.
#include "layout/digits.h"

#include <algorithm>
#include <bit>

namespace tl {
namespace {

bool is_power(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

// The digit is the last of its input: nothing above it is left out.
bool is_top(const Digit& d, const std::vector<int64_t>& extents) {
  return d.divisor * d.radix >= extents[size_t(d.input)];
}

std::vector<Digit> digits_in(const Term& t) {
  std::vector<Digit> all{t.digit};
  all.insert(all.end(), t.xors.begin(), t.xors.end());
  return all;
}

// One bit of a sum of powers of two: where it stands, and the bits of the inputs XORed there.
using Bits = std::map<int, std::vector<Digit>>;

std::optional<Bits> bits_of(const Sum& sum, const std::vector<int64_t>& extents) {
  Bits bits;
  for (auto& t : sum) {
    if (!is_power(t.stride)) return std::nullopt;
    if (!is_power(t.digit.radix) && !is_top(t.digit, extents)) return std::nullopt;
    int count = std::bit_width(uint64_t(t.digit.radix - 1));
    for (int k = 0; k < count; k++) {
      std::vector<Digit> here;
      for (auto& d : digits_in(t))
        if (d.radix > int64_t(1) << k) here.push_back({d.input, d.divisor << k, 2});
      if (!bits.emplace(std::countr_zero(uint64_t(t.stride)) + k, std::move(here)).second)
        return std::nullopt;
    }
  }
  return bits;
}

void toggle(std::vector<Digit>& digits, const Digit& d) {
  auto at = std::ranges::find(digits, d);
  if (at == digits.end())
    digits.push_back(d);
  else
    digits.erase(at);
}

// `high` continues `low`: each of its digits begins where one of low's ends.
std::optional<Term> joined(const Term& low, const Term& high) {
  if (high.stride != low.stride * low.digit.radix || high.xors.size() != low.xors.size()) return std::nullopt;
  std::vector<Digit> rest = digits_in(high), out;
  for (auto& d : digits_in(low)) {
    auto next = std::ranges::find_if(rest, [&](const Digit& h) {
      return h.input == d.input && h.divisor == d.divisor * d.radix &&
             (low.xors.empty() || d.radix == low.digit.radix);
    });
    if (next == rest.end()) return std::nullopt;
    if (!low.xors.empty() && next->radix != high.digit.radix) return std::nullopt;
    out.push_back({d.input, d.divisor, d.radix * next->radix});
    rest.erase(next);
  }
  return Term{
      .output = low.output, .stride = low.stride, .digit = out[0], .xors = {out.begin() + 1, out.end()}};
}

}  // namespace

int64_t largest(const Term& t, const std::vector<int64_t>& extents) {
  if (!t.xors.empty()) return t.digit.radix - 1;
  return std::min(t.digit.radix - 1, (extents[size_t(t.digit.input)] - 1) / t.digit.divisor);
}

std::optional<Term> xor_term(int64_t stride, std::vector<Digit> digits, const std::vector<int64_t>& extents) {
  std::erase_if(digits, [&](const Digit& d) { return d.divisor >= extents[size_t(d.input)]; });
  if (digits.empty()) return std::nullopt;
  std::ranges::sort(digits, [](const Digit& a, const Digit& b) {
    return std::tuple(-a.radix, -a.input, a.divisor) < std::tuple(-b.radix, -b.input, b.divisor);
  });
  return Term{.stride = stride, .digit = digits[0], .xors = {digits.begin() + 1, digits.end()}};
}

std::optional<std::pair<Term, Term>> cut(const Term& t, int64_t radix, const std::vector<int64_t>& extents) {
  Term low = t, high = t;
  high.stride = t.stride * radix;
  if (t.xors.empty()) {
    if (t.digit.radix % radix && !is_top(t.digit, extents)) return std::nullopt;
    low.digit.radix = radix;
    high.digit.divisor *= radix;
    high.digit.radix = (t.digit.radix + radix - 1) / radix;
    return std::pair(low, high);
  }
  if (!is_power(radix)) return std::nullopt;
  std::vector<Digit> lows, highs;
  for (auto& d : digits_in(t)) {
    lows.push_back({d.input, d.divisor, std::min(radix, d.radix)});
    if (d.radix > radix) highs.push_back({d.input, d.divisor * radix, d.radix / radix});
  }
  auto l = xor_term(t.stride, lows, extents), h = xor_term(t.stride * radix, highs, extents);
  Term none{.stride = t.stride * radix, .digit = {t.digit.input, extents[size_t(t.digit.input)], 1}};
  return std::pair(l ? *l : none, h ? *h : none);
}

std::optional<Split> split(const Sum& sum, int64_t divisor, const std::vector<int64_t>& extents) {
  Split out;
  for (auto& t : sum) {
    int64_t most = largest(t, extents);
    if (most == 0) continue;
    if (t.stride < 0) return std::nullopt;
    if (t.stride % divisor == 0) {
      out.high.push_back(t);
    } else if (t.stride * most < divisor) {
      out.low.push_back(t);
    } else {
      if (divisor % t.stride) return std::nullopt;
      auto parts = cut(t, divisor / t.stride, extents);
      if (!parts) return std::nullopt;
      if (largest(parts->first, extents)) out.low.push_back(parts->first);
      if (largest(parts->second, extents)) out.high.push_back(parts->second);
    }
  }
  int64_t reach = 0;
  for (auto& t : out.low) reach += t.stride * largest(t, extents);
  if (reach >= divisor) return std::nullopt;
  for (auto& t : out.high) t.stride /= divisor;
  return out;
}

std::optional<Sum> exclusive_or(const Sum& a, const Sum& b, const std::vector<int64_t>& extents) {
  auto bits = bits_of(a, extents), other = bits_of(b, extents);
  if (!bits || !other) return std::nullopt;
  for (auto& [at, digits] : *other)
    for (auto& d : digits) toggle((*bits)[at], d);
  Sum out;
  for (auto& [at, digits] : *bits)
    if (auto t = xor_term(int64_t(1) << at, digits, extents)) out.push_back(*t);
  return merged(std::move(out));
}

Sum scaled(Sum sum, int64_t factor) {
  if (factor == 0) return {};
  for (auto& t : sum) t.stride *= factor;
  return sum;
}

Sum merged(Sum sum) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < sum.size() && !again; i++)
      for (size_t j = 0; j < sum.size() && !again; j++)
        if (auto t = i == j ? std::nullopt : joined(sum[i], sum[j])) {
          sum[i] = *t;
          sum.erase(sum.begin() + std::ptrdiff_t(j));
          again = true;
        }
  }
  std::ranges::sort(sum, [](const Term& a, const Term& b) {
    return std::tuple(-a.stride, a.digit.input, a.digit.divisor) <
           std::tuple(-b.stride, b.digit.input, b.digit.divisor);
  });
  return sum;
}

std::vector<Term> merged_terms(const std::vector<Term>& terms) {
  std::map<int, Sum> by_output;
  for (auto& t : terms) by_output[t.output].push_back(t);
  std::vector<Term> out;
  for (auto& [output, sum] : by_output)
    for (auto& t : merged(std::move(sum))) {
      out.push_back(t);
      out.back().output = output;
    }
  return out;
}

namespace {

struct Reader {
  const std::vector<Expr>& vars;
  const std::vector<int64_t>& extents;

  std::optional<Sum> divide(const Expr& e, int64_t by, bool rest) const {
    auto sum = by > 0 ? read(e) : std::nullopt;
    auto parts = sum ? split(*sum, by, extents) : std::nullopt;
    if (!parts) return std::nullopt;
    return rest ? parts->low : parts->high;
  }

  // x & mask, for a mask of neighbouring ones.
  std::optional<Sum> masked(const Expr& e, int64_t mask) const {
    if (mask <= 0) return std::nullopt;
    int64_t first = mask & -mask;
    auto sum = is_power(mask + first) ? read(e) : std::nullopt;
    auto from = sum ? split(*sum, first, extents) : std::nullopt;
    auto to = from ? split(from->high, mask / first + 1, extents) : std::nullopt;
    if (!to) return std::nullopt;
    return scaled(to->low, first);
  }

  std::optional<Sum> with_constant(BinaryOp op, const Expr& a, int64_t c) const {
    switch (op) {
      case BinaryOp::mul:
        if (auto sum = c >= 0 ? read(a) : std::nullopt) return scaled(*sum, c);
        return std::nullopt;
      case BinaryOp::floordiv:
      case BinaryOp::truncdiv:
        return divide(a, c, false);
      case BinaryOp::floormod:
      case BinaryOp::truncmod:
        return divide(a, c, true);
      case BinaryOp::shr:
        return c < 0 || c > 62 ? std::nullopt : divide(a, int64_t(1) << c, false);
      case BinaryOp::shl:
        if (auto sum = c < 0 || c > 32 ? std::nullopt : read(a)) return scaled(*sum, int64_t(1) << c);
        return std::nullopt;
      case BinaryOp::bit_and:
        return masked(a, c);
      default:
        return std::nullopt;
    }
  }

  std::optional<Sum> read(const Expr& e) const {
    if (is_int(e, 0)) return Sum{};
    for (size_t i = 0; i < vars.size(); i++)
      if (vars[i].same(e))
        return extents[i] > 1 ? Sum{{.digit = {.input = int(i), .divisor = 1, .radix = extents[i]}}} : Sum{};
    auto* b = e.as<Binary>();
    if (!b || b->dtype != i64) return std::nullopt;
    if (auto c = as_int(b->b))
      if (auto sum = with_constant(b->op, b->a, *c)) return sum;
    if (auto c = as_int(b->a); c && (b->op == BinaryOp::mul || b->op == BinaryOp::bit_and))
      return with_constant(b->op, b->b, *c);
    if (b->op != BinaryOp::add && b->op != BinaryOp::bit_xor) return std::nullopt;
    auto x = read(b->a), y = x ? read(b->b) : std::nullopt;
    if (!y) return std::nullopt;
    if (b->op == BinaryOp::bit_xor) return exclusive_or(*x, *y, extents);
    x->insert(x->end(), y->begin(), y->end());
    return x;
  }
};

}  // namespace

std::optional<Sum> read_sum(const Expr& e, const std::vector<Expr>& vars,
                            const std::vector<int64_t>& extents) {
  return Reader{.vars = vars, .extents = extents}.read(e);
}

std::vector<Sum> sums_of(const Layout& l) {
  std::vector<Sum> sums(l.ranges.size());
  for (auto& t : *l.terms) sums[size_t(t.output)].push_back(t);
  return sums;
}

}  // namespace tl
