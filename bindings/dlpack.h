// The C side of DLPack (dmlc.github.io/dlpack), as far as a borrower, and one who asks for new arrays, needs
// it.
#pragma once
#include <cstdint>

namespace dlpack {

struct Tensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null means row-major
  uint64_t byte_offset;
};
static_assert(sizeof(Tensor) == 48);

// What the capsule "dltensor" points to; the rest of the record belongs to the producer.
struct Managed {
  Tensor tensor;
};

// What the capsule "dltensor_versioned" points to.
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;  // bit 0: read-only
  Tensor tensor;
};

// The table behind type.__dlpack_c_exchange_api__, a capsule "dlpack_exchange_api".  Functions return 0, or
// -1 with a Python error set; none of them synchronises.
struct ExchangeApi {
  using SetError = void(void* context, const char* kind, const char* message);
  uint32_t major, minor;
  ExchangeApi* previous;  // for an older major version
  int (*allocate)(const Tensor* like, ManagedVersioned** out, void* context, SetError* set_error);
  int (*export_managed)(void* py_object, ManagedVersioned** out);
  int (*to_object)(ManagedVersioned* taken, void** py_object);
  int (*borrow)(void* py_object, Tensor* out);  // may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void** stream);
};

}  // namespace dlpack
