#include "call_key.h"

#include <bit>
#include <unordered_map>

using namespace tl;

namespace {

constexpr int most_depth = 20;

// Do objects of this type count by identity alone?  Asked once per type (keys.py).
bool is_settled(PyTypeObject* type) {
  static std::unordered_map<PyTypeObject*, bool> known;
  auto it = known.find(type);
  if (it != known.end()) return it->second;
  bool settled = nb::cast<bool>(nb::module_::import_("tilelang.jit.keys").attr("is_settled")(nb::handle(type)));
  if (known.size() >= 1000) return settled;
  Py_INCREF(type);  // so that its address stays its own
  return known.emplace(type, settled).first->second;
}

// Is it a function, whose own reads are watched too?
bool is_watched(PyObject* o) {
  if (PyFunction_Check(o)) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(o)->func_dict;
    return !attributes || PyDict_GET_SIZE(attributes) == 0;
  }
  PyObject* of = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : Py_None;
  return of != Py_None && (!of || PyModule_CheckExact(of));
}

bool is_static_type(PyObject* o) {
  return PyType_Check(o) && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(o), Py_TPFLAGS_HEAPTYPE);
}

nb::object root_of(const Watch& w) {
  PyObject* found = PyDict_Check(w.holder.ptr()) ? PyDict_GetItemWithError(w.holder.ptr(), w.name.ptr())
                                               : PyCell_GET(w.holder.ptr());
  if (!found && PyErr_Occurred()) throw nb::python_error();
  return nb::borrow<nb::object>(found);
}

}  // namespace

void add_value(Words& words, PyObject* o, bool by_identity, std::vector<nb::object>* kept, int depth) {
  auto items = [&](Mark mark, PyObject* const* first, Py_ssize_t count) {
    words.add(mark);
    words.add(uint64_t(count));
    for (Py_ssize_t i = 0; i < count; i++) add_value(words, first[i], by_identity, kept, depth + 1);
  };
  if (depth > most_depth) throw nb::type_error("a value that contains itself cannot be part of a key");
  if (o == Py_None) return words.add(Mark::none);
  if (PyBool_Check(o)) return words.add(Mark::truth), words.add(o == Py_True);
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return words.add(Mark::integer), words.add(uint64_t(n));
    std::string digits = nb::cast<std::string>(nb::repr(nb::handle(o)));
    return words.add(Mark::large), words.add_bytes(digits.data(), digits.size());
  }
  if (PyFloat_CheckExact(o))
    return words.add(Mark::real), words.add(std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(o)));
  if (PyUnicode_CheckExact(o)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &size);
    if (!text) throw nb::python_error();
    return words.add(Mark::text), words.add_bytes(text, size_t(size));
  }
  if (PyTuple_CheckExact(o))
    return items(Mark::tuple, reinterpret_cast<PyTupleObject*>(o)->ob_item, PyTuple_GET_SIZE(o));
  if (PyList_CheckExact(o))
    return items(Mark::list, reinterpret_cast<PyListObject*>(o)->ob_item, PyList_GET_SIZE(o));
  if (PyDict_CheckExact(o)) {
    words.add(Mark::dict);
    words.add(uint64_t(PyDict_GET_SIZE(o)));
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);)
      for (PyObject* item : {key, value}) add_value(words, item, by_identity, kept, depth + 1);
    return;
  }
  if (is_dtype(o)) return words.add(Mark::dtype), words.add(reinterpret_cast<uintptr_t>(o));
  if (!(by_identity && is_watched(o)) && !is_static_type(o) && !is_settled(Py_TYPE(o)))
    throw nb::type_error("an object whose attributes count is a matter for Python");
  words.add(Mark::object);
  words.add(reinterpret_cast<uintptr_t>(o));
  if (!by_identity) {  // an object that compares by its contents may have changed
    Py_hash_t hash = PyObject_Hash(o);
    if (hash == -1) throw nb::python_error();
    words.add(uint64_t(hash));
  }
  if (kept) kept->push_back(nb::borrow<nb::object>(nb::handle(o)));
}

nb::object Watch::value() const {
  nb::object value = root_of(*this);
  for (auto& attribute : attributes) {
    if (!value.is_valid()) return value;
    nb::object found = nb::steal<nb::object>(PyObject_GetAttr(value.ptr(), attribute.ptr()));
    if (found.is_valid()) {
      value = std::move(found);
      continue;
    }
    PyErr_Clear();
    return value;
  }
  return value;
}
