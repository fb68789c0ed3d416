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

nb::tuple ints(const Numbers& numbers) {
  std::vector<nb::object> items;
  for (int64_t n : numbers) items.push_back(nb::int_(n));
  return tuple_of(items);
}

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
          [](Layout* self, Numbers shape, std::vector<Expr> vars, nb::object outputs) {
            new (self) Layout(make_layout(shape, vars, values_of(outputs), {}));
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
          [](const Layout& l, nb::object index) {
            std::vector<Expr> at;
            for (auto& v : values_of(index)) at.push_back(to_index(v, "an index of a layout", {}));
            check_rank(l, at.size());
            return map_index(l, at);
          },
          "index"_a)
      .def("points", &points_of)
      .def("inverse", [](const Layout& l) { return inverse(l); })
      .def(
          "compose", [](const Layout& l, const Layout& inner) { return compose(l, inner); }, "inner"_a)
      .def(
          "reshape", [](const Layout& l, Numbers shape) { return reshape(l, shape); }, "shape"_a)
      .def(
          "expand", [](const Layout& l, Numbers leading) { return expand(l, leading); }, "leading"_a)
      .def(
          "repeat",
          [](const Layout& l, int64_t dim, int64_t factor) {
            return repeat(l, size_t(dim < 0 ? dim + int64_t(l.extents.size()) : dim), factor);
          },
          "dim"_a, "factor"_a)
      .def("flattened", [](const Layout& l) { return flattened(l); })
      .def(
          "is_equal", [](const Layout& l, const Layout& other) { return equal(l, other); }, "other"_a)
      .def("is_injective", [](const Layout& l) { return is_injective(l); })
      .def("is_bijective", [](const Layout& l) { return is_bijective(l); })
      .def("collision", &collision_of)
      .def(
          "vector_width", [](const Layout& l, int64_t limit) { return vector_width(l, limit); }, "limit"_a)
      .def("__str__", [](const Layout& l) { return to_string(l); });
}

void bind_fragments(nb::module_& m) {
  nb::class_<Fragment>(m, "Fragment")
      .def(
          "__init__",
          [](Fragment* self, Numbers shape, int64_t replicas, std::vector<Expr> vars, nb::object thread,
             nb::object reg) {
            std::optional<Value> at;
            if (!reg.is_none()) at = value_of(reg);
            new (self) Fragment(make_fragment(shape, replicas, vars, value_of(thread), at, {}));
          },
          "shape"_a, "replicas"_a, "vars"_a, "thread"_a, "register"_a.none())
      .def_prop_ro("shape", [](const Fragment& f) { return ints(f.shape()); })
      .def_prop_ro("threads", [](const Fragment& f) { return f.threads; })
      .def_prop_ro("registers", [](const Fragment& f) { return f.registers; })
      .def_prop_ro("replicas", [](const Fragment& f) { return f.replicas; })
      .def_prop_ro("layout", [](const Fragment& f) { return f.layout; })
      .def(
          "holders",
          [](const Fragment& f, Numbers index) {
            nb::list out;
            for (auto& [thread, reg] : holders(f, index)) out.append(nb::make_tuple(thread, reg));
            return out;
          },
          "index"_a)
      .def(
          "repeat",
          [](const Fragment& f, Numbers factors, bool on_threads, bool last_dim_first) {
            return repeat(f, factors, on_threads, last_dim_first);
          },
          "factors"_a, "on_threads"_a, "last_dim_first"_a)
      .def(
          "replicate", [](const Fragment& f, int64_t n) { return replicate(f, n); }, "n"_a)
      .def("condense", [](const Fragment& f) { return condense(f); })
      .def(
          "is_equal", [](const Fragment& f, const Fragment& other) { return equal(f, other); }, "other"_a)
      .def("cover_fault", [](const Fragment& f) { return cover_fault(f); })
      .def("__str__", [](const Fragment& f) { return to_string(f); });
}

void bind_costs_and_pictures(nb::module_& m) {
  m.def(
      "wavefronts",
      [](const Layout& memory, int bits, const Fragment& map, int64_t lanes, const std::string& target) {
        const Target chip = chip_of(target);
        WarpCost w = wavefronts(memory, bits, map, lanes, chip.warp, chip.shared_banks);
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
  m.def("row_major", [](Numbers shape) { return row_major(shape); }, "shape"_a);
  m.def(
      "swizzled", [](Numbers shape, int bits, int64_t bytes) { return swizzled(shape, bits, bytes); },
      "shape"_a, "bits"_a, "bytes"_a);
  m.def(
      "swizzled_panels",
      [](Numbers shape, int bits, int64_t bytes) { return swizzled_panels(shape, bits, bytes); }, "shape"_a,
      "bits"_a, "bytes"_a);
  m.def(
      "xor_swizzled",
      [](Numbers shape, int count, int base, int shift) { return xor_swizzled(shape, count, base, shift); },
      "shape"_a, "bits"_a, "base"_a, "shift"_a);
  m.def("padded", [](Numbers shape, int bits) { return padded(shape, bits); }, "shape"_a, "bits"_a);
  m.def(
      "conflict_free",
      [](Numbers shape, int bits, bool allow_padding) { return conflict_free(shape, bits, allow_padding); },
      "shape"_a, "bits"_a, "allow_padding"_a);
  m.def(
      "matrix_fragment",
      [](const std::string& instr, const std::string& operand) {
        return matrix_fragment(instr, operand.size() == 1 ? operand[0] : '?');
      },
      "instr"_a, "operand"_a);
  m.def("matrix_fragment_names", &matrix_fragment_names);
  m.def("instruction_texts", [] {
    nb::list all;
    for (auto& row : instruction_texts()) {
      nb::list registers;
      for (int n : row.registers) registers.append(n);
      all.append(nb::make_tuple(row.name, row.ptx, nb::tuple(registers), row.result));
    }
    return all;
  });
}
