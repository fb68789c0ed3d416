// Rows of instructions against formulas written independently of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/swizzle.h"
#include "layout/swizzle.h"
#include "target/check.h"
#include "target/hopper.h"
#include "target/known.h"
#include "target/nvidia.h"

using namespace tl;

namespace {

Layout panels_of_16_bytes(int64_t rows, int64_t cols, int bits) {
  int64_t width = 128 / bits;
  return from_terms({rows, cols}, 1,
                    {{.stride = rows * width, .digit = {1, width, cols / width}},
                     {.stride = width, .digit = {0, 1, rows}},
                     {.stride = 1, .digit = {1, 1, width}}});
}

}  // namespace

TEST_CASE("every target's rows cover their tiles once") {
  for (auto* t : all_targets()) {
    CAPTURE(t->name);
    CHECK_NOTHROW(check_target(*t));
  }
}

TEST_CASE("rows of a table stand in the order of the chips that they are there since") {
  auto in_order = [](auto rows) {
    return std::ranges::is_sorted(rows, {}, [](auto& row) {
      if constexpr (requires { row->since; })
        return row->since;
      else
        return row.since;
    });
  };
  CHECK(in_order(nvidia_async(sm_90a_only)));  // a chip gets the rows up to its own
  CHECK(in_order(nvidia_atomics(newest)));
  CHECK(in_order(nvidia_copies(newest)));
}

TEST_CASE("chips name no matrix instruction that came after them") {
  for (auto* t : all_targets()) {
    CAPTURE(t->name);
    if (!t->name.starts_with("sm_")) continue;
    int chip = std::stoi(std::string(t->name.substr(3)));
    CHECK(chip <= newest);
    for (auto* row : t->matrix) {
      CAPTURE(row->intrinsic.name);
      CHECK(row->since <= chip);
    }
    for (auto& row : t->async) CHECK(row.since <= (t->warpgroup.empty() ? chip : sm_90a_only));
    for (auto* row : t->copies) CHECK(row->since <= chip);
    for (auto& row : t->atomics) CHECK(row.since <= chip);
  }
}

TEST_CASE("mma.m16n8k16 holds what the instruction set manual says") {
  for (auto* row : {&mma_16bit[0], &mma_16bit[1]})
    for (int lane = 0; lane < 32; lane++) {
      int g = lane / 4, q = lane % 4;
      for (int i = 0; i < 8; i++)
        CHECK(element_of(row->a, lane, i) == std::pair(g + 8 * (i / 2 % 2), 2 * q + i % 2 + 8 * (i / 4)));
      for (int i = 0; i < 4; i++) {
        CHECK(element_of(row->b, lane, i) == std::pair(2 * q + i % 2 + 8 * (i / 2), g));
        CHECK(element_of(row->c, lane, i) == std::pair(g + 8 * (i / 2), 2 * q + i % 2));
      }
    }
}

TEST_CASE(
    "mma.m16n8k8 holds the first half of m16n8k16, so that it can finish a loop over k in the same "
    "registers") {
  for (auto [half, all] : {std::pair(&mma_f16_k8[0], &mma_16bit[0]), std::pair(&mma_16bit[2], &mma_16bit[1])})
    for (int lane = 0; lane < 32; lane++) {
      for (int i = 0; i < 4; i++) CHECK(element_of(half->a, lane, i) == element_of(all->a, lane, i));
      for (int i = 0; i < 2; i++) CHECK(element_of(half->b, lane, i) == element_of(all->b, lane, i));
      for (int i = 0; i < 4; i++) CHECK(element_of(half->c, lane, i) == element_of(all->c, lane, i));
    }
}

TEST_CASE("mma of 8-bit and of 32-bit elements holds what the instruction set manual says") {
  for (auto& row : mma_int8)
    for (int lane = 0; lane < 32; lane++) {
      int g = lane / 4, q = lane % 4;
      for (int i = 0; i < row.a.registers; i++)
        CHECK(element_of(row.a, lane, i) == std::pair(g + 8 * (i / 4 % 2), 4 * q + i % 4 + 16 * (i / 8)));
      for (int i = 0; i < row.b.registers; i++)
        CHECK(element_of(row.b, lane, i) == std::pair(4 * q + i % 4 + 16 * (i / 4), g));
    }
  for (auto& row : mma_fp8) CHECK(element_of(row.a, 31, 15) == element_of(mma_int8[0].a, 31, 15));
  for (auto& row : mma_tf32)
    for (int lane = 0; lane < 32; lane++) {
      int g = lane / 4, q = lane % 4;
      for (int i = 0; i < row.a.registers; i++)
        CHECK(element_of(row.a, lane, i) == std::pair(g + 8 * (i % 2), q + 4 * (i / 2)));
      for (int i = 0; i < row.b.registers; i++) CHECK(element_of(row.b, lane, i) == std::pair(q + 4 * i, g));
    }
}

