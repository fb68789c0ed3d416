// What one thread does to memory, and foreign code: the Builder's methods for it, and Python functions as its
// meaning.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include "api/user.h"
#include "convert.h"

using namespace tl;

namespace {

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
    GilHeld held;
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
    nb::object numbers = or_sleep_at_exit([&] { return nb::handle(called)(given, types); });
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
      "name"_a, "identity"_a, "function"_a);
  c.def("address", &Builder::address, "buffer"_a, "index"_a, "access"_a, "count"_a.none() = nb::none())
      .def("pointer", &Builder::pointer, "name"_a)
      .def("tensor_at", &Builder::tensor_at, "name"_a, "base"_a, "shape"_a, "dtype"_a, "strides"_a.none())
      .def("atomic", &Builder::atomic, "op"_a, "buffer"_a, "index"_a, "value"_a.none(), "order"_a,
           "returns"_a)
      .def("load_wide", &Builder::load_wide, "what"_a, "buffer"_a, "index"_a, "bytes"_a, "predicate"_a.none())
      .def("store_wide", &Builder::store_wide, "what"_a, "buffer"_a, "index"_a, "value"_a, "bytes"_a,
           "predicate"_a.none())
      .def("instruct", &Builder::instruct, "row"_a, "operands"_a)
      .def("foreign", &Builder::foreign, "kind"_a, "text"_a, "key"_a, "outputs"_a, "args"_a,
           "dtype"_a.none());
}
