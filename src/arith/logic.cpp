// Operators that choose among their operands: and, or, min, max, exclusive or.  Each works on the flat list
// of its operands and drops those that another one makes superfluous.
#include <algorithm>
#include <bit>

#include "arith/simplifier.h"

namespace tl {
namespace {

void flatten(BinaryOp op, const Expr& e, std::vector<Expr>& out) {
  auto* n = e.as<Binary>();
  if (!n || n->op != op) return out.push_back(e);
  flatten(op, n->a, out);
  flatten(op, n->b, out);
}
std::vector<Expr> operands_of(BinaryOp op, const Expr& a, const Expr& b) {
  std::vector<Expr> list;
  flatten(op, a, list);
  flatten(op, b, list);
  return list;
}

constexpr size_t few = 12;            // beyond this many operands, pairs are not compared
constexpr size_t most_operands = 48;  // of a chain that is sorted, anew at each of its links

// `and` where `absorbing` is false, `or` where it is true.  Operands keep their order, for those in front may
// guard the loads of those behind.
Expr connect(Simplifier& s, BinaryOp op, const Expr& a, const Expr& b) {
  bool is_and = op == BinaryOp::logical_and;
  std::vector<Expr> kept;
  bool fails =
      s.known.of(a).fails || s.known.of(b).fails;  // then only constants go: a division by zero stays
  auto covers = [&](const Expr& p, const Expr& q) { return is_and ? s.implies(p, q) : s.implies(q, p); };
  for (const Expr& p : operands_of(op, a, b)) {
    if (auto c = as_int(p)) {
      if (bool(*c) == is_and) continue;
      if (std::ranges::none_of(kept, [&](auto& k) { return s.known.of(k).fails; })) return p;
      kept.push_back(p);
      break;  // what stands behind is never reached
    }
    bool compare = kept.size() < few && !fails;
    if (compare && std::ranges::any_of(kept, [&](auto& k) { return covers(k, p); })) continue;
    Expr opposite = compare ? s.make_unary(UnaryOp::logical_not, p) : Expr();
    auto excludes = [&](auto& k) { return is_and ? s.implies(k, opposite) : s.implies(opposite, k); };
    if (compare && std::ranges::any_of(kept, excludes)) return s.constant(!is_and, p->dtype);
    auto at = kept.end();
    if (compare && !s.known.of(p).partial)
      at = std::ranges::find_if(kept, [&](auto& k) { return covers(p, k); });
    if (at == kept.end()) {
      kept.push_back(p);
      continue;
    }
    *at = p;  // it needs no guard, so it may stand where the weaker one stood
    kept.erase(std::remove_if(at + 1, kept.end(), [&](auto& k) { return covers(p, k); }), kept.end());
  }
  if (kept.empty()) return s.constant(is_and, a->dtype);
  Expr out = kept[0];
  for (size_t i = 1; i < kept.size(); i++) {
    Expr simpler = fails ? Expr() : s.apply_rules(op, out, kept[i]);
    out = simpler ? simpler : s.plain(op, out, kept[i]);
  }
  return out;
}

// a has zeros wherever b can have ones.
bool disjoint(Simplifier& s, const Expr& a, const Expr& b) {
  Info x = s.known.of(a), y = s.known.of(b);
  int64_t g = gcd(x.modular.modulus, x.modular.remainder);
  int zeros = g == 0 ? 62 : std::countr_zero(uint64_t(g));
  return y.range.min >= 0 && y.range.max < int64_t(1) << std::min(zeros, 62);
}

}  // namespace

Expr Simplifier::conjunction(const Expr& a, const Expr& b) {
  return connect(*this, BinaryOp::logical_and, a, b);
}
Expr Simplifier::disjunction(const Expr& a, const Expr& b) {
  return connect(*this, BinaryOp::logical_or, a, b);
}

Expr Simplifier::min_max(BinaryOp op, const Expr& a, const Expr& b) {
  proof_steps = 200;
  auto wins = [&](const Expr& p, const Expr& q) {  // p is always the result of the two
    auto d = op == BinaryOp::min ? difference(p, q) : difference(q, p);
    return d && at_most_zero(*d, 1);
  };
  std::vector<Expr> kept, operands = operands_of(op, a, b);
  if (operands.size() > most_operands) return plain(op, a, b);
  for (const Expr& p : operands) {
    bool compare = kept.size() < few;
    if (compare && std::ranges::any_of(kept, [&](auto& k) { return wins(k, p); })) continue;
    if (compare) std::erase_if(kept, [&](auto& k) { return wins(p, k); });
    kept.push_back(p);
  }
  sort_by_order(kept);
  Expr out = kept[0];
  for (size_t i = 1; i < kept.size(); i++) out = plain(op, out, kept[i]);
  return out;
}

Expr Simplifier::exclusive_or(const Expr& a, const Expr& b) {
  std::vector<Expr> kept, operands = operands_of(BinaryOp::bit_xor, a, b);
  if (operands.size() > most_operands) return plain(BinaryOp::bit_xor, a, b);
  int64_t ones = 0;
  for (const Expr& p : operands) {
    if (auto* n = p.as<IntImm>()) {
      ones ^= n->value;
      continue;
    }
    auto twin = std::ranges::find_if(kept, [&](auto& k) { return known.same(k, p); });
    if (twin == kept.end())
      kept.push_back(p);
    else
      kept.erase(twin);
  }
  sort_by_order(kept);
  if (ones != 0 || kept.empty()) kept.push_back(constant(ones, a->dtype));
  if (kept.size() == 2 && (disjoint(*this, kept[0], kept[1]) || disjoint(*this, kept[1], kept[0])))
    return make(BinaryOp::add, kept[0], kept[1]);
  Expr out = kept[0];
  for (size_t i = 1; i < kept.size(); i++) out = plain(BinaryOp::bit_xor, out, kept[i]);
  return out;
}

Expr Simplifier::inclusive_or(const Expr& a, const Expr& b) {
  if (disjoint(*this, a, b) || disjoint(*this, b, a)) return make(BinaryOp::add, a, b);
  return apply_rules(BinaryOp::bit_or, a, b);
}

}  // namespace tl
