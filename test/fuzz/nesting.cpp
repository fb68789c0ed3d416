// Every loop in every other, with every statement innermost: a program that has a meaning computes it on
// every target, and one that has none is refused, at a line of its nest, on all of them alike.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "api/kernel.h"
#include "fuzz/random_text.h"
#include "fuzz/seeds.h"
#include "ops/op.h"
#include "trial.h"

using namespace tl;
using tl::fuzz::first_fresh_seed, tl::fuzz::seconds_asked;

namespace {

// What stands around a statement; "if thread" and "if block" are conditions, T.Persistent is its serial loop
// and the condition in it.
constexpr const char* kinds[] = {"serial", "unrolled",   "parallel",  "vectorized", "pipelined",
                                 "while",  "persistent", "if thread", "if block"};

constexpr int first_line = 17;  // behind it stands the nest

struct Innermost {
  const char* text;
  bool by_thread = false;  // what each thread does for itself
};
// One for each tile operator, and what else may stand in a kernel.
constexpr Innermost innermosts[] = {
    {"copy(A, S)"},
    {"copy(S, F)"},
    {"fill(S, 2.0)"},
    {"clear(F)"},
    {"gemm(H, H, C)"},
    {"reduce_sum(F, R) {dim=1}"},
    {"reduce_max(S, R) {dim=1}"},
    {"reduce_min(F, R) {dim=1}"},
    {"reduce_abssum(F, R) {dim=1}"},
    {"reduce_absmax(F, R) {dim=1}"},
    {"reduce_prod(F, R) {dim=1}"},
    {"reduce_bitand(I, J) {dim=1}"},
    {"reduce_bitor(I, J) {dim=1}"},
    {"reduce_bitxor(I, J) {dim=1}"},
    {"reduce_any(I, J) {dim=1}"},
    {"reduce_all(I, J) {dim=1}"},
    {"reduce_by(F, R) {dim=1, combine=(a: f32, b: f32) -> (max(a, b), -100.0)}"},
    {"cumsum(S, S) {dim=1}"},
    {"cummax(F, S) {dim=0}"},
    {"transpose(S, F)"},
    {"clamp(F, -2.0, 2.0)"},
    {"atomic_add_tile(S, F)"},
    {"atomic_max_tile(S, F)"},
    {"atomic_min_tile(W[b*16 : +16, 0 : +16], S)"},
    {"reducer_init(o, 0.0)"},
    {"finalize_reducer(o)"},
    {"o[0] = o[0] + 1.0"},
    {"S[@] = S[@] + 1.0", true},
    {"F[@] = F[@] + 1.0", true},
    {"W[b*16 + @] = A[@]", true},
    {"atomic_add(address_of(W[b*16 + @]), 1.0, \"relaxed\")", true},
    {"n[0] = n[0] + 1.0"},
    {"n[0] = n[0] + 1.0; S[@] = 3.0", true},
    {"n[0] = A[@]; F[@] = n[0]", true},
    {"F[@] = n[0]", true},
    {"n[0] = n[0] + 1.0; atomic_add(address_of(W[b*16 + @]), 1.0, \"relaxed\")", true},
    {"n[0] = atomic_add(address_of(W[b*16 + @]), 1.0, \"relaxed\")", true},
    {"n[0] = n[0] + 1.0; o[0] = o[0] + 1.0"},
    {"T = shared f32[16]"},
    {"T = fragment f32[16]"},
    {"L = local f32[4]"},
    {"sync_threads()"},
    {"break()"},
    {"continue()"},
    {"thread_return()"},
    {"v = A[@]"},
};

// Opens the loops and conditions; returns the variables of which each iteration has its own element.
std::vector<std::string> open_nest(const std::vector<std::string>& nest, fuzz::RandomText& t) {
  std::vector<std::string> own;
  for (size_t i = 0; i < nest.size(); i++, t.indent++) {
    std::string v = fmt::format("i{}", i);
    const std::string& kind = nest[i];
    if (kind == "parallel" || kind == "vectorized") own.push_back(v);
    if (kind == "while") {
      t.line("w{} = local i32[1]", i);
      t.line("w{}[0] = 0", i);
      t.line("while w{}[0] < 2:", i);
      t.line("  w{0}[0] = w{0}[0] + 1", i);
    } else if (kind == "persistent") {
      t.line("for {} in serial(2):", v);
      t.line("  if {}*2 + b < 3:", v);
      t.indent++;
    } else if (kind == "if thread") {
      t.line("if thread_index(0) < 32:");
    } else if (kind == "if block") {
      t.line("if b == 0 or s > 2:");
    } else {
      t.line("for {} in {}({}){}:", v, kind, kind == "vectorized" ? 4 : 2,
             kind == "pipelined" ? " {num_stages=2}" : "");
    }
  }
  return own;
}

std::string program(const std::vector<std::string>& nest, const Innermost& innermost) {
  fuzz::RandomText t{.random = std::mt19937_64(0)};
  std::string text = innermost.text;
  t.line(
      "func main(A: f32[16, 16], B: f16[16, 16], N: i32[16, 16], W: f32[32, 16], X: f32[32, 16], Y: f32[32, "
      "16],");
  t.line("          Q: f32[2, 4], P: f32[2, 8], Z: f32[32], U: i32[32], V: f32[32, 16], s: i32):");
  t.line("  kernel main grid(b: 2) threads(64):");
  t.indent = 2;
  for (auto* line : {"S = shared f32[16, 16]", "H = shared f16[16, 16]", "F = fragment f32[16, 16]",
                     "C = fragment f32[16, 16]", "R = fragment f32[16]", "I = shared i32[16, 16]",
                     "J = fragment i32[16]", "copy(A, S)", "copy(B, H)", "copy(A, F)", "copy(A, C)",
                     "copy(A[0, 0 : +16], R)", "copy(N, I)", "copy(N[0, 0 : +16], J)"})
    t.line("{}", line);
  bool varies = text.find("n[0]") != text.npos;
  if (varies) t.line("n = local f32[1]");
  if (varies) t.line("n[0] = 0.5");
  bool reduces = text.find("o[") != text.npos || text.find("(o") != text.npos;
  if (reduces) t.line("o = local f32[4] reducer(\"sum\")");
  if (reduces && text != "reducer_init(o, 0.0)") t.line("reducer_init(o, 0.0)");
  int outer = t.indent;
  std::vector<std::string> own = open_nest(nest, t);
  std::string row = own.empty() ? "0" : own[0], column = "0";
  for (size_t i = 1; i < own.size(); i++) column = i == 1 ? own[i] : fmt::format("{}*4 + {}", column, own[i]);
  for (size_t at; (at = text.find('@')) != text.npos;)
    text.replace(at, 1, fmt::format("{}, {}", row, column));
  bool finalised = text == "finalize_reducer(o)";
  for (size_t end; (end = text.find("; ")) != text.npos; text.erase(0, end + 2))
    t.line("{}", text.substr(0, end));
  t.line("{}", text);
  t.indent = outer;
  if (reduces && !finalised) t.line("finalize_reducer(o)");
  if (reduces) t.line("copy(o, Q[b, 0 : +4])");
  if (varies) {
    t.line("for e in parallel(8):");
    t.line("  P[b, e] = n[0]");
  }
  for (auto* line : {"copy(S, X[b*16 : +16, 0 : +16])", "copy(F, Y[b*16 : +16, 0 : +16])",
                     "copy(C, V[b*16 : +16, 0 : +16])", "copy(R, Z[b*16 : +16])", "copy(J, U[b*16 : +16])"})
    t.line("{}", line);
  return t.text();
}

struct Tally {
  int right = 0, refused = 0;
};

void check(const std::vector<std::string>& nest, const Innermost& innermost, Tally& tally) {
  auto has = [&](std::string_view kind) { return std::find(nest.begin(), nest.end(), kind) != nest.end(); };
  if (innermost.by_thread && !has("parallel")) return;                                   // a race
  if (std::string_view(innermost.text) == "sync_threads()" && has("if thread")) return;  // a hang
  std::string text = program(nest, innermost);
  std::set<Verdict::Kind> kinds_of_verdict;
  for (const char* target : {"sim:sm_80", "cpu", "reference"}) {
    Verdict v = judge(text, {.target = target, .given = {{{"s", 1}}}, .inputs = Inputs::whole});
    CAPTURE(text);
    CAPTURE(target);
    CHECK_MESSAGE(!v.is_failure(), to_string(v));
    if (v.kind == Verdict::Kind::refused) CHECK_MESSAGE(v.line > first_line, to_string(v));
    v.kind == Verdict::Kind::right ? tally.right++ : tally.refused++;
    kinds_of_verdict.insert(v.kind);
  }
  bool threads = has("if thread") || std::string_view(innermost.text) == "thread_return()";
  if (!threads) CHECK_MESSAGE(kinds_of_verdict.size() == 1, text);
}

// All combinations with TL_FUZZ_SECONDS, else one of so many: others in each run, as the fresh seed says.
struct Sample {
  int64_t step;
  int64_t at = first_fresh_seed();
  explicit Sample(int64_t one_of) : step(seconds_asked() > 0 ? 1 : one_of) {
    if (step > 1) MESSAGE("one of " << step << ", from TL_FUZZ_SEED=" << at << " on");
  }
  bool takes() { return at++ % step == 0; }
};

}  // namespace

TEST_CASE("every statement in every pair of loops is carried out or refused at its place") {
  Tally tally;
  Sample sample(fuzz::is_full() ? 8 : 16);
  for (auto& innermost : innermosts)
    for (auto* outer : kinds) {
      if (sample.takes()) check({outer}, innermost, tally);
      for (auto* inner : kinds)
        if (sample.takes()) check({outer, inner}, innermost, tally);
    }
  CHECK(tally.right > 1000 / sample.step);
  CHECK(tally.refused > 1000 / sample.step);
}

TEST_CASE("every three loops, one in the other, are carried out or refused at their place") {
  Tally tally;
  Sample sample(fuzz::is_full() ? 100 : 200);
  for (auto* outer : kinds)
    for (auto* middle : kinds)
      for (auto* inner : kinds)
        for (auto& innermost : innermosts)
          if (sample.takes()) check({outer, middle, inner}, innermost, tally);
  CHECK(tally.right > 0);
  CHECK(tally.refused > 0);
}
