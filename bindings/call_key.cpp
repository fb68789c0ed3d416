#include "call_key.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

using namespace tl;

namespace {

constexpr int most_depth = 20, deepest_key = 200;

// Do objects of this type count by identity alone?  Asked once per type (keys.py).
bool is_settled(PyTypeObject* type) {
  static std::unordered_map<PyTypeObject*, bool> known;
  auto it = known.find(type);
  if (it != known.end()) return it->second;
  bool settled =
      nb::cast<bool>(nb::module_::import_("tilelang.jit.keys").attr("is_settled")(nb::handle(type)));
  if (known.size() >= 1000) return settled;
  Py_INCREF(type);  // so that its address stays its own
  return known.emplace(type, settled).first->second;
}

// jit.keys.Same: an object by its identity.
PyTypeObject* same_type() {
  static PyObject* type = nb::module_::import_("tilelang.jit.keys").attr("Same").inc_ref().ptr();
  return reinterpret_cast<PyTypeObject*>(type);
}

struct TooDeep {};

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

void KeyWriter::argument(PyObject* o, int place) {
  if (!plain(o)) whole(o, place, false);
}
void KeyWriter::captured(PyObject* o) {
  if (!plain(o)) whole(o, -1, true);
}

// A value that contains itself, or is nested deeply, is the rule's as a whole.
void KeyWriter::whole(PyObject* o, int place, bool is_captured) {
  size_t begin = words.size(), held = kept ? kept->size() : 0;
  try {
    value(o, place, is_captured, 0);
  } catch (const TooDeep&) {
    if (!rule) throw nb::type_error("a value that contains itself cannot be part of a key");
    words.shorten(begin);
    if (kept) kept->resize(held);
    by_rule(o, place);
  }
}

bool KeyWriter::plain(PyObject* o) {
  auto bytes = [&](Mark mark, const char* text, Py_ssize_t size) {
    words.add(mark), words.add_bytes(text, size_t(size));
  };
  if (o == Py_None) {
    words.add(Mark::none);
  } else if (PyBool_Check(o)) {
    words.add(Mark::truth), words.add(o == Py_True);
  } else if (PyLong_CheckExact(o)) {
    int overflow = 0;
    long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return words.add(Mark::integer), words.add(uint64_t(n)), true;
    std::string digits = nb::cast<std::string>(nb::repr(nb::handle(o)));
    bytes(Mark::large, digits.data(), Py_ssize_t(digits.size()));
  } else if (PyFloat_CheckExact(o)) {
    words.add(Mark::real), words.add(std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(o)));
  } else if (PyUnicode_CheckExact(o)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &size);
    if (!text) throw nb::python_error();
    bytes(Mark::text, text, size);
  } else if (PyBytes_CheckExact(o)) {
    bytes(Mark::bytes, PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o));
  } else if (is_dtype(o)) {
    words.add(Mark::dtype), words.add(reinterpret_cast<uintptr_t>(o));
  } else {
    return false;
  }
  return true;
}

void KeyWriter::identity(PyObject* o) {
  words.add(Mark::object);
  words.add(reinterpret_cast<uintptr_t>(o));
  if (kept) kept->push_back(nb::borrow<nb::object>(nb::handle(o)));
}

// What stands in a container is held while it is looked at: the rule may change the container.
void KeyWriter::value(PyObject* o, int place, bool is_captured, int depth) {
  if (depth > most_depth) throw TooDeep();
  if (plain(o)) return;
  auto item = [&](PyObject* held) {
    nb::object keep = nb::borrow<nb::object>(nb::handle(held));
    value(held, -1, is_captured, depth + 1);
  };
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    words.add(PyTuple_CheckExact(o) ? Mark::tuple : Mark::list);
    words.add(uint64_t(Py_SIZE(o)));
    for (Py_ssize_t i = 0; i < Py_SIZE(o); i++) item(PySequence_Fast_GET_ITEM(o, i));
    return;
  }
  if (PyDict_CheckExact(o)) {
    words.add(Mark::dict);
    words.add(uint64_t(PyDict_GET_SIZE(o)));
    PyObject *name, *held;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &name, &held);) {
      nb::object keep = nb::borrow<nb::object>(nb::handle(held));
      item(name), item(held);
    }
    return;
  }
  bool counts_alone = (is_captured && is_watched(o)) || is_static_type(o) || is_settled(Py_TYPE(o));
  if (!counts_alone) return by_rule(o, place);
  identity(o);
  if (is_captured) return;
  Py_hash_t hash = PyObject_Hash(o);  // an object that compares by its contents may have changed
  if (hash == -1) throw nb::python_error();
  words.add(uint64_t(hash));
}

void KeyWriter::by_rule(PyObject* o, int place) {
  if (!rule) throw nb::type_error("an object whose attributes are part of the key is handled in Python");
  nb::object made = nb::handle(rule)(nb::handle(o), place);
  key(made.ptr(), 0);
}

// What the rule makes (jit/keys.py).
void KeyWriter::key(PyObject* o, int depth) {
  if (depth > deepest_key) throw nb::type_error("a value that is nested so deeply cannot be part of a key");
  if (plain(o)) return;
  if (PyTuple_CheckExact(o)) {
    words.add(Mark::tuple);
    words.add(uint64_t(PyTuple_GET_SIZE(o)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++) key(PyTuple_GET_ITEM(o, i), depth + 1);
  } else if (PyFrozenSet_CheckExact(o)) {  // in the order of what its items are
    std::vector<std::vector<uint64_t>> items;
    for (nb::handle item : nb::steal<nb::object>(PyObject_GetIter(o))) {
      Words own;
      KeyWriter{own, kept, rule}.key(item.ptr(), depth + 1);
      items.emplace_back(own.all().begin(), own.all().end());
    }
    std::ranges::sort(items);
    words.add(Mark::set);
    words.add(items.size());
    for (auto& item : items)
      for (uint64_t word : item) words.add(word);
  } else if (Py_TYPE(o) == same_type()) {
    identity(nb::handle(o).attr("value").ptr());
  } else if (PyType_Check(o)) {
    identity(o);
  } else {
    identity(o);
    Py_hash_t hash = PyObject_Hash(o);
    if (hash == -1) throw nb::python_error();
    words.add(uint64_t(hash));
  }
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
