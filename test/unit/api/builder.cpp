// The Builder: what it makes, and what it says when asked for what makes no sense.
#include "api/builder.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"

using namespace tl;

namespace {

// A builder inside an open kernel with one tensor, at a place of its own.
struct Fixture {
  Builder b{"f"};
  Buffer A = b.tensor("A", {int64_t(64), int64_t(32)}, f32);
  Expr n = b.scalar("n", i32);
  Expr bx;
  Fixture() {
    bx = b.begin_kernel({int64_t(4)}, {128}, {})[0];
    b.at({intern_file("kernel.py"), 7, 5, 7, 20});
  }
  Function finish() {
    b.end_kernel();
    return b.finish();
  }
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const CompileError& e) {
    return e.text;
  }
  return "";
}

Value number(int64_t n) { return n; }
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an error carries the place set by at") {
  Fixture f;
  try {
    f.b.load(f.A, {number(0)});
    FAIL("no error");
  } catch (const CompileError& e) {
    CHECK(*e.span.file == "kernel.py");
    CHECK(e.span.line == 7);
    CHECK(e.span.column == 5);
    CHECK(e.text == "A: f32[64, 32] has 2 dimensions, but 1 index was given");
  }
}

TEST_CASE("numbers take the type of what they meet") {
  Expr h = var("h", f16), c = var("c", i8), k = var("k", i64), p = var("p", boolean);
  auto type = [](BinaryOp op, Value a, Value b) { return apply_binary(op, a, b, {})->dtype; };
  CHECK(type(BinaryOp::add, h, int64_t(1)) == f16);
  CHECK(type(BinaryOp::mul, h, 0.5) == f16);
  CHECK(type(BinaryOp::add, c, int64_t(1)) == i8);
  CHECK(type(BinaryOp::mul, k, 0.5) == f32);  // not a silent 0
  CHECK(type(BinaryOp::add, p, int64_t(1)) == i32);
  CHECK(type(BinaryOp::add, p, p) == i32);
  CHECK(type(BinaryOp::add, int64_t(1), int64_t(2)) == i64);
  CHECK(type(BinaryOp::add, int64_t(1), 2.5) == f32);
  CHECK(as_int(apply_binary(BinaryOp::add, int64_t(1), int64_t(2), {})) == 3);
  CHECK(type(BinaryOp::lt, k, int64_t(3)) == boolean);
  CHECK(as_int(apply_binary(BinaryOp::bit_and, imm(-1, i32), int64_t(0xFFFFFFFF), {})) == -1);
}

TEST_CASE("types meet as in C, and keep their values") {
  CHECK(promote(i32, i64) == i64);
  CHECK(promote(i32, u32) == u32);
  CHECK(promote(i64, u32) == i64);
  CHECK(promote(i8, i16) == i16);
  CHECK(promote(i8, u16) == i32);
  CHECK(promote(u8, i16) == i32);
  CHECK(promote(i64, f16) == f16);
  CHECK(promote(f16, f32) == f32);
  CHECK(promote(f16, bf16) == f32);
  CHECK(promote(f64, bf16) == f64);
  CHECK(promote(boolean, i8) == i8);
  CHECK(apply_binary(BinaryOp::shr, var("b", u8), var("n", i32), {})->dtype == i32);
}

TEST_CASE("numbers that do not fit are errors") {
  Expr c = var("c", i8);
  CHECK(error_of([&] { apply_binary(BinaryOp::add, c, int64_t(300), {}); }) ==
        "the number 300 does not fit in i8; cast the other operand to a wider type first");
  CHECK(error_of([&] { to_type(-1.0, u8, "x", {}); }) ==
        "x -1 is not representable in u8: round it, or use a float type");
  CHECK(contains(error_of([&] { apply_binary(BinaryOp::div, c, c, {}); }), "use `//`"));
  CHECK(contains(error_of([&] { apply_binary(BinaryOp::shl, c, int64_t(40), {}); }), "must lie in [0, 8)"));
  CHECK(contains(error_of([&] { apply_binary("plus", c, c, {}); }), "no operator `plus`"));
}

TEST_CASE("functions by name") {
  Expr x = var("x", f32), k = var("k", i32);
  CHECK(apply_call("exp", {x}, {}, {})->dtype == f32);
  CHECK(apply_call("pow", {x, int64_t(2)}, {}, {})->dtype == f32);
  CHECK(apply_call("exp", {x}, f16, {})->dtype == f16);
  CHECK(apply_call("isnan", {x}, {}, {})->dtype == boolean);
  CHECK(apply_call("sqrt", {int64_t(4)}, {}, {}).as<FloatImm>()->value == 2);
  CHECK(equal(apply_call("abs", {k}, {}, {}), max(k, unary(UnaryOp::neg, k))));
  CHECK(error_of([&] { apply_call("exq", {x}, {}, {}); }) ==
        "there is no function `exq`; did you mean `exp`?");
  CHECK(error_of([&] { apply_call("fma", {x}, {}, {}); }) == "fma takes 3 arguments, not 1");
  CHECK(error_of([&] { apply_call("exp", {k}, {}, {}); }) ==
        "exp takes a float, not i32: cast it to a float first");
}

