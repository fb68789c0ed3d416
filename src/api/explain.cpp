// What the compiler decided, as the rows of a report. Nothing is decided or computed again here: notes of the
// passes, attributes that they left, and the analysis of accesses are joined by buffer and by position.
#include <fmt/ranges.h>

#include <algorithm>

#include "api/report.h"
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/mapping.h"

namespace tl {
namespace {

std::string scope_name(Scope scope) {
  return scope == Scope::global ? "tensor" : std::string(to_string(scope));
}

std::string extents_text(const std::vector<int64_t>& extents) {
  return fmt::format("{}", fmt::join(extents, "×"));
}

struct Gatherer {
  Report& report;
  const Function &tile, &laid_out, &machine;
  const Target& target;
  std::vector<bool> attached = {};  // of machine.notes

  // ── buffers ───────────────────────────────────────────────────────────────────────────────────────────
  void place_tensor(Report::BufferRow& row, const BufferInfo& info) const {
    if (info.layout) {
      row.layout = from_map(*info.layout);
      row.elements = row.layout->ranges[0];
    } else if (info.strides.empty()) {
      row.map = "row-major";
      row.elements = row.logical;
    } else {
      std::vector<std::string> strides;
      for (auto& s : info.strides) strides.push_back(print(s, &machine));
      row.map = fmt::format("strides ({})", fmt::join(strides, ", "));
    }
  }

  void place_tile(Report::BufferRow& row, const BufferInfo& info) const {
    row.elements = info.elements;
    if (info.scope == Scope::fragment && target.has_threads() && info.layout)
      row.fragment = fragment_from_map(*info.layout);
    else if (info.scope == Scope::fragment)
      row.layout = row_major(tile_shape(info));
    else if (info.layout)
      row.layout = from_map(*info.layout);
    row.address = info.address;
  }

  void decide(Report::BufferRow& row, BufferId id) {
    for (size_t i = 0; i < machine.notes.size(); i++) {
      const Note& n = machine.notes[i];
      if (n.buffer != id) continue;
      attached[i] = true;
      if (n.by.empty()) {
        row.why.push_back(n.text);
      } else {
        row.decided_by = n.by;
        row.strictness = n.strictness;
        row.decided_at = n.span;
      }
    }
    if (size_t(id.value) < tile.buffers.size() && tile[id].layout && row.decided_by.empty()) {
      row.decided_by = "the user";
      row.strictness = "annotated";
      row.decided_at = tile[id].span;
    }
  }

  void buffer(BufferId id, const std::string& kernel) {
    const BufferInfo& info = machine[id];
    Report::BufferRow row{.kernel = kernel,
                          .name = info.name,
                          .scope = scope_name(info.scope),
                          .dtype = to_string(info.dtype),
                          .place = info.span};
    for (auto& e : info.shape) row.shape.push_back(print(e, &machine));
    bool constant = std::ranges::all_of(info.shape, [](auto& e) { return as_int(e).has_value(); });
    if (constant) row.logical = element_count(info);
    if (info.scope == Scope::global)
      place_tensor(row, info);
    else
      place_tile(row, info);
    if (row.fragment) row.map = to_string(*row.fragment);
    if (row.layout) row.map = to_string(*row.layout);
    if (row.elements >= 0) row.bytes = row.elements * std::max<int>(1, info.dtype.bits) / 8;
    decide(row, id);
    report.buffers.push_back(std::move(row));
  }

  void buffers() {
    for (auto& p : machine.params)
      if (p.buffer) buffer(p.buffer, "");
    for (BufferId b : machine.workspaces) buffer(b, "");
    for (auto& k : machine.kernels) {
      std::set<BufferId> seen;
      visit(k.body, [&](const Alloc& n) {
        if (seen.insert(n.buffer).second) buffer(n.buffer, k.name);
      });
    }
  }

  // ── loops and operators ───────────────────────────────────────────────────────────────────────────────
  // What notes of a pass say of a statement; these then need not stand alone.
  std::vector<const Note*> said(const Span& span, std::string_view pass, std::string_view subject) {
    std::vector<const Note*> out;
    for (size_t i = 0; i < machine.notes.size(); i++) {
      const Note& n = machine.notes[i];
      if (n.span != span || n.pass != pass || (!subject.empty() && n.subject != subject)) continue;
      attached[i] = true;
      bool again = std::ranges::any_of(out, [&](auto* o) { return o->text == n.text; });
      if (!again) out.push_back(&n);
    }
    return out;
  }

  std::string mapping_text(const Report::LoopRow& row) const {
    std::string text = extents_text(row.extents) + " iterations";
    if (target.has_threads()) {
      text +=
          fmt::format(" on {} thread{}, {} each", row.threads, row.threads == 1 ? "" : "s", row.registers);
      if (row.copies > 1) text += fmt::format(" ({} threads repeat each)", row.copies);
    }
    if (row.lanes > 1) text += fmt::format(", {} at once", row.lanes);
    if (row.guarded) text += ", guarded: they do not divide evenly";
    return text;
  }

