// The warp-level instructions of sm_75 and later.  PTX ISA 9.0 says from which chip on each is there.
//
// mma.sync.m16n8k16: lane l = 4*g + q holds, of
//   A (16×16)  rows g and g+8, columns 2q, 2q+1 and the same +8: 8 elements, two to a register
//   B (16×8)   rows 2q, 2q+1 and the same +8, column g:          4 elements
//   C (16×8)   rows g and g+8, columns 2q, 2q+1:                 4 elements, one to a register
// m16n8k8 holds the first half of each lane's A and B; m8n8k16 and m8n8k32 of sm_75 hold 32 bits of A, 32 of
// B and two elements of C, those of row g.  Of 8-bit elements four lie in a register, of 32-bit ones one, of
// 4-bit ones eight. ldmatrix loads 8×8 blocks of 16-bit elements: lane 8j+r gives the address of row r of
// block j, and receives of every block the elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1), or with .trans their
// mirror; stmatrix (sm_90) stores them.
#include "target/nvidia.h"

namespace tl {
namespace {

using From = FragmentDigit::From;

OperandFragment a_m16k16() {
  return {.rows = 16,
          .cols = 16,
          .registers = 8,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 2},
                     {From::reg, 1, 2, 0, 1},
                     {From::reg, 2, 2, 8, 0},
                     {From::reg, 4, 2, 0, 8}}};
}
OperandFragment a_m16k8_16bit() {
  return {.rows = 16,
          .cols = 8,
          .registers = 4,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 2},
                     {From::reg, 1, 2, 0, 1},
                     {From::reg, 2, 2, 8, 0}}};
}
OperandFragment b_k8n8_16bit() {
  return {.rows = 8,
          .cols = 8,
          .registers = 2,
          .digits = {{From::lane, 4, 8, 0, 1}, {From::lane, 1, 4, 2, 0}, {From::reg, 1, 2, 1, 0}}};
}
OperandFragment b_k16n8() {
  return {.rows = 16,
          .cols = 8,
          .registers = 4,
          .digits = {{From::lane, 4, 8, 0, 1},
                     {From::lane, 1, 4, 2, 0},
                     {From::reg, 1, 2, 1, 0},
                     {From::reg, 2, 2, 8, 0}}};
}
OperandFragment c_m8n8() {
  return {.rows = 8,
          .cols = 8,
          .registers = 2,
          .digits = {{From::lane, 4, 8, 1, 0}, {From::lane, 1, 4, 0, 2}, {From::reg, 1, 2, 0, 1}}};
}
OperandFragment c_m16n8() {
  return {.rows = 16,
          .cols = 8,
          .registers = 4,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 2},
                     {From::reg, 1, 2, 0, 1},
                     {From::reg, 2, 2, 8, 0}}};
}

// Elements of 32 bits: columns q and q+4 of A, rows q and q+4 of B.
OperandFragment a_m16k8_b32() {
  return {.rows = 16,
          .cols = 8,
          .registers = 4,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 1},
                     {From::reg, 1, 2, 8, 0},
                     {From::reg, 2, 2, 0, 4}}};
}
OperandFragment b_k8n8_b32() {
  return {.rows = 8,
          .cols = 8,
          .registers = 2,
          .digits = {{From::lane, 4, 8, 0, 1}, {From::lane, 1, 4, 1, 0}, {From::reg, 1, 2, 4, 0}}};
}
// Elements of 8 bits, four to a register.
OperandFragment a_m16k32() {
  return {.rows = 16,
          .cols = 32,
          .registers = 16,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 4},
                     {From::reg, 1, 4, 0, 1},
                     {From::reg, 4, 2, 8, 0},
                     {From::reg, 8, 2, 0, 16}}};
}
OperandFragment b_k32n8() {
  return {.rows = 32,
          .cols = 8,
          .registers = 8,
          .digits = {{From::lane, 4, 8, 0, 1},
                     {From::lane, 1, 4, 4, 0},
                     {From::reg, 1, 4, 1, 0},
                     {From::reg, 4, 2, 16, 0}}};
}

