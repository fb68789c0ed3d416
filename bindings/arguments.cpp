// Tensors come by the fastest door that their library has: DLPack's C table (PyTorch), the buffer protocol
// (NumPy), the array interface (NumPy's foreign types: bf16), DLPack itself (everything else).
#include "arguments.h"

#include <unordered_map>

#include "base/error.h"
#include "dlpack.h"

using namespace tl;

namespace {

nb::object or_throw(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal<nb::object>(object);
}

// The attribute, or null where the object has none.
nb::object attribute(nb::handle object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object.ptr(), name);
  if (!found) PyErr_Clear();
  return nb::steal<nb::object>(found);
}

std::string name_of(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

const dlpack::ExchangeApi* find_exchange_api(PyTypeObject* type) {
  nb::object capsule = attribute(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (!capsule.is_valid() || !PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  void* pointer = PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
  if (!pointer) PyErr_Clear();
  auto* api = static_cast<const dlpack::ExchangeApi*>(pointer);
  return api && api->major == 1 && api->borrow ? api : nullptr;
}

// Looked up once per type; a type that is remembered is kept, so that its address stays its own.
const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
  static std::unordered_map<PyTypeObject*, const dlpack::ExchangeApi*> known;
  if (auto it = known.find(type); it != known.end()) return it->second;
  auto* api = find_exchange_api(type);
  if (!api && known.size() > 100) return nullptr;
  Py_INCREF(type);
  return known[type] = api;
}

TensorView view_of(const dlpack::Tensor& t) {
  return {.data = static_cast<char*>(t.data) + t.byte_offset,
          .code = t.code,
          .bits = t.bits,
          .lanes = t.lanes,
          .ndim = t.ndim,
          .shape = t.shape,
          .strides = t.strides,
          .device_type = t.device_type,
          .device_id = t.device_id};
}

// An element's type from the letter of the struct module; 255 for what no kernel takes.
DlType type_of_format(const char* format, Py_ssize_t size) {
  std::string_view text = format ? format : "B";
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text.size() != 1) return {};
  auto bits = uint8_t(size * 8);
  switch (text[0]) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return {0, bits};
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return {1, bits};
    case 'e':
    case 'f':
    case 'd':
      return {2, bits};
    case '?':
      return {6, bits};
    default:
      return {};
  }
}

// Of a NumPy dtype: by its kind, or by its name where the kind says nothing ("bfloat16").
DlType type_of_dtype(nb::handle dtype) {
  auto bits = uint8_t(nb::cast<int>(dtype.attr("itemsize")) * 8);
  std::string name = nb::cast<std::string>(dtype.attr("name")),
              kind = nb::cast<std::string>(dtype.attr("kind"));
  if (name == "bfloat16") return {4, bits};
  if (kind == "i") return {0, bits};
  if (kind == "u") return {1, bits};
  if (kind == "f") return {2, bits};
  return kind == "b" ? DlType{6, bits} : DlType{};
}

[[noreturn]] void unusable(const std::string& what) { throw nb::type_error(what.c_str()); }

std::vector<int64_t> integers_of(nb::handle sequence) {
  std::vector<int64_t> out;
  for (auto& item : items_of(sequence)) out.push_back(nb::cast<int64_t>(item));
  return out;
}

bool is_bool(PyObject* o) {
  std::string_view type = Py_TYPE(o)->tp_name;
  return PyBool_Check(o) || type == "numpy.bool" || type == "numpy.bool_";
}

Argument number(nb::handle object) {
  PyObject* o = object.ptr();
  if (is_bool(o)) return int64_t(PyObject_IsTrue(o) == 1);
  if (PyIndex_Check(o)) {
    PyObject* index = PyNumber_Index(o);
    if (index) {
      nb::object held = nb::steal<nb::object>(index);
      int overflow = 0;
      long long n = PyLong_AsLongLongAndOverflow(index, &overflow);
      if (overflow)
        unusable("the number " + nb::cast<std::string>(nb::str(held)) + ", which does not fit in 64 bits");
      return int64_t(n);
    }
    PyErr_Clear();  // an array may have the slot, and refuse
  }
  PyNumberMethods* slots = Py_TYPE(o)->tp_as_number;
  if (!PyUnicode_Check(o) &&
      (PyFloat_Check(o) || (slots && slots->nb_float) || nb::hasattr(object, "__float__"))) {
    double d = PyFloat_AsDouble(o);
    if (!PyErr_Occurred()) return d;
    PyErr_Clear();
  }
  unusable("a " + name_of(object));
}

}  // namespace

