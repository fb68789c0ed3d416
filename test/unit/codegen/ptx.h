// The PTX of a Program, for tests that ask which instructions its text became.
#pragma once
#include "unit/codegen/machine.h"

namespace tl {

// Empty where there is no NVRTC.
inline std::string ptx_of(const Program& p) {
  auto path = find_nvrtc();
  if (!path) return "";
  Library lib = open_library(*path);
  using Handle = void*;
  int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Handle, int, const char* const*) = nullptr;
  int (*size)(Handle, size_t*) = nullptr;
  int (*get)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  REQUIRE((lib.bind(create, "nvrtcCreateProgram") && lib.bind(compile, "nvrtcCompileProgram") &&
           lib.bind(size, "nvrtcGetPTXSize") && lib.bind(get, "nvrtcGetPTX") &&
           lib.bind(destroy, "nvrtcDestroyProgram")));
  Handle handle = nullptr;
  std::string arch = "-arch=compute_" + p.chip.substr(3), ptx;
  const char* options[] = {arch.c_str(), "-std=c++17", "-default-device"};
  REQUIRE_EQ(create(&handle, p.text.c_str(), p.name.c_str(), 0, nullptr, nullptr), 0);
  REQUIRE_EQ(compile(handle, 3, options), 0);
  size_t bytes = 0;
  size(handle, &bytes);
  ptx.resize(bytes);
  get(handle, ptx.data());
  destroy(&handle);
  return ptx;
}

inline int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) n++;
  return n;
}

// That many of each instruction in the PTX for sm_80, and nothing in local memory.
inline void has_instructions(const Function& f,
                             std::initializer_list<std::pair<std::string_view, int>> wanted) {
  std::string ptx = ptx_of(print_cuda(f, *find_target("sm_80")));
  if (ptx.empty()) return;
  CAPTURE(ptx);
  for (auto& [instruction, n] : wanted) {
    CAPTURE(instruction);
    CHECK_EQ(count(ptx, instruction), n);
  }
  CHECK_EQ(count(ptx, ".local"), 0);
}

}  // namespace tl
