// Scalar expressions, names, statements and kernels in CUDA text.
#include <cmath>
#include <regex>

#include "unit/codegen/machine.h"

using namespace tl;

namespace {

const Target& sm_90() { return *find_target("sm_90"); }
Expr op(BinaryOp o, Expr a, Expr b) { return binary(o, std::move(a), std::move(b)); }

// A function with one kernel per expression of x and y, elements of two tensors; and what each prints.
struct Sheet {
  Machine m{"sheet"};
  std::map<std::string, std::array<BufferId, 2>> inputs = {};
  std::map<std::string, BufferId> outputs = {};
  std::vector<std::string> expected = {};
  Chips chips = oldest_and_newest;

  void operator()(DType in, const std::function<Expr(Expr, Expr)>& value, std::string text) {
    auto& xy = inputs[to_string(in)];
    if (!xy[0]) xy = {m.tensor("X", in, {imm(128)}), m.tensor("Y", in, {imm(128)})};
    Expr v = value(m.at(xy[0], m.k.thread), m.at(xy[1], m.k.thread));
    auto& c = outputs[to_string(v->dtype)];
    if (!c) c = m.tensor("C", v->dtype, {imm(128)});
    m.k.name = fmt::format("e{}", expected.size());
    m.body({put(c, m.k.thread, v)});
    expected.push_back(std::move(text));
  }
  ~Sheet() noexcept(false) {
    compiles(m.f, chips);
    std::string text = print_cuda(m.f, sm_90()).text;
    for (size_t i = 0; i < expected.size(); i++) {
      size_t at = text.find("[i64(tx)] = ", text.find(fmt::format("\ne{}_kernel(", i))) + 12;
      std::string got = text.substr(at, text.find(";\n", at) - at);
      got = std::regex_replace(std::regex_replace(got, std::regex(R"(X(_\d+)?\[i64\(tx\)\])"), "x"),
                               std::regex(R"(Y(_\d+)?\[i64\(tx\)\])"), "y");
      if (!expected[i].empty()) CHECK_EQ(got, expected[i]);
    }
  }
};

}  // namespace

TEST_CASE("cuda: floor division of what may be negative") {
  Sheet f;
  f(i32, [](Expr x, Expr y) { return floordiv(x, y); }, "tl_floordiv<int>(x, y)");
  f(i64, [](Expr x, Expr y) { return floormod(x, y); }, "tl_floormod<i64>(x, y)");
  f(i8, [](Expr x, Expr y) { return floordiv(x, y); }, "tl_floordiv<i8>(x, y)");
  f(u32, [](Expr x, Expr y) { return floordiv(x, y); }, "x / y");
  f(u8, [](Expr x, Expr y) { return floormod(x, y); }, "x % y");
  f(i32, [](Expr x, Expr) { return floordiv(x, 8); }, "x >> 3");
  f(i64, [](Expr x, Expr) { return floormod(x, 8); }, "x & 7");
  f(i32, [](Expr x, Expr) { return floordiv(x, 7); }, "tl_floordiv<int>(x, 7)");
  f(i32, [](Expr x, Expr) { return floordiv(x, -8); }, "tl_floordiv<int>(x, -8)");
  f(i32, [](Expr x, Expr y) { return op(BinaryOp::truncdiv, x, y); }, "tl_truncdiv<int>(x, y)");
  f(i32, [](Expr x, Expr) { return op(BinaryOp::truncdiv, x, imm(-3, i32)); }, "x / -3");
  f(i32, [](Expr x, Expr) { return op(BinaryOp::truncmod, x, imm(-1, i32)); }, "");
  f(u32, [](Expr x, Expr y) { return op(BinaryOp::truncdiv, x, y); }, "x / y");
  f(u8, [](Expr x, Expr) { return floordiv(cast(i32, x), 7); }, "int(x) / 7");
  f(u64, [](Expr x, Expr) { return floordiv(cast(i64, x), 8); }, "i64(x) >> 3");  // negative from 2^63 on
  f(u32, [](Expr x, Expr) { return floordiv(cast(i64, x), 8); }, "i64(x) / 8");
}

