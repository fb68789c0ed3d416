// Random functions of every node, printed and parsed; then the printed text with characters changed, which
// must be read or refused with a place, never crash.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "fuzz/seeds.h"
#include "ir/build.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/user_op.h"

using namespace tl;

namespace {

const Vocabulary vocabulary = text_vocabulary();

// Expressions, and what else stands within a line.
struct Terms {
  std::mt19937_64 random;
  Function f = {};
  std::vector<Expr> vars = {};
  std::vector<BufferId> known = {};  // declared so far, in the order of the text

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }

  std::string name() {
    static const char* pool[] = {"i",   "j",      "k",   "A",      "B",    "As",   "x", "n",
                                 "for", "kernel", "f32", "min",    "mask", "cast", "",  "a b",
                                 "i_1", "shared", "exp", "thread", "id",   "pass", "_"};
    return pool[below(std::size(pool))];
  }
  DType type() {
    static constexpr DType pool[] = {i64, i64, i64, i32, u8, u64, i8, boolean, f32, f32, f16, bf16, f64};
    return pool[below(std::size(pool))];
  }

  // ── expressions ─────────────────────────────────────────────────────────────────────────────────────
  Expr constant(DType t) {
    if (t.is_bool()) return imm(below(2), t);
    if (t.is_int()) {
      static constexpr int64_t pool[] = {0, 1, -1, 2, 7, 128, INT64_MAX, INT64_MIN, INT32_MIN};
      return imm(chance(50) ? below(100) : pool[below(std::size(pool))], t);
    }
    const double pool[] = {0.0,  -0.0,     1.0,       -1.5,         0.1,          1e20,
                           1e-7, INFINITY, -INFINITY, std::nan(""), -std::nan("")};
    if (chance(60)) return fimm(pool[below(std::size(pool))], t);
    double v = std::ldexp(double(random()), int(below(80)) - 100);
    return fimm(chance(50) ? v : -v, t);
  }
  Expr leaf(DType t) {
    std::vector<Expr> fitting;
    for (auto& v : vars)
      if (v->dtype == t) fitting.push_back(v);
    if (!fitting.empty() && chance(75)) return fitting[size_t(below(int64_t(fitting.size())))];
    return constant(t);
  }
  Expr element(DType t, int depth) {
    for (int attempt = 0; attempt < 4 && !known.empty(); attempt++) {
      BufferId id = known[size_t(below(int64_t(known.size())))];
      if (f[id].dtype != t) continue;
      return load(f, id, index(id, depth), {}, chance(20) ? expr(boolean, depth) : Expr());
    }
    return leaf(t);
  }
  std::vector<Expr> index(BufferId id, int depth) {
    std::vector<Expr> at;
    for (size_t d = 0; d < f[id].shape.size(); d++) at.push_back(expr(i64, depth));
    return at;
  }
  Expr arithmetic(DType t, int depth) {
    using Op = BinaryOp;
    static constexpr Op on_floats[] = {Op::add, Op::sub, Op::mul, Op::div, Op::min, Op::max};
    static constexpr Op on_ints[] = {Op::add,      Op::sub,      Op::mul, Op::floordiv, Op::floormod,
                                     Op::truncdiv, Op::truncmod, Op::min, Op::max,      Op::bit_and,
                                     Op::bit_or,   Op::bit_xor,  Op::shl, Op::shr};
    Op op = t.is_float() ? on_floats[below(std::size(on_floats))] : on_ints[below(std::size(on_ints))];
    Expr a = expr(t, depth), b = op == Op::shl || op == Op::shr ? imm(below(t.bits), t) : expr(t, depth);
    bool zero_divisor = op >= Op::floordiv && op <= Op::truncmod && as_int(b) == 0;
    return zero_divisor ? a : binary(op, a, b);
  }
  Expr logic(int depth) {
    if (chance(20)) return unary(UnaryOp::logical_not, expr(boolean, depth));
    if (chance(40))
      return binary(chance(50) ? BinaryOp::logical_and : BinaryOp::logical_or, expr(boolean, depth),
                    expr(boolean, depth));
    DType t = type();
    auto op = BinaryOp(int(BinaryOp::eq) + below(t.is_bool() ? 2 : 6));
    return binary(op, expr(t, depth), expr(t, depth));
  }
  Expr expr(DType t, int depth) {
    if (depth <= 0 || chance(15)) return leaf(t);
    depth--;
    switch (below(7)) {
      case 0:
        return cast(t, expr(type(), depth));
      case 1:
        return select(expr(boolean, depth), expr(t, depth), expr(t, depth));
      case 2:
        return element(t, depth - 1);
      case 3:
        if (t.is_float()) return call(*find_intrinsic(chance(50) ? "exp2" : "tanh"), {expr(t, depth)});
        if (t == i64 && chance(30)) return call(thread_index, {imm(below(3))});
        if (t.is_bool()) return call(*find_intrinsic("isnan"), {expr(f32, depth)});
        return unary(UnaryOp::bit_not, expr(t, depth));
      case 4:
        if (t.is_float() || t.is_int()) return unary(UnaryOp::neg, expr(t, depth));
        return logic(depth);
      default:
        return t.is_bool() ? logic(depth) : arithmetic(t, depth);
    }
  }
  Expr vector(DType t, int lanes, int depth) {
    switch (below(4)) {
      case 0:
        if (t.is_int()) return ramp(expr(t, depth), expr(t, depth), lanes);
        [[fallthrough]];
      case 1:
        return broadcast(expr(t, depth), lanes);
      case 2:
        if (depth > 0 && t.is_float())
          return binary(BinaryOp::add, vector(t, lanes, depth - 1), vector(t, lanes, depth - 1));
        [[fallthrough]];
      default:
        return cast(t.with_lanes(lanes), broadcast(expr(type(), depth), lanes));
    }
  }

