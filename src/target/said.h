// A target in messages.
#pragma once
#include <fmt/format.h>

#include "target/target.h"

namespace tl {

// A GPU by the name of its chip; a CPU as what it is, since the user asked for "cpu".
inline std::string said(const Target& target) {
  return target.has_threads() ? std::string(target.name) : fmt::format("a {}", target.language->machine);
}

}  // namespace tl
