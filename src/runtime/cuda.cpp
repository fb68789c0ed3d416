// An NVIDIA GPU as a device, through the driver's API alone.  Each GPU's primary context is shared with
// PyTorch and other libraries; every call here makes it current for its duration and restores the caller's.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/driver.h"
#include "runtime/failure.h"

namespace tl {
namespace {

using Driver = CudaDriver;

enum : int {  // CUdevice_attribute, CUfunction_attribute, CUpointer_attribute
  compute_major = 75,
  compute_minor = 76,
  shared_optin = 97,
  pools_supported = 115,
  max_dynamic_shared = 8,
  memory_type = 2,
  device_ordinal = 9,
  too_many_blocks = 720,      // CUresult: of a cooperative launch
  default_shared = 48 << 10,  // more dynamic shared memory than this must be asked for
};

Driver::StreamHandle handle(Stream stream) { return reinterpret_cast<Driver::StreamHandle>(stream); }
Driver::Address address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// A GPU reports a fault at some later call.  These are the kernels that may have caused it.
struct RecentLaunches {
  static constexpr unsigned size = 4;
  std::atomic<const char*> names[size] = {};
  std::atomic<unsigned> count{0};

  void add(const char* name) { names[count.fetch_add(1) % size].store(name, std::memory_order_relaxed); }
  void forget() { count.store(0); }
  std::string list() const {
    std::set<std::string> found;
    for (unsigned i = 0; i < std::min(count.load(), size); i++)
      if (const char* name = names[i].load()) found.insert(name);
    return fmt::format("{}", fmt::join(found, ", "));
  }
};

const char* intern(const std::string& name) {
  static std::mutex lock;
  static auto* names = new std::set<std::string>;
  std::lock_guard guard(lock);
  return names->insert(name).first->c_str();
}

struct Current {  // makes a context current, and puts the former one back
  bool pushed = false;
  explicit Current(Driver::Context wanted) {
    Driver::Context now = nullptr;
    const Driver& d = cuda_driver();
    if (d.context_get(&now) == 0 && now == wanted) return;
    if (int status = d.context_push(wanted); status != 0)
      throw RuntimeError("the GPU's context is not usable: " + d.describe(status));
    pushed = true;
  }
  Current(const Current&) = delete;
  ~Current() {
    Driver::Context popped;
    if (pushed) cuda_driver().context_pop(&popped);
  }
};

// While it lives, this thread may load modules although some stream is being captured into a graph.
struct Uncaptured {
  int mode = 2;  // relaxed; then the one before
  Uncaptured() { exchange(); }
  Uncaptured(const Uncaptured&) = delete;
  ~Uncaptured() { exchange(); }
  void exchange() {
    if (auto* function = cuda_driver().capture_mode) function(&mode);
  }
};

class Cuda final : public Device {
 public:
  explicit Cuda(int number) {
    type = device_cuda;
    ordinal = number;
    char text[256] = {};
    d.device_name(text, sizeof text - 1, number);
    name = text;
    chip = chip_name(attribute(compute_major), attribute(compute_minor));
    most_shared = attribute(shared_optin);
    has_pools = attribute(pools_supported) != 0;
    constexpr int in_graphs = 12030;  // the driver that captures early launches, too
    launches_early = d.launch_with && d.version >= in_graphs && attribute(compute_major) >= 9;
  }

  Module load(const Program& program, const DeviceBinary& binary) override {
    check_chip(program);
    for (const EntrySpec& entry : program.entries)
      if (entry.shared_bytes > most_shared)
        throw RuntimeError(
            fmt::format("{}: kernel '{}' needs {} bytes of shared memory a block, but {} has {}",
                        program.name, entry.name, entry.shared_bytes, name, most_shared));
    Uncaptured uncaptured;
    Current current(context());
    Driver::Image image = nullptr;
    check(d.module_load(&image, binary.bytes.data()), fmt::format("{}: loading the cubin", program.name));
    Module module;
    module.image = std::shared_ptr<void>(image, [owner = context()](void* loaded) {
      Driver::Context
          popped;  // at the end of the process the driver may be gone already: then nothing happens
      if (cuda_driver().context_push(owner) != 0) return;
      cuda_driver().module_unload(static_cast<Driver::Image>(loaded));
      cuda_driver().context_pop(&popped);
    });
    for (const EntrySpec& entry : program.entries)
      module.entries.push_back(find_entry(image, program, entry));
    place_failures(image);
    return module;
  }

