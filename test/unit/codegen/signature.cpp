// What the runtime is told of a function.
#include "unit/codegen/machine.h"

using namespace tl;
using Op = Formula::Op;
using From = IntegerSource::From;

namespace {

int64_t value(const Formula& f, std::vector<int64_t> integers) { return evaluate(f, integers); }

// A kernel with a pitched tensor, two scalars, a dense tensor and a workspace; some integers it does not use.
struct Scale {
  Machine m{"scale"};
  Expr pitch = var("pitch"), count;
  Program p;
  Scale();
};

Scale::Scale() {
  Expr rows = var("M"), cols = var("N");
  BufferId a = m.tensor("A", f16, {rows, cols}, {pitch, imm(1)});
  Expr factor = m.scalar("factor", f32);
  count = m.scalar("count", i32);
  BufferId c = m.tensor("C", f32, {rows, cols, imm(4)});
  BufferId w = m.f.add({.name = "partial",
                        .dtype = f32,
                        .shape = {rows + 1, cast(i64, count)},
                        .strides = {},
                        .scope = Scope::global,
                        .span = {},
                        .layout = {}});
  m.f.workspaces = {w};
  m.block("bx", ceildiv(cols, imm(128)));
  m.block("by", min(rows, imm(64)));
  Expr inside = lt(m.k.thread, rows * pitch);
  m.body({put(c, m.k.thread, factor * cast(f32, m.at(a, m.k.thread)), inside), put(w, m.k.thread, fimm(0))});
  p = signature_of(m.f, *find_target("sm_80"));
}

const std::vector<int64_t> scale_ints = {7, 100, 300, 320};  // count, M, N and pitch

}  // namespace

TEST_CASE("signature: integers come from scalars, extents and strides, each once") {
  auto [m, pitch, count, p] = Scale();
  CHECK_EQ(p.name, "scale");
  CHECK_EQ(p.language, "cuda");
  CHECK_EQ(p.chip, "sm_80");
  CHECK_EQ(p.alignment, 16);
  REQUIRE_EQ(p.params.size(), 4);
  CHECK_EQ(p.params[0].dtype, "f16");
  CHECK_EQ(p.params[0].bits, 16);
  CHECK(!p.params[0].is_written);
  CHECK(!p.params[1].is_tensor);
  CHECK_EQ(p.params[2].dtype, "i32");
  CHECK(p.params[3].is_written);

  // count is the value of parameter 2; M, N and pitch are what A shows.
  REQUIRE_EQ(p.integers.size(), 4);
  auto is = [&](size_t i, std::string_view name, int param, From from, int dim) {
    auto& s = p.integers[i];
    return s.name == name && s.param == param && s.from == from && s.dim == dim;
  };
  CHECK(is(0, "count", 2, From::value, 0));
  CHECK(is(1, "M", 0, From::extent, 0));
  CHECK(is(2, "N", 0, From::extent, 1));
  CHECK(is(3, "pitch", 0, From::stride, 0));
  std::vector<Expr> vars = integer_vars(m.f);
  REQUIRE_EQ(vars.size(), 4);
  CHECK(vars[0].same(count));
  CHECK(vars[3].same(pitch));
}

TEST_CASE("signature: shapes, strides, bytes and arguments are formulas of these integers") {
  Program p = Scale().p;
  CHECK_EQ(value(p.params[0].shape[1], scale_ints), 300);
  CHECK_EQ(value(p.params[0].strides[0], scale_ints), 320);
  CHECK_EQ(value(p.params[3].strides[0], scale_ints), 1200);
  CHECK_EQ(value(p.params[3].strides[1], scale_ints), 4);
  CHECK(p.params[3].strides[2] == Formula::constant(1));
  CHECK_EQ(value(p.workspaces[0].bytes, scale_ints), 4 * 101 * 7);

  REQUIRE_EQ(p.entries.size(), 1);
  auto& e = p.entries[0];
  CHECK_EQ(value(e.grid[0], scale_ints), 3);
  CHECK_EQ(value(e.grid[1], scale_ints), 64);
  CHECK_EQ(e.threads[0], 128);
  using Arg = EntrySpec::Arg::From;
  std::vector<std::pair<Arg, int>> args;
  for (auto& x : e.args) args.emplace_back(x.from, x.index);
  CHECK(args == std::vector<std::pair<Arg, int>>{// neither count nor N: the kernel's text does not name them
                                                 {Arg::param, 0},
                                                 {Arg::param, 1},
                                                 {Arg::param, 3},
                                                 {Arg::workspace, 0},
                                                 {Arg::integer, 1},
                                                 {Arg::integer, 3}});
}

TEST_CASE("signature: a scalar parameter that is an extent is passed once") {
  Machine m("f");
  Expr n = m.scalar("n", i64);
  BufferId c = m.tensor("C", f32, {n * 2});
  m.block("bx", n);
  m.body({put(c, m.k.thread, fimm(0), lt(m.k.thread, n * 2))});
  Program p = signature_of(m.f, *find_target("sm_80"));
  REQUIRE_EQ(p.integers.size(), 1);
  CHECK(p.integers[0].from == From::value);
  CHECK_EQ(value(p.params[1].shape[0], {21}), 42);
  CHECK_EQ(p.entries[0].args.size(), 2);
}

