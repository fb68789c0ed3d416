// The C side of DLPack (dmlc.github.io/dlpack), as far as a borrower needs it.
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

// The table behind type.__dlpack_c_exchange_api__, a capsule "dlpack_exchange_api".
struct ExchangeApi {
  uint32_t major, minor;
  ExchangeApi* previous;
  void* unused[3];
  int (*borrow)(void* py_object,
                Tensor* out);  // without synchronisation; 0, or -1 with a Python error; may be null
};

}  // namespace dlpack
