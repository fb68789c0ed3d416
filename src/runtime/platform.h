// What makes and runs the programs of one language: its device compiler and its devices.  A row each, keyed
// by Program::language.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace tl {

struct Platform {
  std::string_view language;
  int device_type;  // of the tensors that its programs take
  DeviceBinary (*build)(const Program& program);
  void (*open)();                                       // the device compiler; throws RuntimeError
  std::optional<std::string> (*find)();                 // its file, unopened
  int (*current)();                                     // the ordinal of the caller's device
  Device* (*device)(int ordinal, std::string* reason);  // null, and the reason, where there is none
  bool (*knows)(const std::string& chip) = nullptr;     // the device compiler, if one is installed
  bool simulated_only = false;                          // there is no driver for any of its devices
};

const Platform& platform_of(std::string_view language);  // internal error for an unknown one

}  // namespace tl