  void launch(const Module& module, size_t index, std::span<const uint64_t> slots,
              const std::array<int64_t, 3>& grid, Stream stream) override {
    const LoadedEntry& entry = module.entries[index];
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535)
      throw RuntimeError(
          fmt::format("kernel '{}': a grid of {} x {} x {} blocks; CUDA allows 2147483647 x 65535 x 65535",
                      entry.name, grid[0], grid[1], grid[2]));
    constexpr size_t most = 128;
    void* small[most];
    std::vector<void*> large(slots.size() > most ? slots.size() : 0);
    void** parameters = slots.size() > most ? large.data() : small;
    for (size_t i = 0; i < slots.size(); i++) parameters[i] = const_cast<uint64_t*>(&slots[i]);
    for (size_t i = slots.size() - entry.maps; i < slots.size(); i++)
      parameters[i] = reinterpret_cast<void*>(slots[i]);
    Current current(context());
    auto code = static_cast<Driver::Function>(entry.code);
    auto x = unsigned(grid[0]), y = unsigned(grid[1]), z = unsigned(grid[2]),
         shared = unsigned(entry.shared_bytes);
    auto [tx, ty, tz] = entry.threads;
    int status = entry.dependent && launches_early ? launch_early(entry, grid, handle(stream), parameters)
                 : entry.cooperative
                     ? d.launch_together(code, x, y, z, tx, ty, tz, shared, handle(stream), parameters)
                     : d.launch(code, x, y, z, tx, ty, tz, shared, handle(stream), parameters, nullptr);
    if (status == too_many_blocks)
      throw RuntimeError(fmt::format(
          "kernel '{}': its blocks wait for one another (T.sync_grid), so all {} of them must run at once, "
          "but {} has no room for so many of {} threads and {} bytes of shared memory; make the grid smaller "
          "and let each block loop",
          entry.name, grid[0] * grid[1] * grid[2], name, int64_t(tx) * ty * tz, entry.shared_bytes));
    if (status != 0)
      check(status,
            fmt::format(
                "launching kernel '{}' (grid {} x {} x {}, {} x {} x {} threads, {} bytes of shared memory)",
                entry.name, grid[0], grid[1], grid[2], entry.threads[0], entry.threads[1], entry.threads[2],
                entry.shared_bytes));
    recent.add(entry.name);
    if (stream != 0) keep_if_captured(module, handle(stream));
  }

  EncodedTensorMap encode(const TensorMapSpec& map, const TensorMapView& view) override {
    Current current(context());  // the driver asks for one, and a thread may have none yet
    return encode_tensor_map(map, view);
  }
  void* allocate(size_t bytes, Stream stream) override {
    Current current(context());
    Driver::Address memory = 0;
    int status = has_pools ? d.allocate_async(&memory, bytes, handle(stream)) : d.allocate(&memory, bytes);
    if (status != 0) check(status, fmt::format("allocating {} bytes", bytes));
    return reinterpret_cast<void*>(memory);
  }
  void release(void* memory, Stream stream) override {
    Current current(context());
    if (has_pools)
      d.release_async(address(memory), handle(stream));
    else
      d.release(address(memory));  // waits for the kernels that use it
  }
  void clear(void* memory, size_t bytes, Stream stream) override {
    Current current(context());
    check(d.fill(address(memory), 0, bytes, handle(stream)), "clearing a workspace");
  }
  void copy_in(void* to, const void* from, size_t bytes, Stream stream) override {
    Current current(context());
    check(d.copy_in(address(to), from, bytes, handle(stream)), "copying to the GPU");
  }
  void copy_out(void* to, const void* from, size_t bytes, Stream stream) override {
    Current current(context());
    check(d.copy_out(to, address(from), bytes, handle(stream)), "copying from the GPU");
    check(d.stream_wait(handle(stream)), "copying from the GPU");
  }
  void synchronize(Stream stream) override {
    Current current(context());
    check(d.stream_wait(handle(stream)), "waiting for the GPU");
    recent.forget();
  }
  uint64_t record(Stream stream) override {
    Current current(context());
    Driver::Event event = nullptr;
    check(d.event_create(&event, 0), "creating an event");
    check(d.event_record(event, handle(stream)), "recording an event");
    return reinterpret_cast<uintptr_t>(event);
  }
  double elapsed_ms(uint64_t from, uint64_t to) override {
    Current current(context());
    auto first = reinterpret_cast<Driver::Event>(from), last = reinterpret_cast<Driver::Event>(to);
    float ms = 0;
    check(d.event_wait(last), "waiting for the GPU");
    check(d.event_elapsed(&ms, first, last), "timing");
    d.event_destroy(first);
    d.event_destroy(last);
    return ms;
  }

 private:
  const Driver& d = cuda_driver();
  int most_shared = 0;
  bool has_pools = false, launches_early = false;
  std::once_flag retained;
  Driver::Context primary = nullptr;
  RecentLaunches recent;

  // A graph may be replayed when nobody holds the kernel any more: its code stays.
  void keep_if_captured(const Module& module, Driver::StreamHandle stream) const {
    int status = 0;
    if (!d.stream_capturing || d.stream_capturing(stream, &status) != 0 || status == 0) return;
    static std::mutex lock;
    static auto* kept = new std::set<std::shared_ptr<void>>;
    std::lock_guard guard(lock);
    kept->insert(module.image);
  }

  int attribute(int which) const {
    int value = 0;
    d.device_attribute(&value, which, ordinal);
    return value;
  }

