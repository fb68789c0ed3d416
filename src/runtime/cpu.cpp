// The CPU as a device: an object is loaded by our own loader, a launch runs the grid on the thread pool and
// returns when it is done.
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/object.h"
#include "runtime/pool.h"

namespace tl {
namespace {

// Large blocks that were released, kept for the next call of the same size: their pages are already there.
struct BlockCache {
  struct Block {
    void* memory;
    size_t bytes;
  };
  static constexpr size_t large = 64 << 10, most = 8;
  std::mutex lock;
  std::vector<Block> in_use, idle;

  void* take(size_t bytes) {
    {
      std::lock_guard guard(lock);
      for (size_t i = 0; i < idle.size(); i++)
        if (idle[i].bytes == bytes) {
          in_use.push_back(idle[i]);
          idle.erase(idle.begin() + std::ptrdiff_t(i));
          return in_use.back().memory;
        }
    }
    constexpr size_t page = 4096, huge = 2u << 20;
    size_t align = bytes >= huge ? huge : page;
    void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!memory) throw RuntimeError(fmt::format("no memory for a workspace of {} bytes", bytes));
    if (align == huge) madvise(memory, bytes, MADV_HUGEPAGE);
    std::lock_guard guard(lock);
    if (bytes >= large) in_use.push_back({memory, bytes});
    return memory;
  }

  void give(void* memory) {
    {
      std::lock_guard guard(lock);
      for (size_t i = 0; i < in_use.size(); i++)
        if (in_use[i].memory == memory) {
          idle.push_back(in_use[i]);
          in_use.erase(in_use.begin() + std::ptrdiff_t(i));
          if (idle.size() <= most) return;
          memory = idle.front().memory;
          idle.erase(idle.begin());
          break;
        }
    }
    std::free(memory);
  }
};

class Cpu final : public Device {
 public:
  Cpu() {
    name = "cpu";
    chip = host_cpu();
  }

  Module load(const Program& program, const DeviceBinary& binary) override {
    if (!cpu_runs(program.chip))
      throw RuntimeError(fmt::format("{}: was compiled for {}, which this processor ({}) does not run",
                                     program.name, program.chip, chip));
    std::vector<std::string> names;
    for (const EntrySpec& entry : program.entries) names.push_back(entry.name);
    LoadedObject object = load_object(binary.bytes, names);
    Module module{.image = object.image};
    for (size_t i = 0; i < names.size(); i++)
      module.entries.push_back({.code = object.symbols[i],
                                .arena_bytes = program.entries[i].arena_bytes,
                                .block_ns = std::make_shared<std::atomic<uint32_t>>(0)});
    return module;
  }

  void launch(const Module& module, size_t index, std::span<const uint64_t> slots,
              const std::array<int64_t, 3>& grid, Stream) override {
    const LoadedEntry& entry = module.entries[index];
    run_grid({.entry = reinterpret_cast<GridJob::Entry>(entry.code),
              .slots = slots,
              .grid = grid,
              .arena_bytes = entry.arena_bytes,
              .block_ns = entry.block_ns.get()});
  }

  void* allocate(size_t bytes, Stream) override { return blocks.take(bytes); }
  void release(void* memory, Stream) override { blocks.give(memory); }
  void clear(void* memory, size_t bytes, Stream) override { std::memset(memory, 0, bytes); }
  void copy_in(void* to, const void* from, size_t bytes, Stream) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, size_t bytes, Stream) override { std::memcpy(to, from, bytes); }
  void synchronize(Stream) override {}
  uint64_t record(Stream) override {
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  }
  double elapsed_ms(uint64_t from, uint64_t to) override { return double(int64_t(to - from)) * 1e-6; }

 private:
  BlockCache blocks;
};

}  // namespace

Device& cpu_device() {
  static Cpu& cpu = *new Cpu;  // outlives every module
  return cpu;
}

}  // namespace tl
