// Indices that no analysis can tell: the simulator finds the one that is wrong, at its line, and nothing in
// programs without one.
#include <doctest/doctest.h>

#include <algorithm>

#include "fuzz/index_text.h"
#include "fuzz/seeds.h"
#include "trial.h"

using namespace tl;

namespace {

SimulationReport simulated(const std::string& text) {
  auto kernel = compile_kernel(parse_text(text, "fuzz.ir"), "sim:sm_80", {});
  Given given{{{"s", 1.0}}};
  Trial trial = random_trial(kernel->program, given, 1, Inputs::whole);
  return kernel->simulate(arguments_of(kernel->program, trial), {});
}

}  // namespace

TEST_CASE("programs whose indices stay in their dimensions and types are found clean") {
  fuzz::each_seed({.fixed = 60, .fresh = 20, .share = 0.05}, [](uint64_t seed) {
    std::string text = fuzz::IndexText{{std::mt19937_64(seed)}}.program(false);
    CAPTURE(text);
    SimulationReport report = simulated(text);
    CHECK_EQ(report.findings.empty() ? "" : report.findings[0].text, "");
    return true;
  });
}

TEST_CASE("an index outside of its dimension, or of its type, is found at its line") {
  fuzz::each_seed({.fixed = 100, .fresh = 30, .share = 0.05}, [](uint64_t seed) {
    fuzz::IndexText made{{std::mt19937_64(seed)}};
    std::string text = made.program(true);
    CAPTURE(text);
    CAPTURE(made.fault);
    auto at = text.find("\n" + made.fault + "\n");
    int line = 1 + int(std::count(text.begin(), text.begin() + std::ptrdiff_t(at + 1), '\n'));
    SimulationReport report = simulated(text);
    REQUIRE(!report.findings.empty());
    const Finding& first = report.findings[0];
    CAPTURE(first.text);
    CHECK((first.kind == Finding::Kind::outside || first.kind == Finding::Kind::overflow));
    CHECK_EQ(first.span.line, line);
    return true;
  });
}
