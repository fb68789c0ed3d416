// Chips and kinds of targets that this version does not support, or not all of, with the reason.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/suggest.h"
#include "target/known.h"

namespace tl {
namespace {

struct Absent {
  std::string_view name;  // or how it begins; the first that fits counts
  std::string_view why;
};

constexpr std::string_view old = "chips before Volta have no tensor cores and no asynchronous copies";
constexpr std::string_view blackwell =
    "this version has neither tcgen05 nor tensor memory, by which tensor cores of Blackwell are reached";

constexpr std::string_view volta =
    "Volta has no asynchronous copies (cp.async), and its tensor cores multiply f16 alone, in shapes of "
    "their own";

constexpr Absent chips[] = {
    {"sm_70", volta},
    {"sm_72", volta},
    {"sm_10", blackwell},
    {"sm_11", blackwell},
    {"sm_3", old},
    {"sm_5", old},
    {"sm_6", old},
    {"gfx", "this version describes gfx942 alone of AMD's GPUs, and a code object runs on its own chip only"},
};

// Chips that exist, or that device compilers know, and have no literal: they run an earlier one's program.
constexpr std::string_view undescribed[] = {"sm_87", "sm_88", "sm_101", "sm_107", "sm_110"};

constexpr Absent kinds[] = {
    {"metal", "there is no back end for Apple's GPUs"},
    {"webgpu", "there is no back end that writes WGSL"},
    {"vulkan", "there is no back end that writes SPIR-V"},
    {"opencl", "there is no back end that writes OpenCL"},
    {"cutedsl", "kernels for NVIDIA's GPUs are CUDA text here, not CuTe DSL: say cuda"},
    {"ascend", "there is no back end for Ascend's NPUs"},
    {"nvptx", "kernels for NVIDIA's GPUs are CUDA text, of which NVRTC makes PTX: say cuda"},
};

}  // namespace

std::string_view why_no_chip(std::string_view name) {
  for (auto& row : chips)
    if (name.starts_with(row.name)) return row.why;
  return {};
}

bool is_known_chip(std::string_view name) {
  if (find_target(name) || std::ranges::find(undescribed, name) != std::end(undescribed)) return true;
  bool letter = name.ends_with('a') || name.ends_with('f');  // nearest_target says which may have one
  return letter && is_known_chip(name.substr(0, name.size() - 1));
}

std::vector<std::string_view> known_chips(const Language* language) {
  std::vector<std::string_view> names;
  for (auto* t : all_targets())
    if (language ? t->language == language : t->language->has_threads) names.push_back(t->name);
  if (!names.empty() && nearest_target(undescribed[0]) &&
      (!language || nearest_target(undescribed[0])->language == language))
    names.insert(names.end(), std::begin(undescribed), std::end(undescribed));
  return names;
}

namespace {

int64_t number_in(std::string_view name) {
  int64_t number = 0;
  for (char c : name)
    if (c >= '0' && c <= '9' && number < 100000) number = number * 10 + (c - '0');
  return number;
}

}  // namespace

std::string did_you_mean_chip(std::string_view name, const Language* language) {
  std::vector<std::string_view> names = known_chips(language);
  auto near = nearest_name(name, names);
  if (!near) return "";
  auto differs = [&](std::string_view n) {
    auto alike = std::ranges::mismatch(n, name).in1 - n.begin();
    return std::tuple(edit_distance(name, n), -alike, std::abs(number_in(n) - number_in(name)));
  };
  std::string_view best = *std::ranges::min_element(names, {}, differs);
  std::string text = fmt::format("; did you mean `{}`", best);
  for (auto n : names)
    if (n.size() == best.size() + 1 && n.starts_with(best) && n.back() >= 'a')
      text += fmt::format(" or `{}`", n);
  return text + "?";
}

std::string_view why_no_kind(std::string_view name) {
  for (auto& row : kinds)
    if (name == row.name) return row.why;
  return {};
}

}  // namespace tl
