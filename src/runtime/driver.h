// The CUDA driver's functions that we use, opened once from libcuda.so.1.  Declared here, so that no CUDA
// header is needed to build; names and numbers are those of cuda.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/device.h"

namespace tl {

struct CudaDriver {
  using Context = struct CUctx_st*;
  using Image = struct CUmod_st*;
  using Function = struct CUfunc_st*;
  using StreamHandle = struct CUstream_st*;
  using Event = struct CUevent_st*;
  using Address = unsigned long long;

  std::string missing;  // why there is no driver; empty if there is one
  int version = 0;      // 13000
  int devices = 0;

  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*error_name)(int, const char**);
  int (*error_string)(int, const char**);
  int (*device_count)(int*);
  int (*device_name)(char*, int size, int device);
  int (*device_attribute)(int*, int attribute, int device);
  int (*context_retain)(Context*, int device);
  int (*context_get)(Context*);
  int (*context_push)(Context);
  int (*context_pop)(Context*);
  int (*context_device)(int*);
  int (*module_load)(Image*, const void*);
  int (*module_unload)(Image);
  int (*module_function)(Function*, Image, const char*);
  int (*function_set)(Function, int attribute, int value);
  int (*launch)(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared_bytes, StreamHandle, void** parameters, void** extra);
  int (*launch_together)(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared_bytes, StreamHandle, void** parameters);
  // cuLaunchKernelEx: with attributes, such as that the kernel may begin before the one in front of it has
  // ended.
  struct LaunchAttribute {
    int id, padding;
    union {
      int value;
      char bytes[64];
    };
  };
  struct LaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    StreamHandle stream;
    LaunchAttribute* attributes;
    unsigned count;
  };
  int (*launch_with)(const LaunchConfig*, Function, void** parameters, void** extra) = nullptr;
  int (*fill)(Address, unsigned char value, size_t bytes, StreamHandle);
  int (*allocate)(Address*, size_t);
  int (*release)(Address);
  int (*allocate_async)(Address*, size_t, StreamHandle);
  int (*release_async)(Address, StreamHandle);
  int (*copy_in)(Address, const void*, size_t, StreamHandle);
  int (*copy_out)(void*, Address, size_t, StreamHandle);
  int (*stream_wait)(StreamHandle);
  int (*pointer_attributes)(unsigned count, const int* attributes, void** values, Address);
  int (*event_create)(Event*, unsigned);
  int (*event_record)(Event, StreamHandle);
  int (*event_wait)(Event);
  int (*event_elapsed)(float*, Event, Event);
  int (*event_destroy)(Event);
  int (*stream_create)(StreamHandle*, unsigned flags);
  int (*stream_destroy)(StreamHandle);
  int (*module_global)(Address*, size_t* bytes, Image, const char* name);
  int (*host_register)(void*, size_t bytes, unsigned flags);
  int (*host_address)(Address*, void*, unsigned flags);  // of registered memory, on the device
  int (*capture_mode)(int*);                             // null in older drivers, and so is:
  int (*function_load)(Function);
  int (*stream_capturing)(StreamHandle, int* status);
  int (*tensor_map_encode)(void* map, int type, unsigned rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps,
                           int interleave, int swizzle, int promotion, int fill);

  // "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  std::string describe(int error) const;
};

const CudaDriver& cuda_driver();
EncodedTensorMap encode_tensor_map(const TensorMapSpec& map, const TensorMapView& view);  // tensor_map.cpp

// A chip's name is "sm", an underscore, major and minor version as one number, and perhaps a letter.
struct CudaChip {
  int number = -1;  // -1: no such name
  char letter = 0;
};
CudaChip parse_chip(const std::string& name);
std::string chip_name(int major, int minor);

}  // namespace tl
