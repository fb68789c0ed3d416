// Vector expressions: one scalar expression per lane.  Wide loads and packed conversions become temporaries
// first, so that a pure copy is one wide load and one wide store, and conversions to 16 bits work on pairs.
#include "codegen/c_like.h"
#include "target/alignment.h"

namespace tl::c {
namespace {

// The scalar that all lanes share, if the vector says so; a scalar is its own.
Expr uniform(const Expr& e) {
  if (e->dtype.lanes == 1) return e;
  auto* b = e.as<Broadcast>();
  return b ? b->value : Expr();
}

bool is_uniform(const Expr& e) { return !e || uniform(e); }

bool in_memory(const BufferInfo& b) { return b.scope == Scope::global || b.scope == Scope::shared; }

bool repeats_for_free(const Expr& e) {
  auto* c = e.as<Cast>();
  return e.as<IntImm>() || e.as<FloatImm>() || e.as<Var>() || (c && c->a.as<Var>() && e->dtype.is_int());
}

}  // namespace

// The base of an index base, base + 1, … of what one access may take; null if it is another one.
Expr Printer::contiguous_base(BufferId buffer, const std::vector<Expr>& index) const {
  auto* r = index.size() == 1 ? index[0].as<Ramp>() : nullptr;
  bool one = r && is_int(r->stride, 1) && takes_several(*kernel, target, f[buffer], r->dtype.lanes);
  return one ? r->base : Expr();
}

int chunk_bytes(DType t, int vector_bytes) {
  int bytes = t.bytes() * t.lanes;
  if (bytes > vector_bytes) return bytes % vector_bytes == 0 ? vector_bytes : 0;
  return bytes >= 2 && (bytes & (bytes - 1)) == 0 ? bytes : 0;
}

// ── temporaries ───────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> Printer::named_lanes(DType t, const std::string& name) {
  std::vector<Expr> result;
  for (int i = 0; i < t.lanes; i++) {
    Expr v = var(name, t.scalar());
    kept.push_back(v);
    vars[v.get()] = fmt::format("{}[{}]", name, i);
    if (t.is_int()) facts.data.insert(v.get());
    lanes_of[v.get()] = {name, i, t.lanes};
    result.push_back(std::move(v));
  }
  return result;
}

std::vector<Expr> Printer::temporary(DType t, const std::string& init, std::string_view hint) {
  std::string name = names.unique(hint);
  line(fmt::format("const {} {} = {};", type(t), name, init));
  return named_lanes(t, name);
}

Expr Printer::hoisted(const Expr& scalar, std::string_view hint) {
  if (repeats_for_free(scalar)) return scalar;
  for (auto& [value, v] : hoisted_here)
    if (equal(value, scalar)) return v;
  Expr v = var(std::string(hint), scalar->dtype);
  kept.push_back(v);
  if (scalar->dtype.is_int()) learn(facts, v, scalar), facts.bind(v, range_of(scalar));
  declare(v, text(scalar));
  hoisted_here.emplace_back(scalar, v);
  return v;
}

std::string Printer::gathered(const std::vector<Expr>& values) {
  DType t = values[0]->dtype.with_lanes(int(values.size()));
  auto is_lane = [&](size_t i, const std::string& of) {
    auto it = lanes_of.find(values[i].get());
    return it != lanes_of.end() && it->second.temporary == of && it->second.index == int(i);
  };
  auto first = lanes_of.find(values[0].get());
  bool whole = first != lanes_of.end() && first->second.count == t.lanes;
  for (size_t i = 0; i < values.size() && whole; i++) whole = is_lane(i, first->second.temporary);
  if (whole) return first->second.temporary;

  std::string lanes;
  size_t column = 0;
  for (auto& v : values) {
    std::string lane = argument(v);
    if (!lanes.empty()) {
      bool full = column + lane.size() > 80;
      lanes += full ? ",\n" + std::string(size_t(depth) * 2 + 4, ' ') : ", ";
      column = full ? 0 : column;
    }
    column += lane.size() + 2;
    lanes += lane;
  }
  return fmt::format("{}{{{{{}}}}}", type(t), lanes);
}

