// Resolves a target string to a chip on this machine.
#include "api/kernel.h"
#include "base/error.h"
#include "base/suggest.h"
#include "target/known.h"

namespace tl {
namespace {

// A kind of target, and a chip by its name.
ResolvedTarget named(std::string kind, const std::string& chip) {
  if (auto* own = find_target(chip)) return {.kind = std::move(kind), .chip = own};
  return {.kind = std::move(kind), .chip = nearest_target(chip), .later = chip};
}

// The variant of a chip with what no other chip has, if there is one: its code runs there, and nowhere else.
ResolvedTarget device_chip(const Device& device, const Language& language) {
  if (auto* variant = find_target(device.chip + "a"))
    return {.kind = std::string(language.kind), .chip = variant};
  ResolvedTarget found = named(std::string(language.kind), device.chip);
  if (found.chip) return found;
  std::string_view why = why_no_chip(device.chip);
  fail({}, "target '{}': {} is an {}, for which this version has no description; it has {}{}{}",
       language.kind, device.name, device.chip, chips_of(language), why.empty() ? "" : ": ", why);
}

// The last, and so the most capable, of the CPUs described here whose code this machine runs.
const Target& best_cpu() {
  const Target* best = nullptr;
  for (auto* t : all_targets())
    if (!t->language->has_threads && cpu_runs(std::string(t->name))) best = t;
  internal_check(best != nullptr, "a description of the host CPU, " + host_cpu());
  return *best;
}

// A later chip than those described runs the program of an earlier one, if there is such a chip: by the
// table, by a device of this machine, or by its device compiler.
void require_existing(std::string_view text, const std::string& chip) {
  if (is_known_chip(chip)) return;
  const Language& language = *nearest_target(chip)->language;
  const Platform& platform = platform_of(language.name);
  Device* device = platform.device(platform.current(), nullptr);
  if ((device && device->chip == chip) || (platform.knows && platform.knows(chip))) return;
  std::vector<std::string_view> names = known_chips(&language);
  fail({},
       "target '{}': there is no chip '{}'; known are {}, and what a device of this machine or its device "
       "compiler names{}",
       text, chip, listed(names), did_you_mean_chip(chip, &language));
}

}  // namespace

std::string ResolvedTarget::text() const {
  if (!chip) return kind;
  if (kind == "sim") return fmt::format("sim:{}", chip_name());
  return fmt::format("{} {}{}", kind, chip->language->chip_option, chip_name());
}

const Language* ResolvedTarget::built_from() const {
  return chip && kind != "sim" ? chip->language : nullptr;
}

ResolvedTarget resolve_target(std::string_view text) {
  TargetSpec spec = parse_target(text);
  if (spec.kind == "reference") return {.kind = "reference"};
  if (!spec.chip.empty()) {
    require_existing(text, spec.chip);
    return named(spec.kind, spec.chip);
  }
  for (auto* row : all_languages()) {  // a GPU that answers, or else the CPU
    if (!row->has_threads || (spec.language && spec.language != row)) continue;
    const Platform& platform = platform_of(row->name);
    std::string reason;
    if (Device* device = platform.device(platform.current(), &reason)) return device_chip(*device, *row);
    if (spec.language)
      fail({},
           "target '{}': no {} answers ({}); to compile without one, name the chip: target='{} {}CHIP' with "
           "CHIP one of {}",
           row->kind, row->machine, reason, row->kind, row->chip_option, chips_of(*row));
  }
  const Target& cpu = best_cpu();
  return {.kind = std::string(cpu.language->kind), .chip = &cpu};
}

}  // namespace tl
