// Report: its rows as dicts, from which Python makes its own objects.
#include "api/report.h"

#include "convert.h"

using namespace tl;

namespace {

template <class Row, class F>
nb::list rows_of(const std::vector<Row>& rows, F row_of) {
  nb::list out;
  for (auto& row : rows) {
    nb::dict d;
    row_of(row, d);
    out.append(d);
  }
  return out;
}

void kernel_row(const Report::KernelRow& r, nb::dict& d) {
  d["name"] = r.name;
  d["threads"] = r.threads;
  d["shared_bytes"] = r.shared_bytes;
  d["private_bytes"] = r.private_bytes;
  d["registers"] = known(r.resources.registers);
  d["spill_stores"] = known(r.resources.spill_stores);
  d["spill_loads"] = known(r.resources.spill_loads);
  d["stack_bytes"] = known(r.resources.stack_bytes);
  d["serialized"] = r.serialized;
  d["refusals"] = r.refusals;
}

void buffer_row(const Report::BufferRow& r, nb::dict& d) {
  d["kernel"] = r.kernel;
  d["name"] = r.name;
  d["scope"] = r.scope;
  d["dtype"] = r.dtype;
  d["shape"] = r.shape;
  d["formula"] = r.map;
  d["layout"] = r.fragment ? nb::cast(*r.fragment) : r.layout ? nb::cast(*r.layout) : nb::none();
  d["logical_elements"] = known(r.logical);
  d["elements"] = known(r.elements);
  d["bytes"] = known(r.bytes);
  d["address"] = known(r.address);
  d["decided_by"] = r.decided_by;
  d["strictness"] = r.strictness;
  d["place"] = place_of(r.place);
  d["decided_at"] = place_of(r.decided_at);
  d["why"] = r.why;
}

void loop_row(const Report::LoopRow& r, nb::dict& d) {
  d["kernel"] = r.kernel;
  d["name"] = r.name;
  d["extents"] = r.extents;
  d["threads"] = r.threads;
  d["registers"] = r.registers;
  d["lanes"] = r.lanes;
  d["copies"] = r.copies;
  d["guarded"] = r.guarded;
  d["mapping"] = nb::cast(r.mapping);
  d["text"] = r.text;
  d["place"] = place_of(r.place);
  d["refusals"] = r.refusals;
}

void operator_row(const Report::OperatorRow& r, nb::dict& d) {
  d["kernel"] = r.kernel;
  d["name"] = r.name;
  d["operands"] = r.operands;
  d["how"] = r.how;
  d["details"] = r.details;
  d["refusals"] = r.refusals;
  d["place"] = place_of(r.place);
}

void pipeline_row(const Report::PipelineRow& r, nb::dict& d) {
  d["kernel"] = r.kernel;
  d["name"] = r.name;
  d["role"] = r.role;
  d["threads"] = r.threads;
  d["registers"] = r.registers;
  d["num_stages"] = r.num_stages;
  d["tiles"] = rows_of(r.tiles, [](const Report::PipelineRow::Slots& t, nb::dict& of_tile) {
    of_tile["name"] = t.name;
    of_tile["slots"] = t.slots;
    of_tile["bytes"] = t.bytes;
  });
  d["bytes_in_flight"] = r.bytes_in_flight;
  d["steps"] = rows_of(r.steps, [](const Report::PipelineRow::Step& s, nb::dict& step) {
    step["text"] = s.text;
    step["ahead"] = s.ahead;
    step["how"] = s.how;
    step["times"] = s.times;
    step["place"] = place_of(s.place);
  });
  d["refusals"] = r.refusals;
  d["place"] = place_of(r.place);
}

void access_row(const Report::AccessRow& r, nb::dict& d) {
  const AccessCost& c = r.cost;
  d["kernel"] = r.kernel;
  d["buffer"] = r.buffer;
  d["scope"] = r.scope;
  d["writes"] = c.writes;
  d["instruction"] = std::string(c.instruction);
  d["bytes"] = c.bytes;
  d["parts"] = c.parts;
  d["sites"] = c.sites;
  d["times"] = c.times ? nb::object(nb::int_(c.times)) : nb::object(nb::none());
  d["count"] = known(c.cost ? c.cost->count : -1);
  d["least"] = known(c.cost ? c.cost->least : -1);
  d["unknown"] = c.unknown;
  d["place"] = place_of(c.span);
}

void note_row(const Report::NoteRow& r, nb::dict& d) {
  d["subject"] = r.subject;
  d["text"] = r.text;
  d["decided_by"] = r.pass;
  d["refusal"] = r.refusal;
  d["place"] = place_of(r.place);
}

}  // namespace

void bind_report(nb::module_& m) {
  nb::class_<Report>(m, "Report")
      .def_ro("function", &Report::function)
      .def_ro("target", &Report::target)
      .def_ro("toolchain", &Report::toolchain)
      .def_ro("from_cache", &Report::from_cache)
      .def_prop_ro("kernels", [](const Report& r) { return rows_of(r.kernels, kernel_row); })
      .def_prop_ro("buffers", [](const Report& r) { return rows_of(r.buffers, buffer_row); })
      .def_prop_ro("loops", [](const Report& r) { return rows_of(r.loops, loop_row); })
      .def_prop_ro("operators", [](const Report& r) { return rows_of(r.operators, operator_row); })
      .def_prop_ro("pipelines", [](const Report& r) { return rows_of(r.pipelines, pipeline_row); })
      .def_prop_ro("accesses", [](const Report& r) { return rows_of(r.accesses, access_row); })
      .def_prop_ro("notes", [](const Report& r) { return rows_of(r.notes, note_row); })
      .def_ro("intervals", &Report::intervals)
      .def("text", &Report::text);
  nb::dict record;
  record["head"] = role_record::head;
  record["stamp_bits"] = role_record::stamp_bits;
  m.attr("role_record") = record;
}
