// From arguments to launches.
#include "runtime/executable.h"

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "runtime/recent_maps.h"

namespace tl {
namespace {

// What one call allocates, given back to the device's stream at the end.
struct Workspaces {
  Device& device;
  Stream stream;
  size_t count = 0;
  void* few[8] = {};
  std::vector<void*> many;  // all, where they are more than a few

  Workspaces(Device& d, Stream s) : device(d), stream(s) {}
  Workspaces(const Workspaces&) = delete;
  void* operator[](size_t i) const { return many.empty() ? few[i] : many[i]; }
  void add(int64_t bytes, bool zeroed) {
    if (count == std::size(few)) many.assign(few, few + count);
    auto size = size_t(std::max<int64_t>(bytes, 1));
    void* memory = device.allocate(size, stream);
    if (many.empty())
      few[count] = memory;
    else
      many.push_back(memory);
    count++;
    if (zeroed) device.clear(memory, size, stream);
  }
  ~Workspaces() {
    if (attention.task && attention.task->left_behind) return;  // some thread still uses them
    for (size_t i = 0; i < count; i++) device.release((*this)[i], stream);
  }
};

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Executable::Executable(Program p, DeviceBinary b)
    : program(std::move(p)),
      binary(std::move(b)),
      platform(platform_of(program.language)),
      signature(program, platform.device_type),
      number(next_number()) {}

Device& Executable::device_of(int device_id) const {
  std::string reason;
  Device* device = platform.device(device_id, &reason);
  if (!device) throw RuntimeError(fmt::format("{}: {}", program.name, reason));
  return *device;
}

const Executable::Ready& Executable::ready_on(Device& device) {
  std::lock_guard guard(lock);
  auto it = modules.find(&device);
  if (it == modules.end()) it = modules.emplace(&device, Ready{&device, device.load(program, binary)}).first;
  if (size_t(device.ordinal) < most_devices)
    by_ordinal[size_t(device.ordinal)].store(&it->second, std::memory_order_release);
  return it->second;
}

const Executable::Ready& Executable::ready_on(int device_id) {
  if (device_id < 0) device_id = platform.current();
  if (size_t(device_id) < most_devices)
    if (const Ready* ready = by_ordinal[size_t(device_id)].load(std::memory_order_acquire)) return *ready;
  return ready_on(device_of(device_id));
}

const Module& Executable::prepare(Device& device) { return ready_on(device).module; }

void Executable::call(std::span<const Argument> arguments, Stream stream) {
  Bound bound;
  if (signature.bind(arguments, bound))
    return launch_all(
        ready_on(bound.device_id),
        {{bound.slots.data(), arguments.size()}, {bound.integers.data(), program.integers.size()}}, stream);
  if (platform.simulated_only) {
    std::string reason;
    platform.device(0, &reason);
    throw RuntimeError(fmt::format("{} was compiled for {}, but {}: run it with target='sim:{}'",
                                   program.name, program.chip, reason, program.chip));
  }
  Packed packed;
  check_and_pack(program, arguments, platform.device_type, packed);
  launch_all(ready_on(packed.device_id), {packed.slots, packed.integers}, stream);
}

// Those of an earlier call, or new ones; where they cannot be kept, in `made`.
const std::vector<EncodedTensorMap>* Executable::maps_for(const Ready& ready, const Facts& facts,
                                                          std::span<void* const> addresses,
                                                          std::vector<EncodedTensorMap>& made) const {
  RecentMaps::Key key{.function = number, .words = {}};
  key.add(uint64_t(ready.device->ordinal));
  for (void* address : addresses) key.add(reinterpret_cast<uintptr_t>(address));
  for (int64_t n : facts.integers) key.add(uint64_t(n));
  RecentMaps& recent = RecentMaps::of_this_thread();
  if (key.fits())
    if (auto* found = recent.find(key)) return found;
  for (size_t i = 0; i < addresses.size(); i++) {
    const TensorMapSpec& map = program.maps[i];
    std::vector<int64_t> shape, strides;
    for (auto& e : map.shape) shape.push_back(evaluate(e, facts.integers));
    for (auto& e : map.strides) strides.push_back(evaluate(e, facts.integers));
    made.push_back(ready.device->encode(map, {addresses[i], shape, strides}));
  }
  return key.fits() ? &recent.keep(key, std::move(made)) : &made;
}

void Executable::launch_all(const Ready& ready, const Facts& facts, Stream stream) const {
  Workspaces workspaces(*ready.device, stream);
  for (const Workspace& w : program.workspaces) workspaces.add(evaluate(w.bytes, facts.integers), w.zeroed);
  std::vector<void*> addresses;  // of the tensors that maps are of
  for (const TensorMapSpec& map : program.maps) {
    auto index = size_t(map.index);
    addresses.push_back(map.of_workspace ? workspaces[index] : reinterpret_cast<void*>(facts.slots[index]));
  }
  std::vector<EncodedTensorMap> made;
  const std::vector<EncodedTensorMap>* maps =
      addresses.empty() ? &made : maps_for(ready, facts, addresses, made);
  auto slot_of = [&](const EntrySpec::Arg& arg) -> uint64_t {
    auto index = size_t(arg.index);
    if (arg.from == EntrySpec::Arg::From::map) return reinterpret_cast<uintptr_t>(&(*maps)[index]);
    if (arg.from == EntrySpec::Arg::From::param) return facts.slots[index];
    if (arg.from == EntrySpec::Arg::From::integer) return uint64_t(facts.integers[index]);
    return reinterpret_cast<uintptr_t>(workspaces[index]);
  };
  uint64_t small[64];
  std::vector<uint64_t> large;
  for (size_t i = 0; i < program.entries.size(); i++) {
    const EntrySpec& entry = program.entries[i];
    std::array<int64_t, 3> grid{1, 1, 1};
    for (size_t d = 0; d < entry.grid.size(); d++) grid[d] = evaluate(entry.grid[d], facts.integers);
    if (std::ranges::any_of(grid, [](int64_t extent) { return extent <= 0; })) continue;
    size_t count = entry.args.size();
    if (count > 64) large.resize(count);
    uint64_t* slots = count > 64 ? large.data() : small;
    for (size_t k = 0; k < count; k++) slots[k] = slot_of(entry.args[k]);
    ready.device->launch(ready.module, i, {slots, count}, grid, stream);
  }
}

}  // namespace tl
