// Reading arrays.  Python exceptions occur only where an array is refused, and once per type.
#include "arrays.h"

#include <unordered_map>

#include "base/error.h"
#include "torch_tensors.h"

using namespace tl;

namespace {

// The attribute of a type, or null where it has none.
nb::object class_attribute(PyTypeObject* type, const char* name) {
  PyObject* found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name);
  if (!found) PyErr_Clear();
  return nb::steal<nb::object>(found);
}

const dlpack::ExchangeApi* find_exchange_api(PyTypeObject* type) {
  nb::object capsule = class_attribute(type, "__dlpack_c_exchange_api__");
  if (!capsule.is_valid() || !PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  auto* api =
      static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!api) PyErr_Clear();
  while (api && api->major > 1) api = api->previous;
  return api && api->major == 1 && api->borrow ? api : nullptr;
}

ArrayType::Family family_of(PyTypeObject* type) {
  nb::object mro = nb::borrow<nb::object>(type->tp_mro);
  for (nb::handle base : nb::borrow<nb::tuple>(mro)) {
    nb::object module = class_attribute(reinterpret_cast<PyTypeObject*>(base.ptr()), "__module__");
    if (!module.is_valid() || !PyUnicode_Check(module.ptr())) continue;
    std::string name = nb::cast<std::string>(module);
    std::string_view top = std::string_view(name).substr(0, name.find('.'));
    if (top == "numpy") return ArrayType::Family::numpy;
    if (top == "torch") return ArrayType::Family::torch;
    if (top == "cupy") return ArrayType::Family::cupy;
    if (top == "jax" || top == "jaxlib") return ArrayType::Family::jax;
  }
  return ArrayType::Family::other;
}

bool derives_from(PyTypeObject* type, std::string_view package, std::string_view name) {
  nb::object mro = nb::borrow<nb::object>(type->tp_mro);
  for (nb::handle base : nb::borrow<nb::tuple>(mro)) {
    nb::object module = class_attribute(reinterpret_cast<PyTypeObject*>(base.ptr()), "__module__");
    if (reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name == name && module.is_valid() &&
        nb::cast<std::string>(nb::str(module)).starts_with(package))
      return true;
  }
  return false;
}

bool derives_from_ndarray(PyTypeObject* type) {
  nb::object mro = nb::borrow<nb::object>(type->tp_mro);
  for (nb::handle base : nb::borrow<nb::tuple>(mro))
    if (std::string_view(reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name) == "numpy.ndarray")
      return true;
  return false;
}

ArrayType look_up(PyTypeObject* type) {
  using Protocol = ArrayType::Protocol;
  ArrayType found{.family = family_of(type)};
  auto has = [&](const char* name) { return class_attribute(type, name).is_valid(); };
  if ((found.api = find_exchange_api(type))) {
    found.protocol = Protocol::exchange;
    found.is_torch_tensor = found.family == ArrayType::Family::torch && torch_tensors::is_plain(type);
  } else if (derives_from_ndarray(type)) {
    found.protocol = Protocol::numpy;
    found.is_masked = derives_from(type, "numpy.ma", "MaskedArray");
  } else if ((found.family == ArrayType::Family::cupy || found.family == ArrayType::Family::jax) &&
             has("__dlpack__"))
    found.protocol = Protocol::capsule;  // their buffers are there for arrays in host memory only
  else if (type->tp_as_buffer && type->tp_as_buffer->bf_getbuffer)
    found.protocol = Protocol::buffer;
  else if (has("__array_interface__"))
    found.protocol = Protocol::array_interface;
  else if (has("__dlpack__"))
    found.protocol = Protocol::capsule;
  else if (has("__cuda_array_interface__"))
    found.protocol = Protocol::cuda_interface;
  return found;
}

std::vector<int64_t> integers_of(nb::handle sequence) {
  std::vector<int64_t> out;
  for (auto& item : items_of(sequence)) out.push_back(nb::cast<int64_t>(item));
  return out;
}

// ── element types ─────────────────────────────────────────────────────────────────────────────────────────

