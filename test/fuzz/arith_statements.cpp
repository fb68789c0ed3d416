// Random nests of loops, branches, lets and stores: run before and after simplify, they store the same values
// to the same places in the same order.
#include <doctest/doctest.h>

#include <random>

#include "arith/prove.h"
#include "evaluate.h"
#include "fuzz/seeds.h"
#include "ir/text.h"

using namespace tl;
using namespace tl::test;

namespace {

struct StatementGenerator {
  std::mt19937_64 random;
  std::vector<Expr> vars = {};     // in scope
  std::vector<Expr> outside = {};  // free in the whole
  int made = 0;

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }

  Expr index(int depth) {
    if (depth == 0 || chance(15))
      return chance(70) ? vars[size_t(below(int64_t(vars.size())))] : imm(below(40) - 4);
    Expr a = index(depth - 1), b = index(depth - 1);
    int64_t c = int64_t(1) << below(6);
    switch (below(9)) {
      case 0:
      case 1:
        return a + b;
      case 2:
        return a - b;
      case 3:
        return a * c;
      case 4:
        return floordiv(a, c + below(2));
      case 5:
        return floormod(a, c + below(2));
      case 6:
        return min(a, b);
      case 7:
        return select(condition(depth - 1), a, b);
      default:
        return chance(50) ? load(i64, BufferId{1}, {a}) : a + b * c;
    }
  }
  Expr condition(int depth) {
    static constexpr BinaryOp ops[] = {BinaryOp::lt, BinaryOp::le, BinaryOp::gt,
                                       BinaryOp::ge, BinaryOp::eq, BinaryOp::ne};
    if (depth > 0 && chance(30))
      return binary(chance(60) ? BinaryOp::logical_and : BinaryOp::logical_or, condition(depth - 1),
                    condition(depth - 1));
    if (depth > 0 && chance(10)) return unary(UnaryOp::logical_not, condition(depth - 1));
    Expr b = chance(60) ? imm(below(20)) : index(depth > 0 ? depth - 1 : 0);
    return binary(ops[below(6)], index(depth > 0 ? depth - 1 : 0), b);
  }
  std::string name() {
    static const char* names[] = {"i", "j", "k", "x", "y"};
    return names[made++ % 5];
  }

  Stmt statement(int depth) {
    int pick = int(below(100));
    if (depth == 0 || pick < 25) {
      Expr at = chance(40) ? imm(below(2)) : index(2);
      return store(BufferId{int(below(2))}, {at}, index(3), {}, chance(40) ? condition(2) : Expr());
    }
    if (pick < 30) return flagged(depth);
    if (pick < 55) return loop(depth);
    if (pick < 75)
      return if_then(condition(2), statement(depth - 1), chance(50) ? statement(depth - 1) : Stmt());
    return sequence(depth);
  }
  // A condition on memory, tested again after memory may have changed.
  Stmt flagged(int depth) {
    Expr flag = lt(load(i64, BufferId{int(below(2))}, {imm(below(2))}), imm(below(3) * 8));
    Stmt again = if_then(flag, statement(depth - 1), chance(50) ? statement(0) : Stmt());
    return if_then(flag, block({statement(0), again}));
  }
  Stmt loop(int depth) {
    Expr v = var(name()), low = chance(70) ? imm(0) : index(1);
    Expr extent = chance(70) ? imm(below(6)) : min(index(1), imm(5));
    static constexpr Loop kinds[] = {Loop::serial, Loop::unrolled, Loop::parallel, Loop::pipelined};
    Loop kind = kinds[below(4)];
    vars.push_back(v);
    Stmt body = statement(depth - 1);
    vars.pop_back();
    return for_loop(v, low, extent, kind, body);
  }
  Stmt sequence(int depth) {
    size_t scope = vars.size();
    std::vector<Stmt> stmts;
    for (int64_t n = 1 + below(3); n > 0; n--) {
      if (chance(35)) {
        Expr v = var(name());
        stmts.push_back(let(v, chance(30) ? imm(below(9)) : index(2)));
        vars.push_back(v);
      }
      stmts.push_back(statement(depth - 1));
    }
    vars.resize(scope, {});
    return block(std::move(stmts));
  }
};

