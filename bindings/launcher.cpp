// The path of a call: arguments by the quickest protocol, outputs from the library of the first array,
// checks and launch in the runtime.  Only a call with names, defaults or a wrong count passes through
// Python.
#include "launcher.h"

#include <algorithm>

#include "base/error.h"
#include "callable.h"
#include "long_call.h"

using namespace tl;

// ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────

LaunchPlan::LaunchPlan(nb::object held, std::vector<size_t> places)
    : holder(std::move(held)),
      kernel(nb::cast<CompiledKernel&>(holder)),
      on_gpu(kernel.device_type() == device_cuda) {
  const Program& program = kernel.program;
  for (size_t i = 0; i < program.params.size(); i++)
    if (std::ranges::find(places, i) == places.end()) inputs.push_back(i);
  for (size_t param : places) {
    if (param >= program.params.size()) throw nb::index_error("outputs: there is no such parameter");
    const ParamSpec& spec = program.params[param];
    if (!spec.is_tensor) throw nb::type_error("outputs: a number cannot be returned");
    Output output{.param = param,
                  .type = dl_type(spec.dtype),
                  .dtype = nb::cast(kernel.function[kernel.function.params[param].buffer].dtype),
                  .is_constant = true};
    for (const Formula& f : spec.shape) {
      output.is_constant =
          output.is_constant && f.steps.size() == 1 && f.steps[0].op == Formula::Op::constant;
      output.shape.push_back(output.is_constant ? f.steps[0].value : 0);
    }
    outputs.push_back(std::move(output));
  }
}

// From the extents of the arguments; false where that takes more than looking one up.
bool LaunchPlan::shape_of(const Output& output, const Arguments& arguments, int64_t* shape) const {
  const Program& program = kernel.program;
  for (size_t d = 0; d < output.shape.size(); d++) {
    const Formula& f = program.params[output.param].shape[d];
    if (f.steps.size() != 1) return false;
    shape[d] = f.steps[0].value;
    if (f.steps[0].op == Formula::Op::constant) continue;
    const IntegerSource& source = program.integers[size_t(f.steps[0].value)];
    auto* t = std::get_if<TensorView>(&arguments.list()[size_t(source.param)]);
    if (!t || source.from != IntegerSource::From::extent || source.dim >= t->ndim) return false;
    shape[d] = t->shape[source.dim];
  }
  return true;
}

namespace {

void set_error(void*, const char* kind, const char* message) {
  PyObject* type =
      std::string_view(kind ? kind : "") == "MemoryError" ? PyExc_MemoryError : PyExc_RuntimeError;
  PyErr_SetString(type, message ? message : "allocation failed");
}

nb::object by_exchange(const dlpack::ExchangeApi& api, const TensorView& like, DlType type,
                       std::span<int64_t> shape) {
  dlpack::Tensor wanted{.data = nullptr,
                        .device_type = like.device_type,
                        .device_id = like.device_id,
                        .ndim = int32_t(shape.size()),
                        .code = type.code,
                        .bits = type.bits,
                        .lanes = 1,
                        .shape = shape.data(),
                        .strides = nullptr,
                        .byte_offset = 0};
  dlpack::ManagedVersioned* made = nullptr;
  void* object = nullptr;
  if (api.allocate(&wanted, &made, nullptr, &set_error) != 0 || api.to_object(made, &object) != 0)
    throw nb::python_error();
  return nb::steal<nb::object>(static_cast<PyObject*>(object));
}

nb::object tuple_of_extents(std::span<const int64_t> shape) {
  PyObject* tuple = PyTuple_New(Py_ssize_t(shape.size()));
  for (size_t d = 0; d < shape.size(); d++)
    PyTuple_SET_ITEM(tuple, Py_ssize_t(d), PyLong_FromLongLong(shape[d]));
  return nb::steal<nb::object>(tuple);
}

}  // namespace