// ── values ────────────────────────────────────────────────────────────────────────────────────────────
std::vector<Expr> Printer::lanes(const Expr& e, const Guard& guard) {
  size_t count = e->dtype.lanes;
  auto each = [&](auto&& make) {
    std::vector<Expr> result;
    for (size_t i = 0; i < count; i++) result.push_back(make(i));
    return result;
  };
  auto once = [&](const Expr& scalar, std::string_view hint) {  // here, unless it loads conditionally
    return (guard.per_lane || guard.cond) && has_load(scalar) ? scalar : hoisted(scalar, hint);
  };
  if (count == 1) return {e};
  if (auto* n = e.as<Broadcast>()) return std::vector<Expr>(count, once(n->value, "s"));
  if (auto* n = e.as<Ramp>()) {
    Expr base = once(n->base, "i"), stride = once(n->stride, "step");
    return each([&](size_t i) { return base + stride * int64_t(i); });
  }
  if (auto* n = e.as<Var>()) {
    auto it = vectors.find(n);
    internal_check(it != vectors.end(), "a vector variable that is not in scope: " + n->hint);
    return it->second;
  }
  if (auto* n = e.as<Unary>()) {
    auto a = lanes(n->a, guard);
    return each([&](size_t i) { return unary(n->op, a[i], n->span); });
  }
  if (auto* n = e.as<Binary>()) {
    auto a = lanes(n->a, guard), b = lanes(n->b, right_of(*n, a, guard));
    return each([&](size_t i) {
      return n->op == BinaryOp::add && is_int(b[i], 0) ? a[i] : binary(n->op, a[i], b[i], n->span);
    });
  }
  if (auto* n = e.as<Cast>()) return cast_lanes(*n, guard);
  if (auto* n = e.as<Select>()) return select_lanes(*n, guard);
  if (auto* n = e.as<Load>()) return load_lanes(*n, guard);
  auto* n = e.as<Call>();
  if (n && n->intrinsic == &load_wide) return load_wide_lanes(*n, guard);
  internal_check(n && n->intrinsic->effect == Intrinsic::Effect::pure,
                 "a vector of a kind that has no lanes");
  std::vector<std::vector<Expr>> args;
  for (auto& a : n->args) args.push_back(lanes(a, guard));
  if (n->intrinsic == &interleave)
    return each([&](size_t i) { return args[i % args.size()][i / args.size()]; });
  if (n->intrinsic == &even_lanes || n->intrinsic == &odd_lanes)
    return each([&](size_t i) { return args[0][2 * i + (n->intrinsic == &odd_lanes)]; });
  return each([&](size_t i) {
    std::vector<Expr> of_lane;
    for (auto& a : args) of_lane.push_back(a.size() == 1 ? a[0] : a[i]);
    return call(*n->intrinsic, std::move(of_lane), n->dtype.scalar(), n->span);
  });
}

// What stands to the right of an `and` or an `or` is asked only where the left leaves it open.
Printer::Guard Printer::right_of(const Binary& n, const std::vector<Expr>& left, const Guard& guard) {
  bool both_ask = n.op == BinaryOp::logical_and, asks = both_ask || n.op == BinaryOp::logical_or;
  if (!asks || !has_load(n.b)) return guard;
  if (!is_uniform(n.a)) return {guard.cond, true};
  return {both(guard.cond, both_ask ? left[0] : unary(UnaryOp::logical_not, left[0])), guard.per_lane};
}

// To 16-bit floats the hardware converts pairs.
std::vector<Expr> Printer::cast_lanes(const Cast& n, const Guard& guard) {
  auto values = lanes(n.a, guard);
  DType to = n.dtype;
  bool conditional = (guard.per_lane || guard.cond) && has_load(n.a);
  if (is_half(to) && n.a->dtype.scalar() == f32 && to.lanes % 2 == 0 && !conditional) {
    std::string target = type(to.scalar());
    need("round_" + target);
    return temporary(to, fmt::format("tl_round_{}({})", target, gathered(values)), "h");
  }
  for (auto& v : values) v = cast(to.scalar(), v, n.span);
  return values;
}

std::vector<Expr> Printer::select_lanes(const Select& n, const Guard& guard) {
  std::vector<Expr> conds, a, b, result;
  if (Expr c = uniform(n.cond)) {
    if (!(guard.per_lane || guard.cond) || !has_load(c)) c = hoisted(c, "c");
    conds.assign(n.dtype.lanes, c);
    a = lanes(n.a, {both(guard.cond, c), guard.per_lane});
    b = lanes(n.b, {both(guard.cond, unary(UnaryOp::logical_not, c)), guard.per_lane});
  } else {
    conds = lanes(n.cond, guard);
    a = lanes(n.a, {guard.cond, true});
    b = lanes(n.b, {guard.cond, true});
  }
  for (size_t i = 0; i < conds.size(); i++) result.push_back(select(conds[i], a[i], b[i], n.span));
  return result;
}

