// Every mistake in a call, and the words for it.
#include "runtime/args.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <new>

#include "runtime/half.h"
#include "runtime/signature.h"

using namespace tl;
using Op = Formula::Op;

namespace {

alignas(64) float memory[3][64 * 128];

// matmul(A: f32[M, K], B: f32[K, 128], C: f32[M, 128], alpha: f32, n: i8)
Program matmul() {
  Formula m{{{Op::integer, 0}}}, k{{{Op::integer, 1}}}, c128 = Formula::constant(128),
                                                        one = Formula::constant(1);
  Program p;
  p.name = "matmul";
  p.params = {{"A", true, "f32", 32, {m, k}, {k, one}, false},
              {"B", true, "f32", 32, {k, c128}, {c128, one}, false},
              {"C", true, "f32", 32, {m, c128}, {c128, one}, true},
              {"alpha", false, "f32", 32, {}, {}, false},
              {"n", false, "i8", 8, {}, {}, false}};
  p.integers = {{"M", 0, IntegerSource::From::extent, 0}, {"K", 0, IntegerSource::From::extent, 1}};
  return p;
}

// check_and_pack, and that the quick half says yes only where it does, and packs the same.
bool check(const Program& p, std::span<const Argument> arguments, int device_type, Packed& packed) {
  Signature signature(p, device_type);
  Bound bound;
  bool quick = signature.bind(arguments, bound);
  try {
    check_and_pack(p, arguments, device_type, packed);
  } catch (const ArgumentError&) {
    CHECK_FALSE(quick);
    throw;
  }
  if (!quick) return false;
  CHECK(std::equal(packed.slots.begin(), packed.slots.end(), bound.slots.begin()));
  CHECK(std::equal(packed.integers.begin(), packed.integers.end(), bound.integers.begin()));
  CHECK_EQ(packed.device_id, bound.device_id);
  return true;
}

struct Call {
  int64_t a[2] = {16, 64}, b[2] = {64, 128}, c[2] = {16, 128};
  TensorView A{.data = memory[0], .ndim = 2, .shape = a}, B{.data = memory[1], .ndim = 2, .shape = b},
      C{.data = memory[2], .ndim = 2, .shape = c};
  Argument alpha = 1.5, n = int64_t(3);
  Packed packed;
  Call() = default;
  Call(const Call&) = delete;  // the views point into it
  void reset() {
    this->~Call();
    new (this) Call;
  }
  void run(int device_type = 1) {
    const Argument arguments[] = {A, B, C, alpha, n};
    check(matmul(), arguments, device_type, packed);
  }
  std::string error(int device_type = 1) {
    try {
      run(device_type);
    } catch (const ArgumentError& e) {
      return e.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("arguments: a good call is packed") {
  Call call;
  call.run();
  CHECK_EQ(call.packed.integers, std::vector<int64_t>{16, 64});
  REQUIRE_EQ(call.packed.slots.size(), 5);
  CHECK_EQ(call.packed.slots[1], reinterpret_cast<uintptr_t>(memory[1]));
  CHECK_EQ(call.packed.slots[3], std::bit_cast<uint32_t>(1.5f));
  CHECK_EQ(call.packed.slots[4], 3);
  call.n = int64_t(-3);
  call.run();
  CHECK_EQ(int64_t(call.packed.slots[4]), -3);
}

TEST_CASE("arguments: what is usual takes the quick half, what is rare is left to the other") {
  Program p = matmul();
  p.params.pop_back();  // an i8 is rare
  Call call;
  Packed packed;
  auto is_quick = [&](const Argument& alpha) {
    return check(p, std::vector<Argument>{call.A, call.B, call.C, alpha}, 1, packed);
  };
  CHECK(is_quick(0.5));
  CHECK(is_quick(int64_t(3)));
  int64_t strides[] = {64, 1}, wide[] = {256, 1};
  call.A.strides = strides;
  CHECK(is_quick(0.5));
  call.C.strides = wide;
  CHECK_THROWS_AS(is_quick(0.5), ArgumentError);
  call.C.strides = nullptr;
  call.a[0] = call.c[0] = 0;  // an empty tensor has no memory to check
  CHECK_FALSE(is_quick(0.5));
  CHECK_FALSE(Signature(p, 1).bind(std::vector<Argument>{call.A}, *std::make_unique<Bound>()));
  CHECK_FALSE(
      Signature(p, 2).bind(std::vector<Argument>{call.A, call.B, call.C, 0.5}, *std::make_unique<Bound>()));
}

TEST_CASE("arguments: written tensors whose elements may overlap are left to the slow half") {
  Program p;
  p.name = "fill";
  Formula s{{{Op::integer, 0}}}, t{{{Op::integer, 1}}};
  p.params = {{"Y", true, "f32", 32, {Formula::constant(3), Formula::constant(4)}, {s, t}, true}};
  p.integers = {{"s", 0, IntegerSource::From::stride, 0}, {"t", 0, IntegerSource::From::stride, 1}};
  Packed packed;
  const int64_t shape[] = {3, 4};
  auto is_quick = [&](int64_t outer, int64_t inner) {
    const int64_t strides[] = {outer, inner};
    TensorView view{.data = memory[0], .ndim = 2, .shape = shape, .strides = strides};
    return check(p, std::vector<Argument>{view}, 1, packed);
  };
  CHECK(is_quick(4, 1));
  CHECK(is_quick(100, 10));
  CHECK_FALSE(is_quick(1, 3));  // by columns: right, but not seen at once
  CHECK_THROWS_AS(is_quick(20, 10), ArgumentError);
  CHECK_THROWS_AS(is_quick(0, 1), ArgumentError);
}

TEST_CASE("arguments: count, None, type, rank") {
  Program p = matmul();
  Packed packed;
  Call call;
  const Argument two[] = {call.A, call.B};
  CHECK_THROWS_WITH_AS(check_and_pack(p, two, 1, packed),
                       "matmul: 5 arguments were expected (A, B, C, alpha, n) but 2 were given",
                       ArgumentError);
  const Argument none[] = {call.A, {}, call.C, 1.0, int64_t(1)};
  CHECK_THROWS_WITH_AS(check_and_pack(p, none, 1, packed),
                       "matmul: argument 1 'B' is None but float32[K, 128] was expected", ArgumentError);
  const Argument number[] = {2.5, call.B, call.C, 1.0, int64_t(1)};
  CHECK_THROWS_WITH_AS(check_and_pack(p, number, 1, packed),
                       "matmul: argument 0 'A' is the number 2.5 but float32[M, K] was expected",
                       ArgumentError);
  call.B.bits = 16;
  CHECK_EQ(call.error(),
           "matmul: argument 1 'B' is float16[64, 128] but float32[K, 128] was expected; pass "
           "B.astype(\"float32\"), of a PyTorch tensor B.to(torch.float32)");
  call.reset();
  call.B.ndim = 1;
  CHECK_EQ(call.error(), "matmul: argument 1 'B' is float32[64] but float32[K, 128] was expected");
}

TEST_CASE("arguments: shapes, and where a symbol got its value") {
  Call call;
  call.b[0] = 65;
  CHECK_EQ(call.error(),
           "matmul: argument 1 'B' is float32[65, 128] but float32[K=64, 128] was expected (K is extent 1 of "
           "argument 0 'A')");
  call.reset();
  call.c[1] = 127;
  CHECK_EQ(call.error(), "matmul: argument 2 'C' is float32[16, 127] but float32[M=16, 128] was expected");
}

TEST_CASE("arguments: strides are compared where they matter") {
  Call call;
  const int64_t column_major[] = {1, 16}, row_major[] = {64, 1};
  call.A.strides = row_major;
  CHECK_EQ(call.error(), "");
  call.A.strides = column_major;
  CHECK_EQ(call.error(),
           "matmul: argument 0 'A' has strides (1, 16) but (64, 1) was expected; pass a contiguous copy");
  call.a[0] = call.c[0] = 1;  // one row: its stride says nothing
  const int64_t odd[] = {7, 1};
  call.A.strides = odd;
  CHECK_EQ(call.error(), "");
  call.a[0] = call.c[0] = 0;  // nothing at all
  call.A.strides = column_major;
  call.A.data = call.C.data = nullptr;
  CHECK_EQ(call.error(), "");
}

TEST_CASE("arguments: wrong strides, and what would be right") {
  float elements[24] = {};
  const int64_t shape[] = {4, 6}, columns[] = {1, 4};
  auto error = [&](std::vector<int64_t> wanted, const int64_t* given) {
    Program p;
    p.name = "f";
    std::vector<Formula> strides;
    for (int64_t stride : wanted) strides.push_back(Formula::constant(stride));
    p.params = {{"A", true, "f32", 32, {Formula::constant(4), Formula::constant(6)}, strides, false}};
    TensorView a{.data = elements, .ndim = 2, .shape = shape, .strides = given};
    const Argument arguments[] = {a};
    Packed packed;
    try {
      check(p, arguments, 1, packed);
    } catch (const ArgumentError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_EQ(error({1, 4}, columns), "");
  CHECK_EQ(error({1, 4}, nullptr),
           "f: argument 0 'A' has strides (6, 1) but (1, 4) was expected; pass a copy in column-major order: "
           "np.asfortranarray(x), or a contiguous array of the extents in reverse with its axes reversed");
  CHECK_EQ(error({6, 1}, columns),
           "f: argument 0 'A' has strides (1, 4) but (6, 1) was expected; pass a contiguous copy");
  CHECK_EQ(error({8, 1}, nullptr),
           "f: argument 0 'A' has strides (6, 1) but (8, 1) was expected; pass a view that has them, or "
           "declare the parameter with the strides that are passed (T.dynamic names take any)");
}

TEST_CASE("arguments: devices") {
  Call call;
  CHECK_EQ(call.error(2),
           "matmul: argument 0 'A' is on the CPU but the function was compiled for CUDA; move it there, or "
           "compile with target=\"cpu\"");
  for (TensorView* t : {&call.A, &call.B, &call.C}) t->device_type = 2;
  CHECK_EQ(call.error(1),
           "matmul: argument 0 'A' is on cuda:0 but the function was compiled for the CPU; move it to the "
           "CPU, or compile with target=\"cuda\"");
  call.C.device_id = 1;
  CHECK_EQ(call.error(2),
           "matmul: argument 2 'C' is on cuda:1 but argument 0 'A' is on cuda:0; all must be on one GPU");
  call.A.device_id = call.B.device_id = 1;
  call.run(2);
  CHECK_EQ(call.packed.device_id, 1);
}

TEST_CASE("arguments: memory") {
  Call call;
  call.A.data = memory[0] + 1;
  CHECK(call.error().find("but an address divisible by 16 was expected") != std::string::npos);
  const Argument arguments[] = {call.A, call.B, call.C};
  CHECK_EQ(common_alignment(arguments), 4);
  CHECK(common_alignment(std::span(arguments).subspan(1)) >= 64);
  call.reset();
  call.B.data = nullptr;
  CHECK_EQ(call.error(), "matmul: argument 1 'B' has no memory (a null address)");
  call.reset();
  call.B.readonly = true;
  CHECK_EQ(call.error(), "");
  call.C.readonly = true;
  CHECK_EQ(call.error(), "matmul: argument 2 'C' is read-only, but the function writes to it");
}

TEST_CASE("arguments: what is written must not share memory") {
  Call call;
  call.A.data = call.B.data;
  CHECK_EQ(call.error(), "");  // two that are read may
  call.reset();
  call.C.data = memory[1] + 64;
  CHECK_EQ(call.error(),
           "matmul: argument 2 'C' is written, but shares memory with argument 1 'B'; pass separate tensors");
  call.C.data = memory[1] + 64 * 128;
  CHECK_EQ(call.error(), "");

  // The two halves of one matrix's columns touch nothing of each other.
  Formula row = Formula::constant(128), one = Formula::constant(1);
  Program p;
  p.name = "halves";
  p.params = {{"L", true, "f32", 32, {Formula::constant(8), Formula::constant(64)}, {row, one}, false},
              {"R", true, "f32", 32, {Formula::constant(8), Formula::constant(64)}, {row, one}, true}};
  const int64_t shape[] = {8, 64}, strides[] = {128, 1};
  TensorView left{.data = memory[0], .ndim = 2, .shape = shape, .strides = strides}, right = left;
  Packed packed;
  right.data = memory[0] + 64;
  check_and_pack(p, std::vector<Argument>{left, right}, 1, packed);
  right.data = memory[0] + 60;
  CHECK_THROWS_AS(check_and_pack(p, std::vector<Argument>{left, right}, 1, packed), ArgumentError);
}

TEST_CASE("arguments: scalars") {
  Call call;
  call.n = int64_t(128);
  CHECK_EQ(call.error(), "matmul: argument 4 'n' is 128, which int8 cannot hold");
  call.n = 1.0;
  CHECK_EQ(call.error(), "matmul: argument 4 'n' is the number 1 but a number of type int8 was expected");
  call.n = call.A;
  CHECK_EQ(call.error(), "matmul: argument 4 'n' is float32[16, 64] but a number of type int8 was expected");
  Program p;
  p.name = "f";
  p.params = {{"h", false, "f16", 16, {}, {}, false},
              {"b", false, "bf16", 16, {}, {}, false},
              {"d", false, "f64", 64, {}, {}, false},
              {"t", false, "bool", 8, {}, {}, false},
              {"u", false, "u32", 32, {}, {}, false}};
  Packed packed;
  check_and_pack(p, std::vector<Argument>{int64_t(1), 1.0, 0.5, int64_t(7), int64_t(4000000000)}, 1, packed);
  CHECK_EQ(packed.slots, std::vector<uint64_t>{0x3c00, 0x3f80, std::bit_cast<uint64_t>(0.5), 1, 4000000000});
}

TEST_CASE("arguments: the shape of an output") {
  Call call;
  const Argument given[] = {call.A, call.B, {}, 1.0, int64_t(1)};
  CHECK_EQ(infer_shape(matmul(), given, 2), std::vector<int64_t>{16, 128});
  const Argument without_a[] = {{}, call.B, {}, 1.0, int64_t(1)};  // K is known from B, M from nobody
  CHECK_THROWS_WITH_AS(infer_shape(matmul(), without_a, 0),
                       "matmul: argument 0 'A': none of the given arguments determines M", ArgumentError);
}

TEST_CASE("types by name and by number") {
  for (const char* name : {"f16", "f32", "f64", "bf16", "i8", "i64", "u8", "bool"}) {
    DlType type = dl_type(name);
    CHECK_EQ(dtype_name(type.code, type.bits), name);
  }
  CHECK_EQ(dl_type("quark").code, 255);
  CHECK_EQ(dl_type("f").code, 255);
  CHECK_EQ(dtype_name(2, 16, 8), "f16x8");
}

TEST_CASE("16-bit floats: every half survives the round trip; ties go to even") {
  for (uint32_t bits = 0; bits < 65536; bits++) {
    double value = half_to_double(uint16_t(bits));
    if (value == value)
      CHECK_EQ(half_from_double(value), bits);
    else
      CHECK((half_from_double(value) & 0x7e00) == 0x7e00);
  }
  CHECK_EQ(half_from_double(65519.0), 0x7bff);
  CHECK_EQ(half_from_double(65520.0), 0x7c00);
  CHECK_EQ(half_from_double(0x1p-25), 0);
  CHECK_EQ(half_from_double(0x1.8p-25), 1);
  CHECK_EQ(half_from_double(1 + 0x1p-11), 0x3c00);
  CHECK_EQ(half_from_double(1 + 0x3p-11), 0x3c02);
  CHECK_EQ(bfloat_from_double(1 + 0x1p-8), 0x3f80);
  CHECK_EQ(bfloat_from_double(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  CHECK_EQ(bfloat_from_double(-1e300), 0xff80);
}
