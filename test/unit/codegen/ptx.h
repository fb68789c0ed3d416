// The PTX of a Program, for tests that ask which instructions its text became.
#pragma once
#include "unit/codegen/machine.h"

namespace tl {

inline int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) n++;
  return n;
}

// That many of each instruction in the PTX for sm_80, and nothing in local memory.
inline void has_instructions(const Function& f,
                             std::initializer_list<std::pair<std::string_view, int>> wanted) {
  if (!find_nvrtc()) return;
  std::string ptx = ptx_of(print_cuda(f, *find_target("sm_80")));
  CAPTURE(ptx);
  for (auto& [instruction, n] : wanted) {
    CAPTURE(instruction);
    CHECK_EQ(count(ptx, instruction), n);
  }
  CHECK_EQ(count(ptx, ".local"), 0);
}

}  // namespace tl