TEST_CASE("cuda: integers that wrap are computed unsigned, unless they provably stay in range") {
  Sheet f;
  auto mad = [](Expr x, Expr y) { return x * y + x; };
  f(i32, mad, "int(u32(x) * u32(y) + u32(x))");
  f(i64, mad, "i64(u64(x) * u64(y) + u64(x))");
  f(i64, [](Expr x, Expr) { return unary(UnaryOp::neg, x); }, "i64(-u64(x))");
  f(i64, [](Expr x, Expr) { return floormod(x, 9) * 5; }, "tl_floormod<i64>(x, 9) * 5");
  f(u32, mad, "x * y + x");
  f(u64, mad, "x * y + x");
  f(i8, mad, "tl_low_bits<i8>(u32(tl_low_bits<i8>(u32(x) * u32(y))) + u32(x))");
  f(i8, [](Expr x, Expr y) { return cast(i32, x) * cast(i32, y); }, "int(x) * int(y)");
  f(i32, [](Expr x, Expr y) { return (x - y) * 3; }, "int((u32(x) - u32(y)) * 3u)");
  f(i32, [](Expr x, Expr) { return unary(UnaryOp::neg, x); }, "tl_neg(x)");
  f(i8, [](Expr x, Expr) { return unary(UnaryOp::neg, x); }, "tl_low_bits<i8>(tl_neg(x))");
  f(u32, [](Expr x, Expr) { return unary(UnaryOp::neg, x); }, "-x");
  f(i32, [](Expr x, Expr y) { return op(BinaryOp::shl, x, y); }, "int(u32(x) << y)");
  f(u8, [](Expr x, Expr) { return unary(UnaryOp::bit_not, x); }, "tl_low_bits<u8>(~x)");
  f(u16, [](Expr x, Expr y) { return op(BinaryOp::shl, x, y); }, "tl_low_bits<u16>(x << y)");
  f(i32, [](Expr x, Expr) { return call(*find_intrinsic("abs"), {x}); }, "tl_abs<int>(x)");
  f(i32, [](Expr x, Expr y) { return call(fma_function, {x, y, x}); }, "int(u32(x) * u32(y) + u32(x))");
}

TEST_CASE("cuda: the bits of a small integer that grew to int") {
  Sheet f;
  auto bits_of = [](Expr e, DType t) { return call(*find_intrinsic("reinterpret"), {std::move(e)}, t); };
  f(
      i8, [&](Expr x, Expr y) { return bits_of(select(lt(x, y), x, imm(0, i8)), u8); },
      "tl_reinterpret<u8>(i8(x < y ? x : 0))");
  f(u8, [&](Expr x, Expr) { return bits_of(x, i8); }, "tl_reinterpret<i8>(x)");
}

TEST_CASE("cuda: precedence is C's, and what few remember stands in parentheses") {
  Sheet f;
  f(f32, [](Expr x, Expr y) { return op(BinaryOp::sub, x, op(BinaryOp::sub, y, x)); }, "x - (y - x)");
  f(f32, [](Expr x, Expr y) { return (x + y) * x; }, "(x + y) * x");
  f(f32, [](Expr x, Expr y) { return x * (y * x); }, "x * (y * x)");
  f(u32, [](Expr x, Expr y) { return op(BinaryOp::bit_and, op(BinaryOp::bit_or, x, y), y); }, "(x | y) & y");
  f(u32, [](Expr x, Expr y) { return op(BinaryOp::bit_xor, x + y, y); }, "(x + y) ^ y");
  f(u32, [](Expr x, Expr y) { return op(BinaryOp::shr, x, y) + y; }, "(x >> y) + y");
  f(
      i64, [](Expr x, Expr y) { return op(BinaryOp::logical_or, both(lt(x, y), lt(y, x)), eq(x, y)); },
      "(x < y && y < x) || x == y");
  f(f32, [](Expr x, Expr y) { return unary(UnaryOp::neg, unary(UnaryOp::neg, x - y)); }, "-(-(x - y))");
  f(
      f32, [](Expr x, Expr y) { return select(lt(x, y), x, select(lt(y, x), y, x)) + y; },
      "(x < y ? x : y < x ? y : x) + y");
  f(i64, [](Expr x, Expr) { return x + imm(-5); }, "i64(u64(x) + 18446744073709551611ULL)");
  f(i64, [](Expr x, Expr) { return x + imm(int64_t(1) << 40); }, "i64(u64(x) + 1099511627776ULL)");
  f(i64, [](Expr x, Expr) { return min(x, imm(5)); }, "tl_min<i64>(x, 5)");
  f(i64, [](Expr x, Expr) { return min(x, imm(INT64_MIN)); }, "tl_min<i64>(x, (-9223372036854775807LL - 1))");
}

