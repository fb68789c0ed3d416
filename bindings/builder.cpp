// Expr, Buffer, Region, Builder.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include "api/kernel.h"
#include "convert.h"

using namespace tl;

namespace {

nb::object value_object(const Expr& e) {
  if (auto* n = e.as<FloatImm>()) return nb::float_(n->value);
  auto* n = e.as<IntImm>();
  if (!n) throw nb::type_error(("the value of " + print(e) + " is known only when the kernel runs").c_str());
  if (e->dtype.is_bool()) return nb::bool_(n->value != 0);
  if (e->dtype == u64) return nb::int_(uint64_t(n->value));
  return nb::int_(n->value);
}

std::string scope_name(const BufferInfo& info) {
  return info.scope == Scope::local && info.shape.empty() ? "var" : std::string(to_string(info.scope));
}

nb::tuple shape_tuple(const Buffer& b) {
  std::vector<nb::object> extents;
  for (auto& e : b.shape()) extents.push_back(extent_object(e));
  return tuple_of(extents);
}

// The shape of a region: its extents without the dimensions that a single index drops.
nb::tuple region_extents(const BufferRegion& r) {
  std::vector<nb::object> extents;
  for (auto& range : r.ranges)
    if (!range.point) extents.push_back(range.extent ? extent_object(range.extent) : nb::none());
  return tuple_of(extents);
}

// Per dimension (start, extent or None, is it a point?).
nb::list ranges_of(const BufferRegion& region) {
  nb::list ranges;
  for (auto& r : region.ranges)
    ranges.append(
        nb::make_tuple(extent_object(r.min), r.extent ? extent_object(r.extent) : nb::none(), r.point));
  return ranges;
}

Expr converted(Builder& b, const Value& value, DType dtype) {
  return to_type(value, dtype, "the constant", b.here());
}

void bind_signature(nb::class_<Builder>& c) {
  c.def("tensor", &Builder::tensor, "name"_a, "shape"_a, "dtype"_a, "strides"_a.none() = nb::none())
      .def("scalar", &Builder::scalar, "name"_a, "dtype"_a)
      .def("dynamic", &Builder::dynamic, "name"_a)
      .def("order_params", &Builder::order_params, "names"_a);
}

void bind_structure(nb::class_<Builder>& c) {
  c.def(
       "begin_kernel",
       [](Builder& b, const std::vector<Value>& grid, const std::optional<std::vector<int64_t>>& threads,
          Attrs attrs, const std::vector<std::string>& names) {
         return b.begin_kernel(grid, threads.value_or(std::vector<int64_t>{}), std::move(attrs), names);
       },
       "grid"_a, "threads"_a.none(), "attrs"_a, "names"_a = nb::tuple())
      .def("form_clusters", &Builder::form_clusters, "dims"_a)
      .def("rank_in_cluster", &Builder::rank_in_cluster)
      .def("end_kernel", &Builder::end_kernel)
      .def("begin_for", &Builder::begin_for, "kind"_a, "names"_a, "starts"_a, "stops"_a, "steps"_a, "attrs"_a)
      .def("end_for", &Builder::end_for)
      .def("begin_while", &Builder::begin_while)
      .def("while_condition", &Builder::while_condition, "condition"_a)
      .def("end_while", &Builder::end_while)
      .def("drop_while", &Builder::drop_while)
      .def("begin_if", &Builder::begin_if, "condition"_a)
      .def("begin_else", &Builder::begin_else)
      .def("end_if", &Builder::end_if)
      .def("begin_choice", &Builder::begin_choice, "condition"_a)
      .def("drop_choice", &Builder::drop_choice)
      .def("end_choice", &Builder::end_choice, "yes"_a, "no"_a)
      .def("begin_group", &Builder::begin_group, "first"_a, "count"_a)
      .def("end_group", &Builder::end_group)
      .def("begin_op", &Builder::begin_op, "id"_a);
}

void bind_memory(nb::class_<Builder>& c) {
  c.def("alloc", &Builder::alloc, "name"_a, "scope"_a, "shape"_a, "dtype"_a, "attrs"_a)
      .def("set_dtype", &Builder::set_dtype, "tile"_a, "dtype"_a)
      .def("alias", &Builder::alias, "name"_a, "of"_a, "shape"_a, "dtype"_a, "what"_a)
      .def("annotate_safe_value", &Builder::annotate_safe_value, "buffer"_a, "value"_a)
      .def("load", &Builder::load, "buffer"_a, "index"_a)
      .def(
          "from_end",
          [](const Builder& b, const std::string& name, const Value& index,
             const Value& extent) -> std::optional<Expr> {
            Expr made = b.from_end(name, index, extent);
            if (equal(made, to_index(index, name, b.here()))) return {};
            return made;
          },
          "name"_a, "index"_a, "extent"_a)
      .def("store", &Builder::store, "buffer"_a, "index"_a, "value"_a)
      .def("evaluate", &Builder::evaluate, "value"_a)
      .def("let", &Builder::let, "name"_a, "value"_a)
      .def("held", &Builder::held, "name"_a, "value"_a)
      .def("barriers", &Builder::barriers, "what"_a, "name"_a, "counts"_a)
      .def("count_arrivals", &Builder::count_arrivals, "what"_a, "words"_a, "number"_a, "count"_a)
      .def("signal_barrier", &Builder::signal_barrier, "what"_a, "row"_a, "words"_a, "index"_a,
           "bytes"_a.none() = nb::none())
      .def("arrive_for_state", &Builder::arrive_for_state, "what"_a, "row"_a, "words"_a, "index"_a,
           "bytes"_a.none() = nb::none())
      .def("wait_for_state", &Builder::wait_for_state, "what"_a, "words"_a, "index"_a, "state"_a)
      .def("test_state", &Builder::test_state, "what"_a, "words"_a, "index"_a, "state"_a)
      .def("arrive_remote", &Builder::arrive_remote, "what"_a, "words"_a, "index"_a, "rank"_a)
      .def("rank", &Builder::rank, "what"_a, "block"_a)
      .def("cluster_mask", &Builder::cluster_mask, "what"_a, "mask"_a)
      .def("cluster_barrier", &Builder::cluster_barrier, "what"_a, "row"_a)
      .def("wait_barrier", &Builder::wait_barrier, "what"_a, "words"_a, "index"_a, "parity"_a);
}

void bind_arithmetic(nb::class_<Builder>& c) {
  c.def("const", &converted, "value"_a, "dtype"_a)
      .def(
          "unary",
          [](Builder& b, const std::string& op, const Value& a) { return apply_unary(op, a, b.here()); },
          "op"_a, "a"_a)
      .def(
          "binary",
          [](Builder& b, const std::string& op, const Value& x, const Value& y) {
            return b.binary(op, x, y);
          },
          "op"_a, "a"_a, "b"_a)
      .def(
          "cast", [](Builder& b, DType dtype, const Value& a) { return converted(b, a, dtype); }, "dtype"_a,
          "a"_a)
      .def(
          "select",
          [](Builder& b, const Value& condition, const Value& x, const Value& y) {
            return apply_select(condition, x, y, b.here());
          },
          "condition"_a, "a"_a, "b"_a)
      .def("assume", &Builder::assume, "condition"_a)
      .def("require", &Builder::require, "condition"_a, "message"_a)
      .def("note", &Builder::note, "by"_a, "subject"_a, "text"_a)
      .def(
          "text", [](Builder& b, const std::string& text) { return string_imm(text, b.here()); }, "text"_a)
      .def("call", &Builder::call, "name"_a, "args"_a, "dtype"_a.none() = nb::none());
}

}  // namespace

