// What ptxas says of a program, NVIDIA's assembler, in the log of NVRTC: registers, spills, and what it did
// not do as the program asks (its messages C75xx), with the cause and what would mend it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace tl {

// In the order of the program's entries.
std::vector<Resources> parse_resources(std::string_view log, const Program& program);

// A refusal, as parse_resources keeps it, with what it means and what would mend it; of one that is not
// known, where to look.
std::string explain_refusal(std::string_view refusal);
// In a few words: "products serialized".
std::string_view brief_refusal(std::string_view refusal);
// The first that lets no product of warpgroups run beside another; empty: there is none.
std::string serialized_by(const Resources& resources);

}  // namespace tl