TEST_CASE("mma.m8n8 holds what the instruction set manual says: 32 bits of A, of B, and two sums a lane") {
  for (auto& row : mma_m8n8) {
    CAPTURE(row.intrinsic.name);
    int in_register = 32 / row.a_type.bits;
    CHECK_EQ(row.k, 4 * in_register);
    CHECK_EQ(row.since, 75);
    for (int lane = 0; lane < 32; lane++) {
      for (int i = 0; i < in_register; i++) {
        CHECK(element_of(row.a, lane, i) == std::pair(lane >> 2, in_register * (lane % 4) + i));
        CHECK(element_of(row.b, lane, i) == std::pair(in_register * (lane % 4) + i, lane >> 2));
      }
      for (int i = 0; i < 2; i++)
        CHECK(element_of(row.c, lane, i) == std::pair(lane >> 2, 2 * (lane % 4) + i));
    }
  }
}

TEST_CASE("sm_75 has products of f16 and of integers alone, ldmatrix, and nothing asynchronous") {
  const Target& t = *find_target("sm_75");
  CHECK(t.matrix_for(f16, f16, f32)->intrinsic.name == "mma_m16n8k8_f16_f32");
  CHECK(t.matrix_for(f16, f16, f16)->intrinsic.name == "mma_m16n8k8_f16_f16");
  CHECK(t.matrix_for(i8, i8, i32)->intrinsic.name == "mma_m8n8k16_s8_s32");
  CHECK(t.matrix_for(bf16, bf16, f32) == nullptr);
  CHECK(t.matrix_for(tf32, tf32, f32) == nullptr);
  CHECK(t.async.empty());
  CHECK(t.copy_named("ldmatrix_x4_trans") != nullptr);
  CHECK(t.copy_named("stmatrix_x4") == nullptr);
  CHECK(t.atomic_for(Intrinsic::Atomic::add, f16.with_lanes(2), true) != nullptr);
  CHECK(t.atomic_for(Intrinsic::Atomic::add, bf16.with_lanes(2), true) == nullptr);
  CHECK_EQ(t.multiprocessors.residents(256, 64 << 10, 32), t.multiprocessors.count);
  CHECK_EQ(t.multiprocessors.residents(256, 0, 32), 4 * t.multiprocessors.count);
  CHECK_EQ(t.multiprocessors.residents(256, 32 << 10, 32), 2 * t.multiprocessors.count);
}

TEST_CASE("products of 8-bit floats are rows where the chip has them, and not where f16 does their work") {
  for (auto* t : all_targets()) {
    CAPTURE(t->name);
    bool has = t->name == "sm_89" || t->name.starts_with("sm_12");
    CHECK_EQ(t->matrix_for(e4m3, e4m3, f32) != nullptr, has);
  }
}

TEST_CASE("a later chip runs the programs of the newest chip before it") {
  for (auto [chip, nearest] :
       std::initializer_list<std::pair<std::string, std::string_view>>{{"sm_87", "sm_86"},
                                                                       {"sm_88", "sm_86"},
                                                                       {"sm_100a", "sm_100"},
                                                                       {"sm_100f", "sm_100"},
                                                                       {"sm_101", "sm_100"},
                                                                       {"sm_103a", "sm_103"},
                                                                       {"sm_110", "sm_103"},
                                                                       {"sm_120f", "sm_120"},
                                                                       {"sm_121a", "sm_121"},
                                                                       {"sm_130", "sm_121"}}) {
    CAPTURE(chip);
    REQUIRE(nearest_target(chip));
    CHECK(nearest_target(chip)->name == nearest);
    CHECK(parse_target("cuda -arch=" + chip).chip == chip);
    CHECK(parse_target("sim:" + chip).chip == chip);
  }
  for (std::string none : {"sm_70", "sm_72", "sm_90", "sm_90a", "sm_90b", "sm_87a", "sm_100b", "sm_100aa",
                           "sm_", "sm_-90", "sm_090", "sm_1000", "sm_x", "gfx950", "haswell", ""}) {
    CAPTURE(none);
    CHECK(nearest_target(none) == nullptr);
  }
}

TEST_CASE("chips that exist, of those that an earlier one's program runs on") {
  for (std::string chip : {"sm_87", "sm_88", "sm_100a", "sm_100f", "sm_101", "sm_101a", "sm_103a", "sm_110",
                           "sm_120f", "sm_121a"}) {
    CAPTURE(chip);
    CHECK(is_known_chip(chip));
  }
  for (std::string none : {"sm_91", "sm_130", "sm_999", "sm_102a", "sm_84"}) {
    CAPTURE(none);
    CHECK(!is_known_chip(none));
  }
}