TEST_CASE("signature: memory of a block, on a GPU shared, on a CPU its arena") {
  Machine m("f");
  BufferId c = m.tensor("C", f32, {imm(128)});
  BufferId used = m.on_chip("S", Scope::shared, f16, 100, 256),
           unused = m.on_chip("T", Scope::shared, f16, 5000, 4096);
  m.body({alloc(used), put(used, m.k.thread, fimm(0, f16)), put(c, m.k.thread, fimm(0))});
  CHECK_EQ(signature_of(m.f, *find_target("sm_80")).entries[0].shared_bytes, 456);
  m.k.name = "second";
  m.body({alloc(unused), put(c, m.k.thread, fimm(0))});
  Target cpu = *find_target("sm_80");
  cpu.warp = 1;
  Program p = signature_of(m.f, cpu);
  CHECK_EQ(p.entries[0].arena_bytes, 456);
  CHECK_EQ(p.entries[1].arena_bytes, 4096 + 10000);
  CHECK_EQ(p.entries[1].shared_bytes, 0);
  CHECK_EQ(p.entries[1].threads[0], 1);
}

TEST_CASE("signature: writes through a handle count, reads do not") {
  Machine m("f");
  BufferId a = m.tensor("A", f16, {imm(512)}), b = m.tensor("B", f16, {imm(512)}),
           c = m.tensor("C", f16, {imm(512)});
  const Intrinsic& copy = find_target("sm_80")->copy_named("ldmatrix_x4")->intrinsic;
  Expr p = var("p", handle);
  m.body({eval(call(copy, {m.address(a, imm(0)), m.address(b, imm(0))})), let(p, m.address(c, imm(0)))});
  Program program = signature_of(m.f, *find_target("sm_80"));
  CHECK(program.params[0].is_written);
  CHECK(!program.params[1].is_written);
  CHECK(program.params[2].is_written);
}

TEST_CASE("signature: what the index of an element reads is only read, whatever happens to the element") {
  for (auto* row : {"atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_store", "atomic_load"}) {
    CAPTURE(row);
    Machine m("f");
    BufferId x = m.tensor("X", i32, {imm(512)}), h = m.tensor("H", i32, {imm(512)});
    bool load = std::string_view(row) == "atomic_load";
    std::vector<Expr> args{m.address(h, cast(i64, m.at(x, imm(3))))};
    if (!load) args.push_back(imm(1, i32));
    args.push_back(string_imm("relaxed"));
    m.body({eval(call(*find_intrinsic(row), args, load ? i32 : none_type))});
    Program program = signature_of(m.f, *find_target("sm_80"));
    CHECK(!program.params[0].is_written);
    CHECK_EQ(program.params[1].is_written, !load);
  }
}

TEST_CASE("signature: symbols are unique and no word of a language or a C library") {
  for (auto [name, symbol] : {std::pair("main", "main_kernel"),
                              {"__exp", "exp_kernel"},
                              {"a kernel", "a_kernel"},
                              {"größe", "gr__e_kernel"},
                              {"2d", "k2d_kernel"},
                              {"my_kernel", "my_kernel"}}) {
    Machine m(name);
    m.body({});
    CHECK_EQ(signature_of(m.f, *find_target("sm_80")).entries[0].name, std::string(symbol));
  }
  Machine m("twice");
  m.body({}).body({});
  Program p = signature_of(m.f, *find_target("sm_80"));
  CHECK_EQ(p.entries[0].name, "twice_kernel");
  CHECK_EQ(p.entries[1].name, "twice_kernel_1");
}

TEST_CASE("signature: an extent tells the integer of which it is a multiple and a constant more") {
  Machine m("f");
  m.tensor("A", f32, {var("N") * 2 + 3});
  m.body({});
  Program p = signature_of(m.f, *find_target("sm_80"));
  REQUIRE_EQ(p.integers.size(), 1u);
  CHECK_EQ(p.integers[0].solve(13), 5);
  CHECK_EQ(p.integers[0].solve(1), 0);
  CHECK_EQ(evaluate(p.params[0].shape[0], std::vector<int64_t>{5}), 13);
}

TEST_CASE("signature: an extent that no argument tells is the user's error") {
  const Target& t = *find_target("sm_80");
  Machine hidden("f");
  hidden.tensor("A", f32, {floordiv(var("N"), 2)});
  hidden.body({});
  CHECK_THROWS_WITH_AS(signature_of(hidden.f, t),
                       doctest::Contains("`N`, whose value no argument determines"), CompileError);
  Machine grid("g");
  grid.block("bx", var("tiles"));
  grid.body({});
  CHECK_THROWS_WITH_AS(signature_of(grid.f, t), doctest::Contains("the grid of g uses `tiles`"),
                       CompileError);
  Machine bits("h");
  Expr n = bits.scalar("n", i64);
  bits.block("bx", binary(BinaryOp::shl, n, imm(2)));
  bits.body({});
  CHECK_THROWS_WITH_AS(signature_of(bits.f, t), doctest::Contains("computed before the launch"),
                       CompileError);
}
