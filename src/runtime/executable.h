// A function that can be called: its program, its binary, and the module on each device that it has run on.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "runtime/args.h"
#include "runtime/platform.h"
#include "runtime/signature.h"

namespace tl {

class Executable {
 public:
  const Program program;
  const DeviceBinary binary;
  const Platform& platform;

  Executable(Program program, DeviceBinary binary);

  // Checks the arguments, then launches every entry in order.  On a GPU it returns before they have run. The
  // GPU is that of the tensors; without tensors, the caller's current one.  Thread-safe, and a call may come
  // from inside another.  From the second call on nothing is allocated but the function's workspaces.
  void call(std::span<const Argument> arguments, Stream stream = 0);

  // Loads the module ahead of the first call.
  const Module& prepare(Device& device);

 private:
  struct Ready {  // a device with the module on it
    Device* device = nullptr;
    Module module;
  };
  // The arguments after the checks, on any device.
  struct Facts {
    std::span<const uint64_t> slots;
    std::span<const int64_t> integers;
  };
  static constexpr size_t most_devices = 32;
  Signature signature;
  const uint64_t number;  // of this one among all
  std::mutex lock;
  std::map<const Device*, Ready> modules;
  std::array<std::atomic<const Ready*>, most_devices> by_ordinal{};

  Device& device_of(int device_id) const;
  const Ready& ready_on(Device& device);
  const Ready& ready_on(int device_id);
  const std::vector<EncodedTensorMap>* maps_for(const Ready& ready, const Facts& facts,
                                                std::span<void* const> addresses,
                                                std::vector<EncodedTensorMap>& made) const;
  void launch_all(const Ready& ready, const Facts& facts, Stream stream) const;
};

}  // namespace tl
