// PyTorch by its C functions.  All state is what was learnt, once, and is guarded by the GIL.
#include "torch_tensors.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

using namespace tl;

namespace torch_tensors {
namespace {

using Handle = void*;  // at::Tensor*

struct Functions {
  int (*data)(Handle, void**);
  int (*dim)(Handle, int64_t*);
  int (*sizes)(Handle, int64_t**);
  int (*strides)(Handle, int64_t**);
  int (*dtype)(Handle, int32_t*);
  int (*device_type)(Handle, int32_t*);
  int (*device_index)(Handle, int32_t*);
  int (*layout)(Handle, int32_t*);
  bool (*recording)();
  bool (*negated)(Handle) = nullptr;  // C++, and so perhaps not there
};

template <class F>
bool bind(void* library, F*& function, const char* name) {
  return (function = reinterpret_cast<F*>(dlsym(library, name)));
}

const Functions* functions() {
  static Functions f;
  static const bool found = [] {
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);  // the one that is there, or none
    if (library) bind(library, f.negated, "_ZN2at6native6is_negERKNS_6TensorE");  // at::native::is_neg
    return library && bind(library, f.data, "aoti_torch_get_data_ptr") &&
           bind(library, f.dim, "aoti_torch_get_dim") && bind(library, f.sizes, "aoti_torch_get_sizes") &&
           bind(library, f.strides, "aoti_torch_get_strides") &&
           bind(library, f.dtype, "aoti_torch_get_dtype") &&
           bind(library, f.device_type, "aoti_torch_get_device_type") &&
           bind(library, f.device_index, "aoti_torch_get_device_index") &&
           bind(library, f.layout, "aoti_torch_get_layout") &&
           bind(library, f.recording, "aoti_torch_grad_mode_is_enabled");
  }();
  return found ? &f : nullptr;
}

struct Element {
  bool known = false;
  uint8_t code = 0, bits = 0;
  uint16_t lanes = 1;
};

// What was learnt.  Under the GIL.
constexpr int most_types = 64, most_devices = 32;
const Functions* quick = nullptr;  // null until the first comparison, and for good where it failed
bool failed = false;
size_t offset = 0;  // of the at::Tensor in its Python object
Element elements[most_types];
int device_types[most_devices];  // DLPack's number; 0: not known

Handle handle_in(PyObject* object) { return reinterpret_cast<char*>(object) + offset; }

struct Numbers {  // PyTorch's own
  int32_t dtype = -1, device = -1, index = -1, layout = -1;
};

bool get_numbers(Handle h, Numbers& n) {
  return quick->layout(h, &n.layout) == 0 && n.layout == 0 && quick->dtype(h, &n.dtype) == 0 &&
         quick->device_type(h, &n.device) == 0 && uint32_t(n.dtype) < most_types &&
         uint32_t(n.device) < most_devices;
}

bool get_memory(Handle h, TensorView& view) {
  int64_t ndim = 0, *sizes = nullptr, *strides = nullptr;
  if (quick->dim(h, &ndim) || quick->sizes(h, &sizes) || quick->strides(h, &strides) ||
      quick->data(h, &view.data))
    return false;
  view.ndim = int(ndim);
  view.shape = sizes;
  view.strides = strides;
  return true;
}

// Where the pointer stands that Python's `_cdata` tells.
bool find_offset(PyObject* object) {
  nb::object told = nb::steal<nb::object>(PyObject_GetAttrString(object, "_cdata"));
  if (!told.is_valid()) return PyErr_Clear(), false;
  void* wanted = PyLong_AsVoidPtr(told.ptr());
  auto size = size_t(Py_TYPE(object)->tp_basicsize);
  for (offset = sizeof(PyObject); offset + sizeof(void*) <= std::min<size_t>(size, 64);
       offset += sizeof(void*))
    if (std::memcmp(reinterpret_cast<char*>(object) + offset, &wanted, sizeof wanted) == 0) return true;
  return PyErr_Clear(), false;
}

bool agrees(const TensorView& view, const dlpack::Tensor& t) {
  return view.ndim == t.ndim && std::equal(view.shape, view.shape + view.ndim, t.shape) &&
         (!t.strides || std::equal(view.strides, view.strides + view.ndim, t.strides)) &&
         view.data == static_cast<char*>(t.data) + t.byte_offset;
}

// The first tensor of all, of an element type, of a kind of device: DLPack says what it is.
bool learn(PyObject* object, const dlpack::ExchangeApi& api) {
  if (!quick && (!functions() || !find_offset(object))) return failed = true, false;
  dlpack::Tensor t{};
  if (api.borrow(object, &t) != 0) return PyErr_Clear(), false;  // and asked again, it will say why
  quick = functions();
  Numbers n;
  TensorView view;
  if (!get_numbers(handle_in(object), n)) return false;
  if (!get_memory(handle_in(object), view) || !agrees(view, t)) {
    quick = nullptr;
    return failed = true, false;
  }
  elements[n.dtype] = {true, t.code, t.bits, t.lanes};
  device_types[n.device] = t.device_type;
  return true;
}

}  // namespace

bool is_plain(PyTypeObject* type) {
  std::string_view name = type->tp_name;  // of a class of Python's without its module
  nb::object module =
      nb::steal<nb::object>(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  if (!module.is_valid() || !PyUnicode_Check(module.ptr())) return PyErr_Clear(), false;
  std::string from = nb::cast<std::string>(module);
  return (name == "Tensor" && from == "torch") || (name == "Parameter" && from == "torch.nn.parameter");
}

bool is_negated(PyObject* object, bool is_plain) {
  if (is_plain && quick && quick->negated) return quick->negated(handle_in(object));
  nb::object answer = nb::steal<nb::object>(PyObject_CallMethod(object, "is_neg", nullptr));
  if (!answer.is_valid()) return PyErr_Clear(), false;
  return answer.ptr() == Py_True;
}

bool read(PyObject* object, const dlpack::ExchangeApi& api, TensorView& view) {
  if (failed || (!quick && !learn(object, api))) return false;
  Handle h = handle_in(object);
  Numbers n;
  if (!get_numbers(h, n)) return false;
  if ((!elements[n.dtype].known || !device_types[n.device]) && !learn(object, api)) return false;
  if (!get_memory(h, view)) return false;
  const Element& e = elements[n.dtype];
  view.code = e.code;
  view.bits = e.bits;
  view.lanes = e.lanes;
  view.device_type = device_types[n.device];
  view.device_id = 0;
  if (n.device == 0) return true;
  if (quick->device_index(h, &n.index) != 0) return false;
  view.device_id = n.index;
  return true;
}

bool is_recording() {
  if (const Functions* f = functions()) return f->recording();
  return nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")());
}

}  // namespace torch_tensors