TEST_CASE("loops with steps count, and compute the user's variable") {
  Fixture f;
  auto loop = [&](Value start, Value stop, Value step) {
    Expr i = f.b.begin_for("serial", {"i"}, {start}, {stop}, {step}, {})[0];
    f.b.store(f.A, {i, number(0)}, 1.0);
    f.b.end_for();
    return i;
  };
  CHECK(loop(number(0), number(10), number(1)).as<Var>());
  CHECK(loop(number(1), number(10), number(4)).as<Binary>());
  loop(number(10), number(0), number(-3));
  loop(number(0), f.n, number(2));
  loop(number(5), number(2), number(1));  // never
  CHECK(error_of([&] { loop(number(0), number(3), number(0)); }) == "the step of the loop over i is 0");
  Function g = f.finish();
  std::vector<int64_t> extents;
  visit(g.kernels[0].body, [&](const For& n) { extents.push_back(as_int(n.extent).value_or(-1)); });
  CHECK(extents == std::vector<int64_t>{10, 3, 4, -1, 0});
}

TEST_CASE("several names make a nest") {
  Fixture f;
  auto ij = f.b.begin_for("parallel", {"i", "j"}, {number(0), number(0)}, {number(64), number(32)},
                          {number(1), number(1)}, {});
  f.b.store(f.A, {ij[0], ij[1]}, f.bx);
  f.b.end_for();
  Function g = f.finish();
  auto* outer = g.kernels[0].body.as<For>();
  REQUIRE(outer);
  auto* inner = outer->body.as<For>();
  REQUIRE(inner);
  CHECK(outer->loop == Loop::parallel);
  CHECK(inner->loop == Loop::parallel);
  CHECK(as_int(inner->extent) == 32);
  auto* store = inner->body.as<Store>();
  REQUIRE(store);
  CHECK(store->value->dtype == f32);  // cast to the buffer's type
  CHECK(store->index[0]->dtype == i64);
}

TEST_CASE("branches that are decided leave no If") {
  Fixture f;
  auto branch = [&](Value cond) {
    f.b.begin_if(cond);
    f.b.store(f.A, {number(0), number(0)}, 1.0);
    f.b.begin_else();
    f.b.store(f.A, {number(1), number(0)}, 2.0);
    f.b.end_if();
  };
  branch(true);
  branch(int64_t(0));
  branch(apply_binary(BinaryOp::lt, f.n, int64_t(3), {}));
  branch(f.n);  // true unless zero
  Function g = f.finish();
  auto* body = g.kernels[0].body.as<Block>();
  REQUIRE(body);
  REQUIRE(body->stmts.size() == 4);
  CHECK(as_int(body->stmts[0].as<Store>()->index[0]) == 0);
  CHECK(as_int(body->stmts[1].as<Store>()->index[0]) == 1);
  CHECK(body->stmts[2].as<If>()->else_body);
  CHECK(body->stmts[3].as<If>()->cond->dtype == boolean);
}

TEST_CASE("let names values, and only where that says something") {
  Fixture f;
  CHECK(f.b.let("x", number(3)).as<IntImm>());
  CHECK(f.b.let("x", f.bx).same(f.bx));
  Expr x = f.b.let("x", f.b.load(f.A, {f.bx, number(0)}));
  CHECK(x.as<Var>());
  f.b.store(f.A, {number(0), number(0)}, x);
  CHECK(f.finish().kernels[0].body.as<Block>()->stmts.size() == 2);
}

TEST_CASE("a function of values is one expression") {
  Fixture f;
  auto vars = f.b.begin_function("combine", {"a", "b"}, f32);
  Expr product = f.b.let("product", binary(BinaryOp::mul, vars[0], vars[1]));
  CHECK(product.as<Binary>());  // a name would be a statement
  for (auto& act : std::vector<std::function<void()>>{
           [&] { f.b.store(f.A, {number(0), number(0)}, product); },
           [&] { f.b.alloc("x", "var", {}, f32, {}); },
           [&] { f.b.call("sync_threads", {}); },
           [&] { f.b.begin_if(true); },
           [&] { f.b.begin_while(); },
           [&] { f.b.begin_for("serial", {"i"}, {number(0)}, {number(4)}, {number(1)}, {}); },
           [&] { f.b.begin_function("another", {"a", "b"}, f32); },
       })
    CHECK(contains(error_of(act), "combine must compute a value from its arguments alone"));
  IndexMap made = f.b.end_function(vars, {product, 1.0}, f32);
  CHECK(made.outputs.size() == 2);
  CHECK(made.outputs[0].same(product));
  CHECK(
      contains(error_of([&] { f.b.end_function(vars, {product}, f32); }), "end_function without its begin"));

  vars = f.b.begin_function("combine", {"a", "b"}, f32);
  Expr power = vars[0];
  for (int i = 0; i < 40; i++) power = f.b.let("power", binary(BinaryOp::mul, power, power));
  CHECK(contains(error_of([&] { f.b.end_function(vars, {power}, f32); }), "4096 operations or more"));
}