  // ── attributes, regions ─────────────────────────────────────────────────────────────────────────────
  IndexMap index_map(size_t inputs, size_t outputs) {
    IndexMap m;
    size_t before = vars.size();
    for (size_t i = 0; i < inputs; i++) {
      m.vars.push_back(var(name(), chance(80) ? i64 : i32));
      m.extents.push_back(1 + below(64));
      vars.push_back(m.vars.back());
    }
    for (size_t i = 0; i < outputs; i++) m.outputs.push_back(expr(i64, 2));
    vars.resize(before);
    return m;
  }
  Attrs attrs(int percent) {
    Attrs a;
    while (chance(percent)) {
      AttrValue v;
      switch (below(6)) {
        case 0:
          v = below(100) - 50;
          break;
        case 1:
          v = std::ldexp(double(below(1000)) - 500, int(below(20)) - 10);
          break;
        case 2:
          v = std::string("a\"\\\n\x01`#") + name();
          break;
        case 3:
          v = std::vector<int64_t>(size_t(below(3)), -4);
          break;
        case 4:
          v = expr(type(), 2);
          break;
        default:
          v = index_map(size_t(below(3)), size_t(below(3)));
      }
      a.entries[chance(80) ? "num_stages" + std::to_string(below(9)) : name()] = v;
    }
    return a;
  }
  Region region(BufferId id) {
    if (chance(30)) return whole(f, id);
    Region r{.buffer = id, .ranges = {}};
    for (size_t d = 0; d < f[id].shape.size(); d++) {
      Expr min = expr(i64, 2);
      bool point = chance(30);
      r.ranges.push_back({.min = min,
                          .extent = point        ? imm(1)
                                    : chance(10) ? Expr()
                                                 : expr(i64, 1),
                          .point = point});
    }
    return r;
  }
};

