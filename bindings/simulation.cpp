// The simulator's reports as dicts, from which Python makes its own objects.
#include "simulation.h"

using namespace tl;

namespace {

nb::dict finding_row(const Finding& f) {
  nb::dict d;
  d["kind"] = std::string(name_of(f.kind));
  d["text"] = f.text;
  d["place"] = place_of(f.span);
  d["statement"] = f.statement;
  d["other_place"] = place_of(f.other);
  d["other_statement"] = f.other_statement;
  d["block"] = f.block;
  d["thread"] = known(f.thread);
  d["other_thread"] = known(f.other_thread);
  d["buffer"] = f.buffer;
  d["index"] = f.buffer.empty() ? nb::object(nb::none()) : nb::object(nb::int_(f.index));
  d["address"] = f.address;
  d["times"] = f.times;
  return d;
}

nb::dict counter_row(const Counter& c) {
  nb::dict d;
  d["place"] = place_of(c.span);
  d["kind"] = std::string(name_of(c.kind));
  d["what"] = c.what;
  d["buffer"] = c.buffer;
  d["level"] = c.level;
  d["executed"] = c.executed;
  d["bytes"] = c.bytes;
  d["requests"] = c.requests;
  d["least"] = c.least;
  d["flops"] = c.flops;
  d["waited"] = c.waited;
  return d;
}

}  // namespace

nb::dict dict_of(const SimulationReport& report) {
  nb::list findings, counters;
  for (auto& f : report.findings) findings.append(finding_row(f));
  for (auto& c : report.counters.rows) counters.append(counter_row(c));
  nb::dict d;
  d["findings"] = findings;
  d["counters"] = counters;
  d["seed"] = report.seed;
  d["schedules"] = report.schedules;
  d["blocks"] = report.blocks;
  d["error"] = report.findings.empty() ? nb::object(nb::none()) : nb::cast(std::string(SimulationError(report).what()));
  return d;
}
