// Arguments one by one; an error for an object that is neither a tensor nor a number says what was expected.
#include "arguments.h"

#include "base/error.h"
#include "torch_tensors.h"

using namespace tl;

namespace {

bool is_bool(PyObject* o) {
  std::string_view type = Py_TYPE(o)->tp_name;
  return PyBool_Check(o) || type == "numpy.bool" || type == "numpy.bool_";
}

Argument integer_of(PyObject* o) {
  int overflow = 0;
  long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return int64_t(n);
  unsigned long long large = PyLong_AsUnsignedLongLong(o);
  if (!PyErr_Occurred()) return uint64_t(large);
  PyErr_Clear();
  unusable("the number " + nb::cast<std::string>(nb::str(nb::handle(o))) + ", which does not fit in 64 bits");
}

Argument number(nb::handle object) {
  PyObject* o = object.ptr();
  if (PyLong_CheckExact(o)) return integer_of(o);
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (is_bool(o)) return int64_t(PyObject_IsTrue(o) == 1);
  if (PyIndex_Check(o)) {
    if (PyObject* index = PyNumber_Index(o)) return integer_of(nb::steal<nb::object>(index).ptr());
    PyErr_Clear();  // an array may have the slot, and refuse
  }
  PyNumberMethods* slots = Py_TYPE(o)->tp_as_number;
  if (!PyUnicode_Check(o) &&
      (PyFloat_Check(o) || (slots && slots->nb_float) || nb::hasattr(object, "__float__"))) {
    double d = PyFloat_AsDouble(o);
    if (!PyErr_Occurred()) return d;
    PyErr_Clear();
  }
  unusable("a " + class_name(object));
}

// Autograd would not see what the function writes.
bool is_tracked(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  nb::object wants = nb::steal<nb::object>(PyObject_GetAttr(tensor.ptr(), name));
  if (!wants.is_valid()) throw nb::python_error();
  return wants.ptr() == Py_True && nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")());
}

}  // namespace

Arguments::Arguments(const Program& wanted, size_t n, bool gpu) : program(wanted), count(n), on_gpu(gpu) {
  static_assert(std::is_trivially_destructible_v<Argument>);
  if (count > few) large.resize(count);
  items = count > few ? large.data() : reinterpret_cast<Argument*>(small);
  if (count <= few)
    for (size_t i = 0; i < count; i++) new (&items[i]) Argument;
}

Arguments::Arguments(const Program& wanted, nb::handle const* objects, size_t n, bool gpu,
                     std::optional<Stream> given)
    : Arguments(wanted, n, gpu) {
  size_t known = std::min(n, wanted.params.size());  // those beyond stay None: the count is refused later
  size_t places[few];
  std::vector<size_t> many(known > few ? known : 0);
  size_t* params = known > few ? many.data() : places;
  for (size_t i = 0; i < known; i++) params[i] = i;
  read_all(objects, {params, known}, given);
}

void Arguments::read_all(nb::handle const* objects, std::span<const size_t> params,
                         std::optional<Stream> wanted) {
  // Capsules come last, because their producers need the stream.
  bool later = false;
  for (size_t i = 0; i < params.size(); i++) {
    if (objects[i].is_none()) continue;
    ArrayType& type = array_type(Py_TYPE(objects[i].ptr()));
    if (program.params[params[i]].is_tensor && type.protocol != ArrayType::Protocol::none) {
      if (!model.is_valid()) model = objects[i];
      if (on_gpu && type.protocol == ArrayType::Protocol::capsule) {
        later = true;
        continue;
      }
    }
    read(params[i], objects[i], type);
  }
  if (!on_gpu) return;
  if (wanted)
    stream = *wanted;
  else if (!find_stream()) {
    nb::list all;
    for (size_t i = 0; i < params.size(); i++) all.append(objects[i]);
    stream = nb::cast<Stream>(nb::module_::import_("tilelang.front.interop").attr("current_stream")(all));
  }
  for (size_t i = 0; later && i < params.size(); i++)
    if (!objects[i].is_none() && program.params[params[i]].is_tensor &&
        array_type(Py_TYPE(objects[i].ptr())).protocol == ArrayType::Protocol::capsule)
      read(params[i], objects[i]);
}

// The current stream of the first GPU tensor whose library has a C table.
bool Arguments::find_stream() {
  if (!model.is_valid()) return false;
  ArrayType& type = array_type(Py_TYPE(model.ptr()));
  if (type.protocol != ArrayType::Protocol::exchange || !type.api->current_stream) return false;
  for (size_t i = 0; i < count; i++)
    if (auto* t = std::get_if<TensorView>(&items[i]); t && t->device_type == device_cuda) {
      void* found = nullptr;
      if (type.api->current_stream(device_cuda, t->device_id, &found) != 0) throw nb::python_error();
      stream = reinterpret_cast<uintptr_t>(found);
      return true;
    }
  return false;
}

void Arguments::read_tensor(const ParamSpec& spec, nb::handle object, ArrayType& type, Argument& out) {
  // JAX orders its work before a stream that it is told of (1: the default one); others work on the stream
  // itself.
  int64_t ready_on = type.family == ArrayType::Family::jax ? (stream ? int64_t(stream) : 1) : -1;
  if (!borrowed.read(object, type, out.emplace<TensorView>(), ready_on)) {
    out = number(object);  // which the checks refuse with both types named
    return;
  }
  if (spec.is_written && type.family == ArrayType::Family::torch && is_tracked(object))
    unusable(
        "a tensor that requires grad, but the function writes to it and autograd would not see that: pass "
        "x.detach(), or call under torch.no_grad()");
}

void Arguments::read(size_t param, nb::handle object, ArrayType& type) {
  const ParamSpec& spec = program.params[param];
  try {
    if (spec.is_tensor || spec.dtype == "handle")  // an address, of which the tensor may be given
      read_tensor(spec, object, type, items[param]);
    else
      items[param] = number(object);
  } catch (const nb::builtin_exception& e) {
    throw ArgumentError(fmt::format("{}: argument {} '{}' is {}; {} of type {} was expected", program.name,
                                    param, spec.name, e.what(), spec.is_tensor ? "a tensor" : "a number",
                                    python_dtype(spec.dtype)));
  }
}