nb::object LaunchPlan::allocate_one(Output& output, const Arguments& arguments) {
  constexpr size_t most_dims = 16;
  int64_t small[most_dims];
  std::vector<int64_t> large;
  std::span<int64_t> shape{output.shape};
  if (!output.is_constant) {
    shape = {small, output.shape.size()};
    if (output.shape.size() > most_dims || !shape_of(output, arguments, small)) {
      large = kernel.shape_of(arguments.list(), output.param);
      shape = large;
    }
  }
  ArrayType* type = arguments.model.is_valid() ? &array_type(Py_TYPE(arguments.model.ptr())) : nullptr;
  if (type && type->api && type->api->allocate && type->api->to_object)
    for (const Argument& argument : arguments.list())
      if (auto* t = std::get_if<TensorView>(&argument))
        return by_exchange(*type->api, *t, output.type, shape);
  nb::object extents = output.extents;
  if (!extents.is_valid()) extents = tuple_of_extents(shape);
  if (output.is_constant) output.extents = extents;
  if (type && type->family == ArrayType::Family::numpy && !on_gpu) {
    static PyObject* const empty = nb::module_::import_("numpy").attr("empty").inc_ref().ptr();
    if (!output.numpy_dtype.is_valid()) output.numpy_dtype = output.dtype.attr("as_numpy")();
    PyObject* given[] = {extents.ptr(), output.numpy_dtype.ptr()};
    PyObject* made = PyObject_Vectorcall(empty, given, 2, nullptr);
    if (!made) throw nb::python_error();
    return nb::steal<nb::object>(made);
  }
  nb::object model = arguments.model.is_valid() ? nb::borrow<nb::object>(arguments.model) : nb::none();
  return nb::module_::import_("tilelang.front.interop")
      .attr("empty_like")(model, on_gpu ? "cuda" : "cpu", extents, output.dtype);
}

std::vector<nb::object> LaunchPlan::allocate(Arguments& arguments) {
  std::vector<nb::object> made;
  made.reserve(outputs.size());
  for (Output& output : outputs) made.push_back(allocate_one(output, arguments));
  return made;
}

std::vector<nb::object> LaunchPlan::allocate_for(nb::handle const* objects, size_t count) {
  if (count != inputs.size())
    throw nb::type_error(
        fmt::format("{} inputs are needed to allocate the outputs, not {}", inputs.size(), count).c_str());
  Arguments arguments(kernel.program, kernel.program.params.size(), on_gpu);
  arguments.read_all(objects, inputs, 0);
  return allocate(arguments);
}

void LaunchPlan::go(Arguments& arguments, std::span<nb::handle const> given,
                    std::span<nb::object const> made) {
  bool is_left = false;
  try {
    LongCall call("running", kernel.program.name);
    try {
      kernel.launch(arguments.list(), arguments.stream);
    } catch (...) {
      is_left = call.has_left_a_thread();
      throw;
    }
  } catch (...) {
    if (is_left) {  // what the thread uses is never freed
      holder.inc_ref();
      for (nb::handle object : given) object.inc_ref();
      for (nb::handle object : made) object.inc_ref();
    }
    throw;
  }
}

void LaunchPlan::launch(nb::handle const* objects, size_t count, std::optional<Stream> stream) {
  Arguments arguments(kernel.program, objects, count, on_gpu, stream);
  go(arguments, {objects, count}, {});
}

nb::object LaunchPlan::run(nb::handle const* objects) {
  Arguments arguments(kernel.program, kernel.program.params.size(), on_gpu);
  arguments.read_all(objects, inputs, std::nullopt);
  if (outputs.size() == 1) {
    nb::object made = allocate_one(outputs[0], arguments);
    arguments.read_new(outputs[0].param, made);
    go(arguments, {objects, inputs.size()}, {&made, 1});
    finish(arguments);
    return made;
  }
  std::vector<nb::object> made = allocate(arguments);
  for (size_t i = 0; i < made.size(); i++) arguments.read_new(outputs[i].param, made[i]);
  go(arguments, {objects, inputs.size()}, made);
  if (made.empty()) return nb::none();
  finish(arguments);
  nb::list list;
  for (nb::object& object : made) list.append(std::move(object));
  return list;
}

// JAX reads its arrays on streams of its own, which know nothing of ours.
void LaunchPlan::finish(const Arguments& arguments) const {
  if (!on_gpu || !arguments.model.is_valid() ||
      array_type(Py_TYPE(arguments.model.ptr())).family != ArrayType::Family::jax)
    return;
  for (const Argument& argument : arguments.list())
    if (auto* t = std::get_if<TensorView>(&argument))
      if (Device* device = cuda_device(t->device_id)) {
        LongCall call("waiting for", kernel.program.name);
        return device->synchronize(arguments.stream);
      }
}

