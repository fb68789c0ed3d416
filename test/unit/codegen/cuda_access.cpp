// Vector accesses and conversions in CUDA text, and the instructions that they become.
#include "unit/codegen/ptx.h"

using namespace tl;

namespace {

std::string text_of(const Machine& m) { return kernels_of(print_cuda(m.f, *find_target("sm_90"))); }

// C[i … i + lanes) = value(A[i … i + lanes)), i being different for every thread.
struct Map {
  Machine m{"map"};
  BufferId a, c;
  Expr i;
  Map(DType in, DType out, int lanes, const std::function<Expr(Expr)>& value) {
    a = m.tensor("A", in, {imm(4096)});
    c = m.tensor("C", out, {imm(4096)});
    Expr bx = m.block("bx", imm(4096 / 128 / lanes));
    i = var("i", i32);
    m.body({let(i, (i32_of(bx) * 128 + i32_of(m.k.thread)) * lanes),
            put(c, range_from(i, lanes), value(m.at(a, range_from(i, lanes))))});
  }
  std::string statements() const {
    std::string text = text_of(m);
    size_t at = text.find("const int i = ");
    at = text.find('\n', at) + 1;
    return text.substr(at, text.rfind('}') - at);
  }
};

Map conversion(DType from, DType to, int lanes) {
  return Map(from, to, lanes, [=](Expr x) { return cast(to.with_lanes(lanes), x); });
}

}  // namespace

TEST_CASE("cuda: a pure copy is one wide load and one wide store") {
  for (DType t : {f16, bf16, f32, f64, i8, boolean}) {
    Map copy(t, t, 16 / t.bytes(), [](Expr x) { return x; });
    compiles_cleanly(copy.m.f, oldest_and_newest);
    has_instructions(copy.m.f, {{"ld.global.nc.v4", 1},
                                {"st.global.v4", 1},
                                {"ld.global", 1},
                                {"st.global", 1},
                                {"cvt.rn", 0},
                                {"prmt", 0}});
  }
  Map copy(f16, f16, 8, [](Expr x) { return x; });
  CHECK_EQ(copy.statements(), R"(  const vec<half_t, 8> A_v = tl_load<8>(&A[i]);
  tl_store(&C[i], A_v);
)");
  for (int lanes : {2, 4}) {
    Map narrow(f16, f16, lanes, [](Expr x) { return x; });
    compiles_cleanly(narrow.m.f, oldest_and_newest);
    has_instructions(narrow.m.f, {{"ld.global", 1}, {"st.global", 1}});
  }
}

TEST_CASE("cuda: a masked elementwise add of any length") {
  Machine m("add");
  Expr n = var("n");
  BufferId a = m.tensor("A", f32, {n}), b = m.tensor("B", f32, {n}), c = m.tensor("C", f32, {n});
  Expr bx = m.block("bx", ceildiv(n, imm(512)));
  Expr i = var("i"), inside = var("inside", boolean);
  Expr sum = binary(BinaryOp::add, m.at(a, range_from(i, 4), inside), m.at(b, range_from(i, 4), inside));
  m.body({let(i, bx * 512 + m.k.thread * 4), let(inside, lt(i, n)), put(c, range_from(i, 4), sum, inside)});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
add_kernel(const float* __restrict__ A,
           const float* __restrict__ B,
           float* __restrict__ C,
           i64 n) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const i64 i = i64(bx) * 512 + i64(tx) * 4;
  const bool inside = i < n;
  vec<float, 4> A_v = {};
  if (inside) A_v = tl_load<4>(&A[i]);
  vec<float, 4> B_v = {};
  if (inside) B_v = tl_load<4>(&B[i]);
  if (inside) {
    tl_store(&C[i], vec<float, 4>{{A_v[0] + B_v[0], A_v[1] + B_v[1], A_v[2] + B_v[2], A_v[3] + B_v[3]}});
  }
}
)");
  compiles_cleanly(m.f);
  has_instructions(m.f, {{"ld.global.nc.v4", 2}, {"ld.global", 2}, {"st.global.v4", 1}, {"st.global", 1}});
}