TEST_CASE("a row that covers an element twice is refused by name") {
  MatrixInstr bad = mma_16bit[0];
  bad.c.digits.back().row = 4;
  CHECK_THROWS_WITH_AS(check_row(bad, 32), doctest::Contains("held twice"), InternalError);
}

TEST_CASE("target strings") {
  CHECK(parse_target("cuda -arch=sm_80").chip == "sm_80");
  CHECK(parse_target("cuda").chip.empty());
  CHECK(parse_target("llvm").kind == "cpu");
  CHECK(parse_target("cpu -mcpu=haswell").chip == "haswell");
  CHECK(parse_target("reference").kind == "reference");
  CHECK(parse_target("sim:sm_90").kind == "sim");
  CHECK(parse_target("sim:sm_90").chip == "sm_90");
  CHECK(parse_target("hip -mcpu=gfx942").chip == "gfx942");
  CHECK(parse_target("rocm -mcpu=gfx942").kind == "hip");
  CHECK(parse_target("sim:gfx942").language == nullptr);
  CHECK_THROWS_WITH_AS(parse_target("hip -mcpu=gfx90a"), doctest::Contains("describes gfx942 alone"),
                       CompileError);
  CHECK_THROWS_WITH_AS(parse_target("cuda -arch=gfx942"), doctest::Contains("no chip 'gfx942'"),
                       CompileError);
  CHECK_THROWS_WITH_AS(parse_target("sim"),
                       doctest::Contains("sim:CHIP with CHIP one of sm_75, sm_80, sm_86"), CompileError);
  CHECK_THROWS_WITH_AS(parse_target("sim:sm_70"),
                       doctest::Contains("no GPU 'sm_70' to simulate; this version has sm_75"), CompileError);
  CHECK_THROWS_WITH_AS(parse_target("sim:haswell"), doctest::Contains("no GPU 'haswell'"), CompileError);
  CHECK_THROWS_WITH_AS(parse_target("opencl"), doctest::Contains("sm_90"), CompileError);
  CHECK_THROWS_WITH_AS(parse_target("cuda -arch=sm_70"), doctest::Contains("no chip 'sm_70'"), CompileError);
  CHECK_THROWS_WITH_AS(parse_target("cuda -march=sm_80"), doctest::Contains("-arch=CHIP"), CompileError);
  CHECK_THROWS_AS(parse_target("cuda -arch=haswell"), CompileError);
}

TEST_CASE("languages are rows: no two share a name or a word of a target string, and chips fit theirs") {
  std::set<std::string_view> names, words{"auto", "sim", "reference"};
  for (auto* row : all_languages()) {
    CAPTURE(row->name);
    CHECK(find_language(row->name) == row);
    CHECK(names.insert(row->name).second);
    CHECK(words.insert(row->kind).second);
    if (!row->synonym.empty() && row->synonym != row->kind) CHECK(words.insert(row->synonym).second);
    CHECK(!chips_of(*row).empty());
  }
  for (auto* chip : all_targets()) {
    CAPTURE(chip->name);
    CHECK(chip->has_threads() == chip->language->has_threads);
    CHECK(parse_target(fmt::format("{} {}{}", chip->language->kind, chip->language->chip_option, chip->name))
              .language == chip->language);
  }
  CHECK(find_language("fortran") == nullptr);
}

TEST_CASE("what a language has no text for is found by name, pattern and width") {
  CHECK(hip_language.why_not("ptx", 0) == "PTX is for NVIDIA's GPUs");
  CHECK(!hip_language.why_not("ieee_add_rz", 32).empty());
  CHECK(hip_language.why_not("ieee_add_rn", 32).empty());
  CHECK(hip_language.why_not("match_any_sync64", 32).empty());
  CHECK(!hip_language.why_not("sin", 64).empty());
  CHECK(hip_language.why_not("sin", 32).empty());
  CHECK(cuda_language.why_not("ptx", 0).empty());
}

TEST_CASE("sm_90a is sm_90, and has the products of warpgroups") {
  const Target &plain = *find_target("sm_90"), &own = *find_target("sm_90a");
  CHECK(parse_target("cuda -arch=sm_90a").chip == "sm_90a");
  CHECK(parse_target("sim:sm_90a").chip == "sm_90a");
  CHECK(own.matrix == plain.matrix);
  CHECK(own.copies == plain.copies);
  CHECK(own.async.data() == plain.async.data());
  CHECK_EQ(own.async.size(), plain.async.size() + 8);
  for (auto* t : all_targets()) CHECK_EQ(t->warpgroup.empty(), t != &own);
  CHECK(own.atomics.data() == plain.atomics.data());
  CHECK_EQ(own.shared_bytes, plain.shared_bytes);
  CHECK_EQ(own.max_cluster, plain.max_cluster);
}