TEST_CASE("cuda: constants of floats") {
  Sheet f;
  auto top = [&](DType t, double v, std::string text) {
    f(t, [=](Expr x, Expr) { return max(x, fimm(v, t)); }, std::move(text));
  };
  top(f32, 0.1, "fmaxf(x, 0.1f)");
  top(f32, 1, "fmaxf(x, 1.0f)");
  top(f32, 1e30, "fmaxf(x, 1e+30f)");
  top(f64, 0.1, "fmax(x, 0.1)");
  top(f32, -INFINITY, "fmaxf(x, __int_as_float(0xff800000))");
  top(f64, INFINITY, "fmax(x, __longlong_as_double(0x7ff0000000000000ll))");
  f(
      f16, [](Expr x, Expr y) { return select(lt(x, y), x, fimm(0.5, f16)); },
      "float(x) < float(y) ? x : half_t::raw(0x3800 /* 0.5 */)");
}

TEST_CASE("cuda: 16-bit floats compute in f32 and round each result once") {
  Sheet f;
  f(f16, [](Expr x, Expr y) { return x * y + x; }, "half_t(float(half_t(float(x) * float(y))) + float(x))");
  f(bf16, [](Expr x, Expr y) { return max(x, y); }, "bf16_t(fmaxf(float(x), float(y)))");
  f(f16, [](Expr x, Expr) { return call(*find_intrinsic("exp"), {x}); }, "half_t(expf(float(x)))");
  f(f16, [](Expr x, Expr) { return cast(f64, x); }, "double(float(x))");
  f(bf16, [](Expr x, Expr) { return cast(i8, x); }, "i8(float(x))");
  f(f16, [](Expr x, Expr) { return call(*find_intrinsic("isnan"), {x}); }, "isnan(float(x))");
  for (DType from : {f64, i32, u32, i64, u64})
    for (DType to : {f16, bf16})
      f(from, [=](Expr x, Expr) { return cast(to, x); }, to == f16 ? "half_t(x)" : "bf16_t(x)");
  for (DType from : {i16, u8, boolean})
    f(from, [=](Expr x, Expr) { return cast(f16, x); }, "half_t(float(x))");
}

TEST_CASE("cuda: every scalar function has a device function, in f32, f64 and through f32 in f16") {
  Sheet f;
  f.chips = {"sm_90"};  // ten f64 functions take long
  for (DType t : {f32, f64, f16})
    for (auto& row : scalar_functions()) {
      auto value = [&](Expr x, Expr y) {
        std::vector<Expr> args{x, y, x};
        args.resize(size_t(row.arity));
        return call(row, args);
      };
      f(t, value,
        row.name != "rsqrt" ? ""
        : t == f32          ? "rsqrtf(x)"
        : t == f64          ? "rsqrt(x)"
                            : "half_t(rsqrtf(float(x)))");
    }
}

TEST_CASE("cuda: the next float, and a float times a power of two") {
  Sheet f;
  auto after = [](Expr x, Expr y) { return call(*find_intrinsic("nextafter"), {x, y}); };
  auto scaled = [](Expr x, Expr y) { return call(*find_intrinsic("ldexp"), {x, cast(i32, y)}); };
  f(f32, after, "nextafterf(x, y)");
  f(f64, after, "nextafter(x, y)");
  f(f16, after, "tl_next_half(x, y)");
  f(bf16, after, "tl_next_half(x, y)");
  f(f32, scaled, "ldexpf(x, int(y))");
  f(f64, scaled, "ldexp(x, int(y))");
  f(bf16, scaled, "bf16_t(ldexpf(float(x), int(float(y))))");
}

