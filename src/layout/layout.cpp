// Layouts: the digit form and the expressions it stands for; tables for everything else.
#include "layout/layout.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "layout/table.h"

namespace tl {
namespace {

// (x // divisor) % radix, without what the extent makes superfluous.
Expr digit_expr(const Digit& d, const Expr& x, int64_t extent) {
  Expr e = floordiv(x, d.divisor);
  return d.divisor * d.radix >= extent ? e : floormod(e, d.radix);
}

int64_t digit_value(const Digit& d, const std::vector<int64_t>& x) {
  return x[size_t(d.input)] / d.divisor % d.radix;
}

bool divides_by_variable(const Expr& e) {
  return contains(e, [](const Binary& b) { return is_division(b.op) && !as_int(b.b); });
}

// The largest value of an output.  Several digits of one input need not reach theirs at once: they are tried.
int64_t largest_sum(const std::vector<Term>& terms, int output, const std::vector<int64_t>& extents) {
  int64_t most = 0;
  std::map<int, std::vector<const Term*>> by_input;
  for (auto& t : terms) {
    if (t.output != output) continue;
    if (t.xors.empty())
      by_input[t.digit.input].push_back(&t);
    else
      most += t.stride * largest(t, extents);
  }
  for (auto& [input, list] : by_input) {
    int64_t bound = 0, reached = 0, extent = extents[size_t(input)];
    for (auto* t : list) bound += t->stride * largest(*t, extents);
    bool try_all = list.size() > 1 && extent <= 1 << 16;
    for (int64_t x = extent; try_all && x-- > 0 && reached < bound;) {
      int64_t sum = 0;
      for (auto* t : list) sum += t->stride * (x / t->digit.divisor % t->digit.radix);
      reached = std::max(reached, sum);
    }
    most += try_all ? reached : bound;
  }
  return most;
}

// Is an XORed digit free to be any number below a power of two, whatever the others are?  Then its term takes
// its largest value beside theirs.
bool takes_all(const Term& t, const std::vector<Term>& terms, const std::vector<int64_t>& extents) {
  const Digit& d = t.digit;
  bool whole = extents[size_t(d.input)] % (d.divisor * d.radix) == 0;
  if (!whole || d.radix & (d.radix - 1)) return false;
  auto meets = [&](const Digit& o) {  // unless one of the two lies in what the other leaves of the input
    bool above = o.divisor % (d.divisor * d.radix) == 0, below = d.divisor % (o.divisor * o.radix) == 0;
    return o.input == d.input && !above && !below;
  };
  return std::ranges::none_of(terms, [&](const Term& o) {
    bool other = &o != &t && meets(o.digit);
    return other || std::ranges::any_of(o.xors, meets);
  });
}

// The ranges from the table: under XOR the digits give only a bound.
void count_ranges(Layout& l) {
  std::vector<int64_t> points = table(l), ranges(l.ranges.size(), 1);
  for (size_t i = 0; i < points.size(); i += ranges.size())
    for (size_t o = 0; o < ranges.size(); o++) ranges[o] = std::max(ranges[o], points[i + o] + 1);
  l.ranges = std::move(ranges);
}

}  // namespace

std::vector<Expr> input_vars(size_t n) {
  static const char* names[] = {"i", "j", "k", "l", "m", "n"};
  std::vector<Expr> vars;
  for (size_t d = 0; d < n; d++) vars.push_back(var(d < 6 ? names[d] : "x" + std::to_string(d)));
  return vars;
}

IndexMap Layout::map() const {
  if (outputs.empty() && !ranges.empty())
    fail({},
         "this layout of {} points is known as a table only, and no expression says where an element goes: "
         "give its map as expressions",
         size());
  return {vars, extents, outputs};
}

int64_t Layout::size() const { return product(extents); }

Layout from_terms(std::vector<int64_t> extents, int outputs, std::vector<Term> terms) {
  Layout l{.extents = std::move(extents), .ranges = std::vector<int64_t>(size_t(outputs), 1)};
  l.vars = input_vars(l.extents.size());
  l.outputs.assign(size_t(outputs), imm(0));
  std::erase_if(terms, [&](const Term& t) { return t.xors.empty() && largest(t, l.extents) == 0; });
  std::ranges::sort(terms, [](const Term& a, const Term& b) {  // one order, so that equal is quick
    auto key = [](const Term& t) { return std::tuple(t.output, -t.stride, t.digit.input, t.digit.divisor); };
    return key(a) < key(b);
  });
  for (auto& t : terms) {
    Expr e = digit_expr(t.digit, l.vars[size_t(t.digit.input)], l.extents[size_t(t.digit.input)]);
    for (auto& x : t.xors)
      e = binary(BinaryOp::bit_xor, e, digit_expr(x, l.vars[size_t(x.input)], l.extents[size_t(x.input)]));
    size_t o = size_t(t.output);
    l.outputs[o] = l.outputs[o] + e * t.stride;
  }
  for (int o = 0; o < outputs; o++) l.ranges[size_t(o)] += largest_sum(terms, o, l.extents);
  bool bound_only = std::ranges::any_of(
      terms, [&](const Term& t) { return !t.xors.empty() && !takes_all(t, terms, l.extents); });
  l.terms = std::move(terms);
  if (bound_only && l.size() <= 1 << 16) count_ranges(l);
  return l;
}

Layout from_map(const IndexMap& map) {
  Facts facts;
  for (size_t i = 0; i < map.vars.size(); i++) facts.bind(map.vars[i], Interval{0, map.extents[i] - 1});
  Layout l{.extents = map.extents, .vars = map.vars};
  std::vector<Term> terms;
  bool known = true;
  for (size_t o = 0; o < map.outputs.size(); o++) {
    Expr e = simplify(map.outputs[o], facts);
    Interval range = interval_of(e, facts);
    known = known && !divides_by_variable(map.outputs[o]);
    auto sum = known ? read_sum(e, map.vars, map.extents) : std::nullopt;
    if (known && !sum) sum = read_sum(map.outputs[o], map.vars, map.extents);
    known = known && sum;
    for (size_t t = 0; known && t < sum->size(); t++) {
      terms.push_back((*sum)[t]);
      terms.back().output = int(o);
    }
    l.outputs.push_back(e);
    l.ranges.push_back(range.bounded() ? range.max + 1 : 0);
  }
  if (known) return from_terms(map.extents, int(map.outputs.size()), std::move(terms));
  if (l.size() > most_points) return l;
  Layout written = l;  // a division by zero is not simplified away
  written.outputs = map.outputs;
  Layout counted = from_points(map.extents, int(map.outputs.size()), table(written));
  if (counted.terms) return counted;
  counted.vars = l.vars;
  counted.outputs = l.outputs;
  return counted;
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

std::vector<Expr> map_index(const Layout& l, const std::vector<Expr>& indices) {
  internal_check(indices.size() == l.vars.size(), "as many indices as the layout has inputs");
  IndexMap map = l.map();
  VarMap values;
  for (size_t i = 0; i < indices.size(); i++) values.emplace(l.vars[i].get(), indices[i]);
  std::vector<Expr> out;
  for (auto& e : map.outputs) out.push_back(substitute(e, values));
  return out;
}

std::vector<int64_t> map_index(const Layout& l, const std::vector<int64_t>& x) {
  std::vector<int64_t> out(l.ranges.size(), 0);
  if (!l.terms) {
    if (!l.points) {  // too many to count: from the expressions
      std::vector<Expr> at;
      for (int64_t v : x) at.push_back(imm(v));
      std::vector<Expr> values = map_index(l, at);
      for (size_t o = 0; o < out.size(); o++) out[o] = as_int(simplify(values[o])).value();
      return out;
    }
    int64_t at = 0;
    for (size_t d = 0; d < x.size(); d++) at = at * l.extents[d] + x[d];
    for (size_t o = 0; o < out.size(); o++) out[o] = (*l.points)[size_t(at) * out.size() + o];
    return out;
  }
  for (auto& t : *l.terms) {
    int64_t v = digit_value(t.digit, x);
    for (auto& d : t.xors) v ^= digit_value(d, x);
    out[size_t(t.output)] += t.stride * v;
  }
  return out;
}

void check_rank(const Layout& l, size_t indices) {
  if (indices != l.extents.size())
    fail({}, "the layout has {} inputs, of the extents {}, but is given {} indices", l.extents.size(),
         tuple_text(l.extents), indices);
}

std::vector<int64_t> locate(const Layout& l, const std::vector<int64_t>& x) {
  check_rank(l, x.size());
  for (size_t d = 0; d < x.size(); d++)
    if (x[d] < 0 || x[d] >= l.extents[d])
      fail({}, "index {} of dimension {} in {} is outside the extents {} of the layout", x[d], d,
           tuple_text(x), tuple_text(l.extents));
  return map_index(l, x);
}

std::string tuple_text(const std::vector<int64_t>& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

std::string to_string(const Layout& l) {
  std::string in, out;
  if (l.outputs.empty())
    return fmt::format("{} -> {}, a table of {} points", tuple_text(l.extents), tuple_text(l.ranges),
                       l.size());
  for (auto& v : l.vars) in += (in.empty() ? "" : ", ") + v.as<Var>()->hint;
  for (auto& e : l.outputs) out += (out.empty() ? "" : ", ") + print(e);
  return "(" + in + ") -> " + (l.outputs.size() == 1 ? out : "(" + out + ")");
}

}  // namespace tl