struct FunctionGenerator : Terms {
  BufferId any() { return known[size_t(below(int64_t(known.size())))]; }
  // An operator of the user's: two names, any accesses, a body.
  Stmt user_tile_statement(int depth) {
    std::vector<Access> accesses;
    std::vector<Operand> operands;
    for (int64_t n = below(3); n > 0; n--) {
      accesses.push_back(Access(below(4)));
      bool swap = chance(10);
      if ((accesses.back() == Access::value) != swap)
        operands.push_back(expr(type(), 2));
      else
        operands.push_back(region(any()));
    }
    const OpInfo* op = user_op_info(chance(50) ? "dequant" : "frobnicate", accesses);
    return tile(*op, operands, attrs(40), {}, nest(depth));
  }
  Stmt tile_statement() {
    const OpInfo& op = all_ops()[size_t(below(int64_t(all_ops().size())))]->info;
    std::vector<Operand> operands;
    for (auto& o : op.operands) {
      bool swap = chance(10);  // what an operator would refuse is still text
      if ((o.access == Access::value) != swap)
        operands.push_back(expr(type(), 2));
      else
        operands.push_back(region(any()));
    }
    return tile(op, operands, attrs(40));
  }
  Stmt store_statement() {
    BufferId id = any();
    DType t = f[id].dtype;
    Expr mask = chance(20) ? expr(boolean, 2) : Expr();
    if (chance(20))
      return store(id, {ramp(expr(i64, 1), imm(1), 4)}, vector(t, 4, 2), {},
                   chance(50) ? mask : vector(boolean, 4, 1));
    return store(id, index(id, 2), expr(t, 4), {}, mask);
  }
  Stmt loop(int depth) {
    DType t = chance(80) ? i64 : i32;
    Expr v = var(name(), t), min = chance(60) ? zero(t) : expr(t, 1), extent = expr(t, 1);
    Attrs extras = attrs(30);
    size_t before = vars.size();
    vars.push_back(v);
    Stmt body = nest(depth);
    vars.resize(before);
    return for_loop(v, min, extent, Loop(below(5)), body, {}, extras);
  }
  Stmt statement(int depth) {
    switch (depth <= 0 ? below(4) : below(10)) {
      case 0:
        return store_statement();
      case 1:
        return tile_statement();
      case 2:
        return eval(chance(50) ? call(sync_threads, {}) : expr(type(), 3));
      case 3: {
        Expr value = chance(80) ? expr(type(), 3) : vector(f32, 4, 2), v = var(name(), value->dtype);
        vars.push_back(v);
        return let(v, value);
      }
      case 4:
        return if_then(expr(boolean, 2), nest(depth - 1), chance(60) ? nest(depth - 1) : Stmt());
      case 5:
        return while_loop(expr(boolean, 2), nest(depth - 1));
      case 6:
        return group(below(4) * 32, 32 + below(96), nest(depth - 1), {}, chance(50) ? 0 : 24, attrs(20));
      case 7:
        return raw_block(depth - 1);
      case 8:
        return user_tile_statement(depth - 1);
      default:
        return loop(depth - 1);
    }
  }
  Stmt raw_block(int depth) {
    size_t before = vars.size();
    auto* b = new Block;
    for (int64_t n = below(4); n > 0; n--) b->stmts.push_back(statement(depth));
    vars.resize(before);
    return own(b);
  }
  Stmt nest(int depth) {
    size_t before = vars.size();
    std::vector<Stmt> stmts;
    for (int64_t n = below(4); n > 0; n--) stmts.push_back(statement(depth));
    vars.resize(before);
    return block(std::move(stmts));
  }

