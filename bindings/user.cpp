// The user's own rows: matrix instructions, and what they mean in Python.
#include <cstring>

#include "api/user.h"
#include "convert.h"

using namespace tl;

namespace {

nb::bytes bytes_of(std::span<const double> values) { return nb::bytes(values.data(), values.size_bytes()); }

// A Python function of three tiles, each as the bytes of its doubles.  Called from any thread.
MatrixEval matrix_eval(const nb::object& function) {
  if (function.is_none()) return nullptr;
  PyObject* called = nb::object(function).release().ptr();  // the row is never removed
  return [called](std::span<const double> a, std::span<const double> b, std::span<const double> c) {
    GilHeld held;
    nb::object made =
        or_sleep_at_exit([&] { return nb::handle(called)(bytes_of(a), bytes_of(b), bytes_of(c)); });
    nb::bytes result = nb::cast<nb::bytes>(made);
    std::vector<double> values(result.size() / sizeof(double));
    std::memcpy(values.data(), result.c_str(), values.size() * sizeof(double));
    return values;
  };
}

Placement placement_of(nb::handle pair) {
  auto items = items_of(pair);
  return {.extents = nb::cast<std::vector<int64_t>>(items.at(0)),
          .points = nb::cast<std::vector<int64_t>>(items.at(1))};
}

// ── tile operators ────────────────────────────────────────────────────────────────────────────────────
nb::tuple tuple_from(const Array& a) {
  const void* data = a.dtype.is_float() ? static_cast<const void*>(a.floats.data()) : a.ints.data();
  std::vector<nb::object> shape;
  for (int64_t n : a.shape) shape.push_back(nb::int_(n));
  return nb::make_tuple(a.dtype, tuple_of(shape), nb::bytes(data, size_t(a.size()) * sizeof(double)));
}

nb::object number_from(const Array& a) {
  if (a.dtype.is_float()) return nb::float_(a.floats[0]);
  if (a.dtype.is_bool()) return nb::bool_(a.ints[0] != 0);
  return a.dtype == u64 ? nb::int_(uint64_t(a.ints[0])) : nb::int_(a.ints[0]);
}

// (are they floats?, shape, the bytes of doubles or of 64-bit integers)
Array array_from(nb::handle result) {
  auto items = items_of(result);
  Array a = make_array(nb::cast<bool>(items.at(0)) ? f64 : i64, nb::cast<std::vector<int64_t>>(items.at(1)));
  nb::bytes data = nb::cast<nb::bytes>(items.at(2));
  void* to = a.dtype.is_float() ? static_cast<void*>(a.floats.data()) : a.ints.data();
  std::memcpy(to, data.c_str(), std::min(data.size(), size_t(a.size()) * sizeof(double)));
  return a;
}

nb::object option_object(const AttrValue& value) {
  if (auto* n = std::get_if<int64_t>(&value)) return nb::int_(*n);
  if (auto* d = std::get_if<double>(&value)) return nb::float_(*d);
  if (auto* s = std::get_if<std::string>(&value)) return nb::cast(*s);
  if (auto* list = std::get_if<std::vector<int64_t>>(&value)) return nb::cast(*list);
  return nb::none();
}

// A Python function (read, written, options) -> results, on arrays as above.  Called from any thread.
UserEval tile_eval(const nb::object& function) {
  if (function.is_none()) return nullptr;
  PyObject* called = nb::object(function).release().ptr();  // the operator is never removed
  return
      [called](const std::vector<UserArgument>& read, const std::vector<Array>& written, const Attrs& attrs) {
        GilHeld held;
        nb::list given, shapes;
        nb::dict options;
        for (auto& [array, is_number] : read)
          given.append(is_number ? number_from(array) : tuple_from(array));
        for (auto& a : written) shapes.append(tuple_from(a));
        for (auto& [name, value] : attrs.entries) options[name.c_str()] = option_object(value);
        nb::object results = or_sleep_at_exit([&] { return nb::handle(called)(given, shapes, options); });
        std::vector<Array> out;
        for (auto& result : items_of(results)) out.push_back(array_from(result));
        return out;
      };
}

Access access_named(const std::string& name) {
  return name == "read"     ? Access::read
         : name == "write"  ? Access::write
         : name == "update" ? Access::update
                            : Access::value;
}

void bind_tile_op(nb::module_& m) {
  nb::class_<UserTileOp>(m, "TileOp")
      .def(
          "__init__",
          [](UserTileOp* self, const std::string& name, nb::object operands, nb::object eval) {
            std::vector<UserOperand> made;
            for (auto& pair : items_of(operands)) {
              auto items = items_of(pair);
              made.push_back(
                  {nb::cast<std::string>(items.at(0)), access_named(nb::cast<std::string>(items.at(1)))});
            }
            new (self) UserTileOp{&add_user_op(name, std::move(made), tile_eval(eval))};
          },
          "name"_a, "operands"_a, "eval"_a.none())
      .def_prop_ro("name", [](const UserTileOp& op) { return std::string(op.row->info.name); });
}

}  // namespace

void bind_user(nb::module_& m) {
  bind_tile_op(m);
  m.def("unregister_matrix", [](const std::string& name) { unregister_matrix(name); }, "name"_a);
  m.def(
      "register_matrix",
      [](std::vector<int64_t> shape, DType a_type, DType b_type, DType c_type, nb::object a, nb::object b,
         nb::object c, const std::string& ptx, nb::object eval) {
        const MatrixInstr& row = register_matrix({.shape = std::move(shape),
                                                  .a_type = a_type,
                                                  .b_type = b_type,
                                                  .c_type = c_type,
                                                  .a = placement_of(a),
                                                  .b = placement_of(b),
                                                  .c = placement_of(c),
                                                  .ptx = ptx,
                                                  .eval = matrix_eval(eval)});
        return std::string(row.intrinsic.name);
      },
      "shape"_a, "a_type"_a, "b_type"_a, "c_type"_a, "a"_a, "b"_a, "c"_a, "ptx"_a, "eval"_a.none());
}
