// The flags that a user gives for the device compiler.  They are written for nvcc, as a rule; NVRTC, a
// library, has fewer, and spells some in one way only; libLLVM has none of them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

struct Flag {
  std::string said;                // as the user wrote it, its value included
  std::vector<std::string> words;  // for NVRTC
  std::string_view idle = {};      // why it changes nothing there; empty: it may
  std::string refusal = {};        // why no kernel can be compiled with it
  bool of_nvcc = false;            // nvcc knows it, hence no other tool's
};

// `chip`: what the program is compiled for.
std::vector<Flag> read_flags(std::span<const std::string> flags, std::string_view chip);

}  // namespace tl