TEST_CASE("cuda: conversions to 16 bits go by pairs, wide values by several accesses") {
  Map down = conversion(f32, f16, 8);
  CHECK_EQ(down.statements(), R"(  const vec<float, 4> A_v = tl_load<4>(&A[i]);
  const vec<float, 4> A_v_1 = tl_load<4>(&A[i + 4]);
  const vec<half_t, 8> h = tl_round_half_t(vec<float, 8>{{A_v[0], A_v[1], A_v[2], A_v[3], A_v_1[0], A_v_1[1], A_v_1[2], A_v_1[3]}});
  tl_store(&C[i], h);
)");
  has_instructions(down.m.f, {{"ld.global.nc.v4", 2},
                              {"ld.global", 2},
                              {"cvt.rn.f16x2.f32", 4},
                              {"cvt.rn", 4},
                              {"st.global.v4", 1},
                              {"st.global", 1}});
  Map up = conversion(f16, f32, 8);
  CHECK_EQ(up.statements(), R"(  const vec<half_t, 8> A_v = tl_load<8>(&A[i]);
  tl_store(&C[i], vec<float, 4>{{float(A_v[0]), float(A_v[1]), float(A_v[2]), float(A_v[3])}});
  tl_store(&C[i + 4], vec<float, 4>{{float(A_v[4]), float(A_v[5]), float(A_v[6]), float(A_v[7])}});
)");
  has_instructions(up.m.f, {{"ld.global.nc.v4", 1}, {"ld.global", 1}, {"st.global.v4", 2}, {"st.global", 2}});
  has_instructions(conversion(f32, bf16, 4).m.f,
                   {{"cvt.rn.bf16x2.f32", 2}, {"cvt.rn", 2}, {"st.global.v2", 1}});
  has_instructions(conversion(bf16, f32, 8).m.f, {{"cvt.rn", 0}, {"shl.b32 ", 10}, {"st.global.v4", 2}});
  Map ints = conversion(i8, i32, 4);
  CHECK_EQ(ints.statements(), R"(  const vec<i8, 4> A_v = tl_load<4>(&A[i]);
  tl_store(&C[i], vec<int, 4>{{int(A_v[0]), int(A_v[1]), int(A_v[2]), int(A_v[3])}});
)");
  has_instructions(ints.m.f, {{"ld.global", 1}, {"st.global.v4", 1}, {"st.global", 1}});
}

TEST_CASE("cuda: every conversion compiles") {
  const DType types[] = {f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean};
  for (DType from : types) {
    Machine one("from_" + to_string(from));
    BufferId a = one.tensor("A", from, {imm(512)});
    std::vector<Stmt> stmts;
    for (DType to : types) {
      BufferId c = one.tensor("C_" + to_string(to), to, {imm(512)});
      Expr i = range_from(one.k.thread * 4, 4);
      stmts.push_back(put(c, i, cast(to.with_lanes(4), one.at(a, i))));
    }
    compiles_cleanly(one.body(stmts).f, {"sm_80"});
  }
}

TEST_CASE("cuda: 16-bit arithmetic on vectors rounds by pairs") {
  Map f(f16, f16, 8, [](Expr x) { return binary(BinaryOp::mul, x, broadcast(fimm(2, f16), 8)); });
  has_instructions(f.m.f, {{"cvt.rn.f16x2.f32", 4}, {"cvt.rn", 4}, {"ld.global", 1}, {"st.global", 1}});
  compiles_cleanly(f.m.f);
}

