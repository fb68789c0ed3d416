// Replaces the compiler's short names of dtypes in its messages by Python's.
#include <algorithm>
#include <cctype>

#include "api/kernel.h"
#include "convert.h"

namespace {

bool is_part_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Calls `visit(begin, word)` for every word of a text.
template <class Visit>
void for_words(std::string_view text, Visit&& visit) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_part_of_word(text[end])) end++;
    size_t length = end - i;
    while (length && text[i + length - 1] == '.') length--;  // of a sentence
    if (length) visit(i, text.substr(i, length));
    i = std::max(end, i + 1);
  }
}

}  // namespace

std::string in_words_of_python(std::string_view text, std::string_view source) {
  static constexpr std::string_view briefs[] = {"i4",  "i8",   "i16",  "i32",  "i64",  "u4",  "u8",
                                                "u16", "u32",  "u64",  "bf16", "tf32", "f16", "f32",
                                                "f64", "e4m3", "e5m2", "e8m0", "e2m1"};
  std::string out;
  size_t done = 0;
  for_words(text, [&](size_t at, std::string_view word) {
    if (std::find(std::begin(briefs), std::end(briefs), word) == std::end(briefs)) return;
    bool is_users = false;
    for_words(source, [&](size_t, std::string_view other) { is_users = is_users || other == word; });
    if (is_users) return;
    out += text.substr(done, at - done);
    out += tl::python_dtype(word);
    done = at + word.size();
  });
  return out += text.substr(done);
}
