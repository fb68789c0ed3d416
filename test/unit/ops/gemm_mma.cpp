// The tensor cores' gemm: where its fragments lie, and how it finds its way when others laid them out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "compile/compile.h"
#include "ir/text.h"
#include "ops/op.h"

using namespace tl;

namespace {

std::string program(const std::string& buffers, const std::string& body, int threads) {
  return fmt::format("func main(A: f32[8]):\n  kernel main grid(bx: 1) threads({}):\n{}{}", threads, buffers,
                     body);
}

Function laid_out(const std::string& text, std::string_view pass = "infer_layouts") {
  Options o;
  o.stop_after = pass;
  return compile(complete_tiles(parse(text, "test", text_vocabulary())), *find_target("sm_80"), o).function;
}

const BufferInfo& named(const Function& f, std::string_view name) {
  for (auto& b : f.buffers)
    if (b.name == name) return b;
  FAIL(name);
  return f.buffers[0];
}

std::string notes(const Function& f) {
  std::string all;
  for (auto& n : f.notes)
    if (n.pass == "lower_tile_ops") all += n.text + "\n";
  return all;
}

Fragment fragment_of(const Function& f, std::string_view name) {
  return fragment_from_map(*named(f, name).layout);
}

// S = A · B, then D += cast(S) · E, with `copy` or without between S and its cast.
std::string chain(int64_t m, int64_t n, int threads, std::string_view policy, bool copied) {
  std::string buffers = fmt::format(
      "    As = shared f16[{0}, 32]\n    Bs = shared f16[32, {1}]\n    Es = shared f16[{1}, 64]\n"
      "    S = fragment f32[{0}, {1}]\n    P = fragment f16[{0}, {1}]\n    D = fragment f32[{0}, 64]\n",
      m, n);
  std::string body = fmt::format("    gemm(As, Bs, S) {{policy=\"{}\"}}\n", policy);
  if (copied) body += "    copy(S, P)\n";
  return program(buffers, body + fmt::format("    gemm(P, Es, D) {{policy=\"{}\"}}\n", policy), threads);
}

}  // namespace

TEST_CASE("gemm_mma: an accumulator and the A operand of the next gemm are the same registers") {
  for (int64_t m : {16, 32, 48, 64, 128})
    for (int64_t n : {16, 24, 48, 64, 128})
      for (int threads : {32, 64, 96, 128}) {
        if (m / 16 < threads / 32) continue;  // a second column of warps: A is replicated over it
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(threads);
        Function apart = laid_out(chain(m, n, threads, "full_row", false));
        Fragment s = fragment_of(apart, "S"), p = fragment_of(apart, "P");  // each as its own gemm wants it
        CHECK(p.replicas == 1);
        CHECK(equal(s, p));
        Function f = laid_out(chain(m, n, threads, "full_row", true), "lower_tile_ops");
        CHECK(notes(f).find("shared memory") == std::string::npos);
      }
}

TEST_CASE("gemm_mma: A is held by every column of warps, each element once per column") {
  Function f = laid_out(chain(32, 48, 128, "full_row", false));
  Fragment p = fragment_of(f, "P");
  CHECK(p.replicas == 2);
  CHECK(p.threads == 128);
  for (int64_t i = 0; i < 32; i++)
    for (int64_t j = 0; j < 48; j++) {
      auto a = map_index(p.layout, std::vector<int64_t>{i, j, 0}),
           b = map_index(p.layout, std::vector<int64_t>{i, j, 1});
      CHECK(a[1] == b[1]);
      CHECK(b[0] == a[0] + 64);
      CHECK(a[0] == i / 16 * 32 + i % 8 * 4 + j % 8 / 2);
    }
}

TEST_CASE("gemm_mma: an A that lies otherwise goes through shared memory, and says so") {
  Function f = laid_out(chain(64, 64, 128, "square", true), "lower_tile_ops");
  CHECK(notes(f).find("P goes through 8192 bytes of shared memory: its layout is") != std::string::npos);
  CHECK(named(f, "P_scratch").scope == Scope::shared);
}

TEST_CASE("gemm_mma: two policies for one accumulator agree on the first one's") {
  std::string buffers =
      "    As = shared f16[64, 32]\n    Bs = shared f16[32, 64]\n    C = fragment f32[64, 64]\n";
  Function f = laid_out(
      program(buffers,
              "    gemm(As, Bs, C) {policy=\"full_row\"}\n    gemm(As, Bs, C) {policy=\"full_col\"}\n", 128),
      "lower_tile_ops");
  std::string text = notes(f);
  CHECK(text.find("4×1 grid") != std::string::npos);
  CHECK(text.find("4×1 grid") != text.rfind("4×1 grid"));
  CHECK(text.find("shared memory") == std::string::npos);
}

