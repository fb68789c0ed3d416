#include "sim/report.h"

namespace tl {

std::string_view name_of(Finding::Kind kind) {
  constexpr std::string_view names[] = {"race",       "unwritten", "outside", "misaligned", "barrier",
                                        "divergence", "overflow",  "fence",   "deadlock",   "livelock",
                                        "timeout",    "assertion", "fault"};
  return names[size_t(kind)];
}

std::string_view name_of(Counter::Kind kind) {
  constexpr std::string_view names[] = {"load",    "store", "matrix", "ldmatrix", "stmatrix",
                                        "shuffle", "vote",  "atomic", "barrier",  "copy"};
  return names[size_t(kind)];
}

namespace {

std::string place_of(const Span& span) {
  return span ? fmt::format("{}:{}", span.file ? *span.file : "", span.line)
              : std::string("not a line of your program");
}

// What stands under the sentence.
std::string statements_of(const Finding& f) {
  std::string out;
  if (!f.statement.empty()) out += fmt::format("\n  here:  {}", f.statement);
  if (!f.other_statement.empty())
    out += fmt::format("\n  there: {}   ({})", f.other_statement, place_of(f.other));
  if (f.times > 1) out += fmt::format("\n  {} times", f.times);
  return out;
}

}  // namespace

std::string SimulationReport::details() const {
  std::string out;
  for (size_t i = 0; i < findings.size(); i++) {
    const Finding& f = findings[i];
    if (i > 0)
      out += fmt::format("\nfinding {} of {}, {}: {}{}", i + 1, findings.size(), place_of(f.span), f.text,
                         render_source(f.span));
    out += statements_of(f);
    if (i == 0 && seed != 0) out += fmt::format("\n  with seed={}", seed);
  }
  return out;
}

SimulationError::SimulationError(SimulationReport r)
    : CompileError(r.findings.at(0).span, r.findings.at(0).text, r.details()),
      report(std::move(r)) {}

}  // namespace tl
