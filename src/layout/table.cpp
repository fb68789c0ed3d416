// Tables of layouts: made quickly, compared, searched for collisions and for digits.
#include "layout/table.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/error.h"
#include "base/interrupt.h"

namespace tl {
namespace {

// ── a table from digits ───────────────────────────────────────────────────────────────────────────────
// The trailing inputs are the inner part: for their points everything is computed once, and a row of the
// table is the sum (or XOR) of an outer and an inner number.
struct TermRows {
  int64_t stride;
  size_t output;
  std::vector<Digit> outer;         // digits of leading inputs
  std::vector<int64_t> inner = {};  // XOR of the others, per inner point
};

int64_t xor_of(const std::vector<Digit>& digits, const std::vector<int64_t>& x) {
  int64_t v = 0;
  for (auto& d : digits) v ^= x[size_t(d.input)] / d.divisor % d.radix;
  return v;
}

bool step(std::vector<int64_t>& x, const std::vector<int64_t>& extents, size_t from, size_t to) {
  for (size_t d = to; d-- > from; x[d] = 0)
    if (++x[d] < extents[d]) return true;
  return false;
}

struct DigitTable {
  const Layout& l;
  size_t first = 0, n = 0;  // inner inputs are [first, n)
  int64_t inner_points = 1;
  std::vector<int64_t> plain;        // inner sums, one row per inner point
  std::vector<TermRows> mixed;       // XORs of inner with outer digits
  std::vector<const Term*> leading;  // terms of outer digits only

  explicit DigitTable(const Layout& layout) : l(layout), n(layout.extents.size()) {
    first = n;
    while (first > 0 && (inner_points < 64 || inner_points * l.extents[first - 1] <= 1024))
      inner_points *= l.extents[--first];
    size_t outs = l.ranges.size();
    plain.assign(size_t(inner_points) * outs, 0);
    for (auto& t : *l.terms) add(t, outs);
  }

  void add(const Term& t, size_t outs) {
    std::vector<Digit> outer, inner;
    for (size_t i = 0; i <= t.xors.size(); i++) {
      const Digit& d = i ? t.xors[i - 1] : t.digit;
      (size_t(d.input) < first ? outer : inner).push_back(d);
    }
    if (inner.empty()) {
      leading.push_back(&t);
      return;
    }
    TermRows rows{.stride = t.stride, .output = size_t(t.output), .outer = outer};
    rows.inner.reserve(size_t(inner_points));
    std::vector<int64_t> x(n, 0);
    do rows.inner.push_back(xor_of(inner, x));
    while (step(x, l.extents, first, n));
    if (!outer.empty()) {
      mixed.push_back(std::move(rows));
      return;
    }
    for (size_t p = 0; p < rows.inner.size(); p++) plain[p * outs + rows.output] += t.stride * rows.inner[p];
  }

  std::vector<int64_t> run() const {
    size_t outs = l.ranges.size();
    std::vector<int64_t> rows(size_t(l.size()) * outs), x(n, 0), base(outs);
    int64_t* at = rows.data();
    do {
      poll();
      std::ranges::fill(base, 0);
      for (auto* t : leading) {
        int64_t v = x[size_t(t->digit.input)] / t->digit.divisor % t->digit.radix;
        base[size_t(t->output)] += t->stride * (v ^ xor_of(t->xors, x));
      }
      for (size_t p = 0; p < plain.size(); p += outs)
        for (size_t o = 0; o < outs; o++) at[p + o] = plain[p + o] + base[o];
      for (auto& m : mixed) {
        int64_t* out = at + m.output;
        int64_t outer = xor_of(m.outer, x);
        for (int64_t v : m.inner) {
          *out += m.stride * (v ^ outer);
          out += outs;
        }
      }
      at += plain.size();
    } while (step(x, l.extents, 0, first));
    return rows;
  }
};

// ── a table from expressions ──────────────────────────────────────────────────────────────────────────
// The outputs as a straight line of operations over slots.
struct Program {
  struct Op {
    enum class Kind : uint8_t { binary, select, cast, negate, invert, logical_not } kind;
    BinaryOp op;
    DType type;  // of the operands; of a cast, its own
    size_t a, b, c;
  };
  const Layout& l;
  std::vector<int64_t> slots;  // inputs first
  std::vector<Op> ops;
  std::vector<size_t> results;
  std::map<const ExprNode*, size_t> of;

  explicit Program(const Layout& layout) : l(layout), slots(layout.vars.size(), 0) {
    for (size_t i = 0; i < l.vars.size(); i++) of.emplace(l.vars[i].get(), i);
    for (auto& e : l.outputs) results.push_back(compile(e));
  }

  size_t slot(int64_t value) {
    slots.push_back(value);
    return slots.size() - 1;
  }