TEST_CASE("gemm_mma: warps that do not divide the tile") {
  auto grid = [](int m, int n, int threads) {
    std::string buffers = fmt::format(
        "    As = shared f16[{0}, 32]\n    Bs = shared f16[32, {1}]\n    C = fragment f32[{0}, {1}]\n", m, n);
    return notes(laid_out(program(buffers, "    gemm(As, Bs, C)\n", threads), "lower_tile_ops"));
  };
  CHECK(grid(64, 64, 256).find("by 8 warps in a 2×4 grid, 2×2 tiles of 16×8×16 each\n") != std::string::npos);
  CHECK(grid(80, 56, 128).find("fewer at the edge") != std::string::npos);
  CHECK(grid(16, 8, 128).find("by 1 warp in a 1×1 grid, 1×1 tiles of 16×8×16 each; 3 warps are idle") !=
        std::string::npos);
  CHECK(grid(16, 16, 40).find("by 1 warp") != std::string::npos);
  CHECK(grid(16, 12, 128).find("fma (not mma.sync: 16×12×32 is not made of 16×8×16 tiles") !=
        std::string::npos);
}

TEST_CASE("gemm_mma: every element of a ragged tile is held once") {
  for (auto [m, n, threads] : {std::tuple{80, 56, 128}, {48, 40, 96}, {112, 24, 160}, {16, 72, 256}}) {
    std::string buffers = fmt::format(
        "    As = shared f16[{0}, 40]\n    Bs = shared f16[40, {1}]\n    C = fragment f32[{0}, {1}]\n", m, n);
    Function f = laid_out(program(buffers, "    gemm(As, Bs, C)\n", threads));
    Fragment c = fragment_of(f, "C");
    std::set<std::pair<int64_t, int64_t>> places;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        auto at = map_index(c.layout, std::vector<int64_t>{i, j, 0});
        CHECK(at[0] < threads);
        CHECK(places.insert({at[0], at[1]}).second);
      }
  }
}

TEST_CASE("gemm_mma: rows that no pattern fits are padded for ldmatrix, where the block has room") {
  auto with_rows = [](int rows) {
    std::string buffers = fmt::format(
        "    As = shared f16[{}, 20]\n    Bs = shared f16[16, 64]\n    C = fragment f32[64, 64]\n", rows);
    return laid_out(program(buffers, "    gemm(As[0 : +64, 0 : +16], Bs, C)\n", 128), "lower_tile_ops");
  };
  Function small = with_rows(64), large = with_rows(4000);
  CHECK(named(small, "As").elements == 63 * 24 + 20);
  CHECK(notes(small).find("element by element") == std::string::npos);
  CHECK(named(large, "As").elements == 4000 * 20);
  CHECK(notes(large).find("As is loaded element by element, not by ldmatrix: rows padded to 16 bytes would "
                          "take 95996 elements, and the block has room for 82432") != std::string::npos);
}

TEST_CASE("gemm_mma: a slice that ldmatrix cannot read is read element by element, and says so") {
  std::string buffers =
      "    As = shared f16[64, 64]\n    Bs = shared f16[32, 64]\n    C = fragment f32[64, 64]\n";
  Function f = laid_out(program(buffers, "    gemm(As[0 : +64, 4 : +32], Bs, C)\n", 128), "lower_tile_ops");
  CHECK(
      notes(f).find(
          "As is loaded element by element, not by ldmatrix: it does not begin at a multiple of 16 bytes") !=
      std::string::npos);
  CHECK(notes(f).find("Bs is loaded") == std::string::npos);
}

TEST_CASE("gemm_fma: a tile read down its columns is laid out without conflicts") {
  std::string buffers =
      "    As = shared f32[64, 32]\n    Bs = shared f32[32, 64]\n    C = fragment f32[64, 64]\n";
  Function f = laid_out(program(buffers, "    gemm(As, Bs, C)\n", 128), "insert_sync");
  const BufferInfo& a = named(f, "As");
  CHECK_FALSE(equal(from_map(*a.layout), row_major({64, 32})));
  CHECK(equal(from_map(*named(f, "Bs").layout), row_major({32, 64})));
}
