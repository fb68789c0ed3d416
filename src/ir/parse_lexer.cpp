// The lexer of text IR.
#include "ir/parse_lexer.h"

#include <cctype>

#include "base/error.h"
#include "ir/names.h"

namespace tl {
namespace {

struct Lexer {
  std::string_view text;
  const std::string* file;
  size_t at = 0, line_start = 0;
  int line = 1;
  std::vector<std::pair<char, Span>> brackets = {};  // those that are open
  std::vector<size_t> indents = {0};
  std::vector<Lexeme> tokens = {};

  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  Span span_from(size_t begin) const {
    return {file, line, int(begin - line_start) + 1, line, int(at - line_start) + 1};
  }
  void add(Lexeme::Kind kind, size_t begin, std::string value) {
    tokens.push_back({.kind = kind, .text = value, .unique = value, .span = span_from(begin)});
  }
  static bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  static bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

  void end_line() {
    if (brackets.empty() && !tokens.empty() && tokens.back().kind != Lexeme::Kind::newline &&
        tokens.back().kind != Lexeme::Kind::indent && tokens.back().kind != Lexeme::Kind::dedent)
      add(Lexeme::Kind::newline, at, "");
    at++;
    line++;
    line_start = at;
  }
  // At the start of a line: how far is it indented?  Lines without a token do not count.
  void indentation() {
    while (peek() == ' ') at++;
    if (peek() == '\t') {
      at++;
      fail(span_from(at - 1), "a tab in the indentation: use spaces");
    }
    if (peek() == '\n' || peek() == '#' || peek() == '\r' || at >= text.size()) return;
    indent_to(at - line_start);
  }
  void indent_to(size_t width) {
    if (width > indents.back()) {
      indents.push_back(width);
      add(Lexeme::Kind::indent, at, "");
    }
    while (width < indents.back()) {
      indents.pop_back();
      add(Lexeme::Kind::dedent, at, "");
    }
    if (width != indents.back()) {
      at++;
      fail(span_from(at - 1), "indented by {} spaces, which no line above it is: expected {}", width,
           indents.back());
    }
  }

  void name() {
    size_t begin = at;
    std::string value;
    bool quoted = peek() == '`';
    if (quoted) {
      for (at++; peek() != '`'; at++)
        if (at >= text.size() || static_cast<unsigned char>(peek()) < ' ')
          fail(span_from(begin), "a name without its closing backquote");
      value = text.substr(begin + 1, at - begin - 1);
      at++;
    } else {
      while (in_name(peek())) at++;
      value = text.substr(begin, at - begin);
    }
    if (peek() == '.' && is_digit(peek(1)))
      for (at++; is_digit(peek()); at++) {
      }
    std::string_view all = text.substr(begin, at - begin);
    size_t dot = all.find('.', quoted ? value.size() + 2 : 0);
    add(Lexeme::Kind::name, begin, value);
    tokens.back().unique = quoted ? spelled(value) : value;
    if (dot != all.npos) tokens.back().unique += all.substr(dot);
    tokens.back().quoted = quoted;
  }
  void number() {
    size_t begin = at;
    bool fraction = false;
    while (is_digit(peek())) at++;
    if (peek() == '.') {
      fraction = true;
      for (at++; is_digit(peek()); at++) {
      }
    }
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
      fraction = true;
      for (at += sign; is_digit(peek()); at++) {
      }
    }
    if (in_name(peek())) {
      while (in_name(peek())) at++;
      fail(span_from(begin), "`{}` is neither a number nor a name", text.substr(begin, at - begin));
    }
    add(fraction ? Lexeme::Kind::number : Lexeme::Kind::integer, begin,
        std::string(text.substr(begin, at - begin)));
  }
  char escape(size_t begin) {
    char c = peek();
    if (c == 'n') return '\n';
    if (c == 'x' && std::isxdigit(static_cast<unsigned char>(peek(1))) &&
        std::isxdigit(static_cast<unsigned char>(peek(2)))) {
      std::string digits(text.substr(at + 1, 2));
      at += 2;
      return char(std::stoi(digits, nullptr, 16));
    }
    if (c != '"' && c != '\\') fail(span_from(begin), "an escape in a string is one of \\\" \\\\ \\n \\xNN");
    return c;
  }
  void string() {
    size_t begin = at++;
    std::string value;
    for (; peek() != '"'; at++) {
      if (at >= text.size() || peek() == '\n') fail(span_from(begin), "a string without its closing quote");
      if (peek() == '\\') {
        at++;
        value += escape(begin);
      } else {
        value += peek();
      }
    }
    at++;
    add(Lexeme::Kind::string, begin, std::move(value));
  }
  void symbol() {
    static constexpr std::string_view two[] = {"->", "//", "<<", ">>", "<=", ">=", "==", "!="};
    for (auto s : two)
      if (text.substr(at, 2) == s) {
        at += 2;
        return add(Lexeme::Kind::symbol, at - 2, std::string(s));
      }
    char c = peek();
    if (std::string_view("+-*/%&|^~<>=()[]{},:").find(c) == std::string_view::npos || c == '\0') {
      at++;
      bool shown = c > ' ' && c < 127;
      fail(span_from(at - 1), "unexpected character {}",
           shown ? fmt::format("`{}`", c) : fmt::format("\\x{:02x}", uint8_t(c)));
    }
    at++;
    if (c == '(' || c == '[' || c == '{') brackets.emplace_back(c, span_from(at - 1));
    if ((c == ')' || c == ']' || c == '}') && !brackets.empty()) brackets.pop_back();
    add(Lexeme::Kind::symbol, at - 1, std::string(1, c));
  }
  void run() {
    while (at < text.size()) {
      if (at == line_start && brackets.empty()) indentation();
      char c = peek();
      if (at >= text.size()) break;
      if (c == '\n')
        end_line();
      else if (c == ' ' || c == '\t' || c == '\r')
        at++;
      else if (c == '#')
        while (at < text.size() && peek() != '\n') at++;
      else if (c == '`' || starts_name(c))
        name();
      else if (is_digit(c))
        number();
      else if (c == '"')
        string();
      else
        symbol();
    }
    if (!brackets.empty()) fail(brackets.front().second, "`{}` is never closed", brackets.front().first);
    if (!tokens.empty() && tokens.back().kind != Lexeme::Kind::newline) add(Lexeme::Kind::newline, at, "");
    indent_to(0);
    add(Lexeme::Kind::end, at, "");
  }
};

}  // namespace

std::vector<Lexeme> lex(std::string_view text, const std::string* file) {
  Lexer lexer{.text = text, .file = file};
  lexer.run();
  return std::move(lexer.tokens);
}

std::string describe(const Lexeme& token) {
  switch (token.kind) {
    case Lexeme::Kind::newline:
      return "the end of the line";
    case Lexeme::Kind::indent:
      return "a deeper indentation";
    case Lexeme::Kind::dedent:
      return "the end of the block";
    case Lexeme::Kind::end:
      return "the end of the text";
    case Lexeme::Kind::string:
      return "a string";
    default:
      return "`" + token.unique + "`";
  }
}

}  // namespace tl
