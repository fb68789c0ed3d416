// The bottom-up walk that computes Info, and the table that remembers it.
#include "arith/analysis.h"

#include <algorithm>
#include <bit>

#include "arith/products.h"
#include "ir/lookup.h"
#include "ir/rewrite.h"

namespace tl {
namespace {

uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

uint64_t type_hash(const Expr& e) {
  return uint64_t(e->kind) << 40 | uint64_t(e->dtype.kind) << 32 | uint64_t(e->dtype.bits) << 16 |
         e->dtype.lanes;
}

bool has_range(DType t) { return t.is_int() || t.is_bool(); }

// Gathers what comes from the operands.
struct Gather {
  Info info;
  void take(const Info& operand) {
    info.hash = mix(info.hash, operand.hash);
    info.impure |= operand.impure;
    info.loads |= operand.loads;
    info.partial |= operand.partial;
    info.fails |= operand.fails;
    info.data |= operand.data;
  }
};

Info of_var(const Var& v, const Facts& facts) {
  Info info{.range = type_range(v.dtype), .hash = mix(17, uint64_t(reinterpret_cast<uintptr_t>(&v)))};
  info.data = v.dtype.is_float() || facts.data.contains(&v);
  if (!has_range(v.dtype)) return info;
  if (auto it = facts.ranges.find(&v); it != facts.ranges.end()) {
    Interval known = intersect(it->second, info.range);
    if (known.min <= known.max) info.range = known;
  }
  if (auto it = facts.divisibility.find(&v); it != facts.divisibility.end())
    info.modular = normalised(it->second);
  return info;
}

Info of_binary(const Binary& n, const Info& a, const Info& b) {
  Gather g{{.hash = uint64_t(n.op)}};
  g.take(a), g.take(b);
  DType t = n.a->dtype;
  if (!has_range(t)) {
    g.info.range = type_range(n.dtype);
    return g.info;
  }
  if (n.op == BinaryOp::shl && b.range.max >= index_bits) g.info.data = true;
  bool wraps = g.info.data || (is_const(n.a) && is_const(n.b));
  g.info.range = range_of(n.op, a.range, b.range, t, wraps);
  bool fails = is_division(n.op) && may_be_zero(b);
  g.info.partial |= fails;
  g.info.fails |= fails;
  if (!n.dtype.is_bool()) g.info.modular = modular_of(n.op, a.modular, b.modular);
  if (g.info.range == type_range(t)) g.info.modular = modular_wrapped(g.info.modular, t, wraps);
  return g.info;
}

// What the facts say of a product, beyond the ranges of its factors.
Info within_product(const Expr& e, Info info, const Facts& facts) {
  if (e.as<Binary>()->op != BinaryOp::mul || info.data) return info;
  if (auto most = most_of_product(e, facts); most && *most <= type_range(e->dtype).max)
    info.range = {std::max<int64_t>(info.range.min, 0), std::min(info.range.max, *most)};
  return info;
}

Info of_unary(const Unary& n, const Info& a) {
  Gather g{{.hash = 64 + uint64_t(n.op)}};
  g.take(a);
  if (!has_range(n.dtype)) return g.info;
  g.info.range = range_of(n.op, a.range, n.dtype, g.info.data);
  g.info.modular = modular_of(n.op, a.modular);
  if (n.dtype.is_unsigned() || g.info.range == type_range(n.dtype))
    g.info.modular = modular_wrapped(g.info.modular, n.dtype, g.info.data);
  return g.info;
}

Info of_cast(const Cast& n, const Info& a) {
  Gather g{{.hash = 96}};
  g.take(a);
  DType from = n.a->dtype;
  g.info.data |= from.is_float() || from.scalar() == u64;
  g.info.range = range_of_cast(a.range, from, n.dtype);
  if (!n.dtype.is_int() || !has_range(from)) return g.info;
  g.info.modular =
      g.info.range == a.range ? a.modular : modular_wrapped(a.modular, n.dtype, true);  // i64, too
  return g.info;
}

Info of_ramp(const Ramp& n, const Info& base, const Info& stride) {
  Gather g{{.hash = 97}};
  g.take(base), g.take(stride);
  DType t = n.dtype.scalar();
  Interval last = range_of(BinaryOp::mul, stride.range, Interval::point(n.dtype.lanes - 1), t, g.info.data);
  Interval offsets = unite(Interval::point(0), last);
  g.info.range = range_of(BinaryOp::add, base.range, offsets, t, g.info.data);
  if (last == type_range(t)) g.info.range = last;
  Modular any_multiple{gcd(stride.modular.modulus, stride.modular.remainder), 0};
  Modular m = modular_sum(base.modular, any_multiple);
  g.info.modular = g.info.range == type_range(t) ? modular_wrapped(m, t, g.info.data) : m;
  return g.info;
}

// What a shuffle takes from some thread; null for other calls.
Expr moved(const Call& n) {
  bool moves = n.intrinsic->effect == Intrinsic::Effect::warp && n.intrinsic->name.starts_with("shfl");
  return moves ? n.args[0] : Expr();
}

Interval listed_range(const Call& lookup) {
  auto [least, most] = std::ranges::minmax(values_of(lookup));
  return {least, most};
}

Info of_call(const Call& n, Gather g, Interval range) {
  auto effect = n.intrinsic->effect;
  using Effect = Intrinsic::Effect;
  g.info.impure |= effect != Effect::pure && effect != Effect::thread;
  g.info.loads |= g.info.impure;
  g.info.range = range;
  if (n.intrinsic == &thread_index) g.info.range = {0, INT64_MAX};
  auto is = [&](const Intrinsic& c) { return n.intrinsic == &c; };
  if (!is(thread_index) && !is(block_uniform) && !is(even_lanes) && !is(odd_lanes)) g.info.data = true;
  g.info.hash = mix(g.info.hash, std::hash<std::string_view>()(n.intrinsic->name));
  return g.info;
}

}  // namespace

Analysis::Analysis(const Facts& f) : facts(f), index(128, 0) { rows.reserve(64); }

void Analysis::forget() {
  if (rows.empty()) return;
  rows.clear();
  std::ranges::fill(index, 0);
}

static size_t slot_of(const ExprNode* p, size_t mask) {
  return size_t((uint64_t(reinterpret_cast<uintptr_t>(p)) >> 4) * 0x9e3779b97f4a7c15u >> 32) & mask;
}

size_t Analysis::row_of(const Expr& e) {
  size_t mask = index.size() - 1, at = slot_of(e.get(), mask);
  for (; index[at]; at = (at + 1) & mask)
    if (rows[index[at] - 1].node.same(e)) return index[at] - 1;
  rows.push_back({.node = e});
  index[at] = uint32_t(rows.size());
  if (rows.size() * 2 > index.size()) grow();
  return rows.size() - 1;
}

void Analysis::grow() {
  index.assign(index.size() * 2, 0);
  size_t mask = index.size() - 1;
  for (size_t i = 0; i < rows.size(); i++) {
    size_t at = slot_of(rows[i].node.get(), mask);
    while (index[at]) at = (at + 1) & mask;
    index[at] = uint32_t(i + 1);
  }
}

const Expr* Analysis::find_result(const Expr& e) {
  size_t mask = index.size() - 1, at = slot_of(e.get(), mask);
  for (; index[at]; at = (at + 1) & mask) {
    Row& row = rows[index[at] - 1];
    if (row.node.same(e)) return row.result ? &row.result : nullptr;
  }
  return nullptr;
}
void Analysis::note_result(const Expr& e, Expr result) { rows[row_of(e)].result = std::move(result); }

bool Analysis::same(const Expr& a, const Expr& b) {
  if (a->dtype != b->dtype) return false;
  Info x = of(a), y = of(b);
  return x.hash == y.hash && !x.impure && (a.same(b) || equal(a, b));
}

Info Analysis::of(const Expr& e) {
  size_t row = row_of(e);
  if (rows[row].known) return rows[row].info;
  Info info = dispatch(
      e, overloads{
             [&](const IntImm& n) {
               Interval r = range_of_constant(n.value, n.dtype);
               return Info{.range = r,
                           .modular = modular_constant(n.value, n.dtype),
                           .hash = uint64_t(n.value),
                           .data = is_beyond_index(n.value)};
             },
             [&](const FloatImm& n) { return Info{.hash = std::bit_cast<uint64_t>(n.value)}; },
             [&](const StringImm& n) { return Info{.hash = std::hash<std::string>()(n.value)}; },
             [&](const Var& n) { return of_var(n, facts); },
             [&](const Unary& n) { return of_unary(n, of(n.a)); },
             [&](const Binary& n) { return within_product(e, of_binary(n, of(n.a), of(n.b)), facts); },
             [&](const Cast& n) { return of_cast(n, of(n.a)); },
             [&](const Select& n) {
               Gather g{{.hash = 98}};
               Info c = of(n.cond), a = of(n.a), b = of(n.b);
               g.take(c), g.take(a), g.take(b);
               bool both = !is_point(c.range);
               g.info.range = both ? unite(a.range, b.range) : c.range.min ? a.range : b.range;
               g.info.modular = both ? unite(a.modular, b.modular) : c.range.min ? a.modular : b.modular;
               return g.info;
             },
             [&](const Load& n) {
               Gather g{{.hash = mix(99, uint64_t(n.buffer.value))}};
               for (auto& i : n.index) g.take(of(i));
               if (n.mask) g.take(of(n.mask));
               g.info.loads = g.info.partial = g.info.data = true;
               g.info.range = type_range(n.dtype);
               return g.info;
             },
             [&](const Ramp& n) { return of_ramp(n, of(n.base), of(n.stride)); },
             [&](const Broadcast& n) {
               Gather g{{.hash = 100}};
               Info v = of(n.value);
               g.take(v);
               g.info.range = v.range;
               g.info.modular = v.modular;
               return g.info;
             },
             [&](const Call& n) {
               Gather g{{.hash = 101}};
               for (auto& a : n.args) g.take(of(a));
               if (n.intrinsic == &lookup) return of_call(n, g, listed_range(n));
               return of_call(n, g, moved(n) ? of(moved(n)).range : type_range(n.dtype));
             },
         });
  info.hash = mix(info.hash, type_hash(e));
  if (info.impure) info.hash = mix(info.hash, uint64_t(reinterpret_cast<uintptr_t>(e.get())));
  if (info.modular.modulus != 1 && has_range(e->dtype)) info.range = tighten(info.range, info.modular);
  row = row_of(e);
  rows[row].info = info;
  rows[row].known = true;
  return info;
}

void learn(Facts& facts, const Expr& var, const Expr& value) {
  Info info = Analysis(facts).of(value);
  facts.ranges.erase(var.get());  // a body that stands twice defines its names twice
  facts.divisibility.erase(var.get());
  facts.data.erase(var.get());
  if (!has_range(var->dtype)) return;
  if (info.data) facts.data.insert(var.get());
  if (info.range != type_range(var->dtype)) facts.bind(var, info.range);
  if (info.modular.modulus != 1) facts.bind(var, info.modular);
}

Interval interval_of(const Expr& e, const Facts& facts) { return Analysis(facts).range(e); }
Modular modular_of(const Expr& e, const Facts& facts) { return Analysis(facts).of(e).modular; }

}  // namespace tl
