// Which chips exist, beside those that have a literal.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace tl {

// Of a name that find_target or nearest_target answers for: is it that of a chip that exists, as far as this
// version knows?  Others may be what a later device or device compiler calls a chip, or slips of the pen.
bool is_known_chip(std::string_view name);
// The chips of a language, or all with threads (null), with and without a literal.
std::vector<std::string_view> known_chips(const Language* language);
// "; did you mean `sm_90` or `sm_90a`?", or nothing: the names that are written most alike, and of these the
// nearest number.
std::string did_you_mean_chip(std::string_view name, const Language* language);

}  // namespace tl