[[noreturn]] void foreign_order(std::string_view what) {
  unusable(fmt::format(
      "an array in foreign byte order ({}), to be converted by a.astype(a.dtype.newbyteorder('='))", what));
}

// From the letter of the struct module; 255 for what no kernel takes.
DlType type_of_format(const char* format, Py_ssize_t size) {
  std::string_view text = format ? format : "B";
  if (text.size() == 2 && (text[0] == '>' || text[0] == '!') && size > 1) foreign_order(text);
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text.size() != 1) return {};
  auto bits = uint8_t(size * 8);
  if (std::string_view("bhilq").find(text[0]) != std::string_view::npos) return {0, bits};
  if (std::string_view("BHILQ").find(text[0]) != std::string_view::npos) return {1, bits};
  if (std::string_view("efd").find(text[0]) != std::string_view::npos) return {2, bits};
  return text[0] == '?' ? DlType{6, bits} : DlType{};
}

// Of a NumPy dtype: by its kind, or by its name where the kind says nothing ("bfloat16").
DlType type_of_dtype(nb::handle dtype) {
  auto bits = uint8_t(nb::cast<int>(dtype.attr("itemsize")) * 8);
  std::string name = nb::cast<std::string>(dtype.attr("name")),
              kind = nb::cast<std::string>(dtype.attr("kind"));
  if (!nb::cast<bool>(dtype.attr("isnative"))) foreign_order(nb::cast<std::string>(dtype.attr("str")));
  if (name == "bfloat16") return {4, bits};
  static constexpr struct {
    std::string_view name, ours;
  } narrow[] = {{"float8_e4m3fn", "e4m3"}, {"float8_e5m2", "e5m2"}, {"float8_e8m0fnu", "e8m0"}};
  for (auto& n : narrow)
    if (name == n.name) return dl_type(n.ours);
  if (name.starts_with("float") && bits == 8) return {};  // a format that no kernel takes
  if (name == "int4" || name == "uint4" || name == "float4_e2m1fn") return {};  // one to a byte: not packed
  if (kind == "i") return {0, bits};
  if (kind == "u") return {1, bits};
  if (kind == "f") return {2, bits};
  return kind == "b" ? DlType{6, bits} : DlType{};
}

// The same, remembered by the dtype object (which is then kept); NumPy has one object for each builtin type.
DlType type_of_descriptor(PyObject* descriptor) {
  static constinit PyObject* last = nullptr;
  static constinit DlType last_type;
  if (descriptor == last) return last_type;
  static std::unordered_map<PyObject*, DlType> known;
  auto it = known.find(descriptor);
  if (it == known.end()) {
    DlType type = type_of_dtype(descriptor);
    if (type.code == 255) unusable("an array of " + nb::cast<std::string>(nb::str(nb::handle(descriptor))));
    if (known.size() >= 1000) return type;
    Py_INCREF(descriptor);
    it = known.emplace(descriptor, type).first;
  }
  last = descriptor;
  return last_type = it->second;
}

// ── NumPy's record ────────────────────────────────────────────────────────────────────────────────────────

// PyArrayObject_fields, which every extension module for NumPy is compiled against.
struct NumpyRecord {
  PyObject head;
  char* data;
  int ndim;
  Py_ssize_t *shape, *byte_strides;
  PyObject *base, *descriptor;
  int flags;
};
enum : int { c_contiguous = 1, writeable = 0x400 };
static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));

// Does the record say what the attributes say?  Asked once per type.
bool record_is_true(nb::handle object, const NumpyRecord& r) {
  nb::object interface = object.attr("__array_interface__");
  auto data = items_of(interface["data"]);
  return nb::cast<uintptr_t>(data.at(0)) == reinterpret_cast<uintptr_t>(r.data) &&
         nb::cast<bool>(data.at(1)) == !(r.flags & writeable) &&
         r.ndim == nb::cast<int>(object.attr("ndim")) &&
         integers_of(object.attr("shape")) == std::vector<int64_t>(r.shape, r.shape + r.ndim) &&
         integers_of(object.attr("strides")) ==
             std::vector<int64_t>(r.byte_strides, r.byte_strides + r.ndim) &&
         nb::object(object.attr("dtype")).ptr() == r.descriptor &&
         nb::cast<bool>(object.attr("flags")["C_CONTIGUOUS"]) == bool(r.flags & c_contiguous);
}

}  // namespace

