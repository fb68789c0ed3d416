// Reducers in all that they may do, and copies between two parts of one tile.
#pragma once
#include <set>

#include "fuzz/view_text.h"

namespace tl::fuzz {

// A part of a tile: where it begins, constants or not, and its extents.
struct Part {
  std::vector<std::string> first;
  Shape extents;
  std::string text(const std::string& name) const {
    std::string out;
    for (size_t d = 0; d < extents.size(); d++)
      out += fmt::format("{}{} : +{}", d ? ", " : "", first[d], extents[d]);
    return fmt::format("{}[{}]", name, out);
  }
};

struct PartText : ViewText {
  // ── reducers ────────────────────────────────────────────────────────────────────────────────────────
  struct Reducer {
    std::string name, type, op;
    Shape shape;
  };
  Reducer declare_reducer(const Shape& shape) {
    Reducer r{.name = fmt::format("o{}", tensors++),
              .type = pick<std::string>({"f32", "f32", "f16", "f16", "bf16", "bf16", "f64", "i32", "i16",
                                         "u32", "i64", "e4m3", "e5m2", "tf32"}),
              .op = pick<std::string>({"sum", "sum", "max", "min"}),
              .shape = shape};
    if (!is_float(r.type) && chance(40)) r.op = pick<std::string>({"bitand", "bitor", "bitxor"});
    line("{} = local {}[{}] reducer(\"{}\")", r.name, r.type, listed(shape), r.op);
    return r;
  }
  void open_reducer(const Reducer& r) {
    std::string low = is_unsigned(r.type) ? "0" : "-9";
    std::string value = r.op == "max"                              ? low
                        : r.op == "min"                            ? "9"
                        : r.op == "bitand" && !is_unsigned(r.type) ? "-1"
                                                                   : std::to_string(below(3));
    if (is_float(r.type)) value += ".0";
    if (is_storage(r.type)) value = fmt::format("cast<{}>({})", r.type, value);
    if (r.op.ends_with("sum") && chance(30)) return line("clear({})", r.name);
    line("{}({}, {})", chance(50) ? "fill" : "reducer_init", r.name, value);
  }
  // What an iteration over `from` gives, and the statement that joins it; the first dimensions of `from` are
  // the reducer's.
  std::string joined(const Reducer& r, const std::string& x) {
    std::string own = fmt::format("{}[{}]", r.name, indices(r.shape)), value = x, wide = r.type;
    if (!is_float(r.type))
      value = fmt::format("cast<{}>(cast<i32>(min(max({}, -1e6), 1e6)))", r.type, x);
    else if (is_storage(r.type) || (bits_of(r.type) < 32 && chance(50)))
      own = fmt::format("cast<f32>({})", own), wide = "f32";
    else
      value = fmt::format("cast<{}>({})", r.type, x);
    std::string sign = r.op == "bitand" ? "&" : r.op == "bitor" ? "|" : "^";
    std::string out =
        r.op == "sum"
            ? fmt::format(fmt::runtime(pick<std::string>({"{} + {}", "{} + {}", "{} - {}"})), own, value)
        : r.op.size() == 3 ? fmt::format("{}({}, {})", r.op, own, value)
        : chance(50)       ? fmt::format("{} {} {}", own, sign, value)
                           : fmt::format("{} {} {}", value, sign, own);
    if (chance(15)) out = fmt::format("select({} > 0.0, {}, {})", x, out, own);
    return wide == r.type ? out : fmt::format("cast<{}>({})", r.type, out);
  }
  void contribute(const Reducer& r, const Tile& from) {
    int outer = indent;
    if (chance(25)) {
      line("for c{} in {}({}):", tensors++, pick<std::string>({"serial", "unrolled"}), 1 + below(3));
      indent++;
    }
    if (chance(20)) {
      line("if {}:", scalar.empty() ? "b % 2 == 0" : fmt::format("{} < 5", scalar));
      indent++;
    }
    open_nest(from.shape);
    std::string x = fmt::format("cast<f32>({}[{}])", from.name, indices(from.shape));
    if (chance(20)) {
      line("if {}:", condition(from.shape));
      indent++;
    }
    line("{}[{}] = {}", r.name, indices(r.shape), joined(r, x));
    indent = outer;
  }
  void reducer_step() {
    Tile from = find([](const Tile& t) {
      return t.shape.size() > 1 && !is_storage(t.type) && !t.rough && t.type != "bool";
    });
    if (from.name.empty() || from.shape[0] > 64) return;
    Shape shape = {from.shape[0]};
    if (from.shape.size() > 2 && shape[0] * from.shape[1] <= 64 && chance(60)) shape.push_back(from.shape[1]);
    Tile to = fresh(chance(70) ? "fragment" : "shared", "f32", shape);
    if (to.name.empty()) return;
    Reducer r = declare_reducer(shape);
    int outer = indent;
    if (chance(20)) {
      line("for c{} in serial({}):", tensors++, 1 + below(2));
      indent++;
    }
    for (int64_t epochs = chance(25) ? 2 : 1; epochs > 0; epochs--) {
      open_reducer(r);
      for (int64_t n = 1 + below(3); n > 0; n--) contribute(r, from);
      line("finalize_reducer({}){}", r.name, chance(10) ? " {batch=2}" : "");
    }
    // The last bits of the sum are looked at: they are what rounding changes.
    if (chance(30)) line("copy({}, {})", r.name, to.name);
    open_nest(shape);
    std::string own = fmt::format("{}[{}]", r.name, indices(shape));
    line("{}[{}] = cast<f32>(cast<i32>({}) & 7)", to.name, indices(shape),
         is_storage(r.type) ? fmt::format("cast<f32>({})", own) : own);
    indent = outer;
  }

