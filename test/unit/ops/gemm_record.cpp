// What stands on a gemm: infer_layouts writes down by which instruction and grid it runs, a text may ask for
// another, lowering reads it and chooses nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "compile/compile.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "pass/passes.h"
#include "runtime/device.h"
#include "runtime/find.h"
#include "trial.h"

using namespace tl;

namespace {

// C += A · B on the ninth line of the text.
std::string program(std::string_view types, std::string_view attrs, int64_t m = 64, int64_t n = 64,
                    int64_t k = 32) {
  size_t gap = types.find(' ');
  std::string_view in = types.substr(0, gap), sum = types.substr(gap + 1);
  return fmt::format(R"(func main(A: {0}[{2}, {4}], B: {0}[{4}, {3}], C: {1}[{2}, {3}]):
  kernel main grid(bx: 1) threads(128):
    As = shared {0}[{2}, {4}]
    Bs = shared {0}[{4}, {3}]
    F = fragment {1}[{2}, {3}]
    copy(A, As)
    copy(B, Bs)
    copy(C, F)
    gemm(As, Bs, F) {{{5}}}
    copy(F, C)
)",
                     in, sum, m, n, k, attrs);
}

Function laid_out_for(const std::string& text, std::string_view chip) {
  Options o;
  o.stop_after = "infer_layouts";
  return compile(complete_tiles(parse(text, "test", text_vocabulary())), *find_target(chip), o).function;
}

const Attrs& record_of(const Function& f) {
  const Attrs* found = nullptr;
  visit(f.kernels[0].body, [&](const Tile& t) {
    if (t.op->name == "gemm") found = &t.attrs;
  });
  REQUIRE(found);
  return *found;
}

std::string refusal(const std::string& text, std::string_view chip) {
  try {
    laid_out_for(text, chip);
  } catch (const CompileError& e) {
    CHECK(e.span.line == 9);
    return e.text;
  }
  return "";
}

// The function with one attribute of its gemm changed; null: left out.
Function with(Function f, const std::string& attr, std::optional<int64_t> value) {
  f.kernels[0].body = rewrite(f.kernels[0].body, [&](const Tile& n, Rewriter& self) -> Stmt {
    if (n.op->name != "gemm") return self.children(n);
    Attrs attrs = n.attrs;
    attrs.entries.erase(attr);
    if (value) attrs.entries[attr] = *value;
    return tile(*n.op, n.operands, attrs, n.span);
  });
  return f;
}

}  // namespace

TEST_CASE("gemm: what is chosen stands on the statement") {
  Function f = laid_out_for(program("f16 f32", "", 64, 64, 40), "sm_80");
  CHECK(record_of(f).get_string("instruction") == "mma_m16n8k16_f16_f32");
  CHECK(record_of(f).get_string("tail") == "mma_m16n8k8_f16_f32");
  CHECK(record_of(f).get_int("warps_m") == 2);
  CHECK(record_of(f).get_int("warps_n") == 2);
  CHECK(!record_of(f).find("why_not"));
  Function fma = laid_out_for(program("f32 f32", ""), "sm_80");
  CHECK(record_of(fma).get_string("instruction") == "fma");
  CHECK(record_of(fma).get_int("threads_m") * record_of(fma).get_int("threads_n") == 128);
  CHECK(record_of(fma).get_string("why_not").starts_with("mma.sync: sm_80 has no instruction for f32 × f32"));
  Function cpu = laid_out_for(program("i8 i32", ""), "cascadelake");
  CHECK(record_of(cpu).get_string("instruction") == "dot4_u8_s8");
  CHECK(record_of(cpu).get_int("micro_n") == 32);
}

TEST_CASE("gemm: what a text asks for is kept, and computes the same") {
  struct Asked {
    const char *target, *types, *attrs;
    int64_t m = 64, n = 64, k = 32;
  };
  for (const Asked& a :
       {Asked{"sim:sm_80", "f16 f32", "warps_m=4"}, Asked{"sim:sm_80", "f16 f32", "warps_m=1, warps_n=1"},
        Asked{"sim:sm_80", "f16 f32", "instruction=\"mma_m16n8k8_f16_f32\", warps_n=4"},
        Asked{"sim:sm_80", "f16 f32", "tail=\"mma_m16n8k8_f16_f32\", warps_n=1", 48, 24, 40},
        Asked{"sim:sm_80", "f16 f32", "instruction=\"fma\""},
        Asked{"sim:sm_80", "f16 f32", "threads_m=3, threads_n=5, vector=2", 30, 34, 7},
        Asked{"sim:sm_80", "f32 f32", "vector=1"}, Asked{"cpu -mcpu=haswell", "f32 f32", "micro_m=3"},
        Asked{"cpu -mcpu=haswell", "f32 f32", "micro_n=24, micro_m=2", 30, 50, 7}}) {
    CAPTURE(a.target);
    CAPTURE(a.attrs);
    std::string text = program(a.types, a.attrs, a.m, a.n, a.k), chip = a.target;
    Function f = laid_out_for(text, chip.substr(chip.find_first_of(":=") + 1));
    Function asked = parse(text, "test", text_vocabulary());
    for (auto& [name, value] : record_of(asked).entries) {
      CAPTURE(name);
      CHECK(record_of(f).get_int(name) == record_of(asked).get_int(name));
      CHECK(record_of(f).get_string(name) == record_of(asked).get_string(name));
    }
    if (chip.starts_with("cpu") && !(find_llvm() && cpu_runs("haswell"))) continue;
    Verdict v = judge(text, {.target = a.target});
    CHECK_MESSAGE(v.kind == Verdict::Kind::right, to_string(v));
  }
}