TEST_CASE("cuda: what is not contiguous, or masked lane by lane, goes element by element") {
  Machine m("odd");
  BufferId a = m.tensor("A", f16, {imm(4096)}), c = m.tensor("C", f16, {imm(4096)}),
           d = m.tensor("D", i8, {imm(4096)});
  Expr n = m.scalar("n", i32), tx = i32_of(m.k.thread);
  Expr strided = ramp(tx * 4, imm(2, i32), 2), inside = binary(BinaryOp::lt, strided, broadcast(n, 2));
  Expr three = range_from(tx * 3, 3), all = lt(tx, n), four = range_from(tx * 4, 4);
  m.body({put(c, strided, m.at(a, range_from(tx * 2, 2), inside), inside),
          put(d, three, binary(BinaryOp::add, m.at(d, three), broadcast(imm(1, i8), 3))),
          put(d, four, m.at(d, ramp(tx, imm(2, i32), 4), all))});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
odd_kernel(const half_t* __restrict__ A, half_t* __restrict__ C, i8* D, int n) {
  const int tx = threadIdx.x;
  const int i = tx * 2;
  const int i_1 = tx * 4;
  if (i_1 < n) C[i_1] = i_1 < n ? A[i] : half_t::raw(0);
  if (i_1 + 2 < n) C[i_1 + 2] = i_1 + 2 < n ? A[i + 1] : half_t::raw(0);
  const int i_2 = tx * 3;
  D[i_2] = tl_low_bits<i8>(u32(D[i_2]) + 1u);
  D[i_2 + 1] = tl_low_bits<i8>(u32(D[i_2 + 1]) + 1u);
  D[i_2 + 2] = tl_low_bits<i8>(u32(D[i_2 + 2]) + 1u);
  tl_store(&D[tx * 4], vec<i8, 4>{{i8(tx < n ? D[tx] : 0), i8(tx < n ? D[tx + 2] : 0), i8(tx < n ? D[tx + 4] : 0),
      i8(tx < n ? D[tx + 6] : 0)}});
}
)");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: lanes are all computed before any is stored") {
  Machine m("shift");
  BufferId r = m.on_chip("r", Scope::local, f32, 8), c = m.tensor("C", f32, {imm(4)});
  Expr i = var("i", i32), first = m.at(r, imm(0, i32));
  auto from = [](int64_t base, int lanes) { return range_from(imm(base, i32), lanes); };
  m.body({alloc(r), for_loop(i, 8, Loop::unrolled, put(r, i, cast(f32, i))),
          put(r, from(1, 4), m.at(r, from(0, 4))),
          put(r, from(0, 2), binary(BinaryOp::add, m.at(r, from(0, 2)), broadcast(first, 2))),
          put(c, from(0, 4), m.at(r, from(1, 4)))});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
shift_kernel(float* __restrict__ C) {
  float r[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    r[i] = float(i);
  }
  const vec<float, 4> v = vec<float, 4>{{r[0], r[1], r[2], r[3]}};
  r[1] = v[0];
  r[2] = v[1];
  r[3] = v[2];
  r[4] = v[3];
  const float s = r[0];
  r[0] = r[0] + s;
  r[1] = r[1] + s;
  tl_store(&C[0], vec<float, 4>{{r[1], r[2], r[3], r[4]}});
}
)");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: a select loads only what it takes") {
  Machine m("choose");
  BufferId a = m.tensor("A", f32, {imm(512)}), b = m.tensor("B", f32, {imm(512)}),
           c = m.tensor("C", f32, {imm(512)});
  BufferId d = m.tensor("D", f16, {imm(512)});
  Expr n = m.scalar("n", i32), tx = i32_of(m.k.thread), i = range_from(tx * 4, 4);
  Expr uniform = broadcast(lt(tx, n), 4), by_lane = binary(BinaryOp::lt, i, broadcast(n, 4));
  m.body({put(c, i, select(uniform, m.at(a, i), broadcast(m.at(b, n), 4))),
          put(c, i, select(by_lane, m.at(a, i), broadcast(fimm(0), 4))),
          put(d, i, select(by_lane, cast(f16.with_lanes(4), m.at(a, i)), broadcast(fimm(0, f16), 4)))});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
choose_kernel(const float* __restrict__ A,
              const float* __restrict__ B,
              float* __restrict__ C,
              half_t* __restrict__ D,
              int n) {
  const int tx = threadIdx.x;
  const bool c = tx < n;
  vec<float, 4> A_v = {};
  if (c) A_v = tl_load<4>(&A[tx * 4]);
  tl_store(&C[tx * 4], vec<float, 4>{{c ? A_v[0] : B[n], c ? A_v[1] : B[n], c ? A_v[2] : B[n], c ? A_v[3] : B[n]}});
  const int i = tx * 4;
  tl_store(&C[tx * 4], vec<float, 4>{{i < n ? A[i] : 0.0f, i + 1 < n ? A[i + 1] : 0.0f, i + 2 < n ? A[i + 2] : 0.0f,
      i + 3 < n ? A[i + 3] : 0.0f}});
  const int i_1 = tx * 4;
  tl_store(&D[tx * 4], vec<half_t, 4>{{i_1 < n ? half_t(A[i_1]) : half_t::raw(0x0000 /* 0 */),
      i_1 + 1 < n ? half_t(A[i_1 + 1]) : half_t::raw(0x0000 /* 0 */),
      i_1 + 2 < n ? half_t(A[i_1 + 2]) : half_t::raw(0x0000 /* 0 */),
      i_1 + 3 < n ? half_t(A[i_1 + 3]) : half_t::raw(0x0000 /* 0 */)}});
}
)");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: a store under a mask waits with loads that have none") {
  Machine m("guarded");
  BufferId a = m.tensor("A", f32, {imm(512)}), c = m.tensor("C", f32, {imm(512)});
  Expr n = m.scalar("n", i32), tx = i32_of(m.k.thread), i = range_from(tx * 4, 4);
  m.body({put(c, i, m.at(a, i), lt(tx, n))});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
guarded_kernel(const float* __restrict__ A, float* __restrict__ C, int n) {
  const int tx = threadIdx.x;
  if (tx < n) {
    const vec<float, 4> A_v = tl_load<4>(&A[tx * 4]);
    tl_store(&C[tx * 4], A_v);
  }
}
)");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: where a mask differs by lane, a load that has none waits for any lane that stores") {
  Machine m("guarded");
  BufferId s = m.on_chip("S", Scope::shared, u8, 128, 0), c = m.tensor("C", u8, {imm(512)});
  Expr tx = i32_of(m.k.thread), i = range_from(tx * 8, 8);
  Expr inside = lt(i, broadcast(m.scalar("n", i32), 8)), first = broadcast(lt(tx, imm(16, i32)), 8);
  m.body({alloc(s), put(c, i, m.at(s, i), binary(BinaryOp::logical_and, first, inside))});
  std::string text = text_of(m);
  CAPTURE(text);
  CHECK(contains(text, "if (tx < 16 && tx * 8 < n) {\n    const vec<u8, 8> S_v = tl_load<8>"));
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: a vector variable") {
  Machine m("named");
  BufferId a = m.tensor("A", f16, {imm(512)}), c = m.tensor("C", f32, {imm(512)});
  Expr i = range_from(i32_of(m.k.thread) * 4, 4), x = var("x", f16.with_lanes(4)),
       y = var("y", f32.with_lanes(4));
  m.body({let(x, m.at(a, i)), let(y, cast(f32.with_lanes(4), x)), put(c, i, binary(BinaryOp::mul, y, y))});
  CHECK_EQ(text_of(m), R"(extern "C" __global__ void __launch_bounds__(128)
named_kernel(const half_t* __restrict__ A, float* __restrict__ C) {
  const int tx = threadIdx.x;
  const vec<half_t, 4> A_v = tl_load<4>(&A[tx * 4]);
  const vec<float, 4> y = vec<float, 4>{{float(A_v[0]), float(A_v[1]), float(A_v[2]), float(A_v[3])}};
  tl_store(&C[tx * 4], vec<float, 4>{{y[0] * y[0], y[1] * y[1], y[2] * y[2], y[3] * y[3]}});
}
)");
  compiles_cleanly(m.f);
}
