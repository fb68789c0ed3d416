// Interned file names, the sources that are not on disk, and the caret under an error.
#include "base/error.h"

#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace tl {
namespace {

std::mutex sources_lock;
std::map<std::string, std::string, std::less<>>& registered_sources() {
  static auto* sources = new std::map<std::string, std::string, std::less<>>;
  return *sources;
}

std::optional<std::string> line_of(const std::string& text, int wanted) {
  size_t begin = 0;
  for (int line = 1; begin <= text.size(); line++) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (line == wanted) return text.substr(begin, end - begin);
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<std::string> read_line(const std::string& file, int wanted) {
  {
    std::lock_guard guard(sources_lock);
    auto& sources = registered_sources();
    if (auto it = sources.find(file); it != sources.end()) return line_of(it->second, wanted);
  }
  std::ifstream in(file);
  std::string line;
  for (int i = 1; std::getline(in, line); i++)
    if (i == wanted) return line;
  return std::nullopt;
}

std::string located(const Span& span, const std::string& text) {
  std::string where;
  if (span.file) where = fmt::format("{}:{}:{}: ", *span.file, span.line, span.column);
  return fmt::format("{}error: {}{}", where, text, render_source(span));
}

}  // namespace

const std::string* intern_file(std::string_view name) {
  static std::mutex lock;
  static auto* names = new std::set<std::string, std::less<>>;
  std::lock_guard guard(lock);
  auto it = names->find(name);
  if (it == names->end()) it = names->emplace(name).first;
  return &*it;
}

void register_source(std::string_view name, std::string text) {
  std::lock_guard guard(sources_lock);
  registered_sources()[std::string(name)] = std::move(text);
}

std::string render_source(const Span& span) {
  if (!span.file || !span) return "";
  std::optional<std::string> line = read_line(*span.file, span.line);
  if (!line) return "";
  size_t first = span.column > 0 ? size_t(span.column - 1) : 0;
  size_t last =
      span.end_line == span.line && span.end_column > span.column ? size_t(span.end_column - 1) : first + 1;
  if (span.end_line > span.line) last = line->size();
  std::string marks;  // tabs stay tabs, so that the caret stands under its character
  for (size_t i = 0; i < first && i < line->size(); i++) marks += (*line)[i] == '\t' ? '\t' : ' ';
  marks += '^';
  for (size_t i = first + 1; i < last && i < line->size(); i++) marks += '~';
  return "\n  " + *line + "\n  " + marks;
}

CompileError::CompileError(Span s, std::string t, std::string_view more)
    : std::runtime_error(located(s, t) + std::string(more)),
      span(s),
      text(std::move(t)) {}

void internal_error(std::string_view what, std::source_location at) {
  throw InternalError(fmt::format(
      "internal error of the compiler, please report it: {} ({}:{})", what,
      std::string_view(at.file_name()).substr(std::string_view(at.file_name()).rfind('/') + 1), at.line()));
}

}  // namespace tl
