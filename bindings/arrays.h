// The arrays of other libraries.  How a type hands over its memory is found out once per type: by DLPack's C
// table (PyTorch), NumPy's own record, the buffer protocol, the array interfaces, or a DLPack capsule
// (everybody else).
#pragma once
#include <memory>

#include "api/kernel.h"
#include "convert.h"
#include "dlpack.h"

struct ArrayType {
  enum class Protocol : uint8_t { none, exchange, numpy, buffer, array_interface, cuda_interface, capsule };
  enum class Family : uint8_t { other, numpy, torch, cupy, jax };
  Protocol protocol = Protocol::none;
  Family family = Family::other;
  bool is_record_checked = false;  // NumPy: this type's record was compared with what its attributes say
  bool is_torch_tensor = false;    // read by torch_tensors.h
  bool is_masked = false;          // NumPy: elements may be masked
  bool takes_version = true;       // capsule: __dlpack__ knows max_version
  const dlpack::ExchangeApi* api = nullptr;
};

// The type that was asked for last; under the GIL.
struct LastArrayType {
  PyTypeObject* type;
  ArrayType* found;
};
extern constinit LastArrayType last_array_type;
ArrayType& find_array_type(PyTypeObject* type);

// The reference is good until the next call: a type that is not remembered is looked up again.
inline ArrayType& array_type(PyTypeObject* type) {
  return type == last_array_type.type ? *last_array_type.found : find_array_type(type);
}

// What views point to where their owners have it in another form; lives as long as the call.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  ~Borrowed();
  // False where the object is no array.  Throws nb::type_error for an array that no kernel takes: its text
  // says what the object is ("an array of elements `c`"); nb::python_error where the library refuses.
  // `stream` is where a GPU's array must be ready; -1 leaves that to the caller.
  bool read(nb::handle object, tl::TensorView& view, int64_t stream) {
    return read(object, array_type(Py_TYPE(object.ptr())), view, stream);
  }
  bool read(nb::handle object, ArrayType& type, tl::TensorView& view, int64_t stream);

 private:
  struct Extents {
    std::vector<int64_t> shape, strides;
  };
  std::vector<std::unique_ptr<Extents>> extents;
  std::vector<std::unique_ptr<Py_buffer>> buffers;
  std::vector<nb::object> kept;

  bool read_numpy(nb::handle object, ArrayType& type, tl::TensorView& view);
  void read_buffer(nb::handle object, tl::TensorView& view);
  void read_array_interface(nb::handle object, tl::TensorView& view);
  void read_cuda_interface(nb::handle object, tl::TensorView& view);
  void read_capsule(nb::handle object, ArrayType& type, tl::TensorView& view, int64_t stream);
  void set_extents(tl::TensorView& view, std::vector<int64_t> shape, std::vector<int64_t> byte_strides);
};

[[noreturn]] void unusable(const std::string& what);
std::string class_name(nb::handle object);