TEST_CASE("chips and kinds that are not here are refused by name, with those that are, and why") {
  for (std::string chip : {"sm_52", "sm_61", "sm_70", "sm_72", "gfx90a"})
    for (std::string kind : {"cuda -arch=", "sim:"}) {
      CAPTURE(kind + chip);
      std::string chips =
          "this version has sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_120, sm_121";
      CHECK_THROWS_WITH_AS(parse_target(kind + chip), doctest::Contains(chips.c_str()), CompileError);
      CHECK_THROWS_WITH_AS(parse_target(kind + chip),
                           doctest::Contains(std::string(why_no_chip(chip)).c_str()), CompileError);
    }
  CHECK(why_no_chip("sm_100a").find("tcgen05") != std::string_view::npos);
  for (std::string kind : {"metal", "webgpu", "vulkan", "opencl", "cutedsl", "nvptx"})
    for (std::string rest : {"", " -mcpu=gfx942"}) {
      CAPTURE(kind + rest);
      CHECK_THROWS_WITH_AS(parse_target(kind + rest), doctest::Contains("sim:CHIP (sm_75"), CompileError);
      CHECK_THROWS_WITH_AS(parse_target(kind + rest),
                           doctest::Contains(std::string(why_no_kind(kind)).c_str()), CompileError);
      CHECK(!why_no_kind(kind).empty());
    }
  CHECK(why_no_kind("nonsense").empty());
}

TEST_CASE("block limits of the chips") {
  CHECK(find_target("sm_80")->shared_bytes == 166912);
  CHECK(find_target("sm_86")->shared_bytes == 101376);
  CHECK(find_target("sm_89")->shared_bytes == 101376);
  CHECK(find_target("sm_90")->shared_bytes == 232448);
  CHECK(find_target("sm_75")->shared_bytes == 65536);
  CHECK(find_target("sm_100")->shared_bytes == 232448);
  CHECK(find_target("sm_103")->shared_bytes == 232448);
  CHECK(find_target("sm_120")->shared_bytes == 101376);
  CHECK(find_target("sm_121")->shared_bytes == 101376);
}

TEST_CASE("wgmma holds its operands in registers as the instruction set manual says, and covers them once") {
  for (int64_t n = 8; n <= 256; n += 8) {
    OperandFragment d = accumulator_of(n);
    for (int t = 0; t < 128; t++)
      for (int i = 0; i < d.registers; i++)
        REQUIRE(element_of(d, t, i) ==
                std::pair(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (t % 4) + i % 2));
  }
  std::set<std::string_view> names;
  for (auto& row : warpgroup_rows()) {
    CAPTURE(row.intrinsic.name);
    CHECK(names.insert(row.intrinsic.name).second);
    CHECK_EQ(row.k * row.a_type.bits, 256);
    CHECK_EQ(find_instr(row.intrinsic.name), &row.intrinsic);
    CHECK_EQ(warpgroup_row_of(row.intrinsic), &row);
    OperandFragment a = a_fragment_of(row);
    int word = 32 / row.a_type.bits;
    std::set<std::pair<int, int>> seen;
    for (int t = 0; t < 128; t++)
      for (int i = 0; i < a.registers; i++) {
        REQUIRE(element_of(a, t, i) == std::pair(16 * (t / 32) + t % 32 / 4 + 8 * (i / word % 2),
                                                 4 * word * (i / (2 * word)) + word * (t % 4) + i % word));
        REQUIRE(seen.insert(element_of(a, t, i)).second);
      }
    CHECK_EQ(int(seen.size()), 64 * row.k);
  }
  CHECK_EQ(names.size(), 32);
}

TEST_CASE("a tile of wgmma lies in panels of rows, whatever the pattern") {
  for (int64_t swizzle : {128, 64, 32, 0})
    for (int bits : {8, 16, 32}) {
      int64_t width = (swizzle ? swizzle : 16) * 8 / bits, rows = 64, cols = 2 * width;
      Layout panels =
          swizzle ? swizzled_panels({rows, cols}, bits, swizzle) : panels_of_16_bytes(rows, cols, bits);
      for (bool turned : {false, true}) {
        int64_t panel = rows * width * bits / 8, eights = 8 * width * bits / 8;
        TileMode mode{.swizzle = swizzle, .leading = panel, .stride = eights, .turned = turned};
        if (turned && !swizzle) std::swap(mode.leading, mode.stride);
        for (int64_t r = 0; r < rows; r++)
          for (int64_t c = 0; c < cols; c++) {
            int64_t at = place_in_tile(mode, bits, turned ? c : r, turned ? r : c);
            REQUIRE_EQ(swizzled_address(at, swizzle),
                       map_index(panels, std::vector<int64_t>{r, c})[0] * bits / 8);
          }
      }
    }
}