  // ── parts of one tile ───────────────────────────────────────────────────────────────────────────────
  static bool meet(const Shape& a, const Shape& b, const Shape& extents) {
    for (size_t d = 0; d < a.size(); d++)
      if (a[d] + extents[d] <= b[d] || b[d] + extents[d] <= a[d]) return false;
    return true;
  }
  static std::vector<std::string> constants(const Shape& first) {
    std::vector<std::string> out;
    for (int64_t n : first) out.push_back(std::to_string(n));
    return out;
  }
  // Two parts of a tile with constant places, that have elements in common (but are not the same) or not.
  bool two_parts(const Tile& t, bool meeting, Part& a, Part& b) {
    for (int attempt = 0; attempt < 20; attempt++) {
      Shape extents, x, y;
      for (int64_t e : t.shape) {
        extents.push_back(chance(40) ? e : 1 + below(e));
        x.push_back(below(e - extents.back() + 1));
        y.push_back(chance(50) ? x.back() : below(e - extents.back() + 1));
      }
      if ((x == y && meeting) || (x != y && meet(x, y, extents) != meeting)) continue;
      a = {constants(x), extents};
      b = {constants(y), extents};
      return true;
    }
    return false;
  }
  // Where one begins, only the run can tell.
  bool parts_of_the_run(const Tile& t, Part& a, Part& b) {
    if (scalar.empty()) return false;
    size_t d = size_t(below(int64_t(t.shape.size())));
    if (t.shape[d] < 9) return false;
    for (Part* p : {&a, &b}) *p = {std::vector<std::string>(t.shape.size(), "0"), t.shape};
    a.extents[d] = b.extents[d] = t.shape[d] - 8;
    a.first[d] = fmt::format("cast<i64>({})", scalar);  // 0 … 7
    b.first[d] = std::to_string(below(9));
    if (chance(50)) std::swap(a, b);
    return true;
  }
  void part_step() {
    Tile t = find([](const Tile& t) { return !is_packed(t.type) && t.size() > 1; });
    if (t.name.empty() || !staged(t) || !staged(t)) return;
    Part a, b;
    if (chance(50) ? !parts_of_the_run(t, a, b) : !two_parts(t, false, a, b)) return;
    line("copy({}, {})", a.text(t.name), b.text(t.name));
  }
};

}  // namespace tl::fuzz