  Driver::Context context() {  // made at the first use: asking for the chip's name must not cost 0.3 s
    std::call_once(retained, [&] { check(d.context_retain(&primary, ordinal), "starting the GPU"); });
    return primary;
  }

  void check(int status, const std::string& what) const {
    if (status == 0) return;
    std::string text = fmt::format("{} on {} (cuda:{}) failed: {}", what, name, ordinal, d.describe(status));
    if (std::string kernels = recent.list(); !kernels.empty())
      text += fmt::format("; a fault may come from a kernel that was launched before: {}", kernels);
    if (std::string said = take_device_failure(); !said.empty()) text = fmt::format("{} ({})", said, text);
    throw RuntimeError(text);
  }

  // A cubin runs on its own major version, from its own minor version on; with the letter a, only there.
  void check_chip(const Program& program) const {
    CudaChip made = parse_chip(program.chip);
    int here = attribute(compute_major) * 10 + attribute(compute_minor);
    bool same_major = made.number / 10 == here / 10;
    if (made.letter == 'a' ? made.number != here : !same_major || made.number > here)
      throw RuntimeError(
          fmt::format("{}: was compiled for {}, but cuda:{} ({}) is {}; compile for target=\"cuda -arch={}\"",
                      program.name, program.chip, ordinal, name, chip, chip));
  }

  // The kernel may begin before the one in front of it has ended; its pdl_sync waits for that.
  int launch_early(const LoadedEntry& entry, const std::array<int64_t, 3>& grid, Driver::StreamHandle stream,
                   void** parameters) const {
    constexpr int cooperative = 2, programmatic_serialization = 6;  // CUlaunchAttributeID
    Driver::LaunchAttribute attributes[] = {{.id = programmatic_serialization, .padding = 0, .value = 1},
                                            {.id = cooperative, .padding = 0, .value = 1}};
    Driver::LaunchConfig config{.grid = {unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2])},
                                .block = {entry.threads[0], entry.threads[1], entry.threads[2]},
                                .shared_bytes = unsigned(entry.shared_bytes),
                                .stream = stream,
                                .attributes = attributes,
                                .count = entry.cooperative ? 2u : 1u};
    return d.launch_with(&config, static_cast<Driver::Function>(entry.code), parameters, nullptr);
  }

  LoadedEntry find_entry(Driver::Image image, const Program& program, const EntrySpec& entry) const {
    Driver::Function function = nullptr;
    std::string where = fmt::format("{}: kernel '{}'", program.name, entry.name);
    check(d.module_function(&function, image, entry.name.c_str()), where);
    if (entry.shared_bytes > default_shared)
      check(d.function_set(function, max_dynamic_shared, int(entry.shared_bytes)),
            where + ": asking for shared memory");
    if (d.function_load) d.function_load(function);  // else the driver does it at the first launch
    return {.name = intern(entry.name),
            .code = function,
            .threads = {unsigned(entry.threads[0]), unsigned(entry.threads[1]), unsigned(entry.threads[2])},
            .shared_bytes = entry.shared_bytes,
            .arena_bytes = 0,
            .cooperative = entry.cooperative,
            .dependent = entry.dependent,
            .maps = size_t(std::ranges::count_if(
                entry.args, [](auto& arg) { return arg.from == EntrySpec::Arg::From::map; }))};
  }
};

}  // namespace

Device* cuda_device(int ordinal, std::string* reason) {
  const Driver& d = cuda_driver();
  if (ordinal < 0 || ordinal >= d.devices) {
    if (reason)
      *reason = d.missing.empty() ? fmt::format("there is no cuda:{}, only {} GPUs", ordinal, d.devices)
                                  : d.missing;
    return nullptr;
  }
  static std::mutex lock;
  static auto* opened = new std::map<int, std::unique_ptr<Cuda>>;  // they outlive every module
  std::lock_guard guard(lock);
  std::unique_ptr<Cuda>& device = (*opened)[ordinal];
  if (!device) device = std::make_unique<Cuda>(ordinal);
  return device.get();
}

int cuda_current_ordinal() {
  const Driver& d = cuda_driver();
  int ordinal = 0;
  Driver::Context now = nullptr;
  if (d.devices == 0 || d.context_get(&now) != 0 || !now || d.context_device(&ordinal) != 0) return 0;
  return ordinal;
}

std::optional<int> cuda_pointer_device(const void* pointer) {
  const Driver& d = cuda_driver();
  enum { device_memory = 2 };
  const int wanted[] = {memory_type, device_ordinal};
  unsigned kind = 0;
  int ordinal = 0;
  void* values[] = {&kind, &ordinal};  // stay 0 for memory that the driver does not know
  if (d.devices == 0 || d.pointer_attributes(2, wanted, values, address(pointer)) != 0) return std::nullopt;
  return kind == device_memory ? std::optional(ordinal) : std::nullopt;
}

}  // namespace tl
