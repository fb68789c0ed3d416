// Statements: what loops, branches and masks become, and what they must keep.
#include <doctest/doctest.h>

#include "arith/prove.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

const BufferId out{0}, in{1};

Stmt checked(const Stmt& s, const Facts& facts = {}) {
  Stmt r = simplify(s, facts);
  CHECK(simplify(r, facts).same(r));
  return r;
}

}  // namespace

TEST_CASE("the range of a loop variable decides what stands in the loop") {
  Expr i = var("i"), j = var("j");
  Stmt body = store(out, {floordiv(i * 8 + j, 8)}, floormod(i * 8 + j, imm(8)));
  Stmt s = checked(for_loop(i, 4, Loop::serial, for_loop(j, 8, Loop::serial, body)));
  CHECK(equal(s, for_loop(i, 4, Loop::serial, for_loop(j, 8, Loop::serial, store(out, {i}, j)))));
  // Outside of the loop nothing is known of it: the same variable in a second loop has its own range.
  Stmt two = checked(block({for_loop(i, 4, Loop::serial, store(out, {floormod(i, 4)}, i)),
                            for_loop(i, 9, Loop::serial, store(out, {floormod(i, 4)}, i))}));
  CHECK(equal(two, block({for_loop(i, 4, Loop::serial, store(out, {i}, i)),
                          for_loop(i, 9, Loop::serial, store(out, {floormod(i, 4)}, i))})));
}

TEST_CASE("what a condition tells holds behind an inner scope, too") {
  // i - m may wrap, so that no expression can tell that it is at most 0.
  Expr i = var("i", i32), t = var("t", i32), m = var("m", i32), k = var("k", i32);
  Stmt inner = block({let(k, load(i32, in, {imm(0)})), store(out, {imm(0)}, k)});
  Stmt s = checked(if_then(eq(min(i, t), m), block({inner, store(out, {imm(1)}, min(m, i))})));
  INFO(print(s));
  CHECK(equal(s, if_then(eq(min(i, t), m), block({inner, store(out, {imm(1)}, m)}))));
}

TEST_CASE("loops of one iteration and of none") {
  Expr i = var("i"), j = var("j"), n = var("n");
  CHECK(equal(checked(for_loop(i, imm(5), imm(1), Loop::unrolled, store(out, {i * 2}, i))),
              store(out, {imm(10)}, imm(5))));
  CHECK(is_empty(checked(for_loop(i, 0, Loop::serial, store(out, {i}, i)))));
  CHECK(is_empty(checked(for_loop(i, imm(0), min(n, imm(0)), Loop::serial, store(out, {i}, i)))));
  // A jump belongs to its loop.
  Stmt leaves = for_loop(i, 1, Loop::serial, block({store(out, {imm(0)}, n), eval(call(break_loop, {}))}));
  CHECK(checked(leaves).same(leaves));
  // The last parallel loop spreads the statement over threads; one of several may go.
  Stmt element = store(out, {i + j}, n);
  Stmt alone = for_loop(i, 1, Loop::parallel, store(out, {i}, n));
  CHECK(checked(alone)->kind == Kind::For);
  CHECK(equal(checked(for_loop(i, 1, Loop::parallel, for_loop(j, 8, Loop::parallel, element))),
              for_loop(j, 8, Loop::parallel, store(out, {j}, n))));
  CHECK(equal(checked(for_loop(j, 8, Loop::parallel, for_loop(i, 1, Loop::parallel, element))),
              for_loop(j, 8, Loop::parallel, store(out, {j}, n))));
  // Attributes of a parallel nest are decisions that somebody still needs: a layout has a dimension for each
  // loop.
  Attrs attrs{.entries = {{"loop_layout", IndexMap{{i}, {1}, {i}}}}};
  auto placed = [&](const Stmt& body) {
    Stmt inside = for_loop(i, 1, Loop::parallel, for_loop(j, 8, Loop::parallel, body));
    return for_loop(var("k"), imm(0), imm(1), Loop::parallel, inside, {}, attrs);
  };
  CHECK(equivalent(checked(placed(element)), placed(store(out, {j}, n))));
  Attrs stages{.entries = {{"num_stages", int64_t(3)}}};
  CHECK(equal(checked(for_loop(i, imm(2), imm(1), Loop::pipelined, element, {}, stages)),
              store(out, {j + 2}, n)));
}

TEST_CASE("what a loop becomes is asked of its simplified body") {
  Expr i = var("i"), j = var("j"), x = var("x"), n = var("n");
  // A branch, or statements beside it, stood between two parallel loops.
  Stmt inner = for_loop(j, 5, Loop::parallel, store(out, {j}, n));
  CHECK(equal(checked(for_loop(i, 1, Loop::parallel, if_then(lt(i, imm(4)), inner))), inner));
  Stmt once = for_loop(j, 1, Loop::parallel, store(out, {i}, n));
  CHECK(equal(checked(for_loop(i, 5, Loop::parallel, block({let(x, imm(0)), once}))),
              for_loop(i, 5, Loop::parallel, store(out, {i}, n))));
  // The jump is never reached.
  Stmt jump = if_then(lt(i, imm(0)), eval(call(break_loop, {})));
  CHECK(equal(checked(for_loop(i, 1, Loop::serial, block({store(out, {i}, n), jump}))),
              store(out, {imm(0)}, n)));
  // The first value is read before the body writes there.
  Expr first = load(i64, out, {imm(0)});
  Stmt body = block({store(out, {imm(0)}, n), store(out, {imm(1)}, i)});
  Stmt reads = for_loop(i, first, imm(1), Loop::serial, body);
  CHECK(checked(reads).same(reads));
}