TEST_CASE("what stands in the wrong place") {
  Builder b("f");
  Buffer A = b.tensor("A", {int64_t(8)}, f32);
  CHECK(contains(error_of([&] { b.store(A, {number(0)}, 1.0); }), "must stand inside a kernel"));
  CHECK(contains(error_of([&] { b.tile("clear", {A}, {}); }), "clear must stand inside a kernel"));
  CHECK(contains(error_of([&] { b.alloc("x", "var", {}, f32, {}); }), "must stand inside a kernel"));
  CHECK(contains(error_of([&] { b.call("sync_threads", {}); }), "must stand inside a kernel"));
  CHECK(contains(error_of([&] { b.finish(); }), "has no kernel"));
  b.begin_kernel({int64_t(1)}, {}, {});
  CHECK(contains(error_of([&] { b.begin_kernel({int64_t(1)}, {}, {}); }), "cannot stand inside another"));
  CHECK(contains(error_of([&] { b.tensor("B", {int64_t(8)}, f32); }), "declared inside a kernel"));
  CHECK(contains(error_of([&] { b.end_for(); }), "end_for without its begin"));
  CHECK(contains(error_of([&] { b.begin_else(); }), "begin_else without its begin"));
  b.begin_for("serial", {"i"}, {number(0)}, {number(4)}, {number(1)}, {});
  CHECK(contains(error_of([&] { b.finish(); }), "this loop is not closed"));
}

TEST_CASE("buffers of another function") {
  Fixture f, other;
  CHECK(
      contains(error_of([&] { f.b.load(other.A, {number(0), number(0)}); }), "A belongs to the function f"));
  CHECK(contains(error_of([&] { f.b.tile("clear", {other.A}, {}); }), "A belongs to the function f"));
}

TEST_CASE("shapes, scopes, indices") {
  Fixture f;
  auto alloc = [&](std::string_view scope, std::vector<Value> shape) {
    return error_of([&] { f.b.alloc("t", scope, shape, f32, {}); });
  };
  CHECK(alloc("shared", {int64_t(8), int64_t(8)}) == "");
  CHECK(alloc("var", {}) == "");
  CHECK(alloc("sharde", {int64_t(8)}) == "t: there is no scope `sharde`; did you mean `shared`?");
  CHECK(contains(alloc("fragment", {f.n}), "must be constant, but it has"));
  CHECK(contains(alloc("shared", {f.n, f.n}), "nothing says how much it is at most"));
  CHECK(alloc("local", {int64_t(0)}) == "t: an extent is 0; it must be positive");
  CHECK(contains(alloc("fragment", {}), "at least one dimension"));
  CHECK(contains(alloc("var", {int64_t(1)}), "a var has no dimensions"));
  auto load = [&](Value i) { return error_of([&] { f.b.load(f.A, {i, number(0)}); }); };
  CHECK(load(int64_t(64)) == "the index 64 of dimension 0 is outside of A: f32[64, 32]");
  CHECK(load(int64_t(-64)) == "");
  CHECK(load(int64_t(-65)) ==
        "index -65 of A is outside: it counts from the end of 64 elements, whose first is -64");
  CHECK(load(0.5) == "an index of A is f32, not an integer");
  CHECK(load(true) == "an index of A is bool, not an integer");
  CHECK(load(f.n) == "");
}