constinit LastArrayType last_array_type{nullptr, nullptr};

ArrayType& find_array_type(PyTypeObject* type) {
  static std::unordered_map<PyTypeObject*, ArrayType> known;
  static ArrayType unremembered;
  auto it = known.find(type);
  if (it == known.end()) {
    ArrayType found = look_up(type);
    if (known.size() >= 1000) return unremembered = found;
    Py_INCREF(type);  // so that its address stays its own
    it = known.emplace(type, found).first;
  }
  last_array_type = {type, &it->second};
  return it->second;
}

[[noreturn]] void unusable(const std::string& what) { throw nb::type_error(what.c_str()); }

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

Borrowed::~Borrowed() {
  for (auto& b : buffers) PyBuffer_Release(b.get());
}

void Borrowed::set_extents(TensorView& view, std::vector<int64_t> shape, std::vector<int64_t> byte_strides) {
  int64_t bytes = view.bits / 8;
  for (int64_t& s : byte_strides) {
    if (bytes == 0 || s % bytes != 0)
      unusable("an array whose strides are not multiples of its element size");
    s /= bytes;
  }
  extents.emplace_back(new Extents{std::move(shape), std::move(byte_strides)});
  Extents& e = *extents.back();
  view.ndim = int(e.shape.size());
  view.shape = e.shape.data();
  view.strides = e.strides.empty() ? nullptr : e.strides.data();
}

bool Borrowed::read_numpy(nb::handle object, ArrayType& type, TensorView& view) {
  auto& record = *reinterpret_cast<const NumpyRecord*>(object.ptr());
  if (!type.is_record_checked) {
    if (!record_is_true(object, record)) return false;
    type.is_record_checked = true;
  }
  DlType element = type_of_descriptor(record.descriptor);
  view.data = record.data;
  view.code = element.code;
  view.bits = element.bits;
  view.readonly = !(record.flags & writeable);
  view.ndim = record.ndim;
  view.shape = reinterpret_cast<const int64_t*>(record.shape);
  if (record.flags & c_contiguous) return true;  // then row-major is what no strides mean
  set_extents(view, {record.shape, record.shape + record.ndim},
              {record.byte_strides, record.byte_strides + record.ndim});
  return true;
}

void Borrowed::read_buffer(nb::handle object, TensorView& view) {
  auto held = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), held.get(), PyBUF_FULL_RO) != 0) throw nb::python_error();
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
}

void Borrowed::read_array_interface(nb::handle object, TensorView& view) {
  nb::object dtype = object.attr("dtype"), interface = object.attr("__array_interface__");
  DlType type = type_of_descriptor(dtype.ptr());
  view.code = type.code;
  view.bits = type.bits;
  auto data = items_of(interface["data"]);
  view.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data.at(0)));
  view.readonly = nb::cast<bool>(data.at(1));
  nb::object strides = object.attr("strides");
  set_extents(view, integers_of(object.attr("shape")), integers_of(strides));
}

void Borrowed::read_cuda_interface(nb::handle object, TensorView& view) {
  nb::dict interface = nb::cast<nb::dict>(object.attr("__cuda_array_interface__"));
  std::string text = nb::cast<std::string>(interface["typestr"]);
  static const std::string_view kinds = "iufb";
  static const uint8_t codes[] = {0, 1, 2, 6};
  size_t kind = text.size() < 3 ? std::string_view::npos : kinds.find(text[1]);
  int bytes = kind == std::string_view::npos ? 0 : std::atoi(text.c_str() + 2);
  if (bytes < 1 || bytes > 8) unusable(fmt::format("an array of elements `{}`", text));
  if (text[0] == '>' && bytes > 1) foreign_order(text);
  view.code = codes[kind];
  view.bits = uint8_t(8 * bytes);
  auto data = items_of(interface["data"]);
  view.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data.at(0)));
  view.readonly = nb::cast<bool>(data.at(1));
  view.device_type = device_cuda;
  view.device_id = cuda_pointer_device(view.data).value_or(0);
  std::vector<int64_t> strides;
  if (interface.contains("strides") && !nb::object(interface["strides"]).is_none())
    strides = integers_of(interface["strides"]);
  set_extents(view, integers_of(interface["shape"]), std::move(strides));
}