  size_t compile(const Expr& e) {
    if (auto at = of.find(e.get()); at != of.end()) return at->second;
    size_t out;
    if (auto v = as_int(e)) {
      out = slot(*v);
    } else {
      Op op = operation(e);
      out = slot(0);
      ops.push_back(op);
      target.push_back(out);
    }
    of.emplace(e.get(), out);
    return out;
  }

  Op operation(const Expr& e) {
    using Kind = Op::Kind;
    if (e->dtype.is_float()) refuse(e);
    if (auto* b = e.as<Binary>()) return {Kind::binary, b->op, b->a->dtype, compile(b->a), compile(b->b), 0};
    if (auto* s = e.as<Select>()) {
      size_t cond = compile(s->cond), a = compile(s->a);
      return {Kind::select, {}, e->dtype, cond, a, compile(s->b)};
    }
    if (auto* c = e.as<Cast>()) {
      if (c->a->dtype.is_float()) refuse(e);
      return {Kind::cast, {}, e->dtype, compile(c->a), 0, 0};
    }
    if (auto* u = e.as<Unary>()) {
      Kind kind = u->op == UnaryOp::neg       ? Kind::negate
                  : u->op == UnaryOp::bit_not ? Kind::invert
                                              : Kind::logical_not;
      return {kind, {}, e->dtype, compile(u->a), 0, 0};
    }
    refuse(e);
  }

  [[noreturn]] void refuse(const Expr& e) const {
    fail({}, "a layout may use integer arithmetic on its own indices only, not {}",
         e->dtype.is_float() ? "a value of type " + to_string(e->dtype)
                             : std::string("what only a kernel knows"));
  }

  int64_t value(const Op& op, const std::vector<int64_t>& x) const {
    int64_t a = slots[op.a];
    switch (op.kind) {
      case Op::Kind::binary: {
        bool divides = op.op == BinaryOp::floordiv || op.op == BinaryOp::floormod ||
                       op.op == BinaryOp::truncdiv || op.op == BinaryOp::truncmod || op.op == BinaryOp::div;
        if (divides && slots[op.b] == 0)
          fail({}, "the layout divides by zero at the element {}", tuple_text(x));
        return fold_int(op.op, a, slots[op.b], op.type);
      }
      case Op::Kind::select:
        return a ? slots[op.b] : slots[op.c];
      case Op::Kind::cast:
        return wrap_int(a, op.type);
      case Op::Kind::negate:
        return wrap_int(-a, op.type);
      case Op::Kind::invert:
        return wrap_int(~a, op.type);
      case Op::Kind::logical_not:
        return !a;
    }
    internal_error("an operation of a layout");
  }

  std::vector<int64_t> run() {
    std::vector<int64_t> rows, x(l.extents.size(), 0);
    rows.reserve(size_t(l.size()) * results.size());
    do {
      poll();
      std::copy(x.begin(), x.end(), slots.begin());
      for (size_t i = 0; i < ops.size(); i++) slots[target[i]] = value(ops[i], x);
      for (size_t o : results) {
        if (slots[o] < 0)
          fail({}, "the layout sends the element {} to {}: places are counted from 0", tuple_text(x),
               slots[o]);
        rows.push_back(slots[o]);
      }
    } while (step(x, l.extents, 0, x.size()));
    return rows;
  }

  std::vector<size_t> target;  // where each operation's result goes
};

// ── digits from a table ───────────────────────────────────────────────────────────────────────────────
// One input alone: runs of equal steps, then the runs' beginnings in turn.
bool find_digits(std::vector<int64_t> values, int input, int output, std::vector<Term>& terms) {
  int64_t divisor = 1;
  while (values.size() > 1) {
    int64_t s = values[1];
    size_t run = 1;
    while (run < values.size() && values[run] == s * int64_t(run)) run++;
    if (s < 0) return false;
    if (s) terms.push_back({.output = output, .stride = s, .digit = {input, divisor, int64_t(run)}});
    std::vector<int64_t> next;
    for (size_t i = 0; i < values.size(); i++) {
      if (i % run == 0) next.push_back(values[i]);
      if (values[i] != next.back() + s * int64_t(i % run)) return false;
    }
    values = std::move(next);
    divisor *= int64_t(run);
  }
  return true;
}

struct Finder {
  const std::vector<int64_t>& extents;
  size_t outs;
  const std::vector<int64_t>& points;

  // The outputs along one axis from the origin.
  std::vector<int64_t> axis(size_t d, size_t output) const {
    int64_t stride = 1;
    for (size_t e = d + 1; e < extents.size(); e++) stride *= extents[e];
    std::vector<int64_t> values;
    for (int64_t x = 0; x < extents[d]; x++) values.push_back(points[size_t(x * stride) * outs + output]);
    return values;
  }