// Elements of 8 bits, half of the registers of k = 32.
OperandFragment a_m16k16_8bit() {
  return {.rows = 16,
          .cols = 16,
          .registers = 8,
          .digits = {{From::lane, 4, 8, 1, 0},
                     {From::lane, 1, 4, 0, 4},
                     {From::reg, 1, 4, 0, 1},
                     {From::reg, 4, 2, 8, 0}}};
}
OperandFragment b_k16n8_8bit() {
  return {.rows = 16,
          .cols = 8,
          .registers = 4,
          .digits = {{From::lane, 4, 8, 0, 1}, {From::lane, 1, 4, 4, 0}, {From::reg, 1, 4, 1, 0}}};
}
// One register of `n` elements: a row of A, a column of B.
OperandFragment a_m8(int n) {
  return {.rows = 8,
          .cols = 4 * n,
          .registers = n,
          .digits = {{From::lane, 4, 8, 1, 0}, {From::lane, 1, 4, 0, n}, {From::reg, 1, n, 0, 1}}};
}
OperandFragment b_n8(int n) {
  return {.rows = 4 * n,
          .cols = 8,
          .registers = n,
          .digits = {{From::lane, 4, 8, 0, 1}, {From::lane, 1, 4, n, 0}, {From::reg, 1, n, 1, 0}}};
}
// Elements of 32 bits, half of the registers of k = 8.
OperandFragment a_m16k4_b32() {
  return {.rows = 16,
          .cols = 4,
          .registers = 2,
          .digits = {{From::lane, 4, 8, 1, 0}, {From::lane, 1, 4, 0, 1}, {From::reg, 1, 2, 8, 0}}};
}
OperandFragment b_k4n8_b32() {
  return {
      .rows = 4, .cols = 8, .registers = 1, .digits = {{From::lane, 4, 8, 0, 1}, {From::lane, 1, 4, 1, 0}}};
}

MatrixInstr m16n8k16(std::string_view name, DType ab, std::string_view ptx) {
  return {.intrinsic = {.name = name,
                        .arity = 3,
                        .result = Intrinsic::Result::none,
                        .effect = Intrinsic::Effect::memory,
                        .access = "xrr"},
          .m = 16,
          .n = 8,
          .k = 16,
          .a_type = ab,
          .b_type = ab,
          .c_type = f32,
          .a = a_m16k16(),
          .b = b_k16n8(),
          .c = c_m16n8(),
          .ptx = ptx};
}

MatrixInstr m16n8k8(int since, std::string_view name, DType ab, std::string_view ptx) {
  MatrixInstr row = m16n8k16(name, ab, ptx);
  row.since = since;
  row.k = 8;
  row.a = a_m16k8_16bit();
  row.b = b_k8n8_16bit();
  return row;
}

MatrixInstr sums_in_f16(MatrixInstr row) {
  row.c_type = f16;
  return row;
}

MatrixInstr m16n8k32(std::string_view name, DType a, DType b, DType c, std::string_view ptx) {
  MatrixInstr row = m16n8k16(name, a, ptx);
  row.b_type = b;
  row.c_type = c;
  row.k = 32;
  row.a = a_m16k32();
  row.b = b_k32n8();
  return row;
}

MatrixInstr on_ada(MatrixInstr row) {
  row.since = 89;
  return row;
}

MatrixInstr m16n8k16_8bit(std::string_view name, DType a, DType b, DType c, std::string_view ptx) {
  MatrixInstr row = m16n8k32(name, a, b, c, ptx);
  row.k = 16;
  row.a = a_m16k16_8bit();
  row.b = b_k16n8_8bit();
  return row;
}

MatrixInstr m8n8(std::string_view name, DType a, DType b, std::string_view ptx) {
  MatrixInstr row = m16n8k16(name, a, ptx);
  int in_register = 32 / a.bits;
  row.since = 75;
  row.b_type = b;
  row.c_type = i32;
  row.m = 8;
  row.k = 4 * in_register;
  row.a = a_m8(in_register);
  row.b = b_n8(in_register);
  row.c = c_m8n8();
  return row;
}

MatrixInstr m16n8k8_tf32(std::string_view name, std::string_view ptx) {
  MatrixInstr row = m16n8k16(name, tf32, ptx);
  row.k = 8;
  row.a = a_m16k8_b32();
  row.b = b_k8n8_b32();
  return row;
}

