// What sm_90a alone has (PTX ISA 9.0, wgmma): products of 64 × n × 32 bytes by the four warps of a warpgroup.
//
// Lane l = 4g + q of warp w holds, of D (64 × n), the rows 16w + g and 16w + g + 8, and of every 8 columns
// 2q and 2q + 1; of A in registers (64 × k) what an mma.sync of 16 × k by that warp would want.
//
// Products are begun by all threads of the warpgroup together, each with the same operands, and end in
// groups.  Between the first product and the wait nobody may touch the registers of D, nor those of A, nor
// write to the tiles. A fence stands before the first product, and before one whose registers threads have
// touched.
#include <algorithm>

#include "target/hopper.h"
#include "target/nvidia.h"

namespace tl {
namespace {

using From = FragmentDigit::From;

// The access of (d, a, b, n, clear, modes…).
constexpr std::string_view from_shared = "xrrn-nnnnnnnn", from_registers = "xrrn-nnnn";

struct Types {
  std::string_view shared_name, registers_name;  // of the rows with A in shared memory, and in registers
  DType a, b, c;
  int k;
  bool may_turn;
  int n_step;
  std::string_view types;
};

WarpgroupInstr row_of(const Types& t, bool a_in_registers) {
  std::string_view access = a_in_registers ? from_registers : from_shared;
  return {.intrinsic = {.name = a_in_registers ? t.registers_name : t.shared_name,
                        .arity = int(access.size()),
                        .result = Intrinsic::Result::none,
                        .effect = Intrinsic::Effect::memory,
                        .access = access},
          .a_type = t.a,
          .b_type = t.b,
          .c_type = t.c,
          .k = t.k,
          .a_in_registers = a_in_registers,
          .may_turn = t.may_turn,
          .n_step = t.n_step,
          .types = t.types};
}

}  // namespace

std::span<const WarpgroupInstr> warpgroup_rows() {
  // clang-format off
  static constexpr Types types[] = {
      {"wgmma_m64k16_f16_f32_ss",       "wgmma_m64k16_f16_f32_rs",       f16,  f16,  f32, 16, true,  8,  "f32.f16.f16"},
      {"wgmma_m64k16_f16_f16_ss",       "wgmma_m64k16_f16_f16_rs",       f16,  f16,  f16, 16, true,  8,  "f16.f16.f16"},
      {"wgmma_m64k16_bf16_f32_ss",      "wgmma_m64k16_bf16_f32_rs",      bf16, bf16, f32, 16, true,  8,  "f32.bf16.bf16"},
      {"wgmma_m64k8_tf32_f32_ss",       "wgmma_m64k8_tf32_f32_rs",       tf32, tf32, f32, 8,  false, 8,  "f32.tf32.tf32"},
      {"wgmma_m64k32_e4m3_f32_ss",      "wgmma_m64k32_e4m3_f32_rs",      e4m3, e4m3, f32, 32, false, 8,  "f32.e4m3.e4m3"},
      {"wgmma_m64k32_e4m3_e5m2_f32_ss", "wgmma_m64k32_e4m3_e5m2_f32_rs", e4m3, e5m2, f32, 32, false, 8,  "f32.e4m3.e5m2"},
      {"wgmma_m64k32_e5m2_e4m3_f32_ss", "wgmma_m64k32_e5m2_e4m3_f32_rs", e5m2, e4m3, f32, 32, false, 8,  "f32.e5m2.e4m3"},
      {"wgmma_m64k32_e5m2_f32_ss",      "wgmma_m64k32_e5m2_f32_rs",      e5m2, e5m2, f32, 32, false, 8,  "f32.e5m2.e5m2"},
      {"wgmma_m64k32_e4m3_f16_ss",      "wgmma_m64k32_e4m3_f16_rs",      e4m3, e4m3, f16, 32, false, 8,  "f16.e4m3.e4m3"},
      {"wgmma_m64k32_e4m3_e5m2_f16_ss", "wgmma_m64k32_e4m3_e5m2_f16_rs", e4m3, e5m2, f16, 32, false, 8,  "f16.e4m3.e5m2"},
      {"wgmma_m64k32_e5m2_e4m3_f16_ss", "wgmma_m64k32_e5m2_e4m3_f16_rs", e5m2, e4m3, f16, 32, false, 8,  "f16.e5m2.e4m3"},
      {"wgmma_m64k32_e5m2_f16_ss",      "wgmma_m64k32_e5m2_f16_rs",      e5m2, e5m2, f16, 32, false, 8,  "f16.e5m2.e5m2"},
      {"wgmma_m64k32_s8_s32_ss",        "wgmma_m64k32_s8_s32_rs",        i8,   i8,   i32, 32, false, 16, "s32.s8.s8"},
      {"wgmma_m64k32_s8_u8_s32_ss",     "wgmma_m64k32_s8_u8_s32_rs",     i8,   u8,   i32, 32, false, 16, "s32.s8.u8"},
      {"wgmma_m64k32_u8_s8_s32_ss",     "wgmma_m64k32_u8_s8_s32_rs",     u8,   i8,   i32, 32, false, 16, "s32.u8.s8"},
      {"wgmma_m64k32_u8_s32_ss",        "wgmma_m64k32_u8_s32_rs",        u8,   u8,   i32, 32, false, 16, "s32.u8.u8"},
  };
  // clang-format on
  static const std::vector<WarpgroupInstr> rows = [] {
    std::vector<WarpgroupInstr> all;
    for (bool a_in_registers : {false, true})
      for (auto& t : types) all.push_back(row_of(t, a_in_registers));
    return all;
  }();
  return rows;
}

const WarpgroupInstr* warpgroup_row_of(const Intrinsic& intrinsic) {
  if (!intrinsic.name.starts_with("wgmma_m64")) return nullptr;
  auto rows = warpgroup_rows();
  auto row = std::ranges::find_if(rows, [&](auto& r) { return &r.intrinsic == &intrinsic; });
  return row == rows.end() ? nullptr : &*row;
}

OperandFragment accumulator_of(int64_t n) {
  OperandFragment f{.rows = WarpgroupInstr::m,
                    .cols = int(n),
                    .registers = int(n) / 2,
                    .digits = {{From::lane, 32, 4, 16, 0},
                               {From::lane, 4, 8, 1, 0},
                               {From::lane, 1, 4, 0, 2},
                               {From::reg, 1, 2, 0, 1},
                               {From::reg, 2, 2, 8, 0}}};
  if (n > 8) f.digits.push_back({From::reg, 4, int(n) / 8, 0, 8});
  return f;
}

OperandFragment a_fragment_of(const WarpgroupInstr& row) {
  int word = 32 / row.a_type.bits;  // elements of a register
  OperandFragment f{
      .rows = WarpgroupInstr::m,
      .cols = row.k,
      .registers = row.k / 2,
      .digits = {{From::lane, 32, 4, 16, 0}, {From::lane, 4, 8, 1, 0}, {From::lane, 1, 4, 0, word}}};
  if (word > 1) f.digits.push_back({From::reg, 1, word, 0, 1});
  f.digits.push_back({From::reg, word, 2, 8, 0});
  f.digits.push_back({From::reg, 2 * word, 2, 0, 4 * word});
  return f;
}

int64_t place_in_tile(const TileMode& mode, int bits, int64_t mn, int64_t k) {
  constexpr int64_t piece = 16;  // bytes
  int64_t row = mode.turned ? k : mn, in_row = (mode.turned ? mn : k) * bits / 8;
  int64_t width = mode.swizzle ? mode.swizzle : piece, panel = in_row / width, rest = in_row % width;
  bool swapped = mode.turned && !mode.swizzle;
  int64_t panels = swapped ? mode.stride : mode.leading, eights = swapped ? mode.leading : mode.stride;
  return panel * panels + row / 8 * eights + row % 8 * width + rest;
}

}  // namespace tl
