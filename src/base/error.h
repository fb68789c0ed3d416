// Errors. A CompileError is a mistake in the user's program and carries its position; a failed internal_check
// is a bug of the compiler.
#pragma once
#include <fmt/format.h>
#include <source_location>
#include <stdexcept>
#include <string>

#include "base/span.h"

namespace tl {

// What a user did wrong, where, and what would fix it.  what() is "file:line:column: error: text" followed,
// where the source can be read, by the line itself and a caret under the place.
struct CompileError : std::runtime_error {
  Span span;
  std::string text;
  // `more` stands under the line of the source.
  CompileError(Span span, std::string text, std::string_view more = {});
};

template <class... A>
[[noreturn]] void fail(Span span, fmt::format_string<A...> format, A&&... args) {
  throw CompileError(span, fmt::format(format, std::forward<A>(args)...));
}

// The two lines under an error: the source line and the caret.  Empty where the source cannot be read.
std::string render_source(const Span& span);

// A broken invariant of the compiler itself.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};
[[noreturn]] void internal_error(std::string_view what,
                                 std::source_location at = std::source_location::current());
inline void internal_check(bool ok, std::string_view what,
                           std::source_location at = std::source_location::current()) {
  if (!ok) internal_error(what, at);
}

}  // namespace tl