TEST_CASE("cuda: names are the user's where C++ allows") {
  Machine m("main");
  BufferId a = m.tensor("float", f32, {imm(128)}), b = m.tensor("threadIdx", f32, {imm(128)});
  BufferId c = m.tensor("tl_load", f32, {imm(128)}), d = m.tensor("größe", f32, {imm(128)});
  BufferId e = m.tensor("__x", f32, {imm(128)});
  Expr x = var("A", f32), y = var("A", f32);
  m.body({let(x, m.at(a, m.k.thread)), let(y, m.at(b, m.k.thread)), put(c, m.k.thread, x),
          put(d, m.k.thread, y), put(e, m.k.thread, x + y)});
  Program p = print_cuda(m.f, sm_90());
  CHECK_EQ(p.entries[0].name, "main_kernel");
  CHECK_EQ(kernels_of(p), R"(extern "C" __global__ void __launch_bounds__(128)
main_kernel(const float* __restrict__ float_1,
            const float* __restrict__ threadIdx_1,
            float* __restrict__ vtl_load,
            float* __restrict__ gr__e,
            float* __restrict__ _x) {
  const int tx = threadIdx.x;
  const float A = float_1[i64(tx)];
  const float A_1 = threadIdx_1[i64(tx)];
  vtl_load[i64(tx)] = A;
  gr__e[i64(tx)] = A_1;
  _x[i64(tx)] = A + A_1;
}
)");
  CHECK_EQ(p.params[3].name, "größe");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: control flow, local variables, scopes") {
  Machine m("flow");
  Expr n = m.scalar("n", i32);
  BufferId a = m.tensor("A", f32, {imm(1024)}), c = m.tensor("C", f32, {imm(128)});
  BufferId s = m.local_scalar("s", f32), steps = m.local_scalar("steps", i32);
  Expr i = var("i", i32), j = var("i", i32), t = var("t"), tx = cast(i32, m.k.thread);
  Expr value = m.at(a, tx + i * 128);
  auto local = [&](BufferId b) { return load(m.f, b, {}); };
  auto set = [&](BufferId b, Expr v) { return store(b, {}, std::move(v)); };
  Stmt sum = for_loop(i, imm(0, i32), min(local(steps), imm(8, i32)), Loop::serial, set(s, local(s) + value));
  Stmt odd = if_then(eq(floormod(n, 2), imm(1, i32)), set(s, fimm(1)),
                     if_then(lt(n, imm(0, i32)), set(s, fimm(2)), set(s, fimm(3))));
  Stmt again = while_loop(lt(local(steps), n), set(steps, local(steps) + 1));
  Stmt unrolled = for_loop(j, imm(2, i32), imm(3, i32), Loop::unrolled, set(s, local(s) + cast(f32, j)));
  m.body({alloc(s), set(s, fimm(0)), odd, alloc(steps), set(steps, imm(0, i32)), again, sum, unrolled,
          group(32, 64, put(c, tx, local(s))), group(96, 32, put(c, tx, fimm(0))),
          group(0, 128, put(c, tx, fimm(1))),
          block({let(t, m.k.thread * 2), put(c, t, fimm(4), lt(t, imm(128)))})});
  CHECK_EQ(kernels_of(print_cuda(m.f, sm_90())), R"(extern "C" __global__ void __launch_bounds__(128)
flow_kernel(int n, const float* __restrict__ A, float* __restrict__ C) {
  const int tx = threadIdx.x;
  float s;
  s = 0.0f;
  if ((n & 1) == 1) {
    s = 1.0f;
  } else if (n < 0) {
    s = 2.0f;
  } else {
    s = 3.0f;
  }
  int steps;
  steps = 0;
  while (steps < n) {
    steps = int(u32(steps) + 1u);
  }
  const int count = tl_min<int>(steps, 8);
  for (int i = 0; i < count; ++i) {
    s = s + A[tx + i * 128];
  }
  #pragma unroll
  for (int i = 2; i < 5; ++i) {
    s = s + float(i);
  }
  if (tx >= 32 && tx < 96) {
    C[tx] = s;
  }
  if (tx >= 96) {
    C[tx] = 0.0f;
  }
  {
    C[tx] = 1.0f;
  }
  const i64 t = i64(tx) * 2;
  if (t < 128) C[t] = 4.0f;
}
)");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: a block of threads in two dimensions, blocks in three") {
  Machine m("grid", {16, 8});
  BufferId c = m.tensor("C", i32, {imm(2), imm(3), imm(4), imm(128)});
  Expr x = m.block("bx", imm(2)), y = m.block("by", imm(3)), z = m.block("bz", imm(4));
  Expr at = ((i32_of(x) * 3 + i32_of(y)) * 4 + i32_of(z)) * 128 + i32_of(m.k.thread);
  m.body({put(c, at, cast(i32, call(thread_index, {imm(1)})))});
  Program p = print_cuda(m.f, sm_90());
  CHECK_EQ(kernels_of(p), R"(extern "C" __global__ void __launch_bounds__(128)
grid_kernel(int* __restrict__ C) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int bz = blockIdx.z;
  const int tx = threadIdx.x + 16 * threadIdx.y;
  C[((bx * 3 + by) * 4 + bz) * 128 + tx] = int(i64(threadIdx.y));
}
)");
  CHECK_EQ(p.entries[0].threads[0], 16);
  CHECK_EQ(p.entries[0].threads[1], 8);
  CHECK_EQ(p.entries[0].threads[2], 1);
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: several kernels share a workspace and the extents of the arguments") {
  Machine m("two");
  Expr rows = var("M"), cols = var("N");
  BufferId a = m.tensor("A", f16, {rows, cols}), c = m.tensor("C", f16, {rows});
  BufferId w = m.f.add({.name = "sums",
                        .dtype = f32,
                        .shape = {rows},
                        .strides = {},
                        .scope = Scope::global,
                        .span = {},
                        .layout = {}});
  m.f.workspaces = {w};
  Expr bx = m.block("bx", ceildiv(rows, imm(128)));
  Expr row = bx * 128 + m.k.thread;
  BufferId s = m.local_scalar("s", f32);
  Expr j = var("j");
  Stmt add = store(s, {}, load(m.f, s, {}) + cast(f32, m.at(a, row * cols + j, lt(row, rows))));
  m.body({alloc(s), store(s, {}, fimm(0)), for_loop(j, imm(0), cols, Loop::serial, add),
          put(w, row, load(m.f, s, {}), lt(row, rows))});
  m.k.name = "finish";
  Expr r = var("row");
  m.body({let(r, row), put(c, r, cast(f16, m.at(w, r, lt(r, rows))), lt(r, rows))});
  Program p = print_cuda(m.f, sm_90());
  CHECK_EQ(kernels_of(p), R"(extern "C" __global__ void __launch_bounds__(128)
two_kernel(const half_t* __restrict__ A, float* __restrict__ sums, i64 M, i64 N) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  float s;
  s = 0.0f;
  for (i64 j = 0; j < N; ++j) {
    s = s + float(i64(bx) * 128 + i64(tx) < M ? A[(i64(bx) * 128 + i64(tx)) * N + j] : half_t::raw(0));
  }
  if (i64(bx) * 128 + i64(tx) < M) sums[i64(bx) * 128 + i64(tx)] = s;
}

