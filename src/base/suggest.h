// What a name that is not there may have meant.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

// How many letters to add, drop or change make one name of the other: for what a typo may have meant.
size_t edit_distance(std::string_view a, std::string_view b);
// The candidate that differs least from `name`, if any is near enough to be what was meant.
std::optional<std::string_view> nearest_name(std::string_view name,
                                             const std::vector<std::string_view>& candidates);
// "; did you mean `x`?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates);

// "a, b, c"
std::string listed(const std::vector<std::string_view>& names);

}  // namespace tl