MatrixInstr m16n8k4_tf32(std::string_view name, std::string_view ptx) {
  MatrixInstr row = m16n8k8_tf32(name, ptx);
  row.k = 4;
  row.a = a_m16k4_b32();
  row.b = b_k4n8_b32();
  return row;
}

CopyInstr blocks(int since, std::string_view name, std::string_view access, int matrices, bool transposed,
                 std::string_view ptx) {
  return {.intrinsic = {.name = name,
                        .arity = 2,
                        .result = Intrinsic::Result::none,
                        .effect = Intrinsic::Effect::memory,
                        .access = access},
          .matrices = matrices,
          .transposed = transposed,
          .ptx = ptx,
          .since = since};
}

std::span<const CopyInstr> copy_rows() {
  // clang-format off
  static const CopyInstr rows[] = {
      blocks(75, "ldmatrix_x1", "wr", 1, false, "ldmatrix.sync.aligned.m8n8.x1.shared.b16"),
      blocks(75, "ldmatrix_x2", "wr", 2, false, "ldmatrix.sync.aligned.m8n8.x2.shared.b16"),
      blocks(75, "ldmatrix_x4", "wr", 4, false, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
      blocks(75, "ldmatrix_x1_trans", "wr", 1, true, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"),
      blocks(75, "ldmatrix_x2_trans", "wr", 2, true, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"),
      blocks(75, "ldmatrix_x4_trans", "wr", 4, true, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
      blocks(90, "stmatrix_x1", "rw", 1, false, "stmatrix.sync.aligned.m8n8.x1.shared.b16"),
      blocks(90, "stmatrix_x2", "rw", 2, false, "stmatrix.sync.aligned.m8n8.x2.shared.b16"),
      blocks(90, "stmatrix_x4", "rw", 4, false, "stmatrix.sync.aligned.m8n8.x4.shared.b16"),
      blocks(90, "stmatrix_x1_trans", "rw", 1, true, "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16"),
      blocks(90, "stmatrix_x2_trans", "rw", 2, true, "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"),
      blocks(90, "stmatrix_x4_trans", "rw", 4, true, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16")};
  // clang-format on
  return rows;
}

}  // namespace

// clang-format off
const MatrixInstr mma_16bit[4] = {
    m16n8k16("mma_m16n8k16_f16_f32", f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    m16n8k16("mma_m16n8k16_bf16_f32", bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    m16n8k8(80, "mma_m16n8k8_bf16_f32", bf16, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"),
    sums_in_f16(m16n8k16("mma_m16n8k16_f16_f16", f16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"))};
const MatrixInstr mma_f16_k8[2] = {
    m16n8k8(75, "mma_m16n8k8_f16_f32", f16, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
    sums_in_f16(m16n8k8(75, "mma_m16n8k8_f16_f16", f16, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"))};
const MatrixInstr mma_tf32[2] = {
    m16n8k8_tf32("mma_m16n8k8_tf32_f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    m16n8k4_tf32("mma_m16n8k4_tf32_f32", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32")};
const MatrixInstr mma_int8[8] = {
    m16n8k32("mma_m16n8k32_s8_s32", i8, i8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
    m16n8k32("mma_m16n8k32_u8_s32", u8, u8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"),
    m16n8k32("mma_m16n8k32_s8_u8_s32", i8, u8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"),
    m16n8k32("mma_m16n8k32_u8_s8_s32", u8, i8, i32, "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"),
    m16n8k16_8bit("mma_m16n8k16_s8_s32", i8, i8, i32, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32"),
    m16n8k16_8bit("mma_m16n8k16_u8_s32", u8, u8, i32, "mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32"),
    m16n8k16_8bit("mma_m16n8k16_s8_u8_s32", i8, u8, i32, "mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32"),
    m16n8k16_8bit("mma_m16n8k16_u8_s8_s32", u8, i8, i32, "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32")};
const MatrixInstr mma_m8n8[4] = {
    m8n8("mma_m8n8k16_s8_s32", i8, i8, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"),
    m8n8("mma_m8n8k16_u8_s32", u8, u8, "mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32"),
    m8n8("mma_m8n8k16_s8_u8_s32", i8, u8, "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32"),
    m8n8("mma_m8n8k16_u8_s8_s32", u8, i8, "mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32")};
const MatrixInstr mma_fp8[4] = {
    on_ada(m16n8k32("mma_m16n8k32_e4m3_f32", e4m3, e4m3, f32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")),
    on_ada(m16n8k32("mma_m16n8k32_e5m2_f32", e5m2, e5m2, f32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32")),
    on_ada(m16n8k32("mma_m16n8k32_e4m3_e5m2_f32", e4m3, e5m2, f32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")),
    on_ada(m16n8k32("mma_m16n8k32_e5m2_e4m3_f32", e5m2, e4m3, f32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32"))};
// clang-format on

std::vector<const MatrixInstr*> rows_of(std::initializer_list<std::span<const MatrixInstr>> groups) {
  std::vector<const MatrixInstr*> all;
  for (auto& group : groups)
    for (auto& row : group) all.push_back(&row);
  return all;
}

// Floats have no minimum or maximum here, and bf16 no sum before sm_90.
std::span<const AtomicInstr> nvidia_atomics(int chip) {
  using A = Intrinsic::Atomic;
  static const AtomicInstr rows[] = {
      {A::add, f32, "add.f32"},
      {A::add, f64, "add.f64"},
      {A::add, f16.with_lanes(2), "add.noftz.f16x2"},
      {A::add, f16, "add.noftz.f16"},
      {A::add, i32, "add.s32"},
      {A::add, u32, "add.u32"},
      {A::add, i64, "add.u64"},
      {A::add, u64, "add.u64"},
      {A::max, i32, "max.s32"},
      {A::max, u32, "max.u32"},
      {A::max, i64, "max.s64"},
      {A::max, u64, "max.u64"},
      {A::min, i32, "min.s32"},
      {A::min, u32, "min.u32"},
      {A::min, i64, "min.s64"},
      {A::min, u64, "min.u64"},
      {A::bit_or, i32, "or.b32"},
      {A::bit_or, u32, "or.b32"},
      {A::bit_or, i64, "or.b64"},
      {A::bit_or, u64, "or.b64"},
      {A::add, bf16.with_lanes(2), "add.noftz.bf16x2", {}, 90},
      {A::add, bf16, "add.noftz.bf16", {}, 90},
      {A::add, f32.with_lanes(2), "add.v2.f32", Scope::global, 90},
      {A::add, f32.with_lanes(4), "add.v4.f32", Scope::global, 90},
      {A::add, f16.with_lanes(4), "add.noftz.v2.f16x2", Scope::global, 90},
      {A::add, f16.with_lanes(8), "add.noftz.v4.f16x2", Scope::global, 90},
      {A::add, bf16.with_lanes(4), "add.noftz.v2.bf16x2", Scope::global, 90},
      {A::add, bf16.with_lanes(8), "add.noftz.v4.bf16x2", Scope::global, 90},
  };
  return until<AtomicInstr>(rows, chip);
}

std::span<const MatrixInstr* const> nvidia_matrix_rows() {
  static const auto rows = rows_of({mma_16bit, mma_f16_k8, mma_tf32, mma_int8, mma_fp8, mma_m8n8});
  return rows;
}
std::span<const MatrixShape> nvidia_matrix_shapes() {
  auto k32 = [](std::string_view name) {
    return MatrixShape{
        .name = name, .m = 16, .n = 8, .k = 32, .a = a_m16k32(), .b = b_k32n8(), .c = c_m16n8()};
  };
  static const MatrixShape rows[] = {{.name = "mma_m16n8k8_tf32",
                                      .m = 16,
                                      .n = 8,
                                      .k = 8,
                                      .a = a_m16k8_b32(),
                                      .b = b_k8n8_b32(),
                                      .c = c_m16n8()},
                                     k32("mma_m16n8k32_s8"),
                                     k32("mma_m16n8k32_fp8")};
  return rows;
}
std::vector<const CopyInstr*> nvidia_copies(int chip) {
  std::vector<const CopyInstr*> all;
  for (auto& row : until(copy_rows(), chip)) all.push_back(&row);
  return all;
}

}  // namespace tl
