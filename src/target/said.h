// Targets and instructions in messages.
#pragma once
#include <fmt/format.h>

#include "target/target.h"

namespace tl {

// A GPU by the name of its chip; a CPU as what it is, since the user asked for "cpu".
inline std::string said(const Target& target) {
  return target.has_threads() ? std::string(target.name) : fmt::format("the {}", target.language->machine);
}

// What a program calls an instruction, T.wait_wgmma say, and what does the same elsewhere ("": nothing
// known).
struct SaidInstr {
  std::string_view row, name, instead;
};
SaidInstr said(const Intrinsic& row);

}  // namespace tl
