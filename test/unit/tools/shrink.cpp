// Failing programs made smaller, and how a failure is told from another.
#include "shrink.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "trial.h"

using namespace tl;

namespace {

// Two kernels, and a race in the second: S is exchanged within a loop over a tile.
constexpr const char* racy = R"(func main(A: f32[n, 128], B: f32[8], C: f32[64], E: f32[64], s: f32):
  kernel other grid(bx: 2) threads(64):
    for i in parallel(64):
      E[i] = C[i]*2.0 + s
  kernel main grid(bx: 2, by: 3) threads(128):
    S = shared f32[128]
    F = fragment f32[128]
    for i in parallel(128):
      F[i] = A[0, i] + 1.0
    copy(F, S)
    for k in serial(4) {unroll_factor=2}:
      if k > 2:
        copy(S, F)
      for i in parallel(128):
        S[i] = S[(i + 64*k) % 128] + F[i]
    copy(F, B)
)";

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

Verdict verdict_of(int kind, const char* what = "") {
  return {.kind = Verdict::Kind(kind), .what = what, .text = ""};
}

}  // namespace

TEST_CASE("a race is reduced to its two accesses, and still is one") {
  Test test{.given = {{{"n", 8}, {"s", 2}}}};
  std::string text = racy;
  text.replace(text.find("copy(F, B)"), 10, "copy(F[0 : +8], B)");
  Verdict before = judge(text, test);
  CHECK_EQ(before.kind, Verdict::Kind::finding);
  CHECK_EQ(before.what, "race");
  std::string small = shrink(text, [&](const std::string& t) { return judge(t, test).is_like(before); });
  CHECK(lines_of(small) <= 6);
  CHECK(small.find("kernel other") == small.npos);
  CHECK(judge(small, test).is_like(before));
}

TEST_CASE("what is asked for stays: statements, expressions, numbers, attributes go one by one") {
  auto keeps = [](std::initializer_list<const char*> parts) {
    return shrink(racy, [&](const std::string& t) {
      return std::all_of(parts.begin(), parts.end(),
                         [&](const char* part) { return t.find(part) != t.npos; });
    });
  };
  CHECK_EQ(keeps({"copy"}),
           "func main():\n"
           "  buffer S = shared f32[1]\n"
           "  buffer F = fragment f32[1]\n"
           "  kernel main grid(bx: 1, by: 1) threads(1):\n"
           "    copy(F, S)\n");
  CHECK_EQ(keeps({"*2.0"}),
           "func main(C: f32[1], E: f32[1]):\n"
           "  kernel other grid(bx: 1) threads(1):\n"
           "    E[0] = C[0]*2.0\n");
}

TEST_CASE("each way to fail has its verdict") {
  std::string right =
      "func main(A: f32[4], B: f32[4]):\n  kernel main grid(bx: 1) threads(32):\n    copy(A, B)\n";
  CHECK_EQ(to_string(judge(right, {})), "right");
  CHECK_EQ(to_string(judge(right, {.target = "reference"})), "right");
  CHECK(judge("func main(", {}).is_like(verdict_of(1)));
  Test lied{.oracle = [](const Function&, Trial& t) {
    t.tensors[1].bytes[3] = std::byte(0x7f);
    return true;
  }};
  CHECK(judge(right, lied).is_like(verdict_of(2)));
  Test dies{.oracle = [](const Function&, Trial&) -> bool {
    std::raise(SIGKILL);
    return true;
  }};
  CHECK(judge_apart(right, dies).is_like(verdict_of(4, "signal 9")));
  Test hangs{.oracle = [](const Function&, Trial&) -> bool {
    pause();
    return true;
  }};
  CHECK(judge_apart(right, hangs, 0.1).is_like(verdict_of(4, "no end after 0.1 s")));
  Test throws{.oracle = [](const Function&, Trial&) -> bool { throw std::logic_error("broken"); }};
  CHECK(judge_apart(right, throws).is_like(verdict_of(4, "broken")));
}
