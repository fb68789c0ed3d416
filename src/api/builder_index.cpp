// Indices of elements and slices.  One that is certainly below 0 counts from the end of its dimension, as in
// Python.
#include "api/builder.h"
#include "arith/simplify.h"
#include "base/error.h"
#include "ir/text.h"

namespace tl {
namespace {

// Does the sign of the index have to be looked into? Most indices are sums and products of what begins at 0.
bool has_a_sign(const Expr& index, const VarMap& lets, const std::set<const ExprNode*>& from_zero) {
  return contains(
      index, [](const Binary& b) { return b.op == BinaryOp::sub || b.op == BinaryOp::bit_xor; },
      [](const Unary&) { return true; }, [](const IntImm& n) { return n.value < 0; },
      [&](const Var& v) {
        auto it = lets.find(&v);
        return it != lets.end() ? has_a_sign(it->second, lets, from_zero) : !from_zero.contains(&v);
      });
}

// A variable of one value says nothing of the sign: with one block or turn more it would go on.
int64_t last_of(int64_t first, int64_t extent, bool begins_below = false) {
  bool unknown = first == INT64_MAX || extent == INT64_MAX;
  return unknown || (extent == 1 && !begins_below) ? INT64_MAX : first + extent - 1;
}

}  // namespace

// What loops, branches and assumptions around the place that is being built say of its indices.
Facts Builder::facts_here() const {
  const Function& f = draft->function;
  Facts facts;
  for (auto& n : dynamics) facts.bind(n, Interval{0, INT64_MAX});
  for (auto& c : f.facts) facts.assume(c);
  if (f.kernels.empty()) return facts;
  const Kernel& k = f.kernels.back();
  for (size_t d = 0; d < k.grid.size(); d++)
    facts.bind(k.grid_vars[d], Interval{0, last_of(0, as_int(k.grid[d]).value_or(INT64_MAX))});
  for (auto& frame : frames) {
    for (auto& h : frame.heads) {
      Interval first = interval_of(h.min, facts), extent = interval_of(h.extent, facts);
      facts.bind(h.var, Interval{first.min, last_of(first.max, extent.max, h.begins_below)});
    }
    if (frame.cond)
      facts.assume(frame.kind == Frame::Kind::else_branch ? unary(UnaryOp::logical_not, frame.cond)
                                                          : frame.cond);
  }
  return facts;
}

Expr Builder::binary(std::string_view op, const Value& a, const Value& b) const {
  if (op != "ceildiv") return apply_binary(op, a, b, here());
  Facts facts = facts_here();
  for (auto* value : {&a, &b})
    if (auto* e = std::get_if<Expr>(value))
      visit(*e, [&](const Var& v) {  // no index: the name of what memory, a call or an argument gives
        if (!facts.ranges.contains(&v) && !draft->lets.contains(&v)) facts.data.insert(&v);
      });
  return apply_ceildiv(a, b, facts, here());
}

bool Builder::is_below_zero(const Expr& index) const {
  std::set<const ExprNode*> from_zero;
  for (auto& n : dynamics) from_zero.insert(n.get());
  if (!draft->function.kernels.empty())
    for (auto& v : draft->function.kernels.back().grid_vars) from_zero.insert(v.get());
  for (auto& frame : frames)
    for (auto& h : frame.heads)
      if (auto first = as_int(h.min); first && *first >= 0) from_zero.insert(h.var.get());
  if (!has_a_sign(index, draft->lets, from_zero)) return false;
  constexpr int steps = 8;  // names of names
  Expr e = index;
  for (int i = 0; i < steps; i++) {
    Expr next = substitute(e, draft->lets);
    if (next.same(e)) break;
    e = std::move(next);
  }
  Facts facts = facts_here();
  Interval range = interval_of(simplify(e, facts), facts);
  return range.min <= range.max && range.max < 0;
}

Expr Builder::from_end(const std::string& name, const Value& index, const Value& extent) const {
  Expr i = to_index(index, "an index of " + name, here());
  Expr n = to_index(extent, "an extent of " + name, here());
  auto known = as_int(i), size = as_int(n);
  if (known ? *known >= 0 : !is_below_zero(i)) {  // in its own type, in which a slice's two ends cancel out
    auto* given = std::get_if<Expr>(&index);
    return given ? *given : i;
  }
  Expr counted = simplify(n + i);
  if (known && size && *known < -*size)
    fail(here(), "index {} of {} is outside: it counts from the end of {} elements, whose first is -{}",
         *known, name, *size, *size);
  if (!known && is_below_zero(counted))
    fail(here(),
         "index {} of {} is outside: it counts from the end of {} elements, and is below -{} everywhere",
         print(i, &draft->function), name, print(n, &draft->function), print(n, &draft->function));
  return counted;
}

std::vector<Expr> Builder::index_of(const Buffer& buffer, const std::vector<Value>& index,
                                    std::string_view verb) const {
  require_kernel(fmt::format("{} {}", verb, buffer.draft ? buffer.info().name : "a buffer"));
  check_owner(buffer);
  auto& info = buffer.info();
  if (index.size() != info.shape.size())
    fail(here(), "{} has {} dimension{}, but {} {} given", describe(buffer), info.shape.size(),
         info.shape.size() == 1 ? "" : "s", index.size(), index.size() == 1 ? "index was" : "indices were");
  std::vector<Expr> exprs;
  for (size_t d = 0; d < index.size(); d++) {
    Expr e = to_index(from_end(info.name, index[d], buffer.shape()[d]), "an index of " + info.name, here());
    auto n = as_int(e), extent = as_int(info.shape[d]);
    if (n && extent && *n >= *extent)
      fail(here(), "the index {} of dimension {} is outside of {}", *n, d, describe(buffer));
    exprs.push_back(std::move(e));
  }
  return exprs;
}

}  // namespace tl
