// Opens the CUDA driver once, and never throws; what is missing is kept as text.
#include "runtime/driver.h"

#include <cstdio>

#include "base/dylib.h"
#include "base/error.h"
#include "runtime/device.h"

namespace tl {
namespace {

bool bind_all(CudaDriver& d, const Library& lib) {
  return lib.bind(d.init, "cuInit") && lib.bind(d.driver_version, "cuDriverGetVersion") &&
         lib.bind(d.error_name, "cuGetErrorName") && lib.bind(d.error_string, "cuGetErrorString") &&
         lib.bind(d.device_count, "cuDeviceGetCount") && lib.bind(d.device_name, "cuDeviceGetName") &&
         lib.bind(d.device_attribute, "cuDeviceGetAttribute") &&
         lib.bind(d.context_retain, "cuDevicePrimaryCtxRetain") &&
         lib.bind(d.context_get, "cuCtxGetCurrent") && lib.bind(d.context_push, "cuCtxPushCurrent_v2") &&
         lib.bind(d.context_pop, "cuCtxPopCurrent_v2") && lib.bind(d.context_device, "cuCtxGetDevice") &&
         lib.bind(d.module_load, "cuModuleLoadData") && lib.bind(d.module_unload, "cuModuleUnload") &&
         lib.bind(d.module_function, "cuModuleGetFunction") &&
         lib.bind(d.function_set, "cuFuncSetAttribute") && lib.bind(d.launch, "cuLaunchKernel") &&
         lib.bind(d.launch_together, "cuLaunchCooperativeKernel") && lib.bind(d.fill, "cuMemsetD8Async") &&
         lib.bind(d.allocate, "cuMemAlloc_v2") && lib.bind(d.release, "cuMemFree_v2") &&
         lib.bind(d.allocate_async, "cuMemAllocAsync") && lib.bind(d.release_async, "cuMemFreeAsync") &&
         lib.bind(d.copy_in, "cuMemcpyHtoDAsync_v2") && lib.bind(d.copy_out, "cuMemcpyDtoHAsync_v2") &&
         lib.bind(d.stream_wait, "cuStreamSynchronize") && lib.bind(d.stream_create, "cuStreamCreate") &&
         lib.bind(d.stream_destroy, "cuStreamDestroy_v2") &&
         lib.bind(d.module_global, "cuModuleGetGlobal_v2") &&
         lib.bind(d.host_register, "cuMemHostRegister_v2") &&
         lib.bind(d.host_address, "cuMemHostGetDevicePointer_v2") &&
         lib.bind(d.pointer_attributes, "cuPointerGetAttributes") &&
         lib.bind(d.event_create, "cuEventCreate") && lib.bind(d.event_record, "cuEventRecord") &&
         lib.bind(d.event_wait, "cuEventSynchronize") && lib.bind(d.event_elapsed, "cuEventElapsedTime") &&
         lib.bind(d.event_destroy, "cuEventDestroy_v2");
}

CudaDriver* open_driver() {
  auto& d = *new CudaDriver{};
  std::string error;
  Library library = open_library("libcuda.so.1", &error);
  if (!library) {
    d.missing =
        fmt::format("no NVIDIA driver ({}); install one (Debian: `apt install nvidia-driver`)", error);
  } else if (!bind_all(d, library)) {
    d.missing = "the NVIDIA driver is older than CUDA 11.2; install a newer one";
  } else if (int status = d.init(0); status != 0) {
    d.missing = "the NVIDIA driver does not start: " + d.describe(status);
  } else {
    d.driver_version(&d.version);
    d.device_count(&d.devices);
    library.bind(d.capture_mode, "cuThreadExchangeStreamCaptureMode");
    library.bind(d.function_load, "cuFuncLoad");
    library.bind(d.stream_capturing, "cuStreamIsCapturing");
    library.bind(d.launch_with, "cuLaunchKernelEx");
    library.bind(d.tensor_map_encode, "cuTensorMapEncodeTiled");
    if (d.devices == 0) d.missing = "the NVIDIA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)";
  }
  return &d;
}

}  // namespace

const CudaDriver& cuda_driver() {
  static const CudaDriver* const driver = open_driver();
  return *driver;
}

std::string CudaDriver::describe(int error) const {
  const char *error_id = nullptr, *text = nullptr;
  error_name(error, &error_id);
  error_string(error, &text);
  return fmt::format("{} ({})", error_id ? error_id : std::to_string(error), text ? text : "no text");
}

CudaChip parse_chip(const std::string& name) {
  CudaChip chip;
  int read = std::sscanf(name.c_str(), "sm%*1[_]%d%c", &chip.number, &chip.letter);
  return read >= 1 ? chip : CudaChip{};
}

std::string chip_name(int major, int minor) { return fmt::format("{}_{}{}", "sm", major, minor); }

int cuda_driver_version() { return cuda_driver().version; }
int cuda_count() { return cuda_driver().devices; }

}  // namespace tl