// ── the type ──────────────────────────────────────────────────────────────────────────────────────────────

namespace {

PyTypeObject* launcher_type = nullptr;

nb::handle const* handles(PyObject* const* objects) {
  static_assert(sizeof(nb::handle) == sizeof(PyObject*));
  return reinterpret_cast<nb::handle const*>(objects);
}

LaunchPlan& ready_plan(PyObject* self) {
  LaunchPlan* plan = value_in<LaunchPlan>(self);
  if (!plan) throw nb::type_error("this kernel was not initialised: Launcher.__init__ was not called");
  return *plan;
}

// Names, defaults, and complaints about them are words for Python.
nb::object call_by_names(PyObject* self, PyObject* const* objects, size_t count, PyObject* names) {
  nb::object bound = call_method(self, "_bind", objects, count, names);
  LaunchPlan& plan = ready_plan(self);
  if (!PyTuple_CheckExact(bound.ptr()) || size_t(PyTuple_GET_SIZE(bound.ptr())) != plan.input_count())
    throw nb::type_error("_bind must return a tuple of all inputs");
  return plan.run(handles(reinterpret_cast<PyTupleObject*>(bound.ptr())->ob_item));
}

PyObject* call_launcher(PyObject* self, PyObject* const* objects, size_t flags, PyObject* names) {
  return guarded([&] {
    size_t count = size_t(PyVectorcall_NARGS(flags));
    LaunchPlan& plan = ready_plan(self);
    if ((names && PyTuple_GET_SIZE(names)) || count != plan.input_count())
      return call_by_names(self, objects, count, names);
    return plan.run(handles(objects));
  });
}

int initialise_launcher(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"kernel", "outputs", nullptr};
  PyObject *kernel = nullptr, *outputs = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", const_cast<char**>(names), &kernel, &outputs))
    return -1;
  return set_value<LaunchPlan>(self, [&] {
    std::vector<size_t> places;
    for (auto& place : items_of(outputs)) places.push_back(nb::cast<size_t>(place));
    return std::make_unique<LaunchPlan>(nb::borrow<nb::object>(kernel), std::move(places));
  });
}

PyObject* launch_all(PyObject* self, PyObject* sequence) {
  return guarded([&] {
    nb::object fast =
        nb::steal<nb::object>(PySequence_Fast(sequence, "the arguments of a launch must be a sequence"));
    if (!fast.is_valid()) throw nb::python_error();
    ready_plan(self).launch(handles(PySequence_Fast_ITEMS(fast.ptr())),
                            size_t(PySequence_Fast_GET_SIZE(fast.ptr())), std::nullopt);
    return nb::none();
  });
}

PyObject* allocate_outputs(PyObject* self, PyObject* sequence) {
  return guarded([&] {
    nb::object fast = nb::steal<nb::object>(PySequence_Fast(sequence, "the inputs must be a sequence"));
    if (!fast.is_valid()) throw nb::python_error();
    nb::list list;
    for (auto& made : ready_plan(self).allocate_for(handles(PySequence_Fast_ITEMS(fast.ptr())),
                                                    size_t(PySequence_Fast_GET_SIZE(fast.ptr()))))
      list.append(made);
    return nb::object(std::move(list));
  });
}

PyMethodDef launcher_methods[] = {
    {"launch", &launch_all, METH_O,
     "launch(self, args) -> None\n\nRun on all the parameters, outputs included, on the current stream of "
     "the arrays' library."},
    {"allocate_outputs", &allocate_outputs, METH_O,
     "allocate_outputs(self, inputs) -> list\n\nNew arrays for the parameters that out_idx names, of the "
     "library and on the device of the first array among the inputs."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

LaunchPlan* plan_of(nb::handle object) {
  if (!PyObject_TypeCheck(object.ptr(), launcher_type)) return nullptr;
  return value_in<LaunchPlan>(object.ptr());
}

LaunchPlan* direct_plan_of(nb::handle object) {
  LaunchPlan* plan = plan_of(object);
  return plan && Py_TYPE(object.ptr())->tp_call == launcher_type->tp_call ? plan : nullptr;
}

void bind_launcher(nb::module_& m) {
  launcher_type = add_callable_type<LaunchPlan, call_launcher>(
      m, "tilelang._core.Launcher", "A compiled kernel to be called: Launcher(kernel, outputs).",
      launcher_methods, initialise_launcher);
}
