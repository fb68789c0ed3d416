// Where the device compilers are, opened or not; and a stopwatch for their phases.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "base/dylib.h"
#include "runtime/device.h"

namespace tl {

std::optional<std::string> find_nvrtc();
std::optional<std::string> find_llvm();
std::optional<std::string> find_clang();    // that compiles HIP
bool nvrtc_knows(const std::string& chip);  // no, where none is installed
void open_nvrtc();                          // throws RuntimeError; a second time it does nothing
void open_llvm();
void open_clang();

// Adds the time since it was made, or since the last lap, to a list of phases.
struct Stopwatch {
  std::vector<Phase>& phases;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
  void lap(const char* name) {
    auto now = std::chrono::steady_clock::now();
    phases.push_back({name, std::chrono::duration<double, std::milli>(now - last).count()});
    last = now;
  }
};

}  // namespace tl
