// Layout, Fragment, and the makers of both.
#include "api/layout.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "api/kernel.h"
#include "base/error.h"
#include "convert.h"

using namespace tl;

namespace {

using Numbers = std::vector<int64_t>;

nb::tuple ints(const Numbers& numbers) { return nb::tuple(nb::cast(numbers)); }

// The points of a table as tuples, in row-major order.
nb::list points_of(const Layout& l) {
  Numbers points = table(l);
  nb::list out;
  size_t n = l.ranges.size();
  for (size_t p = 0; p < points.size(); p += n)
    out.append(ints({points.begin() + std::ptrdiff_t(p), points.begin() + std::ptrdiff_t(p + n)}));
  return out;
}

nb::object collision_of(const Layout& l) {
  auto found = collision(l);
  if (!found) return nb::none();
  return nb::make_tuple(ints(found->first), ints(found->second));
}

Drawing picture(nb::handle layout, int bits) {
  if (nb::isinstance<Fragment>(layout)) return draw(nb::cast<const Fragment&>(layout));
  return draw(nb::cast<const Layout&>(layout), bits);
}

// (title, names of the rows, columns, [(text, colour)])
nb::tuple cells_of(const Drawing& d) {
  nb::list cells;
  for (auto& c : d.cells) cells.append(nb::make_tuple(c.text, c.colour));
  return nb::make_tuple(d.title, d.rows, d.columns, cells);
}

// By its name; without one, what NVIDIA's chips have in common.
Target chip_of(const std::string& target) {
  if (target.empty()) return {};
  const Target* chip = resolve_target(target).chip;
  if (!chip || !chip->has_threads())
    fail({}, "target '{}' has no warps: name a GPU, as in 'sim:CHIP'", target);
  return *chip;
}

void bind_layouts(nb::module_& m) {
  nb::class_<Layout>(m, "Layout")
      .def(
          "__init__",
          [](Layout* self, Numbers shape, std::vector<Expr> vars, const std::vector<Value>& outputs) {
            new (self) Layout(make_layout(shape, vars, outputs, {}));
          },
          "shape"_a, "vars"_a, "outputs"_a)
      .def_prop_ro("shape", [](const Layout& l) { return ints(l.extents); })
      .def_prop_ro("output_shape", [](const Layout& l) { return ints(l.ranges); })
      .def_prop_ro("has_digits", [](const Layout& l) { return l.terms.has_value(); })
      .def_prop_ro("has_expressions", [](const Layout& l) { return !l.outputs.empty(); })
      .def(
          "map", [](const Layout& l, Numbers index) { return ints(locate(l, index)); }, "index"_a)
      .def(
          "map_values",
          [](const Layout& l, const std::vector<Value>& index) {
            std::vector<Expr> at;
            for (auto& v : index) at.push_back(to_index(v, "an index of a layout", {}));
            check_rank(l, at.size());
            return map_index(l, at);
          },
          "index"_a)
      .def("points", &points_of)
      .def("inverse", nb::overload_cast<const Layout&>(&inverse))
      .def("compose", &compose, "inner"_a)
      .def("reshape", &reshape, "shape"_a)
      .def("expand", &expand, "leading"_a)
      .def(
          "repeat",
          [](const Layout& l, int64_t dim, int64_t factor) {
            return repeat(l, size_t(dim < 0 ? dim + int64_t(l.extents.size()) : dim), factor);
          },
          "dim"_a, "factor"_a)
      .def("flattened", &flattened)
      .def("is_equal", nb::overload_cast<const Layout&, const Layout&>(&equal), "other"_a)
      .def("is_injective", &is_injective)
      .def("is_bijective", &is_bijective)
      .def("collision", &collision_of)
      .def("vector_width", nb::overload_cast<const Layout&, int64_t>(&vector_width), "limit"_a)
      .def("__str__", nb::overload_cast<const Layout&>(&to_string));
}

void bind_fragments(nb::module_& m) {
  nb::class_<Fragment>(m, "Fragment")
      .def(
          "__init__",
          [](Fragment* self, Numbers shape, int64_t replicas, std::vector<Expr> vars, const Value& thread,
             const std::optional<Value>& reg) {
            new (self) Fragment(make_fragment(shape, replicas, vars, thread, reg, {}));
          },
          "shape"_a, "replicas"_a, "vars"_a, "thread"_a, "register"_a.none())
      .def_prop_ro("shape", [](const Fragment& f) { return ints(f.shape()); })
      .def_prop_ro("threads", [](const Fragment& f) { return f.threads; })
      .def_prop_ro("registers", [](const Fragment& f) { return f.registers; })
      .def_prop_ro("replicas", [](const Fragment& f) { return f.replicas; })
      .def_prop_ro("layout", [](const Fragment& f) { return f.layout; })
      .def("holders", &holders, "index"_a)
      .def("repeat", nb::overload_cast<const Fragment&, const Numbers&, bool, bool>(&repeat), "factors"_a,
           "on_threads"_a, "last_dim_first"_a)
      .def("replicate", &replicate, "n"_a)
      .def("condense", &condense)
      .def("is_equal", nb::overload_cast<const Fragment&, const Fragment&>(&equal), "other"_a)
      .def("cover_fault", &cover_fault)
      .def("__str__", nb::overload_cast<const Fragment&>(&to_string));
}

void bind_costs_and_pictures(nb::module_& m) {
  m.def(
      "bank_cycles",
      [](const Layout& memory, int bits, const Fragment& map, int64_t lanes, const std::string& target) {
        const Target chip = chip_of(target);
        WarpCost w = bank_cycles(memory, bits, map, lanes, chip.warp, chip.shared_banks);
        return std::pair(w.count, w.least);
      },
      "memory"_a, "bits"_a, "map"_a, "lanes"_a, "target"_a);
  m.def(
      "sectors",
      [](const Layout& memory, int bits, const Fragment& map, int64_t lanes, const std::string& target) {
        return sectors(memory, bits, map, lanes, chip_of(target).warp).count;
      },
      "memory"_a, "bits"_a, "map"_a, "lanes"_a, "target"_a);
  m.def(
      "draw_text",
      [](nb::object layout, int bits, int64_t rows, int64_t columns) {
        return to_text(picture(layout, bits), rows, columns);
      },
      "layout"_a, "bits"_a, "rows"_a, "columns"_a);
  m.def(
      "draw_svg", [](nb::object layout, int bits) { return to_svg(picture(layout, bits)); }, "layout"_a,
      "bits"_a);
  m.def(
      "draw_cells", [](nb::object layout, int bits) { return cells_of(picture(layout, bits)); }, "layout"_a,
      "bits"_a);
}

}  // namespace

