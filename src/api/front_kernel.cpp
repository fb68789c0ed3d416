// tilelang.h: functions, compiled kernels, tensors on a device.

#include "api/front.h"
#include "base/error.h"
#include "base/product.h"
#include "ir/text.h"

namespace tilelang {
namespace detail {

// A block of a device's memory, row-major.
struct MemoryImpl {
  tl::Device& device;
  void* data;
  size_t bytes;
  MemoryImpl(tl::Device& device, size_t bytes)
      : device(device),
        data(device.allocate(std::max<size_t>(bytes, 1), 0)),
        bytes(bytes) {}
  MemoryImpl(const MemoryImpl&) = delete;
  ~MemoryImpl() { device.release(data, 0); }
};

Function Access::function(tl::Function f) {
  Function out;
  out.impl = std::make_shared<const FunctionImpl>(FunctionImpl{std::move(f)});
  return out;
}
const tl::Function& Access::function(const Function& f) {
  if (!f.impl) tl::fail({}, "this Function is empty: use what Builder::finish() or parse() gives");
  return f.impl->function;
}
Kernel Access::kernel(std::shared_ptr<tl::CompiledKernel> k) {
  Kernel out;
  out.impl = std::make_shared<KernelImpl>(KernelImpl{std::move(k)});
  return out;
}
DeviceTensor Access::device_tensor(TensorRef view, std::shared_ptr<MemoryImpl> memory) {
  DeviceTensor out;
  out.view = std::move(view);
  out.memory = std::move(memory);
  return out;
}

tl::TensorView view_of(const TensorRef& t) {
  tl::DlType type = tl::dl_type(to_string(type_of(t.type)));
  if (!t.strides.empty() && t.strides.size() != t.shape.size())
    throw tl::ArgumentError(
        fmt::format("a tensor has {} extents but {} strides", t.shape.size(), t.strides.size()));
  return {.data = t.data,
          .code = type.code,
          .bits = type.bits,
          .ndim = int(t.shape.size()),
          .shape = t.shape.data(),
          .strides = t.strides.empty() ? nullptr : t.strides.data(),
          .device_type = t.on_gpu ? tl::device_cuda : tl::device_cpu,
          .device_id = t.on_gpu ? t.device : 0,
          .readonly = t.readonly};
}

static tl::Device& device_of(const KernelImpl& k) {
  if (k.kernel->device_type() == tl::device_cpu) return tl::cpu_device();
  std::string reason;
  if (auto* device = tl::cuda_device(tl::cuda_current_ordinal(), &reason)) return *device;
  throw tl::RuntimeError(reason);
}

static size_t bytes_of(const TensorRef& t) { return size_t(type_of(t.type).bytes() * tl::product(t.shape)); }

}  // namespace detail

using detail::Access;

std::string Function::name() const { return Access::function(*this).name; }
std::string Function::text() const { return tl::print(Access::function(*this)); }

Function parse(std::string_view text, std::string_view file) {
  return Access::function(tl::parse_text(text, file));
}

Kernel compile(const Function& function, std::string_view target, const CompileOptions& options) {
  tl::Settings settings;
  settings.options.flags = options.flags;
  settings.options.fast_math = options.fast_math;
  settings.options.deterministic = options.deterministic;
  settings.options.strict = options.strict;
  settings.dump_dir = options.dump_dir;
  if (!options.cache)
    settings.cache = tl::Cache{};
  else if (!options.cache_dir.empty())
    settings.cache = tl::Cache{.folder = options.cache_dir};
  return Access::kernel(tl::compile_kernel(Access::function(function), target, std::move(settings)));
}

void Kernel::launch(const std::vector<Argument>& arguments, uint64_t stream) const {
  std::vector<tl::Argument> made;
  for (auto& a : arguments) {
    if (auto* t = std::get_if<TensorRef>(&a))
      made.push_back(detail::view_of(*t));
    else if (auto* n = std::get_if<int64_t>(&a))
      made.push_back(*n);
    else if (auto* large = std::get_if<uint64_t>(&a))
      made.push_back(*large);
    else
      made.push_back(std::get<double>(a));
  }
  impl->kernel->launch(made, stream);
}

void Kernel::synchronize() const { detail::device_of(*impl).synchronize(0); }

DeviceTensor Kernel::to_device(const TensorRef& host) const {
  if (host.on_gpu || !host.strides.empty())
    throw tl::ArgumentError("to_device takes row-major memory of the host");
  tl::Device& device = detail::device_of(*impl);
  auto memory = std::make_shared<detail::MemoryImpl>(device, detail::bytes_of(host));
  if (memory->bytes) device.copy_in(memory->data, host.data, memory->bytes, 0);
  TensorRef view = host;
  view.data = memory->data;
  view.readonly = false;
  view.on_gpu = device.type == tl::device_cuda;
  view.device = device.ordinal;
  return Access::device_tensor(std::move(view), std::move(memory));
}

void DeviceTensor::to_host(void* data) const {
  if (memory->bytes) memory->device.copy_out(data, memory->data, memory->bytes, 0);
}

std::string Kernel::target() const { return impl->kernel->target.text(); }
std::string Kernel::source() const { return impl->kernel->source; }
std::string Kernel::explain() const { return impl->kernel->current_report().text(); }

}  // namespace tilelang
