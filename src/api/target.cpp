// Which chip a target string means on this machine.
#include "api/kernel.h"
#include "base/error.h"

namespace tl {
namespace {

const Target* device_chip(const Device& device) {
  if (auto* chip = find_target(device.chip)) return chip;
  std::string_view why = why_no_chip(device.chip);
  fail({}, "target 'cuda': {} is an {}, for which this version has no description; it has {}{}{}",
       device.name, device.chip, chips_of("cuda"), why.empty() ? "" : ": ", why);
}

// The last, and so the most capable, of the CPUs described here whose code this machine runs.
const Target& best_cpu() {
  const Target* best = nullptr;
  for (auto* t : all_targets())
    if (t->language == "llvm" && cpu_runs(std::string(t->name))) best = t;
  internal_check(best != nullptr, "a description of the host CPU, " + host_cpu());
  return *best;
}

}  // namespace

std::string ResolvedTarget::text() const {
  if (!chip) return kind;
  if (kind == "sim") return fmt::format("sim:{}", chip->name);
  return fmt::format("{} {}{}", kind, kind == "cuda" ? "-arch=" : "-mcpu=", chip->name);
}

ResolvedTarget resolve_target(std::string_view text) {
  TargetSpec spec = parse_target(text);
  if (spec.kind == "reference") return {.kind = "reference"};
  if (!spec.chip.empty()) return {.kind = spec.kind, .chip = find_target(spec.chip)};
  if (spec.kind == "auto" || spec.kind == "cuda") {
    std::string reason;
    int ordinal = cuda_count() > 0 ? cuda_current_ordinal() : 0;
    if (Device* device = cuda_device(ordinal, &reason)) return {.kind = "cuda", .chip = device_chip(*device)};
    if (spec.kind == "cuda")
      fail({},
           "target 'cuda': no CUDA device answers ({}); to compile without one, name the chip: "
           "target='cuda -arch=CHIP' with CHIP one of {}",
           reason, chips_of("cuda"));
  }
  return {.kind = "cpu", .chip = &best_cpu()};
}

}  // namespace tl