void bind_layout(nb::module_& m) {
  bind_layouts(m);
  bind_fragments(m);
  bind_costs_and_pictures(m);
  m.def("index_var", [](const std::string& name) { return var(name, i64); }, "name"_a);
  m.def("row_major", &row_major, "shape"_a);
  m.def("swizzled", nb::overload_cast<Numbers, int, int64_t>(&swizzled), "shape"_a, "bits"_a, "bytes"_a);
  m.def("swizzled_panels", &swizzled_panels, "shape"_a, "bits"_a, "bytes"_a);
  m.def("xor_swizzled", &xor_swizzled, "shape"_a, "bits"_a, "base"_a, "shift"_a);
  m.def("padded", &padded, "shape"_a, "bits"_a);
  m.def("conflict_free", &conflict_free, "shape"_a, "bits"_a, "allow_padding"_a);
  m.def(
      "matrix_fragment",
      [](const std::string& instr, const std::string& operand) {
        return matrix_fragment(instr, operand.size() == 1 ? operand[0] : '?');
      },
      "instr"_a, "operand"_a);
  m.def("matrix_fragment_names", &matrix_fragment_names);
  m.def("instruction_texts", [] {
    nb::list all;
    for (auto& row : instruction_texts())
      all.append(nb::make_tuple(row.name, row.ptx, nb::tuple(nb::cast(row.registers)), row.result));
    return all;
  });
}
