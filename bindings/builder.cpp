// Expr, Buffer, Region, Builder.
#include <nanobind/stl/optional.h>

#include "api/kernel.h"
#include "base/error.h"
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
  for (auto& e : b.info().shape) extents.push_back(extent_object(e));
  return tuple_of(extents);
}

BufferRegion region_from(const Buffer& buffer, nb::handle starts, nb::handle extents, nb::handle points) {
  std::vector<std::optional<Value>> lengths;
  for (auto& e : items_of(extents)) {
    if (e.is_none())
      lengths.push_back(std::nullopt);
    else
      lengths.push_back(value_of(e));
  }
  std::vector<bool> marks;
  for (auto& p : items_of(points)) marks.push_back(nb::cast<bool>(p));
  return make_region(buffer, values_of(starts), lengths, marks);
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

std::vector<int64_t> threads_of(nb::handle threads) {
  std::vector<int64_t> counts;
  if (threads.is_none()) return counts;
  for (auto& n : items_of(threads)) counts.push_back(nb::cast<int64_t>(n));
  return counts;
}

std::vector<std::string> words_of(nb::handle sequence) {
  std::vector<std::string> words;
  for (auto& word : items_of(sequence)) words.push_back(nb::cast<std::string>(word));
  return words;
}

std::vector<TileOperand> operands_of(nb::handle sequence) {
  std::vector<TileOperand> operands;
  for (auto& item : items_of(sequence)) {
    if (nb::isinstance<Buffer>(item))
      operands.push_back(nb::cast<Buffer>(item));
    else if (nb::isinstance<BufferRegion>(item))
      operands.push_back(nb::cast<BufferRegion>(item));
    else
      operands.push_back(value_of(item));
  }
  return operands;
}

void bind_signature(nb::class_<Builder>& c) {
  c.def(
       "tensor",
       [](Builder& b, const std::string& name, nb::object shape, DType dtype, nb::object strides) {
         std::optional<std::vector<Value>> steps;
         if (!strides.is_none()) steps = values_of(strides);
         return b.tensor(name, values_of(shape), dtype, steps);
       },
       nb::arg("name"), nb::arg("shape"), nb::arg("dtype"), nb::arg("strides").none() = nb::none())
      .def("scalar", &Builder::scalar, nb::arg("name"), nb::arg("dtype"))
      .def("dynamic", &Builder::dynamic, nb::arg("name"));
}

void bind_structure(nb::class_<Builder>& c) {
  c.def(
       "begin_kernel",
       [](Builder& b, nb::object grid, nb::object threads, nb::dict attrs, nb::object names) {
         return b.begin_kernel(values_of(grid), threads_of(threads), attrs_of(attrs), words_of(names));
       },
       nb::arg("grid"), nb::arg("threads").none(), nb::arg("attrs"), nb::arg("names") = nb::tuple())
      .def("end_kernel", &Builder::end_kernel)
      .def(
          "begin_for",
          [](Builder& b, const std::string& kind, nb::object names, nb::object starts, nb::object stops,
             nb::object steps, nb::dict attrs) {
            return b.begin_for(kind, words_of(names), values_of(starts), values_of(stops), values_of(steps),
                               attrs_of(attrs));
          },
          nb::arg("kind"), nb::arg("names"), nb::arg("starts"), nb::arg("stops"), nb::arg("steps"),
          nb::arg("attrs"))
      .def("end_for", &Builder::end_for)
      .def("begin_while", &Builder::begin_while)
      .def(
          "while_condition", [](Builder& b, nb::object condition) { b.while_condition(value_of(condition)); },
          nb::arg("condition"))
      .def("end_while", &Builder::end_while)
      .def("drop_while", &Builder::drop_while)
      .def(
          "begin_if", [](Builder& b, nb::object condition) { b.begin_if(value_of(condition)); },
          nb::arg("condition"))
      .def("begin_else", &Builder::begin_else)
      .def("end_if", &Builder::end_if)
      .def("begin_group", &Builder::begin_group, nb::arg("first"), nb::arg("count"))
      .def("end_group", &Builder::end_group);
}

void bind_memory(nb::class_<Builder>& c) {
  c.def(
       "alloc",
       [](Builder& b, const std::string& name, const std::string& scope, nb::object shape, DType dtype,
          nb::dict attrs) { return b.alloc(name, scope, values_of(shape), dtype, attrs_of(attrs)); },
       nb::arg("name"), nb::arg("scope"), nb::arg("shape"), nb::arg("dtype"), nb::arg("attrs"))
      .def("set_dtype", &Builder::set_dtype, nb::arg("tile"), nb::arg("dtype"))
      .def(
          "alias",
          [](Builder& b, const std::string& name, const Buffer& of, nb::object shape, DType dtype,
             const std::string& what) { return b.alias(name, of, values_of(shape), dtype, what); },
          nb::arg("name"), nb::arg("of"), nb::arg("shape"), nb::arg("dtype"), nb::arg("what"))
      .def(
          "annotate_safe_value",
          [](Builder& b, const Buffer& buffer, nb::object value) {
            b.annotate_safe_value(buffer, value_of(value));
          },
          nb::arg("buffer"), nb::arg("value"))
      .def(
          "load",
          [](Builder& b, const Buffer& buffer, nb::object index) { return b.load(buffer, values_of(index)); },
          nb::arg("buffer"), nb::arg("index"))
      .def(
          "store",
          [](Builder& b, const Buffer& buffer, nb::object index, nb::object value) {
            b.store(buffer, values_of(index), value_of(value));
          },
          nb::arg("buffer"), nb::arg("index"), nb::arg("value"))
      .def(
          "evaluate", [](Builder& b, nb::object value) { b.evaluate(value_of(value)); }, nb::arg("value"))
      .def(
          "let",
          [](Builder& b, const std::string& name, nb::object value) { return b.let(name, value_of(value)); },
          nb::arg("name"), nb::arg("value"));
}

void bind_arithmetic(nb::class_<Builder>& c) {
  c.def(
       "order_params", [](Builder& b, nb::object names) { b.order_params(words_of(names)); },
       nb::arg("names"))
      .def(
          "const",
          [](Builder& b, nb::object value, DType dtype) {
            return to_type(value_of(value), dtype, "the constant", b.here());
          },
          nb::arg("value"), nb::arg("dtype"))
      .def(
          "unary",
          [](Builder& b, const std::string& op, nb::object a) {
            return apply_unary(op, value_of(a), b.here());
          },
          nb::arg("op"), nb::arg("a"))
      .def(
          "binary",
          [](Builder& b, const std::string& op, nb::object x, nb::object y) {
            return apply_binary(op, value_of(x), value_of(y), b.here());
          },
          nb::arg("op"), nb::arg("a"), nb::arg("b"))
      .def(
          "cast",
          [](Builder& b, DType dtype, nb::object a) {
            return to_type(value_of(a), dtype, "the constant", b.here());
          },
          nb::arg("dtype"), nb::arg("a"))
      .def(
          "select",
          [](Builder& b, nb::object condition, nb::object x, nb::object y) {
            return apply_select(value_of(condition), value_of(x), value_of(y), b.here());
          },
          nb::arg("condition"), nb::arg("a"), nb::arg("b"))
      .def(
          "assume", [](Builder& b, nb::object cond) { b.assume(value_of(cond)); }, nb::arg("condition"))
      .def(
          "require",
          [](Builder& b, nb::object cond, const std::string& text) { b.require(value_of(cond), text); },
          nb::arg("condition"), nb::arg("message"))
      .def("note", &Builder::note, nb::arg("by"), nb::arg("subject"), nb::arg("text"))
      .def(
          "text", [](Builder& b, const std::string& text) { return string_imm(text, b.here()); },
          nb::arg("text"))
      .def(
          "call",
          [](Builder& b, const std::string& name, nb::object args, std::optional<DType> dtype) {
            return b.call(name, values_of(args), dtype);
          },
          nb::arg("name"), nb::arg("args"), nb::arg("dtype").none() = nb::none());
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
      .def_prop_ro("scope", [](const Buffer& b) { return scope_name(b.info()); });
  nb::class_<IndexMap>(m, "ValueFunction");
  nb::class_<BufferRegion>(m, "Region")
      .def(
          "__init__",
          [](BufferRegion* self, const Buffer& buffer, nb::object starts, nb::object extents,
             nb::object points) { new (self) BufferRegion(region_from(buffer, starts, extents, points)); },
          nb::arg("buffer"), nb::arg("starts"), nb::arg("extents"), nb::arg("points"))
      .def_prop_ro("buffer", [](const BufferRegion& r) { return r.buffer; })
      .def_prop_ro("ranges", &ranges_of)
      .def_prop_ro("extents", &region_extents);
}

void bind_builder(nb::module_& m) {
  nb::class_<Builder> c(m, "Builder");
  c.def(nb::init<std::string>(), nb::arg("name"))
      .def(
          "at",
          [](Builder& b, const std::string& file, int line, int column, int end_line, int end_column) {
            b.at({intern_file(file), line, column, end_line, end_column});
          },
          nb::arg("file"), nb::arg("line"), nb::arg("column"), nb::arg("end_line"), nb::arg("end_column"));
  bind_signature(c);
  bind_structure(c);
  bind_memory(c);
  bind_arithmetic(c);
  c.def(
       "tile",
       [](Builder& b, const std::string& op, nb::object operands, nb::dict attrs) {
         b.tile(op, operands_of(operands), attrs_of(attrs));
       },
       nb::arg("op"), nb::arg("operands"), nb::arg("attrs"))
      .def(
          "begin_function",
          [](Builder& b, const std::string& said, nb::object names, DType dtype) {
            return b.begin_function(said, words_of(names), dtype);
          },
          nb::arg("said"), nb::arg("names"), nb::arg("dtype"))
      .def(
          "end_function",
          [](Builder& b, nb::object vars, nb::object results, DType dtype) {
            std::vector<Expr> parameters;
            for (auto& v : items_of(vars)) parameters.push_back(nb::cast<Expr>(v));
            return b.end_function(parameters, values_of(results), dtype);
          },
          nb::arg("vars"), nb::arg("results"), nb::arg("dtype"))
      .def("annotate_layout",
           nb::overload_cast<const Buffer&, const Layout&, const std::string&>(&Builder::annotate_layout),
           nb::arg("buffer"), nb::arg("layout"), nb::arg("by"))
      .def("annotate_layout",
           nb::overload_cast<const Buffer&, const Fragment&, const std::string&>(&Builder::annotate_layout),
           nb::arg("buffer"), nb::arg("layout"), nb::arg("by"))
      .def(
          "begin_tile",
          [](Builder& b, const UserTileOp& op, nb::object operands, nb::dict attrs) {
            b.begin_tile(*op.row, operands_of(operands), attrs_of(attrs));
          },
          nb::arg("op"), nb::arg("operands"), nb::arg("attrs"))
      .def("end_tile", &Builder::end_tile)
      .def(
          "use_swizzle",
          [](Builder& b, nb::object size, const std::string& order) { b.use_swizzle(value_of(size), order); },
          nb::arg("panel_size"), nb::arg("order"))
      .def(
          "annotate",
          [](Builder& b, const std::string& key, nb::object value) { b.annotate(key, attr_of(key, value)); },
          nb::arg("key"), nb::arg("value"))
      .def("finish", &Builder::finish);
  bind_foreign(m, c);
}
