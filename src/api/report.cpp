// The report as text and as bytes.
#include "api/report.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace tl {
namespace {

std::string place_of(const Span& span) {
  if (!span.file || !span) return "";
  size_t slash = span.file->rfind('/');
  return fmt::format("{}:{}", slash == std::string::npos ? *span.file : span.file->substr(slash + 1),
                     span.line);
}

std::string bytes_text(int64_t bytes) {
  return bytes % 1024 == 0 ? fmt::format("{} KB", bytes / 1024) : fmt::format("{} bytes", bytes);
}

std::string entry_text(const EntrySpec& e, const Resources* r) {
  std::vector<std::string> parts;
  int threads = e.threads[0] * e.threads[1] * e.threads[2];
  parts.push_back(threads == 1 ? "one thread per block" : fmt::format("{} threads per block", threads));
  if (e.shared_bytes) parts.push_back(bytes_text(e.shared_bytes) + " of shared memory");
  if (e.arena_bytes) parts.push_back(bytes_text(e.arena_bytes) + " of private memory per block");
  if (r && r->registers >= 0) parts.push_back(fmt::format("{} registers per thread", r->registers));
  if (r && r->static_shared > 0) parts.push_back(bytes_text(r->static_shared) + " of static shared memory");
  if (r && r->spill_stores >= 0) {
    bool spills = r->spill_stores > 0 || r->spill_loads > 0;
    parts.push_back(spills ? fmt::format("spills {} bytes out and {} in", r->spill_stores, r->spill_loads)
                           : "no spills");
  }
  if (r && r->stack_bytes > 0) parts.push_back(bytes_text(r->stack_bytes) + " of stack per thread");
  return fmt::format("{}", fmt::join(parts, ", "));
}

constexpr std::string_view magic = "report 1\n";

}  // namespace

template <class Io>
static void fields(Io& io, Report::Item& v) {
  io(v.subject, v.text, v.pass, v.place);
}

std::vector<Report::Item> report_items(const Function& machine, const Program& program,
                                       const DeviceBinary& binary) {
  std::vector<Report::Item> items;
  for (size_t i = 0; i < program.entries.size(); i++) {
    const Resources* r = i < binary.resources.size() ? &binary.resources[i] : nullptr;
    items.push_back({program.entries[i].name, entry_text(program.entries[i], r), "", ""});
  }
  if (!binary.toolchain.empty()) items.push_back({"compiled by", binary.toolchain, "", ""});
  for (auto& n : machine.notes) {
    Report::Item item{n.subject, n.text, n.pass, place_of(n.span)};
    if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
  }
  return items;
}

std::string Report::text() const {
  double total = 0;
  for (auto& p : phases) total += p.ms;
  std::string out = fmt::format("{} for {}, {} in {:.1f} ms\n", function, target,
                                from_cache ? "read from the disk cache" : "compiled", total);
  size_t width = 0;
  for (auto& i : items) width = std::max(width, i.subject.size());
  for (auto& i : items) {
    std::string from = i.pass;
    if (!i.place.empty()) from += (from.empty() ? "" : ", ") + i.place;
    out += fmt::format("  {:<{}}  {}{}\n", i.subject, width, i.text, from.empty() ? "" : "  [" + from + "]");
  }
  std::vector<std::string> times;
  for (auto& p : phases)
    if (p.ms >= 0.05) times.push_back(fmt::format("{} {:.1f}", p.name, p.ms));
  if (!times.empty()) out += fmt::format("  time in ms: {}\n", fmt::join(times, ", "));
  return out;
}

std::string serialize(const std::vector<Report::Item>& items) {
  ByteWriter writer;
  writer(items);
  return std::string(magic) + writer.bytes;
}

std::vector<Report::Item> deserialize_items(std::string_view bytes) {
  if (!bytes.starts_with(magic)) return {};
  ByteReader reader{.bytes = bytes.substr(magic.size())};
  std::vector<Report::Item> items;
  reader(items);
  if (!reader.ok || !reader.bytes.empty()) return {};
  return items;
}

}  // namespace tl
