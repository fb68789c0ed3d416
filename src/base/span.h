// Where the user wrote it: a file (interned) and a range of line:column, both counted from 1.
#pragma once
#include <string>
#include <string_view>

namespace tl {

struct Span {
  const std::string* file = nullptr;  // interned by intern_file; null for generated code
  int line = 0, column = 0;           // first character
  int end_line = 0, end_column = 0;   // one past the last character; 0 where unknown
  explicit operator bool() const { return line > 0; }
  bool operator==(const Span&) const = default;
};

// The one copy of a file name; valid until the process ends.  Thread-safe.
const std::string* intern_file(std::string_view name);

// Gives the text of a "file" that is not on disk (standard input, a notebook cell), for caret rendering.
void register_source(std::string_view name, std::string text);

}  // namespace tl
