// The simulator's reports, from which Python makes its own objects; tuples are in the order of its fields.
#include "simulation.h"

#include "convert.h"

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

nb::tuple output_row(const UnwrittenOutput& g) {
  return nb::make_tuple(g.tensor, place_of(g.span), nb::tuple(nb::cast(g.first)), g.elements, g.of);
}

nb::tuple counter_row(const Counter& c) {
  return nb::make_tuple(place_of(c.span), std::string(name_of(c.kind)), c.what, c.buffer, c.level, c.executed,
                        c.bytes, c.requests, c.least, c.flops, c.dropped, c.waited);
}

nb::dict array_row(const Stop::Array& a, int warp) {
  nb::dict d;
  d["name"] = std::string(a.name);
  d["scope"] = std::string(to_string(a.scope));
  d["dtype"] = a.type;
  nb::list lanes;
  for (int64_t lane = 0; lane < (a.lane_bytes ? int64_t(warp) : 1); lane++)
    lanes.append(nb::bytes(a.data + lane * a.lane_bytes, size_t(a.elements * a.type.bytes())));
  d["lanes"] = lanes;
  return d;
}

}  // namespace

StopHandler stop_handler(nb::handle python) {
  return [python](const Stop& s) {
    GilHeld held;
    nb::object wanted = or_sleep_at_exit([&] { return python.attr("wants")(s.block, s.thread, s.warp); });
    if (!nb::cast<bool>(wanted)) return;
    nb::list arrays, barriers;
    for (auto& a : s.arrays()) arrays.append(array_row(a, s.warp));
    for (auto& b : s.barriers()) barriers.append(nb::make_tuple(b.number, b.arrived, b.expected, b.phase));
    or_sleep_at_exit([&] {
      python.attr("show")(place_of(s.span), std::string(s.where), s.thread, s.active, s.warp, arrays,
                          barriers);
    });
  };
}

nb::dict dict_of(const SimulationReport& report) {
  nb::list findings, outputs, counters;
  for (auto& f : report.findings) findings.append(finding_row(f));
  for (auto& g : report.unwritten_outputs) outputs.append(output_row(g));
  for (auto& c : report.counters.rows) counters.append(counter_row(c));
  nb::dict d;
  d["findings"] = findings;
  d["unwritten_outputs"] = outputs;
  d["counters"] = counters;
  d["seed"] = report.seed;
  d["schedules"] = report.schedules;
  d["blocks"] = report.blocks;
  d["error"] = report.findings.empty() ? nb::object(nb::none())
                                       : nb::cast(std::string(SimulationError(report).what()));
  return d;
}
