// The report as text.
#include "api/report.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/ptxas_words.h"

namespace tl {
namespace {

std::string bytes_text(int64_t bytes) {
  return bytes && bytes % 1024 == 0 ? fmt::format("{} KB", bytes / 1024) : fmt::format("{} bytes", bytes);
}

std::string kernel_text(const Report::KernelRow& k) {
  std::vector<std::string> parts;
  const Resources& r = k.resources;
  parts.push_back(k.threads == 1 ? "one thread per block" : fmt::format("{} threads per block", k.threads));
  if (k.shared_bytes) parts.push_back(bytes_text(k.shared_bytes) + " of shared memory");
  if (k.private_bytes) parts.push_back(bytes_text(k.private_bytes) + " of private memory per block");
  if (r.registers >= 0) parts.push_back(fmt::format("{} registers per thread", r.registers));
  if (r.static_shared > 0) parts.push_back(bytes_text(r.static_shared) + " of static shared memory");
  if (r.spill_stores >= 0) {
    bool spills = r.spill_stores > 0 || r.spill_loads > 0;
    parts.push_back(spills ? fmt::format("spills {} bytes out and {} in", r.spill_stores, r.spill_loads)
                           : "no spills");
  }
  if (r.stack_bytes > 0) parts.push_back(bytes_text(r.stack_bytes) + " of stack per thread");
  std::string text = fmt::format("{}\n", fmt::join(parts, ", "));
  for (auto& refusal : k.refusals) text += fmt::format("    refused by ptxas: {}\n", refusal);
  return text;
}

// Of the kernel that spills most, or has the most registers: what a reader must not overlook.
std::string summary_text(const Report& r) {
  auto spilled = [](const Report::KernelRow& k) {
    return std::max(k.resources.spill_stores, k.resources.spill_loads);
  };
  auto worst = std::ranges::max_element(r.kernels, {}, [&](auto& k) {
    return std::tuple(std::max<int64_t>(0, spilled(k)), k.resources.registers, k.shared_bytes);
  });
  std::vector<std::string> parts;
  if (worst == r.kernels.end()) return "";
  if (worst->resources.registers >= 0)
    parts.push_back(fmt::format("{} registers", worst->resources.registers));
  if (spilled(*worst) > 0) parts.push_back(fmt::format("spills {} bytes", spilled(*worst)));
  for (auto& k : r.kernels)
    for (auto& refusal : k.resources.refusals) {
      std::string brief(brief_refusal(refusal));
      if (std::ranges::find(parts, brief) == parts.end()) parts.push_back(brief);
    }
  if (worst->shared_bytes && r.shared_limit)
    parts.push_back(fmt::format("shared {:.3g} of {:.3g} KB", double(worst->shared_bytes) / 1024,
                                double(r.shared_limit) / 1024));
  if (parts.empty()) return "";
  return fmt::format(": {}{}", r.kernels.size() > 1 ? worst->name + " has " : "", fmt::join(parts, ", "));
}

std::string size_text(const Report::BufferRow& b) {
  if (b.bytes < 0) return "";
  if (b.fragment) return fmt::format(", {} register{} a thread", (b.bytes + 3) / 4, b.bytes > 4 ? "s" : "");
  std::string text = ", " + bytes_text(b.bytes);
  if (b.scope != "tensor" && b.logical >= 0 && b.elements > b.logical)
    text += fmt::format(" (padded: room for {} elements, holds {})", b.elements, b.logical);
  if (b.address >= 0) text += fmt::format(" at {}", b.address);
  return text;
}

std::string decided_text(const Report::BufferRow& b) {
  if (b.decided_by.empty()) return "";
  std::string place = place_text(b.decided_at);
  return fmt::format("by {} ({}{}{})", b.decided_by, b.strictness, place.empty() ? "" : ", ", place);
}

// Lines of several columns, each as wide as its widest cell.
struct Table {
  std::vector<std::vector<std::string>> rows = {};