void bind_values(nb::module_& m) {
  nb::class_<Expr>(m, "Expr")
      .def_prop_ro("dtype", [](const Expr& e) { return e->dtype; })
      .def_prop_ro("is_const", [](const Expr& e) { return is_const(e); })
      .def_prop_ro("value", &value_object)
      .def("__str__", [](const Expr& e) { return print(e); });
  nb::class_<Buffer>(m, "Buffer")
      .def_prop_ro("id", [](const Buffer& b) { return b.id.value; })
      .def_prop_ro("storage",
                   [](const Buffer& b) { return b.info().alias_of ? b.info().alias_of.value : b.id.value; })
      .def_prop_ro("name", [](const Buffer& b) { return b.info().name; })
      .def_prop_ro("dtype", [](const Buffer& b) { return b.info().dtype; })
      .def_prop_ro("shape", &shape_tuple)
      .def_prop_ro("given_strides",  // none of a row-major buffer without gaps
                   [](const Buffer& b) {
                     std::vector<nb::object> strides;
                     for (auto& e : b.info().strides) strides.push_back(extent_object(e));
                     return tuple_of(strides);
                   })
      .def_prop_ro("scope", [](const Buffer& b) { return scope_name(b.info()); })
      .def("show", [](const Buffer& b, const Expr& e) { return print(e, &b.draft->function); }, "value"_a);
  nb::class_<IndexMap>(m, "ValueFunction");
  nb::class_<BufferRegion>(m, "Region")
      .def(
          "__init__",
          [](BufferRegion* self, const Buffer& buffer, const std::vector<Value>& starts,
             const std::vector<std::optional<Value>>& extents, const std::vector<bool>& points) {
            new (self) BufferRegion(make_region(buffer, starts, extents, points));
          },
          "buffer"_a, "starts"_a, "extents"_a, "points"_a)
      .def_prop_ro("buffer", [](const BufferRegion& r) { return r.buffer; })
      .def_prop_ro("ranges", &ranges_of)
      .def_prop_ro("extents", &region_extents);
}