void Borrowed::read_capsule(nb::handle object, ArrayType& type, TensorView& view, int64_t stream) {
  auto device = integers_of(object.attr("__dlpack_device__")());
  nb::dict options;
  if (device.at(0) != device_cpu) options["stream"] = stream;
  auto exported = [&] { return nb::object(object.attr("__dlpack__")(**options)); };
  nb::object capsule;
  if (type.takes_version) {
    options["max_version"] = nb::make_tuple(1, 1);
    try {
      capsule = exported();
    } catch (nb::python_error& e) {  // an older library: once per type
      if (!e.matches(PyExc_TypeError)) throw;
      type.takes_version = false;
      PyDict_DelItemString(options.ptr(), "max_version");
    }
  }
  if (!capsule.is_valid()) capsule = exported();
  const dlpack::Tensor* t = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != 1)
      unusable(fmt::format("an array in DLPack version {}.{}, but only 1.x is supported", managed->major,
                           managed->minor));
    view.readonly = managed->flags & 1;
    t = &managed->tensor;
  } else {
    auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (!managed) throw nb::python_error();
    t = &managed->tensor;
  }
  kept.push_back(std::move(capsule));  // frees what it holds, since it is not consumed
  bool readonly = view.readonly || type.family == ArrayType::Family::jax;  // whose arrays never change
  view = {.data = static_cast<char*>(t->data) + t->byte_offset,
          .code = t->code,
          .bits = t->bits,
          .lanes = t->lanes,
          .ndim = t->ndim,
          .shape = t->shape,
          .strides = t->strides,
          .device_type = t->device_type,
          .device_id = t->device_id,
          .readonly = readonly};
}

// Its library does not lend the memory: Python says why not, in a line.
[[noreturn]] static void refused(nb::handle object) {
  nb::python_error why;
  unusable(nb::cast<std::string>(
      nb::module_::import_("tilelang.front.interop").attr("why_not_lent")(object, nb::str(why.value()))));
}

bool Borrowed::read(nb::handle object, ArrayType& type, TensorView& view, int64_t stream) {
  using Protocol = ArrayType::Protocol;
  switch (type.protocol) {
    case Protocol::exchange: {
      if (type.family == ArrayType::Family::torch &&
          torch_tensors::is_negated(object.ptr(), type.is_torch_tensor))
        unusable("a view with lazy negation: pass x.resolve_neg()");
      if (type.is_torch_tensor && torch_tensors::read(object.ptr(), *type.api, view)) return true;
      dlpack::Tensor t{};
      if (type.api->borrow(object.ptr(), &t) != 0) refused(object);
      view.data = static_cast<char*>(t.data) + t.byte_offset;
      view.code = t.code;
      view.bits = t.bits;
      view.lanes = t.lanes;
      view.ndim = t.ndim;
      view.shape = t.shape;
      view.strides = t.strides;
      view.device_type = t.device_type;
      view.device_id = t.device_id;
      return true;
    }
    case Protocol::numpy:
      if (type.is_masked && PyObject_IsTrue(nb::object(object.attr("mask").attr("any")()).ptr()) != 0)
        unusable(
            "a masked array, but kernels do not see the mask: pass a.filled(value), or a.data and the mask "
            "as a tensor of its own");
      if (!read_numpy(object, type, view)) read_array_interface(object, view);
      return true;
    case Protocol::buffer:
      read_buffer(object, view);
      return true;
    case Protocol::array_interface:
      read_array_interface(object, view);
      return true;
    case Protocol::cuda_interface:
      read_cuda_interface(object, view);
      return true;
    case Protocol::capsule:
      read_capsule(object, type, view, stream);
      return true;
    case Protocol::none:
      return false;
  }
  return false;
}
