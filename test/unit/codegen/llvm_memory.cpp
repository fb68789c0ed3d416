// Accesses and control flow in LLVM text, run on memory that ends at a page nobody may touch.
#include <numeric>

#include "unit/codegen/llvm_run.h"

using namespace tl;

namespace {

Expr lanes_below(Expr base, Expr limit, int lanes) {
  return lt(range_from(base, lanes), broadcast(limit, lanes));
}

}  // namespace

TEST_CASE("llvm: a bound on the lanes neither reads nor writes beyond it") {
  for (auto* target : cpu_targets())
    for (DType t : {i8, f16, f32, f64, i64})
      for (int64_t n : {1, 7, 8, 13, 16}) {
        Machine m("copy");
        Expr size = m.scalar("n", i64);
        BufferId a = m.tensor("A", t, {size}), b = m.tensor("B", t, {size});
        Expr i = var("i"), at = i * 8, mask = lanes_below(at, size, 8);
        m.body({for_loop(i, imm(0), ceildiv(size, imm(8)), Loop::serial,
                         put(b, range_from(at, 8), m.at(a, range_from(at, 8), mask), mask))});
        size_t bytes = size_t(n) * size_t(t.bytes());
        Guarded<char> in(bytes), out(bytes);
        for (size_t j = 0; j < bytes; j++) in[j] = char(j + 1);
        run_slots(m.f, *target, {uint64_t(n), uint64_t(in.data()), uint64_t(out.data())});
        CHECK(std::memcmp(in.data(), out.data(), bytes) == 0);
      }
}

TEST_CASE("llvm: masks of one condition, of any lanes, and of both; a masked load gives 0") {
  for (auto* target : cpu_targets()) {
    Machine m("masks");
    BufferId a = m.tensor("A", i32, {imm(8)}), b = m.tensor("B", i32, {imm(40)});
    Expr go = m.scalar("go", boolean), stop = unary(UnaryOp::logical_not, go);
    Expr at = range_from(imm(0), 8),
         odd = eq(binary(BinaryOp::bit_and, at, imm(1, at->dtype)), imm(1, at->dtype));
    auto to = [&](int part) { return range_from(imm(part * 8), 8); };
    m.body({put(b, to(0), m.at(a, at, odd)), put(b, to(1), m.at(a, at, go)), put(b, to(2), m.at(a, at, stop)),
            put(b, to(3), m.at(a, at), both(odd, broadcast(go, 8))),
            put(b, to(4), m.at(a, at), broadcast(stop, 8)), put(b, imm(39), imm(5, i32), go),
            put(b, imm(38), imm(5, i32), stop), put(b, imm(37), m.at(a, imm(2), go)),
            put(b, imm(36), m.at(a, imm(2), stop))});
    std::vector<int> in(8), out(40, -1);
    std::iota(in.begin(), in.end(), 10);
    run_slots(m.f, *target, {uint64_t(in.data()), uint64_t(out.data()), 1});
    CHECK_EQ(out,
             std::vector<int>{0, 11, 0, 13, 0,  15, 0,  17, 10, 11, 12, 13, 14, 15, 16, 17, 0, 0,  0,  0,
                              0, 0,  0, 0,  -1, 11, -1, 13, -1, 15, -1, 17, -1, -1, -1, -1, 0, 12, -1, 5});
  }
}

TEST_CASE("llvm: strided and arbitrary indices gather and scatter, masked or not, for every width") {
  for (auto* target : cpu_targets())
    for (DType t : {i8, i16, i32, i64}) {
      Machine m("gather");
      BufferId a = m.tensor("A", t, {imm(24)}), b = m.tensor("B", t, {imm(32)}),
               p = m.tensor("P", i64, {imm(8)});
      Expr eight = range_from(imm(0), 8), perm = m.at(p, eight), third = ramp(imm(1), imm(3), 8);
      Expr few = lanes_below(imm(0), imm(5), 8);
      m.body({put(b, eight, m.at(a, third)), put(b, eight * 0 + perm + imm(8, perm->dtype), m.at(a, eight)),
              put(b, range_from(imm(16), 8), m.at(a, perm, few)),
              put(b, binary(BinaryOp::add, broadcast(imm(24), 8), perm), m.at(a, eight), few)});
      std::vector<int64_t> order{3, 1, 4, 0, 5, 7, 2, 6};
      std::vector<char> in(24 * 8), out(32 * 8);
      for (size_t i = 0; i < 24; i++) put_number(t, in.data(), i, 0, int64_t(i) + 1);
      for (size_t i = 0; i < 32; i++) put_number(t, out.data(), i, 0, -1);
      run_on(m.f, *target, in, out, order);
      for (size_t i = 0; i < 8; i++) {
        size_t to = size_t(order[i]);
        CHECK_EQ(get_whole(t, out.data(), i), int64_t(3 * i + 2));
        CHECK_EQ(get_whole(t, out.data(), 8 + to), int64_t(i + 1));
        CHECK_EQ(get_whole(t, out.data(), 16 + i), i < 5 ? order[i] + 1 : 0);
        CHECK_EQ(get_whole(t, out.data(), 24 + to), i < 5 ? int64_t(i + 1) : -1);
      }
    }
}

