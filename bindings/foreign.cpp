// What one thread does to memory, and foreign code: the Builder's methods for it, and Python functions as its
// meaning.
#include <nanobind/stl/optional.h>

#include "api/user.h"
#include "convert.h"

using namespace tl;

namespace {

std::optional<Value> optional_value(nb::handle object) {
  return object.is_none() ? std::nullopt : std::optional<Value>(value_of(object));
}

std::vector<Expr> exprs_of(nb::handle sequence) {
  std::vector<Expr> out;
  for (auto& item : items_of(sequence)) out.push_back(nb::cast<Expr>(item));
  return out;
}

// The elements from a place on, as a memoryview that may be written.
nb::object memory_of(const ForeignValue& v) {
  auto* bytes = reinterpret_cast<char*>(v.data);
  return nb::steal<nb::object>(PyMemoryView_FromMemory(bytes, v.elements * v.type.bytes(), PyBUF_WRITE));
}

// A Python function (values, result dtypes) -> numbers; a place is given as (memoryview, dtype).  Called from
// any thread.
ForeignEval foreign_eval(const nb::object& function) {
  PyObject* called = nb::object(function).release().ptr();  // the entry is never removed
  return [called](std::span<const ForeignValue> args, std::span<const DType> results) {
    nb::gil_scoped_acquire held;
    nb::list given, types;
    for (auto& a : args) {
      if (a.data)
        given.append(nb::make_tuple(memory_of(a), a.type));
      else if (a.type.is_float())
        given.append(a.d);
      else if (a.type == u64)
        given.append(uint64_t(a.i));
      else
        given.append(a.i);
    }
    for (auto& t : results) types.append(t);
    nb::object numbers = nb::handle(called)(given, types);
    std::vector<ForeignValue> out;
    for (auto& item : items_of(numbers)) {
      ForeignValue& v = out.emplace_back(ForeignValue{.type = results[out.size()]});
      if (v.type.is_float())
        v.d = nb::cast<double>(item);
      else
        v.i = v.type == u64 ? int64_t(nb::cast<uint64_t>(item)) : nb::cast<int64_t>(item);
    }
    return out;
  };
}

}  // namespace

void bind_foreign(nb::module_& m, nb::class_<Builder>& c) {
  m.def(
      "add_foreign_eval",
      [](const std::string& name, nb::object identity, nb::object function) {
        return add_foreign_eval(name, nb::object(identity).release().ptr(), foreign_eval(function));
      },
      nb::arg("name"), nb::arg("identity"), nb::arg("function"));
  c.def(
       "address",
       [](Builder& b, const Buffer& buffer, nb::object index, const std::string& access, nb::object count) {
         return b.address(buffer, values_of(index), access, optional_value(count));
       },
       nb::arg("buffer"), nb::arg("index"), nb::arg("access"), nb::arg("count").none() = nb::none())
      .def("pointer", &Builder::pointer, nb::arg("name"))
      .def(
          "tensor_at",
          [](Builder& b, const std::string& name, nb::object base, nb::object shape, DType dtype,
             nb::object strides) {
            std::optional<std::vector<Value>> steps;
            if (!strides.is_none()) steps = values_of(strides);
            return b.tensor_at(name, value_of(base), values_of(shape), dtype, steps);
          },
          nb::arg("name"), nb::arg("base"), nb::arg("shape"), nb::arg("dtype"), nb::arg("strides").none())
      .def(
          "atomic",
          [](Builder& b, const std::string& op, const Buffer& buffer, nb::object index, nb::object value,
             const std::string& order, bool returns) {
            return b.atomic(op, buffer, values_of(index), optional_value(value), order, returns);
          },
          nb::arg("op"), nb::arg("buffer"), nb::arg("index"), nb::arg("value").none(), nb::arg("order"),
          nb::arg("returns"))
      .def(
          "load_wide",
          [](Builder& b, const std::string& what, const Buffer& buffer, nb::object index, int64_t bytes,
             nb::object predicate) {
            return b.load_wide(what, buffer, values_of(index), bytes, optional_value(predicate));
          },
          nb::arg("what"), nb::arg("buffer"), nb::arg("index"), nb::arg("bytes"), nb::arg("predicate").none())
      .def(
          "store_wide",
          [](Builder& b, const std::string& what, const Buffer& buffer, nb::object index, nb::object value,
             int64_t bytes, nb::object predicate) {
            b.store_wide(what, buffer, values_of(index), value_of(value), bytes, optional_value(predicate));
          },
          nb::arg("what"), nb::arg("buffer"), nb::arg("index"), nb::arg("value"), nb::arg("bytes"),
          nb::arg("predicate").none())
      .def(
          "instruct",
          [](Builder& b, const std::string& row, nb::object places) { b.instruct(row, exprs_of(places)); },
          nb::arg("row"), nb::arg("places"))
      .def(
          "foreign",
          [](Builder& b, const std::string& kind, const std::string& text, const std::string& key,
             nb::object outputs, nb::object args, std::optional<DType> dtype) {
            return b.foreign(kind, text, key, exprs_of(outputs), values_of(args), dtype);
          },
          nb::arg("kind"), nb::arg("text"), nb::arg("key"), nb::arg("outputs"), nb::arg("args"),
          nb::arg("dtype").none());
}
