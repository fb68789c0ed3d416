// Numbers, sequences and options from Python.  What does not fit is a TypeError that names what came.
#include "convert.h"

#include <unordered_map>

using namespace tl;

namespace {

std::string kind_of(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

[[noreturn]] void wrong_type(const std::string& what, nb::handle object) {
  throw nb::type_error((what + ", not " + kind_of(object)).c_str());
}

int64_t integer_of(nb::handle object) {
  int overflow = 0;
  long long n = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (!overflow && n == -1 && PyErr_Occurred()) throw nb::python_error();
  if (overflow) {
    std::string text = nb::cast<std::string>(nb::str(object));
    throw nb::type_error(("the number " + text + " does not fit in 64 bits").c_str());
  }
  return n;
}

// A whole number, of which those from 2^63 on are u64.
Value whole_number(nb::handle object) {
  unsigned long long large = PyLong_AsUnsignedLongLong(object.ptr());
  if (!PyErr_Occurred() && large > uint64_t(INT64_MAX)) return uint64_t(large);
  PyErr_Clear();
  return integer_of(object);
}

PyTypeObject* dtype_class() {
  static PyObject* found =
      nb::object(nb::module_::import_("tilelang.front.dtypes").attr("dtype")).release().ptr();
  return reinterpret_cast<PyTypeObject*>(found);
}

}  // namespace

bool is_dtype(nb::handle object) {
  return PyUnicode_Check(object.ptr()) && !PyUnicode_CheckExact(object.ptr()) &&
         Py_TYPE(object.ptr()) == dtype_class();
}

bool read_dtype(nb::handle object, DType& type) {
  static std::unordered_map<PyObject*, DType> known;  // these objects are never freed
  auto it = known.find(object.ptr());
  if (it != known.end()) return type = it->second, true;
  if (!is_dtype(object)) return false;
  auto parsed = parse_dtype(nb::cast<std::string>(object.attr("name")));
  if (!parsed) return false;
  known.emplace(object.ptr(), *parsed);
  return type = *parsed, true;
}

nb::object dtype_object(DType type) {
  static std::unordered_map<uint32_t, PyObject*> known;
  uint32_t key = uint32_t(type.kind) << 24 | uint32_t(type.bits) << 16 | type.lanes;
  PyObject*& found = known[key];
  if (!found)
    found = nb::module_::import_("tilelang.front.dtypes").attr("dtype")(to_string(type)).release().ptr();
  return nb::borrow(found);
}

Value value_of(nb::handle object) {
  PyObject* o = object.ptr();
  if (nb::isinstance<Expr>(object)) return nb::cast<Expr>(object);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return whole_number(object);
  if (PyFloat_Check(o)) return PyFloat_AsDouble(o);
  if (PyIndex_Check(o)) return whole_number(nb::steal<nb::object>(PyNumber_Index(o)));
  if (nb::hasattr(object, "__float__") && !PyUnicode_Check(o)) {
    double d = PyFloat_AsDouble(o);
    if (d == -1 && PyErr_Occurred()) throw nb::python_error();
    return d;
  }
  wrong_type("expected a number or a value of the kernel", object);
}

std::vector<nb::object> items_of(nb::handle sequence) {
  if (PyUnicode_Check(sequence.ptr())) wrong_type("expected a sequence", sequence);
  nb::object fast = nb::steal<nb::object>(PySequence_Tuple(sequence.ptr()));
  if (!fast) throw nb::python_error();
  std::vector<nb::object> items;
  for (Py_ssize_t i = 0; i < PyTuple_Size(fast.ptr()); i++)
    items.push_back(nb::borrow<nb::object>(PyTuple_GetItem(fast.ptr(), i)));
  return items;
}

TileOperand operand_of(nb::handle object) {
  if (nb::isinstance<Buffer>(object)) return nb::cast<Buffer>(object);
  if (nb::isinstance<BufferRegion>(object)) return nb::cast<BufferRegion>(object);
  return value_of(object);
}

AttrValue attr_of(const std::string& key, nb::handle object) {
  PyObject* o = object.ptr();
  if (PyUnicode_Check(o)) return nb::cast<std::string>(object);
  if (PyBool_Check(o)) return int64_t(o == Py_True);
  if (PyLong_Check(o)) return integer_of(object);
  if (PyFloat_Check(o)) return PyFloat_AsDouble(o);
  if (nb::isinstance<Expr>(object)) return nb::cast<Expr>(object);
  if (nb::isinstance<IndexMap>(object)) return nb::cast<const IndexMap&>(object);
  if (nb::isinstance<Fragment>(object)) return nb::cast<const Fragment&>(object).layout.map();
  if (PyList_Check(o) || PyTuple_Check(o)) {
    std::vector<int64_t> numbers;
    for (auto& item : items_of(object)) {
      if (!PyLong_Check(item.ptr())) wrong_type(key + " must be a list of integers", item);
      numbers.push_back(integer_of(item));
    }
    return numbers;
  }
  wrong_type(key + " must be a number, a word, a list of integers or a fragment", object);
}

Attrs attrs_of(nb::handle dict) {
  if (!PyDict_Check(dict.ptr())) wrong_type("expected a dict", dict);
  Attrs attrs;
  for (auto [key, value] : nb::borrow<nb::dict>(dict)) {
    std::string name = nb::cast<std::string>(key);
    attrs.entries[name] = attr_of(name, value);
  }
  return attrs;
}

nb::object extent_object(const Expr& e) {
  if (auto n = as_int(e)) return nb::int_(*n);
  return nb::cast(e);
}

nb::object place_of(const Span& span) {
  if (!span || !span.file) return nb::none();
  return nb::make_tuple(*span.file, span.line, span.column);
}

nb::object known(int64_t number) {
  return number < 0 ? nb::object(nb::none()) : nb::object(nb::int_(number));
}

nb::tuple tuple_of(const std::vector<nb::object>& items) {
  nb::list list;
  for (auto& item : items) list.append(item);
  return nb::tuple(list);
}
