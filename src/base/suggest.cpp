#include "base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tl {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); j++)
      diagonal =
          std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

std::optional<std::string_view> nearest_name(std::string_view name,
                                             const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (auto c : candidates)
    if (size_t d = edit_distance(name, c); d < least) {
      least = d;
      best = c;
    }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates) {
  auto near = nearest_name(name, candidates);
  return near ? fmt::format("; did you mean `{}`?", *near) : "";
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (auto n : names) text += (text.empty() ? "" : ", ") + std::string(n);
  return text;
}

}  // namespace tl