TEST_CASE("branches and what is known in them") {
  Expr x = var("x"), n = var("n");
  Stmt a = store(out, {x}, imm(1)), b = store(out, {x}, imm(2));
  CHECK(equal(checked(if_then(lt(x, x + 1), a, b)), a));
  CHECK(equal(checked(if_then(lt(x + 1, x), a, b)), b));
  CHECK(is_empty(checked(if_then(lt(x + 1, x), a))));
  Stmt inner = if_then(lt(x, n), a, if_then(le(n, x + 1), b));
  CHECK(equal(checked(inner), if_then(lt(x, n), a, b)));
  Stmt masked = store(out, {x}, load(i64, in, {x}, {}, lt(x, n)), {}, lt(x, n + 2));
  CHECK(equal(checked(if_then(lt(x, n), masked)), if_then(lt(x, n), store(out, {x}, load(i64, in, {x})))));
  CHECK(is_empty(checked(if_then(le(n, x), store(out, {x}, imm(1), {}, lt(x, n))))));
  CHECK(equal(checked(if_then(lt(x, n), block({}), a)), if_then(le(n, x), a)));
}

TEST_CASE("a condition on memory is no fact") {
  Expr element = load(i64, out, {imm(0)});
  Expr condition = lt(element, imm(4));
  Stmt s = if_then(condition,
                   block({store(out, {imm(0)}, imm(9)), if_then(condition, store(out, {imm(1)}, imm(1)))}));
  CHECK(checked(s).same(s));
}

TEST_CASE("lets: constants and names go, others give their range") {
  Expr x = var("x"), y = var("y"), z = var("z"), w = var("w");
  Stmt s = checked(block({let(x, imm(3)), let(y, x), let(z, floormod(w, 8)), store(out, {floormod(z, 8)}, y),
                          let(var("d"), w)}));
  CHECK(equal(s, block({let(z, floormod(w, 8)), store(out, {z}, imm(3))})));
  CHECK(is_empty(checked(block({let(x, w)}))));
  // A Let ends with its block.
  Stmt scoped = checked(block({if_then(lt(w, imm(0)), block({let(z, floormod(w, 8)), store(out, {z}, z)})),
                               store(out, {floormod(z, 8)}, z)}));
  CHECK(equal(scoped.as<Block>()->stmts[1], store(out, {floormod(z, 8)}, z)));
}

TEST_CASE("masks that always hold are dropped, lanes too") {
  Expr y = var("y");
  Facts facts;
  facts.bind(y, Interval{0, 15});
  Expr lanes = ramp(y * 8, imm(1), 8), mask = binary(BinaryOp::lt, lanes, broadcast(imm(128), 8));
  Stmt s = checked(store(out, {lanes}, load(f32, in, {lanes}, {}, mask), {}, mask), facts);
  CHECK(equal(s, store(out, {lanes}, load(f32, in, {lanes}))));
  Expr never = binary(BinaryOp::lt, lanes, broadcast(imm(0), 8));
  CHECK(is_empty(checked(store(out, {lanes}, load(f32, in, {lanes}), {}, never), facts)));
  CHECK(equal(checked(store(out, {lanes}, load(f32, in, {lanes}, {}, never)), facts),
              store(out, {lanes}, zero(f32.with_lanes(8)))));
}

TEST_CASE("a kernel: grid, threads, groups, spans and maps") {
  Function f;
  Kernel k;
  Expr m = var("M"), bx = var("bx"), t = var("t"), v = var("v");
  k.grid_vars = {bx};
  k.grid = {ceildiv(m, imm(64)) + 0};
  k.threads = {128};
  k.thread = t;
  Span here{intern_file("kernel.py"), 7, 3, 7, 20};
  IndexMap map{{v}, {4}, {v + (v - v)}};
  Stmt guarded = store(out, {bx * 64 + floormod(t, 64)}, imm(1), here, both(lt(bx * 64, m), lt(t, imm(128))));
  Stmt spread = group(64, 64, store(out, {floordiv(t, 64)}, imm(1), here));
  Stmt placed = alloc(out, here, Attrs{.entries = {{"layout", map}}});
  k.body = block({placed, guarded, spread});
  f.kernels = {k};
  Function s = simplify(f);
  auto* body = s.kernels[0].body.as<Block>();
  REQUIRE(body);
  CHECK(body->stmts[0].same(placed));
  CHECK(equal(body->stmts[1], store(out, {bx * 64 + floormod(t, 64)}, imm(1))));
  CHECK(body->stmts[1]->span == here);
  CHECK(equal(body->stmts[2], group(64, 64, store(out, {imm(1)}, imm(1)))));
  CHECK(print(s.kernels[0].grid[0]) == "(M + 63)//64");
  CHECK(simplify(s).kernels[0].body.same(s.kernels[0].body));
}

TEST_CASE("an effect is never dropped") {
  Intrinsic bump{
      .name = "bump", .arity = 0, .result = Intrinsic::Result::i64, .effect = Intrinsic::Effect::memory};
  Expr e = call(bump, {});
  CHECK_FALSE(is_empty(checked(eval(e))));
  CHECK(is_empty(checked(eval(var("x") + 1))));
  CHECK_FALSE(is_empty(checked(if_then(lt(e, imm(3)), block({})))));
  CHECK_FALSE(is_empty(checked(while_loop(lt(e, imm(3)), block({})))));
  CHECK(is_empty(checked(while_loop(lt(imm(4), imm(3)), eval(e)))));
}