  // ── functions ───────────────────────────────────────────────────────────────────────────────────────
  // `open`: its shape may name what only a call tells; `introduces`: for the first time.
  BufferInfo buffer(Scope scope, bool open, bool introduces = false) {
    BufferInfo b;
    b.name = name();
    b.dtype = type();
    b.scope = scope;
    for (int64_t rank = below(4); rank > 0; rank--) {
      bool fresh = introduces && chance(30);
      b.shape.push_back(fresh ? var(name()) : open && chance(40) ? expr(i64, 1) : imm(1 + below(64)));
      if (fresh) vars.push_back(b.shape.back());
    }
    if (scope == Scope::global && chance(30))
      for (size_t d = 0; d < b.shape.size(); d++) b.strides.push_back(expr(i64, 1));
    if (scope == Scope::global) return b;
    if (chance(30)) b.alignment = int64_t(1) << below(12);
    if (chance(30)) b.layout = index_map(size_t(below(4)), 1 + size_t(below(2)));
    if (chance(20)) b.address = below(1000) * 16;
    if (chance(20)) b.elements = below(1000);
    return b;
  }
  void parameters() {
    int64_t count = 1 + below(4);
    for (int64_t n = 0; n < count; n++) {
      Param p{.name = "p" + std::to_string(n), .buffer = {}, .var = {}};
      if (chance(30)) {
        p.var = var(chance(50) ? p.name : name(), type());
        vars.push_back(p.var);
      } else {
        p.buffer = f.add(buffer(Scope::global, true, true));
        known.push_back(p.buffer);
      }
      f.params.push_back(p);
    }
    if (known.empty()) {
      known.push_back(f.add(buffer(Scope::global, true, true)));
      f.params.push_back({.name = "last", .buffer = known[0], .var = {}});
    }
  }
  // Ids are given in an order of their own; where each buffer is declared is drawn afterwards.
  Function function() {
    f.name = chance(80) ? "main" : name();
    parameters();
    for (int64_t n = below(3); n > 0; n--) f.facts.push_back(expr(boolean, 3));
    std::vector<BufferId> pending;
    for (int64_t n = below(6); n > 0; n--) pending.push_back(f.add(buffer(Scope(1 + below(3)), false)));
    for (int64_t n = below(2); n > 0; n--) {
      f.workspaces.push_back(f.add(buffer(Scope::global, true)));
      known.push_back(f.workspaces.back());
    }
    std::shuffle(pending.begin(), pending.end(), random);
    for (int64_t n = below(3); n > 0; n--) kernel(pending);
    return f;
  }
  void kernel(std::vector<BufferId>& pending) {
    Kernel k;
    size_t before = vars.size();
    k.name = name();
    int64_t dims = below(4);
    for (int64_t d = 0; d < dims; d++) k.grid.push_back(expr(i64, 2));
    for (int64_t d = 0; d < dims; d++) {
      k.grid_vars.push_back(var(name(), chance(90) ? i64 : i32));
      vars.push_back(k.grid_vars.back());
    }
    for (int64_t d = below(3); d > 0; d--) k.threads.push_back(32);
    for (int64_t d = std::min(below(2), dims); d > 0; d--) k.cluster.push_back(2);
    if (chance(50)) {
      k.thread = var("tx", chance(70) ? i64 : i32);
      vars.push_back(k.thread);
    }
    k.attrs = attrs(30);
    std::vector<Stmt> stmts;
    while (!pending.empty() && chance(70)) {
      stmts.push_back(alloc(pending.back(), {}, attrs(20)));
      known.push_back(pending.back());
      pending.pop_back();
      if (chance(20)) stmts.push_back(alloc(known.back()));
    }
    for (int64_t n = 1 + below(4); n > 0; n--) stmts.push_back(statement(3));
    k.body = block(std::move(stmts));
    vars.resize(before);
    f.kernels.push_back(std::move(k));
  }
};

}  // namespace

TEST_CASE("what is printed is parsed back") {
  fuzz::each_seed({.fixed = 1500, .fresh = 200, .share = 0.03}, [](uint64_t seed) {
    Function f = FunctionGenerator{{.random = std::mt19937_64(seed)}}.function();
    std::string text = print(f);
    CAPTURE(seed);
    CAPTURE(text);
    Function back;
    REQUIRE_NOTHROW(back = parse(text, "fuzz", vocabulary));
    REQUIRE(equivalent(f, back));
    REQUIRE_EQ(print(back), text);
    return true;
  });
}

TEST_CASE("changed text is read or refused with a place") {
  int64_t read = 0, refused = 0;
  fuzz::each_seed({.fixed = 1500, .fresh = 200, .share = 0.03}, [&](uint64_t seed) {
    FunctionGenerator g{{.random = std::mt19937_64(seed)}};
    std::string text = print(g.function());
    static const std::string_view pieces[] = {"(",  ")",    "[",  "]",  "{",    "}",    "\n",    "  ", ":",
                                              "=",  ",",    "-",  "9",  "for ", "x",    "mask(", "\"", "`",
                                              ".1", "not ", "1e", "\t", "\xff", "3:i8", "->",    "+"};
    for (int64_t n = 1 + g.below(3); n > 0; n--) {
      size_t at = size_t(g.below(int64_t(text.size())));
      if (g.chance(50))
        text.erase(at, size_t(1 + g.below(6)));
      else
        text.insert(at, pieces[size_t(g.below(std::size(pieces)))]);
      if (text.empty()) text = "\n";
    }
    CAPTURE(seed);
    CAPTURE(text);
    try {
      Function f = parse(text, "fuzz", vocabulary);
      REQUIRE(equivalent(parse(print(f), "fuzz", vocabulary), f));
      read++;
    } catch (const CompileError& e) {
      REQUIRE(e.span.line > 0);
      REQUIRE(e.span.column > 0);
      refused++;
    }
    return true;
  });
  if (fuzz::is_replay()) return;
  CHECK(read > 0);
  CHECK(refused > 0);
}