TEST_CASE("llvm: a select loads in the arm it takes only") {
  for (auto* target : cpu_targets()) {
    Machine m("arms");
    Expr n = m.scalar("n", i64), far = imm(1 << 20);
    BufferId a = m.tensor("A", f32, {n}), b = m.tensor("B", f32, {imm(40)});
    Expr i = var("i");
    Expr inside = lt(i, n), at = range_from(imm(0), 8), low = lanes_below(imm(0), n, 8);
    Expr zero8 = zero(f32.with_lanes(8)), ones = fimm(1, f32.with_lanes(8));
    // one condition, one lane; one condition, eight lanes; a condition per lane; nested; a scalar load below
    // vectors
    Expr whole = le(imm(8), n);
    Expr inner = select(lanes_below(imm(2), n, 8), m.at(a, at + imm(2, at->dtype)), ones);
    Expr shared = select(broadcast(lt(n, imm(0)), 8), broadcast(m.at(a, far), 8), ones);
    m.body({for_loop(i, 8, Loop::serial, put(b, i, select(inside, m.at(a, i), fimm(-1)))),
            put(b, range_from(imm(8), 8), select(whole, m.at(a, at + imm(1 << 20, at->dtype)), zero8)),
            put(b, range_from(imm(16), 8), select(low, m.at(a, at), ones)),
            put(b, range_from(imm(24), 8), select(low, inner, zero8)),
            put(b, range_from(imm(32), 8), shared)});
    Guarded<float> in(5);
    for (size_t j = 0; j < 5; j++) in[j] = float(j) + 10;
    std::vector<float> out(40, 99);
    run_slots(m.f, *target, {5, uint64_t(in.data()), uint64_t(out.data())});
    CHECK_EQ(out, std::vector<float>{10, 11, 12, 13, 14, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 10, 11, 12, 13,
                                     14, 1,  1,  1,  12, 13, 14, 1,  1, 0, 0, 0, 1, 1, 1, 1, 1,  1,  1,  1});
  }
}

TEST_CASE("llvm: loops that may not run, while, branches, lets and variables in memory") {
  for (auto* target : cpu_targets()) {
    Machine m("flow");
    Expr n = m.scalar("n", i64);
    BufferId out = m.tensor("out", i64, {imm(4)}), sum = m.local_scalar("sum", i64),
             x = m.local_scalar("x", i64);
    auto get = [&](BufferId b) { return load(m.f, b, {}); };
    auto set = [&](BufferId b, Expr v) { return store(b, {}, std::move(v)); };
    Expr i = var("i"), j = var("j"), twice = var("twice");
    Stmt count = set(sum, get(sum) + imm(1));
    Stmt triangle = for_loop(i, imm(2), n, Loop::serial, for_loop(j, imm(0), i, Loop::serial, count));
    Stmt halve =
        if_then(eq(floormod(get(x), 2), imm(0)), set(x, floordiv(get(x), 2)), set(x, get(x) * 3 + 1));
    m.body({alloc(sum), alloc(x), set(sum, imm(0)), triangle, put(out, imm(0), get(sum)), set(x, imm(27)),
            set(sum, imm(0)), while_loop(binary(BinaryOp::ne, get(x), imm(1)), block({halve, count})),
            put(out, imm(1), get(sum)), let(twice, get(sum) * 2), set(sum, imm(0)), put(out, imm(2), twice),
            group(0, 1, if_then(lt(n, imm(1)), put(out, imm(3), imm(7))))});
    auto run = [&](int64_t size) {
      std::vector<int64_t> r(4, -1);
      run_slots(m.f, *target, {uint64_t(size), uint64_t(r.data())});
      return r;
    };
    CHECK_EQ(run(3), std::vector<int64_t>{2 + 3 + 4, 111, 222, -1});
    CHECK_EQ(run(0), std::vector<int64_t>{0, 111, 222, 7});
    CHECK_EQ(run(-5), std::vector<int64_t>{0, 111, 222, 7});
  }
}