  std::optional<std::vector<Term>> as_sum() const {
    std::vector<Term> terms;
    for (size_t d = 0; d < extents.size(); d++)
      for (size_t o = 0; o < outs; o++)
        if (!find_digits(axis(d, o), int(d), int(o), terms)) return std::nullopt;
    return terms;
  }

  // Each output bit the XOR of some bits of the inputs.
  std::optional<std::vector<Term>> as_bits() const {
    std::vector<Term> terms;
    for (size_t o = 0; o < outs; o++) {
      std::map<int, std::vector<Digit>> bits;
      for (size_t d = 0; d < extents.size(); d++) {
        std::vector<int64_t> values = axis(d, o);
        for (int64_t b = 1; b < extents[d]; b *= 2)
          for (uint64_t v = uint64_t(values[size_t(b)]); v; v &= v - 1)
            bits[std::countr_zero(v)].push_back({int(d), b, 2});
      }
      Sum sum;
      for (auto& [at, digits] : bits) sum.push_back(*xor_term(int64_t(1) << at, digits, extents));
      for (auto& t : merged(std::move(sum))) {
        terms.push_back(t);
        terms.back().output = int(o);
      }
    }
    return terms;
  }
};

}  // namespace

std::vector<int64_t> table(const Layout& l) {
  if (l.size() > most_points)
    fail({}, "a layout of the extents {} has {} points, too many to enumerate ({} at most)",
         tuple_text(l.extents), l.size(), most_points);
  if (l.size() == 0) return {};
  if (l.terms) return DigitTable(l).run();
  if (l.points) return *l.points;
  return Program(l).run();
}

std::optional<std::vector<Term>> find_terms(const std::vector<int64_t>& extents, size_t outputs,
                                            const std::vector<int64_t>& points) {
  for (size_t o = 0; o < outputs; o++)
    if (points.empty() || points[o] != 0) return std::nullopt;  // digits are all zero at the origin
  Finder finder{.extents = extents, .outs = outputs, .points = points};
  for (auto find : {&Finder::as_sum, &Finder::as_bits})
    if (auto terms = (finder.*find)())
      if (table(from_terms(extents, int(outputs), *terms)) == points) return terms;
  return std::nullopt;
}

Layout from_points(std::vector<int64_t> extents, int outputs, std::vector<int64_t> points) {
  if (auto terms = find_terms(extents, size_t(outputs), points))
    return from_terms(std::move(extents), outputs, std::move(*terms));
  Layout l{.extents = std::move(extents), .ranges = std::vector<int64_t>(size_t(outputs), 1)};
  l.vars = input_vars(l.extents.size());
  for (size_t i = 0; i < points.size(); i++) {
    int64_t& range = l.ranges[i % size_t(outputs)];
    range = std::max(range, points[i] + 1);
  }
  l.points = std::make_shared<const std::vector<int64_t>>(std::move(points));
  return l;
}

std::vector<int64_t> point_at(const std::vector<int64_t>& extents, int64_t at) {
  std::vector<int64_t> x(extents.size());
  for (size_t d = x.size(); d-- > 0; at /= extents[d]) x[d] = at % extents[d];
  return x;
}

std::optional<std::pair<int64_t, int64_t>> find_collision(const std::vector<int64_t>& points,
                                                          size_t outputs) {
  std::vector<int64_t> ranges(outputs, 1);
  for (size_t i = 0; i < points.size(); i += outputs)
    for (size_t o = 0; o < outputs; o++) ranges[o] = std::max(ranges[o], points[i + o] + 1);
  size_t count = outputs ? points.size() / outputs : 0;
  double slots = 1;
  for (int64_t r : ranges) slots *= double(r);
  auto id = [&](size_t p) {
    int64_t at = 0;
    for (size_t o = 0; o < outputs; o++) at = at * ranges[o] + points[p * outputs + o];
    return at;
  };
  if (slots <= double(16 * count + 4096)) {
    std::vector<int32_t> first(size_t(slots), -1);
    for (size_t p = 0; p < count; p++) {
      int32_t& f = first[size_t(id(p))];
      if (f >= 0) return std::pair(int64_t(f), int64_t(p));
      f = int32_t(p);
    }
    return std::nullopt;
  }
  if (slots > 9e18) internal_error("outputs of a layout beyond 64 bits");
  std::unordered_map<int64_t, int64_t> first;
  for (size_t p = 0; p < count; p++)
    if (auto [at, fresh] = first.emplace(id(p), int64_t(p)); !fresh) return std::pair(at->second, int64_t(p));
  return std::nullopt;
}

}  // namespace tl
