// From arguments to launches.
#include "runtime/executable.h"

#include <algorithm>

#include "base/error.h"

namespace tl {
namespace {

// What one call allocates, given back to the device's stream at the end.
struct Workspaces {
  Device& device;
  Stream stream;
  std::vector<void*> memory;

  void add(int64_t bytes, bool zeroed) {
    auto size = size_t(std::max<int64_t>(bytes, 1));
    memory.push_back(device.allocate(size, stream));
    if (zeroed) device.clear(memory.back(), size, stream);
  }
  ~Workspaces() {
    for (void* block : memory) device.release(block, stream);
  }
};

uint64_t slot_of(const EntrySpec::Arg& arg, const Packed& packed, const Workspaces& workspaces) {
  auto index = size_t(arg.index);
  switch (arg.from) {
    case EntrySpec::Arg::From::param:
      return packed.slots[index];
    case EntrySpec::Arg::From::workspace:
      return reinterpret_cast<uintptr_t>(workspaces.memory[index]);
    case EntrySpec::Arg::From::integer:
      return uint64_t(packed.integers[index]);
  }
  internal_error("an argument from nowhere");
}

}  // namespace

Executable::Executable(Program p, DeviceBinary b)
    : program(std::move(p)),
      binary(std::move(b)),
      device_type(program.language == "cuda" ? device_cuda : device_cpu) {}

Device& Executable::device_of(int device_id) const {
  if (device_type == device_cpu) return cpu_device();
  std::string reason;
  Device* device = cuda_device(device_id < 0 ? cuda_current_ordinal() : device_id, &reason);
  if (!device) throw RuntimeError(fmt::format("{}: {}", program.name, reason));
  return *device;
}

const Module& Executable::prepare(Device& device) {
  std::lock_guard guard(lock);
  auto it = modules.find(&device);
  if (it == modules.end()) it = modules.emplace(&device, device.load(program, binary)).first;
  return it->second;
}

void Executable::call(std::span<const Argument> arguments, Stream stream) {
  static thread_local Packed packed;
  check_and_pack(program, arguments, device_type, packed);
  Device& device = device_of(packed.device_id);
  launch_all(device, prepare(device), packed, stream);
}

void Executable::launch_all(Device& device, const Module& module, const Packed& packed, Stream stream) const {
  Workspaces workspaces{device, stream, {}};
  for (const Workspace& w : program.workspaces) workspaces.add(evaluate(w.bytes, packed.integers), w.zeroed);
  uint64_t small[64];
  std::vector<uint64_t> large;
  for (size_t i = 0; i < program.entries.size(); i++) {
    const EntrySpec& entry = program.entries[i];
    std::array<int64_t, 3> grid{1, 1, 1};
    for (size_t d = 0; d < entry.grid.size(); d++) grid[d] = evaluate(entry.grid[d], packed.integers);
    if (std::any_of(grid.begin(), grid.end(), [](int64_t extent) { return extent <= 0; })) continue;
    size_t count = entry.args.size();
    if (count > 64) large.resize(count);
    uint64_t* slots = count > 64 ? large.data() : small;
    for (size_t k = 0; k < count; k++) slots[k] = slot_of(entry.args[k], packed, workspaces);
    device.launch(module, i, {slots, count}, grid, stream);
  }
}

}  // namespace tl
