// A type of Python whose objects are called by vectorcall and own one C++ value.  Raw CPython, for nanobind
// has no vectorcall for classes that Python derives from.
#pragma once
#include <structmember.h>

#include <cstring>
#include <memory>
#include <utility>

#include "convert.h"

template <class Value>
struct Callable {
  PyObject head;
  vectorcallfunc call;
  Value* value;
};

// Null before __init__ was called.
template <class Value>
Value*& value_in(PyObject* self) {
  return reinterpret_cast<Callable<Value>*>(self)->value;
}

// For __init__: what `make` returns, a unique_ptr, is the object's value from now on.
template <class Value, class Make>
int set_value(PyObject* self, Make&& make) {
  PyObject* done = guarded([&] {
    std::unique_ptr<Value> made = make();
    delete std::exchange(value_in<Value>(self), made.release());
    return nb::none();
  });
  Py_XDECREF(done);
  return done ? 0 : -1;
}

// self.name(positional, named), of a call's `count` positional arguments and of those that `keywords` names.
inline nb::object call_method(PyObject* self, const char* name, PyObject* const* given, size_t count,
                              PyObject* keywords) {
  nb::list positional;
  nb::dict named;
  for (size_t i = 0; i < count; i++) positional.append(nb::handle(given[i]));
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); i++)
    named[nb::handle(PyTuple_GET_ITEM(keywords, i))] = nb::handle(given[count + size_t(i)]);
  return or_sleep_at_exit([&] { return nb::handle(self).attr(name)(nb::tuple(positional), named); });
}

// `name` is the full one, "module.Type"; it, `doc` and `methods` stay.
template <class Value, PyObject* (*call)(PyObject*, PyObject* const*, size_t, PyObject*)>
PyTypeObject* add_callable_type(nb::module_& m, const char* name, const char* doc, PyMethodDef* methods,
                                initproc initialise) {
  newfunc make = [](PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self) reinterpret_cast<Callable<Value>*>(self)->call = call;
    return self;
  };
  destructor destroy = [](PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete value_in<Value>(self);
    type->tp_free(self);
    Py_DECREF(type);
  };
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable<Value>, call), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                         {Py_tp_init, reinterpret_cast<void*>(initialise)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {Py_tp_doc, const_cast<char*>(doc)},
                         {0, nullptr}};
  PyType_Spec spec = {name, sizeof(Callable<Value>), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
  m.attr(std::strrchr(name, '.') + 1) = nb::handle(type);
  return reinterpret_cast<PyTypeObject*>(type);  // a reference that is kept
}