void bind_builder(nb::module_& m) {
  nb::class_<Builder> c(m, "Builder");
  c.def(nb::init<std::string>(), "name"_a)
      .def(
          "at",
          [](Builder& b, const std::string& file, int line, int column, int end_line, int end_column) {
            b.at({intern_file(file), line, column, end_line, end_column});
          },
          "file"_a, "line"_a, "column"_a, "end_line"_a, "end_column"_a);
  bind_signature(c);
  bind_structure(c);
  bind_memory(c);
  bind_arithmetic(c);
  c.def("tile", &Builder::tile, "op"_a, "operands"_a, "attrs"_a)
      .def("begin_function", &Builder::begin_function, "said"_a, "names"_a, "dtype"_a)
      .def("end_function", &Builder::end_function, "vars"_a, "results"_a, "dtype"_a)
      .def("annotate_layout",
           nb::overload_cast<const Buffer&, const Layout&, const std::string&>(&Builder::annotate_layout),
           "buffer"_a, "layout"_a, "by"_a)
      .def("annotate_layout",
           nb::overload_cast<const Buffer&, const Fragment&, const std::string&>(&Builder::annotate_layout),
           "buffer"_a, "layout"_a, "by"_a)
      .def(
          "begin_tile",
          [](Builder& b, const UserTileOp& op, const std::vector<TileOperand>& operands, Attrs attrs) {
            b.begin_tile(*op.row, operands, std::move(attrs));
          },
          "op"_a, "operands"_a, "attrs"_a)
      .def("end_tile", &Builder::end_tile)
      .def("use_swizzle", &Builder::use_swizzle, "panel_size"_a, "order"_a)
      .def("annotate_schedule", &Builder::annotate_schedule, "text"_a, "tiles"_a)
      .def(
          "annotate",
          [](Builder& b, const std::string& key, nb::object value) { b.annotate(key, attr_of(key, value)); },
          "key"_a, "value"_a)
      .def("finish", &Builder::finish);
  bind_foreign(m, c);
}
