// Random pipelined tile programs whose loops run in an order that the user gives: it is refused, or the
// numbers are the reference's.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compile/compile.h"
#include "fuzz/harness.h"
#include "fuzz/pipelined_program.h"
#include "fuzz/random_text.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/op.h"
#include "pass/check_schedules.h"

using namespace tl;

namespace {

struct Drawn : fuzz::RandomText {
  // Mostly in the direction of the text, so that about half are legal.
  Attrs schedule(Attrs attrs, const std::vector<Stmt>& stmts) {
    std::vector<int64_t> order, stage, group, number;
    int64_t units = 0, at = 0;
    bool grouped = chance(25);
    for (size_t i = 0; i < stmts.size(); i++) {
      bool opens = i == 0 || !grouped || chance(50);
      if (opens) units++;
      group.push_back(!opens && chance(20) ? below(units) : units - 1);
    }
    for (int64_t i = 0; i < units; i++) {
      order.push_back(i);
      stage.push_back(at = std::min<int64_t>(3, at + (chance(35) ? 1 + below(2) : 0)));
    }
    for (int64_t swaps = chance(60) ? 1 + below(2 * units) : 0; swaps > 0 && units > 1; swaps--) {
      int64_t i = below(units - 1);
      std::swap(order[size_t(i)], order[size_t(i + 1)]);
    }
    if (grouped && chance(50)) {  // numbered in another order than the text's
      std::vector<int64_t> numbers(static_cast<size_t>(units)), places = order, stages = stage;
      std::iota(numbers.begin(), numbers.end(), 0);
      std::ranges::shuffle(numbers, random);
      for (auto& g : group) g = numbers[size_t(g)];
      for (size_t i = 0; i < numbers.size(); i++)
        order[size_t(numbers[i])] = places[i], stage[size_t(numbers[i])] = stages[i];
    }
    bool left = chance(40);
    for (size_t i = 0; i < stmts.size(); i++) {
      auto* t = stmts[i].as<Tile>();
      bool alone = std::ranges::count(group, group[i]) == 1;
      if (left && alone && t && t->op->name == "copy" && chance(70))
        order[size_t(group[i])] = stage[size_t(group[i])] = -1;
    }
    if (!chance(10)) attrs.entries["stage"] = stage;
    if (!attrs.find("stage") || !chance(20)) attrs.entries["order"] = order;
    if (grouped) attrs.entries["group"] = group;
    return attrs;
  }

  std::string with_schedules(const std::string& text) {
    Function f = parse(text, "program.ir", text_vocabulary());
    for (auto& k : f.kernels)
      k.body = rewrite(k.body, [&](const For& n, Rewriter& self) -> Stmt {
        Stmt walked = self.children(n);
        if (n.loop != Loop::pipelined) return walked;
        std::vector<Stmt> stmts;
        for (auto& s : statements_of(n.body))
          if (!s.as<Let>() && !s.as<Alloc>()) stmts.push_back(s);
        if (stmts.size() < 2) return walked;
        auto* loop = walked.as<For>();
        return for_loop(loop->var, loop->min, loop->extent, loop->loop, loop->body, loop->span,
                        schedule(loop->attrs, stmts));
      });
    return print(f);
  }
};

bool is_accepted(const std::string& text) {
  try {
    Function f = complete_tiles(parse(text, "program.ir", text_vocabulary()));
    check_given_schedules(f);  // what every program is asked, whatever its target
    Options options;
    options.stop_after = "plan_schedule";
    compile(f, *find_target("sm_80"), options);
    return true;
  } catch (const CompileError&) {
    return false;
  }
}

// The first of some schedules that the compiler accepts; else the text's own order.
fuzz::Program with_given_schedules(uint64_t seed) {
  fuzz::Program p = fuzz::pipelined_program(seed).program;
  Drawn drawn{{.random = std::mt19937_64(seed)}};
  for (int i = 0; i < 12; i++)
    if (std::string text = drawn.with_schedules(p.text); is_accepted(text)) {
      p.text = text;
      return p;
    }
  return p;
}

}  // namespace

TEST_CASE("pipelined tile programs with a schedule by hand compute on every target what the reference does" *
          doctest::test_suite("programs")) {
  fuzz::run_programs({.name = "given_schedules",
                      .programs = 18,
                      .fresh = 9,
                      .share = 0.1,
                      .make = with_given_schedules,
                      .targets = {"sim", "cpu"}});
}

TEST_CASE("most random schedules by hand are accepted, and move something") {
  int64_t programs = 200, accepted = 0, moved = 0;
  for (uint64_t seed = 0; seed < uint64_t(programs); seed++) {
    std::string text = with_given_schedules(seed).text;
    if (text.find("stage=[") == std::string::npos && text.find("order=[") == std::string::npos) continue;
    accepted++;
    moved += std::ranges::any_of(parse(text, "program.ir", text_vocabulary()).kernels, [](const Kernel& k) {
      return contains(k.body, [](const For& n) {
        auto* stage = n.attrs.find("stage");
        return stage && std::ranges::count(std::get<std::vector<int64_t>>(*stage), 0) <
                            std::ptrdiff_t(std::get<std::vector<int64_t>>(*stage).size());
      });
    });
  }
  MESSAGE(accepted << " of " << programs << " have a schedule, in " << moved << " of them of several stages");
  CHECK(accepted * 2 > programs);
  CHECK(moved * 4 > programs);
}
