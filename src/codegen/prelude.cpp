// The sections of a prelude that a program uses, and those that they need.  A section's head is
// "//@ its names: the sections it needs", or "//= name:" for one of prelude/common.inc, which holds what is
// plain C++ in every language of the family.
#include <algorithm>

#include "codegen/c_like.h"

namespace tl {
namespace {

constexpr std::string_view common_prelude =
#include "codegen/prelude/common.inc"
    ;

using Words = std::vector<std::string_view>;

struct Section {
  Words names, needs;
  std::string_view text;
  bool is_common = false;
};

Words words_of(std::string_view text) {
  Words words;
  for (size_t at = 0; at < text.size();) {
    size_t space = std::min(text.find(' ', at), text.size());
    if (space > at) words.push_back(text.substr(at, space - at));
    at = space + 1;
  }
  return words;
}

std::vector<Section> sections_of(std::string_view prelude) {
  auto next_head = [&](size_t from) {
    return std::min(prelude.find("//@ ", from), prelude.find("//= ", from));
  };
  std::vector<Section> all;
  std::set<std::string_view> taken;
  for (size_t at = next_head(0); at != prelude.npos;) {
    size_t eol = prelude.find('\n', at), next = next_head(eol);
    std::string_view head = prelude.substr(at + 4, eol - at - 4);
    size_t colon = head.find(':');
    internal_check(colon != head.npos, "a section of the prelude without `:`");
    Section s{.names = words_of(head.substr(0, colon)),
              .needs = words_of(head.substr(colon + 1)),
              .text = prelude.substr(eol + 1, next - eol - 1),
              .is_common = prelude[at + 2] == '='};
    for (auto name : s.names)
      internal_check(taken.insert(name).second, "two sections of the prelude with one name");
    all.push_back(std::move(s));
    at = next;
  }
  return all;
}

std::vector<Section> with_common(std::vector<Section> sections) {
  static const std::vector<Section> common = sections_of(common_prelude);
  for (Section& s : sections) {
    if (!s.is_common) continue;
    auto it = std::ranges::find_if(common, [&](auto& c) { return c.names == s.names; });
    internal_check(it != common.end(), "no common section of the prelude: " + std::string(s.names.at(0)));
    s = *it;
  }
  return sections;
}

}  // namespace

std::string paste_sections(std::string_view prelude, const std::set<std::string, std::less<>>& used) {
  std::vector<Section> all = with_common(sections_of(prelude));
  std::set<std::string_view> wanted(used.begin(), used.end()), found;
  Words texts;
  for (size_t i = all.size(); i-- > 0;) {  // what a section needs stands before it
    const Section& s = all[i];
    if (std::ranges::none_of(s.names, [&](auto name) { return wanted.contains(name); })) continue;
    found.insert(s.names.begin(), s.names.end());
    wanted.insert(s.needs.begin(), s.needs.end());
    texts.push_back(s.text);
  }
  for (auto name : wanted)
    internal_check(found.contains(name), "a section that the prelude does not have: " + std::string(name));
  std::string text;
  for (size_t i = texts.size(); i-- > 0;) text += texts[i];
  return text;
}

}  // namespace tl
