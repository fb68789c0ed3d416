// Text -> tokens.  Indentation becomes `indent` and `dedent`; inside brackets a line may go on.
#pragma once
#include <string>
#include <vector>

#include "base/span.h"

namespace tl {

struct Lexeme {
  enum class Kind : uint8_t { name, integer, number, string, symbol, newline, indent, dedent, end };
  Kind kind = Kind::end;
  std::string text;     // a name without its backquotes and number; a string without its quotes
  std::string unique;   // of a name: as it stands, which is what identifies it
  bool quoted = false;  // a name between backquotes is never a word of the language
  Span span = {};
};

std::vector<Lexeme> lex(std::string_view text, const std::string* file);
std::string describe(const Lexeme& token);  // "`:`", "the end of the line"

}  // namespace tl