  std::optional<Report::LoopRow> loop(const Kernel& k, const ParallelNest& nest, std::string name) {
    auto* layout = nest.attrs.find("loop_layout");
    auto* map = layout ? std::get_if<IndexMap>(layout) : nullptr;
    if (!map) return std::nullopt;
    Fragment mapping = fragment_from_map(*map);
    Report::LoopRow row{.kernel = k.name,
                        .name = std::move(name),
                        .extents = nest.extents,
                        .threads = mapping.threads,
                        .registers = mapping.registers,
                        .copies = mapping.replicas,
                        .mapping = mapping,
                        .place = nest.span};
    row.lanes = nest.attrs.get_int("loop_lanes");
    if (row.lanes == 0) row.lanes = run_length(nest, mapping);
    if (row.lanes > target.vector_bytes) row.lanes = 1;
    row.guarded = mapping.threads * mapping.registers > product(nest.extents) * mapping.replicas;
    row.text = mapping_text(row);
    for (auto* n : said(nest.span, "vectorize", "")) {
      row.refusals.push_back(n->text);
      row.lanes = 1;
    }
    return row;
  }

  std::string operands_text(const Tile& t) const {
    std::vector<std::string> names;
    for (auto& o : t.operands) {
      auto* region = std::get_if<Region>(&o);
      names.push_back(region ? laid_out[region->buffer].name : print(std::get<Expr>(o), &laid_out));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void tile_operator(const Kernel& k, const Tile& t) {
    std::string name(t.op->name), operands = operands_text(t);
    Report::OperatorRow row{.kernel = k.name, .name = name, .operands = operands, .place = t.span};
    if (row_of(t).nest)
      if (auto l = loop(k, row_of(t).nest(t, laid_out), fmt::format("{}({})", name, operands))) {
        row.how = l->text;
        add(report.loops, std::move(*l));
      }
    for (auto* n : said(t.span, "lower_tile_ops", name)) {
      if (row.how.empty())
        row.how = n->text;
      else if (!n->refusal)
        row.details.push_back(n->text);
      if (n->refusal) row.refusals.push_back(n->text);
    }
    add(report.operators, std::move(row));
  }

  // Unrolled Python code says the same again.
  static void add(std::vector<Report::LoopRow>& rows, Report::LoopRow row) {
    for (auto& r : rows)
      if (r.place == row.place && r.name == row.name && r.text == row.text && r.kernel == row.kernel) return;
    rows.push_back(std::move(row));
  }
  static void add(std::vector<Report::OperatorRow>& rows, Report::OperatorRow row) {
    for (auto& r : rows)
      if (r.place == row.place && r.name == row.name && r.operands == row.operands && r.how == row.how &&
          r.kernel == row.kernel)
        return;
    rows.push_back(std::move(row));
  }

  void statements() {
    for (auto& k : laid_out.kernels)
      visit(
          k.body, [&](const Tile& t) { tile_operator(k, t); },
          [&](const For& l) {
            if (l.loop != Loop::parallel || !l.attrs.find("loop_layout")) return;
            ParallelNest nest = read_nest(l);
            std::vector<std::string> names;
            for (auto& v : nest.vars) names.push_back(v.as<Var>()->hint);
            if (auto row = loop(k, nest, fmt::format("parallel {}", fmt::join(names, ", "))))
              add(report.loops, std::move(*row));
          });
  }

  // ── the rest ──────────────────────────────────────────────────────────────────────────────────────────
  void accesses() {
    for (auto& a : measure_access(machine, target)) {
      const BufferInfo& info = machine[a.buffer];
      report.accesses.push_back({.kernel = machine.kernels[a.kernel].name,
                                 .buffer = info.name,
                                 .scope = scope_name(info.scope),
                                 .cost = a});
    }
  }

  void notes() {
    for (size_t i = 0; i < machine.notes.size(); i++) {
      const Note& n = machine.notes[i];
      if (!n.by.empty()) continue;  // the row of the buffer says it better
      Report::NoteRow row{.subject = n.subject,
                          .text = n.text,
                          .pass = n.pass,
                          .refusal = n.refusal,
                          .attached = attached[i],
                          .place = n.span};
      bool again = std::ranges::any_of(report.notes, [&](auto& o) {
        return o.subject == row.subject && o.text == row.text && o.place == row.place;
      });
      if (!again) report.notes.push_back(std::move(row));
    }
  }

  void run() {
    attached.assign(machine.notes.size(), false);
    buffers();
    statements();
    accesses();
    notes();
  }
};

}  // namespace

void explain(Report& report, const Function& tile, const Function& laid_out, const Function& machine,
             const Target& target) {
  Gatherer{.report = report, .tile = tile, .laid_out = laid_out, .machine = machine, .target = target}.run();
}

}  // namespace tl
