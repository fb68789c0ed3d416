// What runs a compiled function: a device, the binary built for it, and the module loaded from the binary.
// Everything vendor-made is opened by dlopen when first asked for; an error names what is missing and how to
// install it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace tl {

// The machine lacks something, or a device failed: neither the user's program nor the compiler is wrong.
struct RuntimeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The device compiler rejects a flag of Program::flags, or the text.
struct BuildError : std::runtime_error {
  std::string compiler, flag, log;  // "NVRTC 13.0"; empty where it is the text; what the compiler says
  BuildError(const Program& program, std::string by, std::string refused_flag, std::string says);
};

// What the device compiler said of one entry; -1 where it said nothing.
struct Resources {
  std::string entry;
  int registers = -1;
  int64_t static_shared = -1, stack_bytes = -1, spill_stores = -1, spill_loads = -1;
  std::vector<std::string> refusals = {};  // what it did not do as the program asks: its messages C75xx
  bool operator==(const Resources&) const = default;
};

struct Phase {
  std::string name;
  double ms = 0;
};

// The output of the device compiler: a cubin, a code object, or an ELF object.  (`Binary` is a node of the
// IR.)
struct DeviceBinary {
  std::string bytes;
  std::string log;
  std::string toolchain;             // "NVRTC 13.0", "LLVM 19.1.7"
  std::vector<Resources> resources;  // in the order of Program::entries
  std::vector<Phase> phases;         // where the time went; not kept in the cache
};

DeviceBinary build(const Program& program);  // thread-safe; RuntimeError, BuildError
DeviceBinary build_cuda(const Program& program);
DeviceBinary build_llvm(const Program& program);
DeviceBinary build_hip(const Program& program);
// The same program as PTX, by NVRTC; to be read.  Only for a language that takes PTX.
std::string ptx_of(const Program& program);
// Opens the device compiler's library on a thread of its own: called when a compilation starts, this hides
// some 10 ms behind the passes.  Once per process and language; says nothing of failures.  Who holds the
// result waits for it at the latest when it is destroyed: a process must not end while a library is being
// opened.
[[nodiscard]] std::future<void> warm_up(const std::string& language);
// The identity of the compiler that build() would use, from its file without loading it: a part of every
// cache key.
std::string toolchain_id(const std::string& language);

using Stream = uint64_t;  // a CUstream; 0 is the default one.  The CPU runs in the caller's time.

struct LoadedEntry {
  const char* name = "";  // never freed: it outlives the module in reports of faults
  void* code = nullptr;
  std::array<unsigned, 3> threads{1, 1, 1};
  int64_t shared_bytes = 0, arena_bytes = 0;
  std::shared_ptr<std::atomic<uint32_t>> block_ns = {};  // CPU: see GridJob
  bool cooperative = false, dependent = false;
  size_t maps = 0;  // tensor maps, its last parameters
};

// A binary in a device's memory; unloaded with its last copy.
struct Module {
  std::shared_ptr<void> image;
  std::vector<LoadedEntry> entries = {};
};

enum DeviceType : int { device_cpu = 1, device_cuda = 2, device_rocm = 10 };  // as DLPack numbers them

// A tensor map of one call: what TensorMapSpec leaves open.
struct TensorMapView {
  const void* data = nullptr;
  std::span<const int64_t> shape, strides;
};
struct alignas(64) EncodedTensorMap {
  uint64_t words[16] = {};
};

class Device {
 public:
  std::string name;  // "cpu", "NVIDIA H200"
  std::string chip;  // what a bare target means here: "sm_90", "haswell"
  int type = device_cpu, ordinal = 0;

  virtual ~Device() = default;
  virtual Module load(const Program& program, const DeviceBinary& binary) = 0;
  virtual void launch(const Module& module, size_t entry, std::span<const uint64_t> slots,
                      const std::array<int64_t, 3>& grid, Stream stream) = 0;
  // The map as the device's copy engine reads it; an error says which rule it breaks.
  virtual EncodedTensorMap encode(const TensorMapSpec& map, const TensorMapView&) {
    throw RuntimeError("tensor map " + map.name + ": " + name + " has none");
  }
  virtual void* allocate(size_t bytes, Stream stream) = 0;
  virtual void release(void* memory, Stream stream) = 0;
  virtual void clear(void* memory, size_t bytes, Stream stream) = 0;  // to zeros
  virtual void copy_in(void* device, const void* host, size_t bytes, Stream stream) = 0;
  virtual void copy_out(void* host, const void* device, size_t bytes,
                        Stream stream) = 0;  // ends synchronised
  virtual void synchronize(Stream stream) = 0;
  // A moment in the stream; elapsed_ms waits for `to` and destroys both.
  virtual uint64_t record(Stream stream) = 0;
  virtual double elapsed_ms(uint64_t from, uint64_t to) = 0;
};

Device& cpu_device();
Device* rocm_device(int ordinal, std::string* reason = nullptr);  // null: there is no driver for it
int cuda_count();                                                 // 0 where there is no driver
Device* cuda_device(int ordinal, std::string* reason = nullptr);  // null, and the reason, where there is none
int cuda_driver_version();                                        // 13000; 0 without a driver
int cuda_current_ordinal();                                       // of the calling thread; 0 where none is
std::optional<int> cuda_pointer_device(const void* pointer);      // the GPU that owns it; none: host memory

// How many threads a CPU launch uses: TILELANG_NUM_THREADS, else the cores this process may use.
void set_num_threads(int count);  // 0 means the default
int num_threads();

// The best of the CPU levels that codegen distinguishes and this machine runs, by its LLVM name; no libLLVM
// needed.
std::string host_cpu();
bool cpu_runs(const std::string& chip);  // false also for names that are not known
std::vector<std::string> known_cpus();

}  // namespace tl
