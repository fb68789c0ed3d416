// Loop nests that look up elements of tiles by numbers which lie far outside of them wherever a condition
// does not hold: one number for a row, or one for each element; in values, names, conditions and indices.
#pragma once
#include "fuzz/tile_text.h"

namespace tl::fuzz {

struct GuardedLookUp {
  NestText& g;
  Tile table = {}, row = {}, each = {}, mask = {}, values = {}, out = {};
  int64_t size = 0;
  std::vector<std::string> names = {};

  Tile make(const std::string& scope, const std::string& type, const Shape& shape) {
    Tile t = g.add(scope, type, shape);
    if (!t.name.empty()) g.tiles.pop_back();
    return t;
  }
  // What the condition says is kept in a tile, so that only the run knows it.
  void prepare() {
    g.line("copy({}, {})", g.tensor_part(table, false), table.name);
    g.line("copy({}, {})", g.tensor_part(each, false), each.name);
    g.line("copy({}, {})", g.tensor_part(values, false), values.name);
    g.line("clear({})", out.name);
    int64_t by_row = g.below(3);  // 0: the condition is one for a row
    g.line("for i0 in parallel({}):", row.shape[0]);
    g.line("  {0}[i0] = select({1}[i0, 0] >= 0 and {1}[i0, 0] < {2}, {1}[i0, 0], 1000000000:i32)", row.name,
           each.name, size);
    g.open_nest(each.shape);
    g.line("{0}[i0, i1] = select({1}[i0] < {2} and {3}[i0, {4}] % 3 != 0, 1:i32, 0:i32)", mask.name, row.name,
           size, values.name, by_row == 0 ? "0" : "i1");
    g.line("{0}[i0, i1] = select({1}[i0] < {2}, cast<i32>((i0 + i1) % {2}), 1000000000:i32)", each.name,
           row.name, size);
    g.indent -= 2;
  }
  std::string at() {
    return g.chance(70) ? fmt::format("{}[i0]", row.name) : fmt::format("{}[i0, i1]", each.name);
  }
  std::string look_up() { return fmt::format("{}[cast<i64>({})]", table.name, at()); }
  std::string leaf() {
    if (!names.empty() && g.chance(40)) return names[size_t(g.below(int64_t(names.size())))];
    return g.chance(50) ? fmt::format("{}[i0, i1]", values.name) : look_up();
  }
  std::string value() {
    switch (g.below(8)) {
      case 0:
        return fmt::format("({} + (1:i32 << {}))", leaf(), at());
      case 1:
        return fmt::format("select({} > 1, {}, {})", leaf(), leaf(), look_up());
      case 2: {  // of a row that is looked up
        std::string name =
            fmt::format("{0}[cast<i64>(({1} % {2} + {2}) % {2}), i1]", values.name, leaf(), values.shape[0]);
        return g.chance(50) ? name : fmt::format("({} - {})", name, look_up());
      }
      case 3:
        return fmt::format("({} // (1000000000:i32 - {}))", leaf(), at());
      default:
        return fmt::format("({} {} {})", leaf(), g.pick<std::string>({"+", "-", "*"}), look_up());
    }
  }
  std::string condition() {
    std::string holds = fmt::format("{}[i0, i1] != 0", mask.name);
    if (g.chance(25)) return fmt::format("{} and {} >= {}", holds, leaf(), look_up());
    if (g.chance(25)) return fmt::format("{}[i0] < {} and {}", row.name, size, holds);
    return holds;
  }
  void body() {
    for (int64_t i = g.below(3); i > 0; i--) {
      std::string v = fmt::format("v{}", g.tensors++);
      g.line("{} = {}", v, value());
      names.push_back(v);
    }
    bool inner = g.chance(30);
    if (inner) g.line("if {} > {}:", value(), g.below(4));
    std::string place = g.chance(70) ? "i1"
                                     : fmt::format("(i1 + cast<i64>({}[cast<i64>({}[i0])])) % {}", table.name,
                                                   row.name, out.shape[1]);
    g.line("{}{}[i0, {}] = {} & 7", inner ? "  " : "", out.name, place, value());
  }
  void run() {
    Shape shape = {1 + g.below(12), g.pick<int64_t>({4, 8, 16, 32, 64, 1 + g.below(40)})};
    size = 1 + g.below(6);
    table = make("shared", "i32", {size});
    row = make(g.scope(), "i32", {shape[0]});
    each = make("shared", "i32", shape);
    mask = make("shared", "i32", shape);
    values = make("shared", "i32", shape);
    out = g.add("shared", "i32", shape);
    for (Tile* t : {&table, &row, &each, &mask, &values, &out})
      if (t->name.empty()) return drop();
    prepare();
    g.open_nest(shape);
    g.line("if {}:", condition());
    g.indent++;
    body();
    g.indent -= 3;
  }
  void drop() {
    if (!out.name.empty()) g.tiles.pop_back();
  }
};

}  // namespace tl::fuzz