struct Machine {
  Evaluator value;
  std::map<std::pair<int, Wide>, Value> memory = {};
  std::string trace = {};
  int steps = 0;

  void run(const Stmt& s) {
    if (++steps > 20000) throw NoMeaning();
    if (auto* n = s.as<Store>()) {
      if (n->mask && !value(n->mask).i) return;
      Wide at = value(n->index[0]).i, v = value(n->value).i;
      memory[{n->buffer.value, at}] = {v, 0};
      trace += fmt::format("{}[{}]={} ", n->buffer.value, int64_t(at), int64_t(v));
    } else if (auto* n = s.as<Let>()) {
      value.vars[n->var.get()] = value(n->value);
    } else if (auto* n = s.as<For>()) {
      Wide low = value(n->min).i, extent = value(n->extent).i;
      for (Wide i = low; i < low + extent; i++) {
        value.vars[n->var.get()] = {i, 0};
        run(n->body);
      }
    } else if (auto* n = s.as<If>()) {
      if (value(n->cond).i)
        run(n->then_body);
      else if (n->else_body)
        run(n->else_body);
    } else if (auto* n = s.as<Block>()) {
      for (auto& inner : n->stmts) run(inner);
    } else {
      throw std::logic_error("not made by this generator");
    }
  }
};

// The stores in order, or nothing where the program has no meaning.
std::optional<std::string> run(const Stmt& s, const std::map<const ExprNode*, Value>& inputs, bool strict) {
  Machine m{.value = {.vars = inputs, .strict = strict}};
  m.value.memory = &m.memory;
  try {
    m.run(s);
  } catch (NoMeaning) {
    return std::nullopt;
  }
  return m.trace;
}

bool one_round(uint64_t seed, int& compared) {
  StatementGenerator g{.random = std::mt19937_64(seed)};
  Facts facts;
  std::map<const ExprNode*, Interval> ranges;
  for (const char* hint : {"n", "m", "t"}) {
    Expr v = var(hint);
    Interval r{g.below(3) * 4 - 4, g.below(30) + 5};
    g.vars.push_back(v);
    g.outside.push_back(v);
    ranges[v.get()] = r;
    if (g.chance(70)) facts.bind(v, r);
  }
  Stmt before = g.statement(4);
  Stmt after = simplify(before, facts);
  bool good = simplify(after, facts).same(after);
  INFO("seed ", seed, "\n", print(before), "->\n", print(after));
  CHECK_MESSAGE(good, "not idempotent:\n", print(simplify(after, facts)));
  for (int i = 0; i < 8 && good; i++) {
    std::map<const ExprNode*, Value> inputs;
    for (auto& v : g.outside) {
      Interval r = ranges[v.get()];
      inputs[v.get()] = {r.min + g.below(r.max - r.min + 1), 0};
    }
    auto expected = run(before, inputs, true);
    if (!expected) continue;
    compared++;
    auto got = run(after, inputs, false);
    good = got && *got == *expected;
    CHECK_MESSAGE(good, "stores ", got.value_or("nothing of meaning"), "\nnot    ", *expected);
  }
  return good;
}

}  // namespace

TEST_CASE("simplify keeps what random statements store") {
  int rounds = 0, compared = 0, bad = 0;
  fuzz::each_seed({.fixed = 4000, .fresh = 400, .share = 0.06}, [&](uint64_t seed) {
    rounds++;
    if (!one_round(seed, compared)) bad++;
    return bad < 3;
  });
  MESSAGE(compared, " runs compared");
  CHECK((compared >= 2 * rounds || fuzz::is_replay()));
}