extern "C" __global__ void __launch_bounds__(128)
finish_kernel(half_t* __restrict__ C, const float* __restrict__ sums, i64 M) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const i64 row = i64(bx) * 128 + i64(tx);
  if (row < M) C[row] = half_t(row < M ? sums[row] : 0.0f);
}
)");
  CHECK_EQ(p.entries[0].name, "two_kernel");
  CHECK_EQ(p.entries[1].name, "finish_kernel");
  compiles_cleanly(m.f);
}

TEST_CASE("cuda: what no pass may leave is an internal error") {
  Machine m("bad");
  BufferId c = m.tensor("C", f32, {imm(128)}), s = m.on_chip("S", Scope::shared, f32, 128);
  Machine unplaced = m, unknown = m;
  CHECK_THROWS_AS(print_cuda(unplaced.body({alloc(s), put(s, m.k.thread, fimm(0))}).f, sm_90()),
                  InternalError);
  CHECK_THROWS_AS(print_cuda(unknown.body({put(c, var("i"), fimm(0))}).f, sm_90()), InternalError);
}

TEST_CASE("cuda: shuffles of every type, as words") {
  Sheet f;
  for (DType t : {f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64})
    for (auto* name : {"shfl", "shfl_xor", "shfl_up", "shfl_down"})
      f(
          t, [&](Expr x, Expr) { return call(*find_intrinsic(name), {x, imm(3)}); },
          fmt::format("tl_{}(x, 3)", name));
  f(i32, [](Expr x, Expr y) { return call(shfl_xor, {op(BinaryOp::add, x, y), floordiv(x, 8)}); }, "");
}