void Arguments::set_extents(TensorView& view, std::vector<int64_t> shape, std::vector<int64_t> byte_strides) {
  int64_t bytes = view.bits / 8;
  for (int64_t& s : byte_strides) {
    if (s % bytes != 0) unusable("an array whose strides are no multiples of its elements");
    s /= bytes;
  }
  extents.emplace_back(new Extents{std::move(shape), std::move(byte_strides)});
  Extents& e = *extents.back();
  view.ndim = int(e.shape.size());
  view.shape = e.shape.data();
  view.strides = e.strides.empty() ? nullptr : e.strides.data();
}

bool Arguments::from_buffer(nb::handle object, TensorView& view) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  auto held = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), held.get(), PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return false;
  }
  const Py_buffer& buffer = *held;
  buffers.push_back(std::move(held));
  DlType type = type_of_format(buffer.format, buffer.itemsize);
  if (type.code == 255 || buffer.suboffsets)
    unusable(fmt::format("an array of elements `{}`", buffer.format ? buffer.format : "B"));
  view.data = buffer.buf;
  view.code = type.code;
  view.bits = type.bits;
  view.readonly = buffer.readonly;
  set_extents(view, {buffer.shape, buffer.shape + buffer.ndim},
              {buffer.strides, buffer.strides + buffer.ndim});
  return true;
}

TensorView Arguments::from_array_interface(nb::handle object, nb::handle interface) {
  nb::object dtype = object.attr("dtype");
  DlType type = type_of_dtype(dtype);
  if (type.code == 255) unusable("an array of " + nb::cast<std::string>(nb::str(dtype)));
  TensorView view{.code = type.code, .bits = type.bits};
  auto data = items_of(interface["data"]);
  view.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data.at(0)));
  view.readonly = nb::cast<bool>(data.at(1));
  nb::object strides = object.attr("strides");
  set_extents(view, integers_of(object.attr("shape")), integers_of(strides));
  return view;
}

TensorView Arguments::from_dlpack(nb::handle object) {
  if (auto* api = exchange_api(Py_TYPE(object.ptr()))) {
    dlpack::Tensor t{};
    if (api->borrow(object.ptr(), &t) != 0) throw nb::python_error();
    return view_of(t);
  }
  auto device = integers_of(object.attr("__dlpack_device__")());
  nb::object capsule;
  if (device.at(0) == device_cpu)
    capsule = object.attr("__dlpack__")();
  else
    capsule = object.attr("__dlpack__")(nb::arg("stream") = -1);  // the caller names the stream of the launch
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  kept.push_back(std::move(capsule));  // frees what it holds, since nobody takes it
  return view_of(managed->tensor);
}

Argument Arguments::tensor(nb::handle object) {
  if (exchange_api(Py_TYPE(object.ptr()))) return from_dlpack(object);
  TensorView view;
  if (from_buffer(object, view)) return view;
  if (nb::object interface = attribute(object, "__array_interface__"); interface.is_valid())
    return from_array_interface(object, interface);
  if (nb::hasattr(object, "__dlpack__")) return from_dlpack(object);
  return number(object);  // which the checks refuse with both types named
}

Arguments::Arguments(nb::handle sequence, const Program& wanted) {
  nb::object items = or_throw(PySequence_Fast(sequence.ptr(), "the arguments of a call must be a sequence"));
  Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
  list.reserve(size_t(count));
  for (Py_ssize_t i = 0; i < count; i++) {
    nb::handle object = PySequence_Fast_GET_ITEM(items.ptr(), i);
    auto param = size_t(i);
    if (object.is_none() || param >= wanted.params.size()) {
      list.push_back(std::monostate{});
      continue;
    }
    const ParamSpec& spec = wanted.params[param];
    try {
      list.push_back(spec.is_tensor || spec.dtype == "handle" ? tensor(object) : number(object));
    } catch (const nb::builtin_exception& e) {
      throw ArgumentError(fmt::format("{}: argument {} '{}' is {}; {} of type {} was expected", wanted.name,
                                      param, spec.name, e.what(), spec.is_tensor ? "a tensor" : "a number",
                                      spec.dtype));
    }
  }
  kept.push_back(std::move(items));
}

Arguments::~Arguments() {
  for (auto& b : buffers) PyBuffer_Release(b.get());
}
