// A function that can be called: its program, its binary, and the module on each device that it has run on.
#pragma once
#include <map>
#include <mutex>

#include "runtime/args.h"
#include "runtime/device.h"

namespace tl {

class Executable {
 public:
  const Program program;
  const DeviceBinary binary;
  const int device_type;

  Executable(Program program, DeviceBinary binary);

  // Checks the arguments, then launches every entry in order.  On a GPU it returns before they have run.
  // The GPU is that of the tensors; without tensors, the caller's current one.  Thread-safe.
  void call(std::span<const Argument> arguments, Stream stream = 0);

  // Loads the module ahead of the first call.
  const Module& prepare(Device& device);

 private:
  Device& device_of(int device_id) const;
  void launch_all(Device& device, const Module& module, const Packed& packed, Stream stream) const;
  std::mutex lock;
  std::map<const Device*, Module> modules;
};

}  // namespace tl