TEST_CASE("gemm: what cannot be is refused on its line") {
  struct Case {
    const char *attrs, *error;
    const char *chip = "sm_80", *types = "f16 f32";
  };
  for (const Case& c : {
           Case{"instruction=\"mma_x\"",
                "gemm: sm_80 has no instruction `mma_x`; it has mma_m16n8k16_f16_f32, mma_m16n8k8_f16_f32, "
                "fma"},
           Case{"instruction=\"mma_m16n8k16_bf16_f32\"",
                "gemm: mma_m16n8k16_bf16_f32 does not multiply f16 × f16 -> f32"},
           Case{"warps_m=8", "gemm: a grid of warps_m=8 by warps_n=1 warps has more than this block's 4"},
           Case{"warps_m=3",
                "gemm: a grid of warps_m=3 by warps_n=1 warps leaves some without a part of the 4×8 tiles of "
                "16×8 that C is made of"},
           Case{"warps_n=0", "gemm: a grid of warps_m=1 by warps_n=0 warps has none"},
           Case{"tail=\"mma_m16n8k8_f16_f32\"",
                "gemm: mma_m16n8k16_f16_f32 covers all of k=32, so there is no rest for a tail instruction"},
           Case{"instruction=\"fma\", warps_m=2",
                "gemm: instruction belongs to a gemm by fma, but warps_m to one by mma.sync: leave one of "
                "them out"},
           Case{"warps_m=2", "gemm: sm_80 has no instruction for f32 × f32 -> f32", "sm_80", "f32 f32"},
           Case{"vector=3", "gemm: vector=3 does not divide n=64"},
           Case{"threads_m=16, threads_n=16",
                "gemm: a grid of threads_m=16 by threads_n=16 threads has more than this block's 128"},
           Case{"threads_n=17",
                "gemm: a grid of threads_m=1 by threads_n=17 threads leaves some without a part of C, which "
                "is 64×16 vectors of 4"},
           Case{"instruction=\"dot2_bf16\"", "gemm: dot2_bf16 does not multiply f16 × f16 -> f32",
                "cooperlake"},
           Case{"micro_n=12", "gemm: micro_n=12 columns are not whole vectors, which are of 8", "haswell"},
           Case{"micro_m=8",
                "gemm: haswell has 16 vector registers, which do not hold a tile of micro_m=8 rows by "
                "micro_n=16 columns, 2 vectors a row, beside its factors",
                "haswell"},
       }) {
    CAPTURE(c.attrs);
    CHECK(refusal(program(c.types, c.attrs), c.chip) == c.error);
  }
}

TEST_CASE("gemm: lowering reads what stands there, and refuses a gemm that says nothing") {
  for (auto [chip, types] : {std::pair{"sm_80", "f16 f32"}, {"sm_80", "f32 f32"}, {"haswell", "f32 f32"}}) {
    Function f = laid_out_for(program(types, ""), chip);
    Attrs record = record_of(f);
    record.entries.erase("why_not");
    CAPTURE(chip);
    for (auto& [name, value] : record.entries) {
      CAPTURE(name);
      std::string missing = fmt::format("gemm: the attribute `{}` is missing: ", name);
      try {
        lower_tile_ops(with(f, name, std::nullopt), *find_target(chip));
        FAIL("not refused");
      } catch (const CompileError& e) {
        CHECK(e.span.line == 9);
        CHECK(e.text.starts_with(missing));
      }
    }
  }
  Function f = laid_out_for(program("f16 f32", ""), "sm_80");
  CHECK_THROWS_AS(lower_tile_ops(with(f, "warps_m", 5), *find_target("sm_80")), CompileError);
}

TEST_CASE("gemm: the report says what stands there") {
  auto said = [](const char* types, const char* attrs, std::string_view chip) {
    Function f = lower_tile_ops(laid_out_for(program(types, attrs), chip), *find_target(chip));
    for (auto& n : f.notes)
      if (n.subject == "gemm" && !n.text.ends_with("by ldmatrix")) return n.text;
    return std::string();
  };
  CHECK(said("f16 f32", "warps_m=1", "sm_80") ==
        "mma.sync: mma_m16n8k16_f16_f32 by 4 warps in a 1×4 grid, 4×2 tiles of 16×8×16 each");
  CHECK(said("f16 f32", "instruction=\"fma\", threads_m=16, threads_n=7", "sm_80") ==
        "fma: a 16×7 grid of threads, 4×12 elements each, by 4 neighbours, fewer at the edge; 16 threads are "
        "idle");
  CHECK(said("f32 f32", "micro_m=4", "haswell") == "simd: fma, 4×16 sums at once in 8 registers of 8");
}