  static size_t width(const std::string& text) {  // in characters
    return size_t(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
  }

  std::string text() const {
    std::vector<size_t> widths;
    for (auto& row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], width(row[i]));
    }
    std::string out;
    for (auto& row : rows) {
      std::string line = "   ";
      for (size_t i = 0; i < row.size(); i++)
        if (widths[i]) line += " " + row[i] + std::string(widths[i] - width(row[i]) + 1, ' ');
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }
};

std::string buffers_text(const Report& r) {
  Table table;
  for (auto& b : r.buffers) {
    std::string what = fmt::format("{} {}[{}]{}", b.scope, b.dtype, fmt::join(b.shape, ", "), size_text(b));
    if (!b.map.empty() && b.scope != "tensor") what += ": " + b.map;
    if (!b.map.empty() && b.scope == "tensor") what += ", " + b.map;
    table.rows.push_back({place_text(b.place), b.name, what});
    if (auto by = decided_text(b); !by.empty()) table.rows.push_back({"", "", "  laid out " + by});
    for (auto& why : b.why) table.rows.push_back({"", "", "  " + why});
  }
  return table.text();
}

std::string statements_text(const Report& r) {
  Table table;
  for (auto& l : r.loops) {
    table.rows.push_back({place_text(l.place), l.name, l.text});
    for (auto& refusal : l.refusals) table.rows.push_back({"", "", "  " + refusal});
  }
  for (auto& o : r.operators) {
    bool is_loop =
        std::ranges::any_of(r.loops, [&](auto& l) { return l.place == o.place && l.text == o.how; });
    if (is_loop && o.details.empty() && o.refusals.empty()) continue;
    table.rows.push_back({place_text(o.place), fmt::format("{}({})", o.name, o.operands), o.how});
    for (auto& d : o.details) table.rows.push_back({"", "", "  " + d});
    for (auto& d : o.refusals)
      if (d != o.how) table.rows.push_back({"", "", "  " + d});
  }
  return table.text();
}

// "k", "k + 2", "k - 1": which iteration a step of a turn works on.
std::string iteration_text(const Report::PipelineRow& p, const Report::PipelineRow::Step& s) {
  int64_t ahead = s.ahead.value_or(0);
  if (!s.ahead) return "";
  return ahead ? fmt::format("{} {} {}", p.name, ahead < 0 ? '-' : '+', std::abs(ahead)) : p.name;
}

std::string role_text(const Report::PipelineRow& p) {
  std::string text = fmt::format("the threads [{}, {}) {}", p.threads.first, p.threads.second, p.role);
  return p.registers ? fmt::format("{} with {} registers each", text, p.registers) : text;
}

std::string pipelines_text(const Report& r) {
  std::string out;
  for (auto& p : r.pipelines) {
    std::vector<std::string> parts;
    for (auto& t : p.tiles)
      parts.push_back(fmt::format("{} slots of {} ({})", t.slots, t.name, bytes_text(t.bytes)));
    if (p.bytes_in_flight)
      parts.push_back(fmt::format("at most {} in flight", bytes_text(p.bytes_in_flight)));
    std::string held = p.steps.empty() ? "in order"
                       : parts.empty() ? "one slot"
                                       : fmt::format("{}", fmt::join(parts, ", "));
    if (!p.role.empty()) held = fmt::format("{}{}", role_text(p), parts.empty() ? "" : ", " + held);
    out += Table{{{place_text(p.place), fmt::format("loop {}: {}", p.name, held)}}}.text();
    Table turn;
    for (auto& s : p.steps)
      turn.rows.push_back({"", place_text(s.place), s.text, iteration_text(p, s), s.how});
    for (auto& refusal : p.refusals) turn.rows.push_back({"", "", refusal});
    out += turn.text();
  }
  return out;
}

std::string cost_text(const Report::AccessRow& a) {
  const AccessCost& c = a.cost;
  if (!c.cost) return c.unknown.empty() ? "" : "not counted: " + c.unknown;
  bool shared = a.scope == "shared";
  std::string_view unit = shared ? "bank cycle" : "sector";
  std::string text = fmt::format("{} {}{}", c.cost->count, unit, c.cost->count == 1 ? "" : "s");
  if (!c.cost->excess()) return text + ", the least";
  return fmt::format("{}, at least {}{}", text, c.cost->least, shared ? "  ← bank conflicts" : "");
}

std::string accesses_text(const Report& r) {
  Table table;
  for (auto& a : r.accesses) {
    const AccessCost& c = a.cost;
    std::string verb = c.writes ? "written" : "read";
    if (!c.instruction.empty()) verb += fmt::format(" by {}", c.instruction);
    std::string width = fmt::format("{} bytes", c.bytes);
    if (c.parts > 1) width = fmt::format("{} × {}", c.parts, width);
    std::string times = c.times > 1 ? fmt::format("{} times", c.times) : "";
    table.rows.push_back({place_text(c.span), a.buffer, verb, width, times, cost_text(a)});
  }
  return table.text();
}

std::string notes_text(const Report& r) {
  Table table;
  for (auto& n : r.notes)
    if (!n.attached) table.rows.push_back({place_text(n.place), n.subject, n.text});
  return table.text();
}

}  // namespace

std::string place_text(const Span& span) {
  if (!span.file || !span) return "";
  size_t slash = span.file->rfind('/');
  return fmt::format("{}:{}", slash == std::string::npos ? *span.file : span.file->substr(slash + 1),
                     span.line);
}

std::vector<Report::KernelRow> kernel_rows(const Program& program, const DeviceBinary& binary) {
  std::vector<Report::KernelRow> rows;
  for (size_t i = 0; i < program.entries.size(); i++) {
    const EntrySpec& e = program.entries[i];
    Report::KernelRow row{.name = e.name,
                          .threads = int64_t(e.threads[0]) * e.threads[1] * e.threads[2],
                          .shared_bytes = e.shared_bytes,
                          .private_bytes = e.arena_bytes};
    if (i < binary.resources.size()) row.resources = binary.resources[i];
    row.serialized = serialized_by(row.resources);
    for (auto& refusal : row.resources.refusals) row.refusals.push_back(explain_refusal(refusal));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Report::text() const {
  double total = 0;
  for (auto& p : phases) total += p.ms;
  std::string out =
      fmt::format("{} for {}, {} in {:.1f} ms{}\n", function, target,
                  from_cache ? "read from the disk cache" : "compiled", total, summary_text(*this));
  for (auto& k : kernels) out += fmt::format("  {}: {}", k.name, kernel_text(k));
  if (!toolchain.empty()) out += fmt::format("  compiled by {}\n", toolchain);
  auto section = [&](std::string_view title, const std::string& body) {
    if (!body.empty()) out += fmt::format("  {}\n{}", title, body);
  };
  section("buffers", buffers_text(*this));
  section("loops and operators", statements_text(*this));
  section("pipelined loops: what a turn does, in order, and for which iteration", pipelines_text(*this));
  bool warps = std::ranges::any_of(accesses, [](auto& a) { return a.cost.cost.has_value(); });
  section(warps ? "accesses to memory: bytes a thread moves at once; what a warp costs, at worst"
                : "accesses to memory: bytes moved at once",
          accesses_text(*this));
  section("notes", notes_text(*this));
  std::vector<std::string> times;
  for (auto& p : phases)
    if (p.ms >= 0.05) times.push_back(fmt::format("{} {:.1f}", p.name, p.ms));
  if (!times.empty()) out += fmt::format("  time in ms: {}\n", fmt::join(times, ", "));
  return out;
}

}  // namespace tl
