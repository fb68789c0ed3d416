// Python objects as the compiler's values, and back.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/builder.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

// A dtype is an object of the class `dtype` of front/dtypes.py, a string; there is one of each.
bool is_dtype(nb::handle object);
bool read_dtype(nb::handle object,
                tl::DType& type);  // false for other objects, and for those the compiler lacks
nb::object dtype_object(tl::DType type);

template <>
struct nb::detail::type_caster<tl::DType> {
  NB_TYPE_CASTER(tl::DType, const_name("dtype"))
  bool from_python(handle object, uint8_t, cleanup_list*) noexcept { return read_dtype(object, value); }
  static handle from_cpp(tl::DType type, rv_policy, cleanup_list*) { return dtype_object(type).release(); }
};

tl::Value value_of(nb::handle object);
tl::AttrValue attr_of(const std::string& key, nb::handle object);
tl::Attrs attrs_of(nb::handle dict);
tl::TileOperand operand_of(nb::handle object);
std::vector<nb::object> items_of(nb::handle sequence);
nb::object extent_object(const tl::Expr& e);  // an int if it is a constant
nb::object place_of(const tl::Span& span);    // (file, line, column), or None for generated code
// A message with Python's names of the dtypes, but for names that the user's own line, `source`, has.
std::string in_words_of_python(std::string_view text, std::string_view source);
nb::object known(int64_t number);  // None for a negative one
nb::tuple tuple_of(const std::vector<nb::object>& items);

template <class T, T (*read)(nb::handle)>
std::vector<T> list_of(nb::handle sequence) {
  std::vector<T> items;
  for (auto& item : items_of(sequence)) items.push_back(read(item));
  return items;
}
template <class T, T (*read)(nb::handle)>
std::optional<T> optional_of(nb::handle object) {
  return object.is_none() ? std::nullopt : std::optional<T>(read(object));
}
constexpr auto values_of = &list_of<tl::Value, value_of>;

namespace nanobind::detail {

// Unlike nanobind's own, these throw: what does not fit is a TypeError that says what came.
template <class T, T (*read)(handle)>
struct reading_caster {
  NB_TYPE_CASTER(T, const_name("object"))
  bool from_python(handle object, uint8_t, cleanup_list*) {
    value = read(object);
    return true;
  }
};
template <class T, T (*read)(handle)>
using optional_caster_by = reading_caster<std::optional<T>, optional_of<T, read>>;
template <class T, T (*read)(handle)>
using list_caster_by = reading_caster<std::vector<T>, list_of<T, read>>;
using Values = std::vector<tl::Value>;
using OptionalValue = std::optional<tl::Value>;

template <>
struct type_caster<tl::Value> : reading_caster<tl::Value, value_of> {};
template <>
struct type_caster<OptionalValue> : optional_caster_by<tl::Value, value_of> {};
template <>
struct type_caster<Values> : list_caster_by<tl::Value, value_of> {};
template <>
struct type_caster<std::optional<Values>> : optional_caster_by<Values, list_of<tl::Value, value_of>> {};
template <>
struct type_caster<std::vector<OptionalValue>>
    : list_caster_by<OptionalValue, optional_of<tl::Value, value_of>> {};
template <>
struct type_caster<std::vector<tl::TileOperand>> : list_caster_by<tl::TileOperand, operand_of> {};
template <>
struct type_caster<tl::Attrs> : reading_caster<tl::Attrs, attrs_of> {};

}  // namespace nanobind::detail

// An operator of the user's, as Python holds it.
struct UserTileOp {
  const tl::TileOp* row;
};

// Sets Python's error from the exception that is being handled, as nanobind does for what it binds.
void set_python_error();
// What `body` returns, as a new reference; null with Python's error set where it throws.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return or_sleep_at_exit([&] { return nb::object(body()).release().ptr(); });
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

void bind_values(nb::module_& m);
void bind_builder(nb::module_& m);
void bind_kernel(nb::module_& m);
void bind_launcher(nb::module_& m);
void bind_call_cache(nb::module_& m);
void bind_layout(nb::module_& m);
void bind_report(nb::module_& m);
void bind_user(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_foreign(nb::module_& m, nb::class_<tl::Builder>& builder);