TEST_CASE("llvm: the arena, bools in memory, several kernels, grid and extents") {
  for (auto* target : cpu_targets()) {
    Machine m("two");
    Expr n = var("n"), by = m.block("by", imm(2)), bx = Expr();
    BufferId a = m.tensor("A", f32, {imm(2), n}), flags = m.tensor("F", boolean, {n}),
             c = m.tensor("C", f32, {imm(2), n});
    BufferId tile = m.on_chip("tile", Scope::shared, f32, 8, 64),
             sums = m.on_chip("sums", Scope::fragment, f32, 8, 128);
    Expr at = range_from(imm(0), 8);
    m.body({alloc(tile), alloc(sums), put(tile, at, m.at(a, range_from(by * n, 8))),
            put(sums, at, m.at(tile, at) + m.at(tile, at)), put(c, range_from(by * n, 8), m.at(sums, at)),
            put(flags, at, lt(m.at(tile, at), fimm(3, f32.with_lanes(8))))});
    m.k = Kernel{};
    bx = m.block("bx", imm(1));
    m.body({put(c, bx, select(m.at(flags, imm(4)), fimm(-1), fimm(-2)))});
    Program p = print_llvm(m.f, *target);
    REQUIRE_EQ(p.entries.size(), 2);
    CHECK_GE(p.entries[0].arena_bytes, 128 + 32);
    CHECK_EQ(p.entries[1].arena_bytes, 0);
    CHECK_EQ(p.language, "llvm");
    CHECK_EQ(p.chip, target->name);
    CHECK_EQ(p.alignment, 1);
    CHECK_EQ(p.text, print_llvm(m.f, *target).text);
    std::vector<float> in(16), out(16);
    std::vector<char> bools(8, 9);
    std::iota(in.begin(), in.end(), -8.0f);
    Module module = cpu_device().load(p, build(p));
    std::vector<uint64_t> slots{uint64_t(in.data()), uint64_t(bools.data()), uint64_t(out.data()), 8};
    cpu_device().launch(module, 0, slots_of(p, 0, slots), {1, 1, 1}, 0);
    CHECK_EQ(bools, std::vector<char>(8, 1));
    cpu_device().launch(module, 0, slots_of(p, 0, slots), {2, 1, 1}, 0);
    CHECK_EQ(out[7], -2);
    CHECK_EQ(out[15], 14);
    slots[2] = uint64_t(out.data());
    std::vector<char> yes(8, 1);
    slots[1] = uint64_t(yes.data());
    cpu_device().launch(module, 1, slots_of(p, 1, slots), {1, 1, 1}, 0);
    CHECK_EQ(out[0], -1);
  }
}

TEST_CASE("llvm: scalar parameters of every type") {
  for (auto* target : cpu_targets())
    for (DType t : {i8, u16, i32, u64, f16, bf16, f32, f64}) {
      Machine m("scalars");
      Expr v = m.scalar("v", t);
      BufferId out = m.tensor("out", f64, {imm(1)});
      m.body({put(out, imm(0), cast(f64, v))});
      uint64_t slot = 0xFFFFFFFFFFFFFFFF;  // what lies beside the value is not looked at
      put_number(t, &slot, 0, 3.5, 100);
      std::vector<double> r(1);
      run_slots(m.f, *target, {slot, uint64_t(r.data())});
      CHECK_EQ(r[0], t.is_float() ? 3.5 : 100.0);
    }
}

TEST_CASE("llvm: code of threads is refused with words for the user") {
  Machine m("threads");
  BufferId out = m.tensor("out", i64, {imm(1)});
  m.body({put(out, imm(0), call(thread_index, {imm(0)}))});
  CHECK_THROWS_WITH_AS(print_llvm(m.f, *find_target("haswell")),
                       doctest::Contains("target \"cpu\" runs one thread per block"), CompileError);
}

TEST_CASE("llvm: what was computed before is not written again, and addresses keep their constants") {
  Machine m("reuse");
  BufferId a = m.tensor("A", f32, {imm(64)}), b = m.tensor("B", f32, {imm(64)});
  Expr i = var("i");
  m.body({for_loop(i, 8, Loop::serial,
                   block({put(b, i * 8 + 1, m.at(a, i * 8 + 2)), put(b, i * 8 + 3, m.at(a, i * 8 + 4))}))});
  std::string text = print_llvm(m.f, *find_target("haswell")).text;
  auto times = [&](std::string_view part) {
    int n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at++) n++;
    return n;
  };
  CAPTURE(text);
  CHECK_EQ(times("mul nsw i64 %i, 8"), 1);
  CHECK_EQ(times("getelementptr float, ptr %A, i64"), 1);
  CHECK_EQ(times("getelementptr float, ptr %B, i64"), 1);
  CHECK_EQ(times("i64 16"), 1);  // A[i*8 + 4], in bytes behind the common pointer
}
