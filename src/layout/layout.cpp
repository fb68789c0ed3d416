// Layouts: the digit form and the expressions it stands for; tables for everything else.
#include "layout/layout.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"

namespace tl {
namespace {

std::vector<Expr> input_vars(size_t n) {
  static const char* names[] = {"i", "j", "k", "l", "m", "n"};
  std::vector<Expr> vars;
  for (size_t d = 0; d < n; d++) vars.push_back(var(d < 6 ? names[d] : "x" + std::to_string(d)));
  return vars;
}

// (x // divisor) % radix, without what the extent makes superfluous.
Expr digit_expr(const Digit& d, const Expr& x, int64_t extent) {
  Expr e = floordiv(x, d.divisor);
  return d.divisor * d.radix >= extent ? e : floormod(e, d.radix);
}

int64_t digit_value(const Digit& d, const std::vector<int64_t>& x) { return x[size_t(d.input)] / d.divisor % d.radix; }

// The largest value a digit takes, given the extent of its input.
int64_t digit_max(const Digit& d, int64_t extent) { return std::min(d.radix - 1, (extent - 1) / d.divisor); }

// One input's digits read out of an expression: c * ((x // d) % r), sums and XORs of such.
struct Recognizer {
  const std::vector<Expr>& vars;
  const std::vector<int64_t>& extents;

  std::optional<Digit> digit(const Expr& e) const {
    int64_t radix = 0, divisor = 1;
    Expr x = e;
    if (auto* b = x.as<Binary>(); b && b->op == BinaryOp::floormod) {
      auto r = as_int(b->b);
      if (!r || *r <= 0) return std::nullopt;
      radix = *r;
      x = b->a;
    }
    if (auto* b = x.as<Binary>(); b && b->op == BinaryOp::floordiv) {
      auto d = as_int(b->b);
      if (!d || *d <= 0) return std::nullopt;
      divisor = *d;
      x = b->a;
    }
    for (size_t i = 0; i < vars.size(); i++)
      if (vars[i].same(x)) {
        int64_t all = (extents[i] + divisor - 1) / divisor;
        return Digit{.input = int(i), .divisor = divisor, .radix = radix ? std::min(radix, all) : all};
      }
    return std::nullopt;
  }

  bool xored(const Expr& e, std::vector<Digit>& out) const {
    if (auto* b = e.as<Binary>(); b && b->op == BinaryOp::bit_xor) return xored(b->a, out) && xored(b->b, out);
    auto d = digit(e);
    if (!d) return false;
    out.push_back(*d);
    return true;
  }