std::vector<Expr> Printer::load_lanes(const Load& n, const Guard& guard) {
  const BufferInfo& info = f[n.buffer];
  Expr base = contiguous_base(n.buffer, n.index);
  int bytes = chunk_bytes(n.dtype, target.vector_bytes);
  if (in_memory(info) && base && is_uniform(n.mask) && !guard.per_lane && bytes) {
    int count = bytes / n.dtype.bytes();
    if (count < n.dtype.lanes) base = hoisted(base, "i");
    Expr mask = both(guard.cond, n.mask ? uniform(n.mask) : Expr());
    if (mask && count < n.dtype.lanes) mask = hoisted(mask, "m");
    std::vector<Expr> result;
    need("access");
    for (int at = 0; at < n.dtype.lanes; at += count) {
      DType t = n.dtype.with_lanes(count);
      std::string access = fmt::format("tl_load<{}>(&{})", count, element(n.buffer, {base + at}));
      std::string name = names.unique(buffers.at(n.buffer) + "_v");
      line(mask ? fmt::format("{} {} = {{}};", type(t), name)
                : fmt::format("const {} {} = {};", type(t), name, access));
      if (mask) line(fmt::format("if ({}) {} = {};", text(mask), name, access));
      auto part = named_lanes(t, name);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }
  auto index = lanes(n.index.at(0), guard);
  auto masks = n.mask ? lanes(n.mask, guard) : std::vector<Expr>{Expr()};
  std::vector<Expr> result;
  for (size_t i = 0; i < n.dtype.lanes; i++) {
    Expr at = index.size() == 1 ? index[0] : index[i], mask = masks.size() == 1 ? masks[0] : masks[i];
    result.push_back(load(info.dtype, n.buffer, {at}, n.span, mask));
  }
  return result;
}

// ── stores ────────────────────────────────────────────────────────────────────────────────────────────
// Everything is evaluated before the store's mask is asked, so that loads are in flight early; except where a
// load has no mask of its own: it may be legal under the store's only.
void Printer::store_vector(const Store& n) {
  bool bare_load = contains(n.value, [&](const Load& l) { return !l.mask && in_memory(f[l.buffer]); });
  Expr cond = !n.mask              ? Expr()
              : is_uniform(n.mask) ? uniform(n.mask)
              : bare_load          ? some_lane(n.mask, {})
                                   : Expr();
  if (!cond) return store_lanes(n, lanes(n.value, {}));
  std::vector<Expr> values;
  if (!bare_load) values = lanes(n.value, {});
  line(fmt::format("if ({}) {{", text(cond)));
  depth++;
  names.open();
  store_lanes(n, bare_load ? lanes(n.value, {}) : values);
  names.close();
  depth--;
  line("}");
}

// Does the mask hold in any lane?
Expr Printer::some_lane(const Expr& mask, const Guard& guard) {
  if (Expr same = uniform(mask)) return same;
  auto* n = mask.as<Binary>();
  if (n && n->op == BinaryOp::logical_and && (uniform(n->a) || uniform(n->b))) {
    Expr left = some_lane(n->a, guard);
    return both(left, some_lane(n->b, right_of(*n, {left}, guard)));
  }
  auto* rising = n && (n->op == BinaryOp::lt || n->op == BinaryOp::le) ? n->a.as<Ramp>() : nullptr;
  if (rising && as_int(rising->stride).value_or(0) > 0 && uniform(n->b))
    return binary(n->op, rising->base, uniform(n->b));
  Expr any;
  for (auto& lane : lanes(mask, guard)) any = any ? binary(BinaryOp::logical_or, any, lane) : lane;
  return any;
}

bool Printer::reads_other_lanes(BufferId buffer, const std::vector<Expr>& index,
                                const std::vector<Expr>& values) {
  for (size_t i = 0; i < values.size(); i++)
    if (contains(values[i],
                 [&](const Load& l) { return l.buffer == buffer && !equal(l.index.at(0), index[i]); }))
      return true;
  return false;
}

void Printer::store_lanes(const Store& n, std::vector<Expr> values) {
  DType t = n.value->dtype;
  Expr base = contiguous_base(n.buffer, n.index);
  int bytes = chunk_bytes(t, target.vector_bytes);
  if (in_memory(f[n.buffer]) && base && is_uniform(n.mask) && bytes) {
    size_t count = size_t(bytes / t.bytes());
    if (count < values.size()) base = hoisted(base, "i");
    need("access");
    for (size_t at = 0; at < values.size(); at += count) {
      std::vector<Expr> part(values.begin() + long(at), values.begin() + long(at + count));
      line(fmt::format("tl_store(&{}, {});", element(n.buffer, {base + int64_t(at)}), gathered(part)));
    }
    return;
  }
  auto index = lanes(n.index.at(0), {});
  std::vector<Expr> masks;
  if (n.mask && !is_uniform(n.mask)) masks = lanes(n.mask, {});
  if (reads_other_lanes(n.buffer, index, values)) values = temporary(t, gathered(values), "v");
  for (size_t i = 0; i < values.size(); i++) {
    std::string guard = masks.empty() ? "" : fmt::format("if ({}) ", text(masks[i]));
    line(fmt::format("{}{} = {};", guard, element(n.buffer, {index[i]}), text(values[i])));
  }
}

}  // namespace tl::c