TEST_CASE("tile operators") {
  Fixture f;
  Buffer s = f.b.alloc("s", "shared", {int64_t(16), int64_t(32)}, f16, {});
  Attrs typo;
  typo.entries["disable_tme"] = int64_t(1);
  CHECK(error_of([&] { f.b.tile("copy", {f.A, s}, typo); }) ==
        "copy has no option `disable_tme`; did you mean `disable_tma`?");
  Attrs wrong;
  wrong.entries["disable_tma"] = int64_t(7);
  CHECK(error_of([&] { f.b.tile("copy", {f.A, s}, wrong); }) == "copy: disable_tma must be true or false");
  Attrs policy;
  policy.entries["policy"] = std::string("round");
  CHECK(contains(error_of([&] { f.b.tile("gemm", {s, s, s}, policy); }),
                 "policy cannot be `round`; it is one of"));
  CHECK(error_of([&] { f.b.tile("cpoy", {f.A, s}, {}); }) ==
        "there is no tile operator `cpoy`; did you mean `copy`?");
  CHECK(error_of([&] { f.b.tile("copy", {f.A}, {}); }) == "copy takes 2 operands (src, dst), not 1");
  CHECK(contains(error_of([&] { f.b.tile("copy", {Value(1.0), s}, {}); }), "src must be a buffer"));
  CHECK(
      contains(error_of([&] { f.b.tile("fill", {s, f.A}, {}); }), "value must be a value, not the buffer A"));
  f.b.tile("copy", {make_region(f.A, {f.bx, number(0)}, {std::nullopt, std::nullopt}, {false, false}), s},
           {});
  f.b.tile("fill", {s, 2.5}, {});
  f.b.tile("fill", {s, int64_t(0)}, {});
  Function g = f.finish();
  std::vector<std::string_view> ops;
  visit(g.kernels[0].body, [&](const Tile& t) { ops.push_back(t.op->name); });
  CHECK(ops == std::vector<std::string_view>{"copy", "fill", "clear"});
}

TEST_CASE("what a front leaves out and what it says in full is one program") {
  auto text = [](bool in_full) {
    Fixture f;
    Buffer a = f.b.alloc("a", "shared", {int64_t(16), int64_t(16)}, f16, {});
    Buffer c = f.b.alloc("c", "fragment", {int64_t(16), int64_t(16)}, f32, {});
    Attrs attrs;
    if (in_full) {
      attrs.entries["trans_a"] = int64_t(0);
      attrs.entries["policy"] = std::string("square");
    }
    f.b.tile("gemm", {a, a, c}, attrs);
    return print(f.finish());
  };
  CHECK(text(true) == text(false));
}

TEST_CASE("a slice's extent is simplified") {
  Fixture f;
  Expr start = apply_binary(BinaryOp::mul, f.bx, int64_t(16), {});
  Expr stop = apply_binary(BinaryOp::mul, apply_binary(BinaryOp::add, f.bx, int64_t(1), {}), int64_t(16), {});
  Value extent = apply_binary(BinaryOp::sub, stop, start, {});
  auto region = make_region(f.A, {start, number(0)}, {extent, number(32)}, {false, false});
  CHECK(as_int(region.ranges[0].extent) == 16);
}

TEST_CASE("extents that a call gives") {
  Builder b("f");
  Expr m = b.dynamic("m"), k = b.dynamic("k");
  b.tensor("A", {m, int64_t(8)}, f32);
  b.begin_kernel({m}, {}, {});
  b.end_kernel();
  CHECK(contains(error_of([&] { b.finish(); }), "k is known when the function is called only if"));
  CHECK(k->dtype == i64);
}

TEST_CASE("several kernels get names of their own") {
  Builder b("f");
  b.tensor("A", {int64_t(8)}, f32);
  for (int i = 0; i < 2; i++) {
    b.begin_kernel({int64_t(2), int64_t(3)}, {32}, {}, {"x", "y"});
    b.end_kernel();
  }
  Function f = b.finish();
  CHECK(f.kernels[0].name == "f_0");
  CHECK(f.kernels[1].name == "f_1");
  CHECK(f.kernels[0].grid_vars[1].as<Var>()->hint == "y");
  CHECK(contains(error_of([&] { b.finish(); }), "is finished"));
}

TEST_CASE("use_swizzle: an attribute of the kernel, given once, within what it may be") {
  auto begin = [] {
    Builder b("main");
    b.tensor("A", {Value(int64_t(64))}, f32);
    b.begin_kernel({Value(int64_t(4)), Value(int64_t(4))}, {32}, {});
    return b;
  };
  Builder b = begin();
  b.use_swizzle(Value(int64_t(4)), "col");
  CHECK_THROWS_WITH_AS(b.use_swizzle(Value(int64_t(4))), doctest::Contains("have an order already"),
                       CompileError);
  b.end_kernel();
  Function f = b.finish();
  CHECK(f.kernels[0].attrs.get_int("use_swizzle") == 4);
  CHECK(f.kernels[0].attrs.get_string("use_swizzle_order") == "col");
  Builder c = begin();
  CHECK_THROWS_WITH_AS(c.use_swizzle(Value(int64_t(-1))), doctest::Contains("it is -1"), CompileError);
  CHECK_THROWS_WITH_AS(c.use_swizzle(Value(int64_t(2)), "rows"), doctest::Contains("did you mean `row`"),
                       CompileError);
}

TEST_CASE("a shuffle takes a lane") {
  Fixture x;
  CHECK(x.b.call("shfl_xor", {x.n, int64_t(4)})->dtype == i32);
  CHECK(contains(error_of([&] { x.b.call("shfl", {x.n, 2.5}); }),
                 "shfl: the second argument says which lane, so it must be an integer, not f32"));
}
