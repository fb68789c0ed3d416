// The module tilelang._core: values and their methods, no logic.  Every name is listed in _core.pyi.
#include "api/kernel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "convert.h"
#include "long_call.h"
#include "simulation.h"

namespace {

PyObject* compile_error = nullptr;
PyObject* argument_error = nullptr;

PyObject* simulation_error = nullptr;

void raise_compile_error(const tl::CompileError& e) {
  auto* simulated = dynamic_cast<const tl::SimulationError*>(&e);
  PyObject* type = simulated ? simulation_error : compile_error;
  std::string whole = e.what(), text = e.text;
  if (e.span.file && e.span.file->ends_with(".py")) {  // else it is about a program as text
    size_t at = whole.find(text);
    std::string source = at == whole.npos ? "" : whole.substr(at + text.size());
    text = in_words_of_python(text, source);
    if (at != whole.npos) whole = whole.substr(0, at) + text + source;
  }
  nb::object error = nb::steal<nb::object>(PyObject_CallFunction(type, "s", whole.c_str()));
  if (!error.is_valid()) return;
  if (simulated) {
    nb::object make = nb::module_::import_("tilelang.tools.simulation").attr("report_of");
    error.attr("report") = make(dict_of(simulated->report));
  }
  error.attr("text") = text;
  error.attr("file") = e.span.file ? *e.span.file : std::string();
  error.attr("line") = e.span.line;
  error.attr("column") = e.span.column;
  PyErr_SetObject(type, error.ptr());
}

bool set_own_error() {
  try {
    throw;
  } catch (const tl::CompileError& e) {
    raise_compile_error(e);
  } catch (const tl::ArgumentError& e) {
    PyErr_SetString(argument_error, e.what());
  } catch (...) {
    return false;
  }
  return true;
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (...) {
    if (!set_own_error()) throw;
  }
}

PyObject* new_exception(nb::module_& m, const char* name, nb::handle base, const char* doc) {
  std::string full = nb::cast<std::string>(m.attr("__name__")) + "." + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base.ptr(), nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::handle(type);
  return type;
}

}  // namespace

void set_python_error() {
  if (set_own_error()) return;
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const nb::builtin_exception& e) {
    bool is_index = e.type() == nb::exception_type::index_error;
    PyErr_SetString(is_index ? PyExc_IndexError : PyExc_TypeError, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::range_error& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // module-level values of Python outlive the module at interpreter exit
  compile_error = new_exception(m, "CompileError", PyExc_ValueError,
                                "The user's error, at a place in the program; also a ValueError.");
  simulation_error =
      new_exception(m, "SimulationError", nb::handle(compile_error),
                    "The program ran in the simulator, and is wrong; see tilelang.simulation.");
  nb::object bases = nb::make_tuple(nb::handle(PyExc_TypeError), nb::handle(PyExc_ValueError));
  argument_error = new_exception(m, "ArgumentError", bases, "A call whose arguments do not fit the kernel.");
  nb::register_exception_translator(&translate);
  bind_values(m);
  bind_builder(m);
  bind_kernel(m);
  bind_launcher(m);
  bind_call_cache(m);
  bind_layout(m);
  bind_report(m);
  bind_user(m);
  bind_rows(m);
  m.def(
      "set_environment",
      [](const std::string& name, std::optional<std::string> value) {
        tl::set_environment(name, std::move(value));
      },
      "name"_a, "value"_a.none());
  m.def("steps_so_far", &tl::steps_so_far);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&begin_exit));
}
