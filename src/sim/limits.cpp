#include "sim/limits.h"

#include <charconv>

#include "base/error.h"
#include "base/file.h"

namespace tl {
namespace {

constexpr const char* iterations_name = "TILELANG_SIM_ITERATIONS";
constexpr const char* seconds_name = "TILELANG_SIM_TIMEOUT";
constexpr double most_seconds = 3600;

template <class T>
T number_of(const char* name, const char* what, T by_default) {
  std::string text = environment(name);
  if (text.empty()) return by_default;
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || !(value < T(1e15)))
    fail({}, "{} is a number of {}, 0 for no limit, not '{}'", name, what, text);
  return value;
}

}  // namespace

RunLimits RunLimits::of_environment(int64_t most_iterations) {
  int64_t iterations = number_of(iterations_name, "iterations", most_iterations);
  return {.iterations = iterations ? iterations : INT64_MAX,
          .seconds = number_of(seconds_name, "seconds", most_seconds)};
}

std::string RunLimits::too_many(int64_t run) const {
  return fmt::format(
      "it has run {} iterations; let it change what its condition asks for, or raise the limit where so many "
      "are meant ({}; 0: none)",
      run, iterations_name);
}

std::string RunLimits::too_long() const {
  return fmt::format(
      "the run has taken {} seconds, the limit of one call; take a smaller case or fewer blocks, or raise "
      "the "
      "limit ({}, or --timeout of `tilelang sim`; 0: none)",
      seconds, seconds_name);
}

}  // namespace tl