  bool sum(const Expr& e, int output, int64_t stride, std::vector<Term>& terms) const {
    if (is_int(e, 0)) return true;
    if (auto* b = e.as<Binary>()) {
      if (b->op == BinaryOp::add) return sum(b->a, output, stride, terms) && sum(b->b, output, stride, terms);
      if (b->op == BinaryOp::mul)
        if (auto c = as_int(b->b)) return sum(b->a, output, stride * *c, terms);
    }
    std::vector<Digit> digits;
    if (!xored(e, digits)) return false;
    std::sort(digits.begin(), digits.end(), [](auto& a, auto& b) {
      return std::tuple(-a.radix, -a.input, a.divisor) < std::tuple(-b.radix, -b.input, b.divisor);
    });
    for (auto& d : digits)
      if (digits.size() > 1 && (d.radix & (d.radix - 1))) return false;
    terms.push_back({.output = output, .stride = stride, .digit = digits[0], .xors = {digits.begin() + 1, digits.end()}});
    return true;
  }
};

template <class F>
void each_point(const std::vector<int64_t>& extents, F f) {
  std::vector<int64_t> x(extents.size(), 0);
  for (int64_t e : extents)
    if (e == 0) return;
  while (true) {
    f(x);
    size_t d = extents.size();
    while (d > 0 && ++x[d - 1] == extents[d - 1]) x[--d] = 0;
    if (d == 0) return;
  }
}

int64_t eval_index(const Expr& e, const std::vector<Expr>& vars, const std::vector<int64_t>& x) {
  if (auto v = as_int(e)) return *v;
  for (size_t i = 0; i < vars.size(); i++)
    if (vars[i].same(e)) return x[i];
  if (auto* b = e.as<Binary>()) return fold_int(b->op, eval_index(b->a, vars, x), eval_index(b->b, vars, x), b->a->dtype);
  if (auto* s = e.as<Select>()) return eval_index(s->cond, vars, x) ? eval_index(s->a, vars, x) : eval_index(s->b, vars, x);
  if (auto* c = e.as<Cast>()) return wrap_int(eval_index(c->a, vars, x), c->dtype);
  internal_error("a layout may use integer arithmetic on its inputs only");
}

}  // namespace

int64_t Layout::size() const {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

Layout from_terms(std::vector<int64_t> extents, int outputs, std::vector<Term> terms) {
  Layout l{.extents = std::move(extents), .ranges = std::vector<int64_t>(size_t(outputs), 1), .vars = {}, .outputs = {}, .terms = {}};
  l.vars = input_vars(l.extents.size());
  l.outputs.assign(size_t(outputs), imm(0));
  std::erase_if(terms, [&](const Term& t) {
    return t.xors.empty() && digit_max(t.digit, l.extents[size_t(t.digit.input)]) == 0;
  });
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {   // one order, so that equal is quick
    auto key = [](const Term& t) { return std::tuple(t.output, -t.stride, t.digit.input, t.digit.divisor); };
    return key(a) < key(b);
  });
  for (auto& t : terms) {
    int64_t extent = l.extents[size_t(t.digit.input)];
    Expr e = digit_expr(t.digit, l.vars[size_t(t.digit.input)], extent);
    int64_t most = t.xors.empty() ? digit_max(t.digit, extent) : t.digit.radix - 1;
    for (auto& x : t.xors) e = binary(BinaryOp::bit_xor, e, digit_expr(x, l.vars[size_t(x.input)], l.extents[size_t(x.input)]));
    size_t o = size_t(t.output);
    l.outputs[o] = l.outputs[o] + e * t.stride;
    l.ranges[o] += t.stride * most;
  }
  l.terms = std::move(terms);
  return l;
}

Layout from_map(const IndexMap& map) {
  Facts facts;
  for (size_t i = 0; i < map.vars.size(); i++) facts.bind(map.vars[i], Interval{0, map.extents[i] - 1});
  Layout l{.extents = map.extents, .ranges = {}, .vars = map.vars, .outputs = {}, .terms = std::nullopt};
  std::vector<Term> terms;
  Recognizer recognizer{.vars = map.vars, .extents = map.extents};
  bool known = true;
  for (size_t o = 0; o < map.outputs.size(); o++) {
    Expr e = simplify(map.outputs[o], facts);
    Interval range = interval_of(e, facts);
    known = known && (recognizer.sum(e, int(o), 1, terms) || recognizer.sum(map.outputs[o], int(o), 1, terms));
    l.outputs.push_back(e);
    l.ranges.push_back(range.bounded() ? range.max + 1 : 0);
  }
  if (!known) return l;
  return from_terms(map.extents, int(map.outputs.size()), std::move(terms));
}

Layout strided(std::vector<int64_t> extents, std::vector<int64_t> strides) {
  std::vector<Term> terms;
  for (size_t d = 0; d < extents.size(); d++)
    terms.push_back({.stride = strides[d], .digit = {.input = int(d), .divisor = 1, .radix = extents[d]}});
  return from_terms(std::move(extents), 1, std::move(terms));
}

Layout row_major(std::vector<int64_t> extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strided(std::move(extents), std::move(strides));
}

Layout swizzled(std::vector<int64_t> extents, int bits) {
  size_t last = extents.size() - 1;
  int64_t cols = extents[last], chunk = 128 / bits, row_bytes = cols * bits / 8;
  int64_t pattern = row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 0;
  if (extents.size() < 2 || pattern == 0) return row_major(std::move(extents));
  int64_t chunks = pattern / 16;                       // XORed together: 8, 4 or 2
  std::vector<Term> terms;
  int64_t stride = cols;
  for (size_t d = last; d-- > 0;) {
    terms.insert(terms.begin(), {.stride = stride, .digit = {.input = int(d), .divisor = 1, .radix = extents[d]}});
    stride *= extents[d];
  }
  int in = int(last);
  if (cols > chunk * chunks)
    terms.push_back({.stride = chunk * chunks,
                     .digit = {.input = in, .divisor = chunk * chunks, .radix = cols / (chunk * chunks)}});
  Digit row{.input = in - 1, .divisor = 8 / chunks, .radix = chunks};
  terms.push_back({.stride = chunk, .digit = {.input = in, .divisor = chunk, .radix = chunks}, .xors = {row}});
  terms.push_back({.stride = 1, .digit = {.input = in, .divisor = 1, .radix = chunk}});
  return from_terms(std::move(extents), 1, std::move(terms));
}

std::vector<Expr> map_index(const Layout& l, const std::vector<Expr>& indices) {
  internal_check(indices.size() == l.vars.size(), "as many indices as the layout has inputs");
  VarMap values;
  for (size_t i = 0; i < indices.size(); i++) values.emplace(l.vars[i].get(), indices[i]);
  std::vector<Expr> out;
  for (auto& e : l.outputs) out.push_back(substitute(e, values));
  return out;
}

std::vector<int64_t> map_index(const Layout& l, const std::vector<int64_t>& x) {
  std::vector<int64_t> out(l.outputs.size(), 0);
  if (!l.terms) {
    for (size_t o = 0; o < out.size(); o++) out[o] = eval_index(l.outputs[o], l.vars, x);
    return out;
  }
  for (auto& t : *l.terms) {
    int64_t v = digit_value(t.digit, x);
    for (auto& d : t.xors) v ^= digit_value(d, x);
    out[size_t(t.output)] += t.stride * v;
  }
  return out;
}

std::vector<int64_t> table(const Layout& l) {
  std::vector<int64_t> rows;
  rows.reserve(size_t(l.size()) * l.outputs.size());
  each_point(l.extents, [&](const std::vector<int64_t>& x) {
    for (int64_t v : map_index(l, x)) rows.push_back(v);
  });
  return rows;
}

bool equal(const Layout& a, const Layout& b) {
  if (a.extents != b.extents || a.outputs.size() != b.outputs.size()) return false;
  if (a.terms && b.terms && *a.terms == *b.terms) return true;
  return table(a) == table(b);
}

bool is_injective(const Layout& l) {
  std::vector<int64_t> rows = table(l), ids;
  size_t n = l.outputs.size();
  for (size_t i = 0; i + n <= rows.size(); i += n) {
    int64_t id = 0;
    for (size_t o = 0; o < n; o++) id = id * (l.ranges[o] + 1) + rows[i + o];
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) == ids.end();
}

std::string to_string(const Layout& l) {
  std::string in, out;
  for (auto& v : l.vars) in += (in.empty() ? "" : ", ") + v.as<Var>()->hint;
  for (auto& e : l.outputs) out += (out.empty() ? "" : ", ") + print(e);
  return "(" + in + ") -> " + (l.outputs.size() == 1 ? out : "(" + out + ")");
}

}  // namespace tl
